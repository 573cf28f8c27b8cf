//! The body of a request, made from its pieces as curl makes it.

use std::path::{Path, PathBuf};

use lagtrace_sources::request::check_placeholders;

use super::form;
use super::named::{MAX_BODY, path, read};
use super::pieces::Piece;
use crate::failure::{Failure, Result};

/// A body.
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// The value of `Content-Type`.
    pub(super) kind: String,
    pub(super) is_json: bool,
    pub(super) is_form: bool,
}

/// Returns the body that the pieces make; `None` if there are none.
pub(super) fn of(pieces: &[Piece]) -> Result<Option<Body>> {
    if pieces.is_empty() {
        return Ok(None);
    }
    let is_form = |piece: &Piece| matches!(piece, Piece::Form(_) | Piece::FormString(_));
    let is_json = pieces.iter().any(|piece| matches!(piece, Piece::Json(_)));
    let (forms, others): (Vec<_>, Vec<_>) = pieces.iter().partition(|piece| is_form(piece));
    if !forms.is_empty() && !others.is_empty() {
        let told = "--form and --data cannot make one body together";
        return Err(Failure::new(told).hint("give fields of a form, or data"));
    }
    let body = if forms.is_empty() {
        Body {
            bytes: joined(&others)?,
            kind: "application/x-www-form-urlencoded".to_owned(),
            is_json,
            is_form: false,
        }
    } else {
        let (bytes, boundary) = form::body(&forms)?;
        Body {
            bytes,
            kind: format!("multipart/form-data; boundary={boundary}"),
            is_json: false,
            is_form: true,
        }
    };
    if body.bytes.len() as u64 > MAX_BODY {
        return Err(Failure::new("the body is longer than 64 MiB"));
    }
    check_placeholders(&body.bytes).map_err(|wrong| odd_range("the body", &wrong))?;
    Ok(Some(body))
}

/// Returns the failure for a placeholder that is not a range.
pub(super) fn odd_range(place: &str, wrong: &str) -> Failure {
    let told = format!("`{wrong}` in {place} is not a range");
    Failure::new(told).hint("write it as {rand:FIRST:LAST}, with two numbers in this order")
}

/// Joins data by `&`, except parts of a JSON document.
fn joined(pieces: &[&Piece]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 && !matches!(piece, Piece::Json(_)) {
            bytes.push(b'&');
        }
        bytes.extend(match piece {
            Piece::Data(text) => match file_named(text) {
                Some(name) => {
                    let mut read = read(&name)?;
                    read.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
                    read
                }
                None => text.clone(),
            },
            Piece::Binary(text) | Piece::Json(text) => match file_named(text) {
                Some(name) => read(&name)?,
                None => text.clone(),
            },
            Piece::Encoded(text) => encoded(text)?,
            Piece::Raw(text) | Piece::Form(text) | Piece::FormString(text) => text.clone(),
        });
    }
    Ok(bytes)
}

/// Returns the path behind an `@`.
fn file_named(text: &[u8]) -> Option<PathBuf> {
    text.strip_prefix(b"@").map(path)
}

/// Splits the notation of `--data-urlencode` into name, content, and whether that names a file.
fn split_encoded(text: &[u8]) -> (&[u8], &[u8], bool) {
    let find = |wanted| text.iter().position(|&byte| byte == wanted);
    let Some(at) = find(b'=').or_else(|| find(b'@')) else {
        return (&[], text, false);
    };
    let (name, rest) = text.split_at(at);
    (
        name,
        rest.get(1..).unwrap_or_default(),
        rest.first() == Some(&b'@'),
    )
}

fn encoded(text: &[u8]) -> Result<Vec<u8>> {
    let (name, content, is_file) = split_encoded(text);
    let content = if is_file {
        read(&path(content))?
    } else {
        content.to_vec()
    };
    let mut bytes = name.to_vec();
    if !name.is_empty() {
        bytes.push(b'=');
    }
    for byte in content {
        match byte {
            b' ' => bytes.push(b'+'),
            plain if plain.is_ascii_alphanumeric() || b"-._~".contains(&plain) => bytes.push(plain),
            other => bytes.extend(format!("%{other:02X}").bytes()),
        }
    }
    Ok(bytes)
}

/// Returns the files that a piece names.
pub(super) fn files_of(piece: &Piece) -> Option<PathBuf> {
    let named = match piece {
        Piece::Data(text) | Piece::Binary(text) | Piece::Json(text) => file_named(text),
        Piece::Encoded(text) => match split_encoded(text) {
            (_, name, true) => Some(path(name)),
            _ => None,
        },
        Piece::Form(text) => form::file_of(text),
        Piece::Raw(_) | Piece::FormString(_) => None,
    };
    named.filter(|name| name != Path::new("-"))
}

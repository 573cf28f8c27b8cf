//! Multipart forms (RFC 7578), in the form of curl's.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};

use super::named;
use super::pieces::Piece;
use crate::failure::{Failure, Result};

/// The types that curl derives from the ends of files' names.
const TYPES: [(&str, &str); 10] = [
    (".gif", "image/gif"),
    (".jpg", "image/jpeg"),
    (".jpeg", "image/jpeg"),
    (".png", "image/png"),
    (".svg", "image/svg+xml"),
    (".txt", "text/plain"),
    (".htm", "text/html"),
    (".html", "text/html"),
    (".pdf", "application/pdf"),
    (".xml", "application/xml"),
];

/// A field of a form.
#[derive(Debug, Default, PartialEq, Eq)]
struct Field {
    name: String,
    content: Content,
    kind: Option<String>,
    file_name: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Content {
    Text(String),
    /// A file to upload.
    Upload(PathBuf),
    /// A file whose content is the text.
    File(PathBuf),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// Returns the bytes of a form, and the boundary between its fields.
pub(super) fn body(pieces: &[&Piece]) -> Result<(Vec<u8>, String)> {
    let boundary = format!(
        "{}{:016x}",
        "-".repeat(24),
        RandomState::new().build_hasher().finish()
    );
    let mut bytes = Vec::new();
    for (number, piece) in (1..).zip(pieces) {
        let (head, content) = parse(number, piece)?.part()?;
        bytes.extend(format!("--{boundary}\r\n{head}\r\n").bytes());
        bytes.extend(content);
        bytes.extend(b"\r\n");
    }
    bytes.extend(format!("--{boundary}--\r\n").bytes());
    Ok((bytes, boundary))
}

/// Returns the file that a field in curl's notation names.
pub(super) fn file_of(text: &[u8]) -> Option<PathBuf> {
    match parse(0, &Piece::Form(text.to_vec())).ok()?.content {
        Content::Upload(path) | Content::File(path) => Some(path),
        Content::Text(_) => None,
    }
}

impl Field {
    /// Returns the head of the field's part, and its content.
    fn part(self) -> Result<(String, Vec<u8>)> {
        let (content, own_name) = match &self.content {
            Content::Text(text) => (text.clone().into_bytes(), None),
            Content::File(path) => (named::read(path)?, None),
            Content::Upload(path) => {
                let name = path.file_name().unwrap_or_default();
                (
                    named::read(path)?,
                    Some(name.to_string_lossy().into_owned()),
                )
            }
        };
        let mut head = "Content-Disposition: form-data".to_owned();
        if !self.name.is_empty() {
            head.push_str(&format!("; name=\"{}\"", escaped(&self.name)));
        }
        let file_name = self.file_name.or(own_name);
        if let Some(name) = &file_name {
            head.push_str(&format!("; filename=\"{}\"", escaped(name)));
        }
        head.push_str("\r\n");
        let by_name = match self.content {
            Content::Upload(_) => file_name.as_deref().map(kind_of),
            _ => None,
        };
        if let Some(kind) = self.kind.as_deref().or(by_name) {
            head.push_str(&format!("Content-Type: {kind}\r\n"));
        }
        Ok((head, content))
    }
}

/// Escapes a name as browsers do (WHATWG HTML, multipart/form-data).
fn escaped(name: &str) -> String {
    name.replace('"', "%22")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn kind_of(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    let known = TYPES.iter().find(|(end, _)| name.ends_with(end));
    known.map_or("application/octet-stream", |(_, kind)| kind)
}

/// Parses a field in curl's notation. Errors name the field, never its content.
fn parse(number: usize, piece: &Piece) -> Result<Field> {
    let (bytes, has_notation) = match piece {
        Piece::Form(bytes) => (bytes, true),
        Piece::FormString(bytes) => (bytes, false),
        _ => return Err(Failure::new("a field of a form is not one")),
    };
    let wrong = |what: &str| Failure::new(format!("field {number} of the form {what}"));
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("is not text in UTF-8"))?;
    let (name, rest) = text.split_once('=').ok_or_else(|| {
        wrong("has no `=`").hint("write it as NAME=CONTENT, NAME=@FILE or NAME=<FILE")
    })?;
    let mut field = Field {
        name: name.to_owned(),
        ..Field::default()
    };
    if !has_notation {
        field.content = Content::Text(rest.to_owned());
        return Ok(field);
    }
    let (mark, rest) = match rest.strip_prefix(['@', '<']) {
        Some(behind) => (rest.chars().next(), behind),
        None => (None, rest.trim_start_matches(' ')),
    };
    let (content, mut attributes) = value(rest);
    if mark == Some('@') && !rest.starts_with('"') && content.contains(',') {
        let hint = "give each file a field of its own";
        return Err(wrong("names several files").hint(hint));
    }
    field.content = match mark {
        Some('@') => Content::Upload(named::path(content.as_bytes())),
        Some(_) => Content::File(named::path(content.as_bytes())),
        None => Content::Text(content),
    };
    let is_stdin = |path: &Path| path == Path::new("-");
    if matches!(&field.content, Content::Upload(path) if is_stdin(path)) {
        field.file_name = Some("-".to_owned());
    }
    while let Some((key, behind)) = attribute(attributes) {
        let (value, rest) = value(behind);
        match key {
            // The parameters of a type belong to it: `text/plain; charset=utf-8`.
            "type" => field.kind = Some(value),
            "filename" => field.file_name = Some(value),
            _ => {
                let told =
                    format!("field {number} of the form has `{key}=`, which is not supported");
                return Err(
                    Failure::new(told).hint("leave it out; type= and filename= are supported")
                );
            }
        }
        attributes = rest;
    }
    Ok(field)
}

/// Splits off a value, which may be in quotes and ends at a known attribute; also returns the rest.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let mut at = 0;
        while let Some(found) = text.get(at..).and_then(|rest| rest.find(';')) {
            let end = at + found;
            if attribute(text.get(end..).unwrap_or_default()).is_some() {
                let (value, rest) = text.split_at(end);
                return (value.trim_end().to_owned(), rest);
            }
            at = end + 1;
        }
        return (text.to_owned(), "");
    };
    let mut value = String::new();
    let mut rest = quoted.char_indices();
    while let Some((at, next)) = rest.next() {
        match next {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => match rest.next() {
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                Some((_, other)) => value.extend(['\\', other]),
                None => value.push('\\'),
            },
            other => value.push(other),
        }
    }
    (value, "")
}

/// Splits `;KEY=…` into the key and what follows the equals sign.
fn attribute(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start().strip_prefix(';')?.trim_start();
    let (key, behind) = text.split_once('=')?;
    ["type", "filename", "headers", "encoder"]
        .contains(&key)
        .then_some((key, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> Field {
        parse(1, &Piece::Form(text.into())).expect(text)
    }

    #[test]
    fn fields_are_read_as_by_curl() {
        let upload = field("f=@a b.png;type=image/x;filename=q\"r");
        assert_eq!(upload.content, Content::Upload("a b.png".into()));
        assert_eq!(upload.kind.as_deref(), Some("image/x"));
        assert_eq!(upload.file_name.as_deref(), Some("q\"r"));
        let json = field("j={\"a\":\"b;c\"};type=application/json");
        assert_eq!(json.content, Content::Text("{\"a\":\"b;c\"}".to_owned()));
        assert_eq!(field("a=\"x;type=y\";type=z").kind.as_deref(), Some("z"));
        assert_eq!(field("a=<f").content, Content::File("f".into()));
        assert_eq!(field("a= b").content, Content::Text("b".to_owned()));
        let literal = parse(1, &Piece::FormString(b"a=@b;type=c".to_vec())).expect("a field");
        assert_eq!(literal.content, Content::Text("@b;type=c".to_owned()));
        for wrong in ["a", "a=@x,y", "a=b;headers=c", "a=b;encoder=base64"] {
            assert!(parse(1, &Piece::Form(wrong.into())).is_err(), "{wrong}");
        }
    }
}

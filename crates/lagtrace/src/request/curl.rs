//! A curl command as browsers and documents show it. Each of its options is mapped, or refused by
//! its name; those that concern only curl's own output are left out.

use std::io::Read as _;
use std::path::PathBuf;

use lagtrace_sources::files;

use super::pieces::Piece;
use super::tables::{self, Class};
use super::{Options, named, shell, userinfo};
use crate::failure::{Failure, Result};
use crate::tls::Tls;

/// Maximum length of a curl command in a file or on standard input, in bytes.
const MAX_COMMAND: u64 = 4 * 1024 * 1024;

/// A curl command.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) url: Option<String>,
    pub(super) options: Options,
    pub(super) tls: Tls,
    /// Options of limits, which lagtrace does not take over.
    pub(super) unused: Vec<String>,
    cookies: Vec<String>,
    /// True if brackets and braces in the URL have no meaning.
    is_literal: bool,
    keeps_dots: bool,
    is_http2: bool,
    has_prior_knowledge: bool,
}

/// Options with a value that are mapped: short name, or 0, and long name.
const VALUES: [(u8, &str); 24] = [
    (b'X', "request"),
    (b'H', "header"),
    (b'd', "data"),
    (0, "data-ascii"),
    (0, "data-raw"),
    (0, "data-binary"),
    (0, "data-urlencode"),
    (0, "json"),
    (b'F', "form"),
    (0, "form-string"),
    (b'u', "user"),
    (0, "oauth2-bearer"),
    (b'b', "cookie"),
    (b'A', "user-agent"),
    (b'e', "referer"),
    (b'r', "range"),
    (0, "max-redirs"),
    (0, "resolve"),
    (0, "connect-to"),
    (0, "unix-socket"),
    (b'E', "cert"),
    (0, "key"),
    (0, "cacert"),
    (0, "url"),
];
/// Options without a value that are mapped.
const FLAGS: [(u8, &str); 9] = [
    (b'I', "head"),
    (b'G', "get"),
    (b'L', "location"),
    (b'k', "insecure"),
    (b'g', "globoff"),
    (0, "compressed"),
    (0, "path-as-is"),
    (0, "http2"),
    (0, "http2-prior-knowledge"),
];

/// Returns the text of a command: the value itself, or the content of `@FILE` or `@-`.
pub(super) fn text(value: &str) -> Result<String> {
    let Some(name) = value.strip_prefix('@') else {
        return Ok(value.to_owned());
    };
    let shown = if name == "-" { "standard input" } else { name };
    let failed =
        |why: String| Failure::new(format!("cannot read the curl command in {shown}: {why}"));
    let mut bytes = Vec::new();
    let opened = match name {
        "-" => files::standard_input(),
        _ => files::open(name.as_ref()),
    };
    let read = opened.and_then(|file| file.take(MAX_COMMAND + 1).read_to_end(&mut bytes));
    read.map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > MAX_COMMAND {
        return Err(failed("it is longer than 4 MiB".to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| failed("it is not text in UTF-8".to_owned()))
}

/// Parses a curl command.
pub(super) fn parse(text: &str) -> Result<Copied> {
    let mut words = shell::words(text)?.into_iter();
    let first = words.next().unwrap_or_default();
    let name = first.rsplit(|&byte| matches!(byte, b'/' | b'\\')).next();
    if !matches!(name, Some(b"curl" | b"curl.exe")) {
        let told = "--from-curl does not begin with curl";
        let hint = "copy a request as cURL (bash) or cURL (cmd); `curl …` is expected";
        return Err(Failure::new(told).hint(hint));
    }
    let mut copied = Copied::default();
    copied.options.is_curl = true;
    let mut only_urls = false;
    while let Some(word) = words.next() {
        match word.as_slice() {
            b"--" if !only_urls => only_urls = true,
            [b'-', b'-', ..] if !only_urls => {
                let name = as_text(word.get(2..).unwrap_or_default().to_vec(), "an option")?;
                copied.long(&name, &mut words)?;
            }
            [b'-', _, ..] if !only_urls => {
                copied.short(word.get(1..).unwrap_or_default(), &mut words)?;
            }
            _ => copied.address(word)?,
        }
    }
    copied.finish()
}

impl Copied {
    /// Reads short options in one word.
    fn short(&mut self, word: &[u8], words: &mut impl Iterator<Item = Vec<u8>>) -> Result<()> {
        let mut letters = word;
        while let Some((&letter, rest)) = letters.split_first() {
            letters = rest;
            let shown = format!("-{}", letter.escape_ascii());
            let mapped = |rows: &[(u8, &'static str)]| {
                let row = rows.iter().find(|(short, _)| *short == letter);
                row.map(|(_, name)| *name)
            };
            if let Some(name) = mapped(&FLAGS) {
                self.flag(name)?;
                continue;
            }
            let row = tables::by_letter(letter);
            let name = mapped(&VALUES).or(row.map(|row| row.1));
            let name = name.ok_or_else(|| unknown(&shown))?;
            let takes_value = row.is_none_or(|row| row.2);
            let mut value = || {
                if rest.is_empty() {
                    words.next().ok_or_else(|| missing(&shown))
                } else {
                    Ok(rest.to_vec())
                }
            };
            match row {
                None => return self.value(name, value()?),
                Some(row) => {
                    self.other(row.1, row.3, &shown)?;
                    if takes_value {
                        return value().map(drop);
                    }
                }
            }
        }
        Ok(())
    }

    fn long(&mut self, name: &str, words: &mut impl Iterator<Item = Vec<u8>>) -> Result<()> {
        let shown = format!("--{name}");
        let is_of = |rows: &[(u8, &str)]| rows.iter().any(|(_, long)| *long == name);
        if is_of(&FLAGS) {
            return self.flag(name);
        }
        let mut value = || words.next().ok_or_else(|| missing(&shown));
        if is_of(&VALUES) {
            return self.value(name, value()?);
        }
        let row = tables::by_name(name).ok_or_else(|| unknown(&shown))?;
        self.other(name, row.3, &shown)?;
        if row.2 {
            value()?;
        }
        Ok(())
    }

    /// Treats an option that is not mapped.
    fn other(&mut self, name: &str, class: Class, shown: &str) -> Result<()> {
        match class {
            Class::Harmless => {}
            Class::Unused => self.unused.push(format!("--{name}")),
            Class::Refused => {
                let hint = tables::HINTS.iter().find(|(of, _)| *of == name);
                let hint = hint.map_or("leave it out, if the request is right without it", |h| h.1);
                let told = if shown == format!("--{name}") {
                    format!("{shown} of the curl command is not supported")
                } else {
                    format!("{shown} (--{name}) of the curl command is not supported")
                };
                return Err(Failure::new(told).hint(hint));
            }
        }
        Ok(())
    }

    fn flag(&mut self, name: &str) -> Result<()> {
        let options = &mut self.options;
        match name {
            "head" => options.head = true,
            "get" => options.get = true,
            "location" => options.answer.location = true,
            "insecure" => self.tls.insecure = true,
            "globoff" => self.is_literal = true,
            "compressed" => options.sender.compressed = true,
            "path-as-is" => self.keeps_dots = true,
            "http2" => self.is_http2 = true,
            "http2-prior-knowledge" => self.has_prior_knowledge = true,
            other => return Err(unknown(&format!("--{other}"))),
        }
        Ok(())
    }

    fn value(&mut self, name: &str, value: Vec<u8>) -> Result<()> {
        let options = &mut self.options;
        let piece: Option<fn(Vec<u8>) -> Piece> = match name {
            "data" | "data-ascii" => Some(Piece::Data),
            "data-raw" => Some(Piece::Raw),
            "data-binary" => Some(Piece::Binary),
            "data-urlencode" => Some(Piece::Encoded),
            "json" => Some(Piece::Json),
            "form" => Some(Piece::Form),
            "form-string" => Some(Piece::FormString),
            _ => None,
        };
        if let Some(piece) = piece {
            options.pieces.0.push(piece(value));
            return Ok(());
        }
        let path = || -> PathBuf { named::path(&value) };
        match name {
            "unix-socket" => options.way.unix_socket = Some(path()),
            "key" => self.tls.key = Some(path()),
            "cacert" => self.tls.cacert = Some(path()),
            "url" => return self.address(value),
            _ => {
                let text = as_text(value, &format!("the value of --{name}"))?;
                return self.text(name, text);
            }
        }
        Ok(())
    }

    fn text(&mut self, name: &str, text: String) -> Result<()> {
        let options = &mut self.options;
        let sender = &mut options.sender;
        match name {
            "request" => options.method = Some(text),
            // Without a colon, curl sends nothing.
            "header" if !text.contains([':', ';']) && !text.starts_with('@') => {}
            "header" => options.headers.push(text),
            "user" if !text.contains(':') => {
                let told = "-u of the curl command has no password, for which curl would ask";
                return Err(Failure::new(told).hint("write it as -u NAME:PASSWORD, or as NAME:"));
            }
            "user" => sender.user = Some(text),
            "oauth2-bearer" => sender.oauth2_bearer = Some(text),
            "cookie" if text.is_empty() => {}
            "cookie" => self.cookies.push(text),
            "user-agent" => sender.user_agent = Some(text),
            "referer" => sender.referer = Some(text),
            "range" => sender.range = Some(text),
            "max-redirs" => {
                let told = "--max-redirs of the curl command is not a number";
                let number = text.parse::<i32>();
                let number = number.map_err(|_| Failure::new(told).hint("give a number"))?;
                options.answer.max_redirs = Some(u16::try_from(number).unwrap_or(u16::MAX));
            }
            "resolve" => options.way.resolve.push(text),
            "connect-to" => options.way.connect_to.push(text),
            "cert" => {
                if text.contains(':') {
                    let told = "--cert of the curl command has a password, which is not supported";
                    return Err(Failure::new(told).hint("decrypt the key, and give it with --key"));
                }
                self.tls.cert = Some(text.into());
            }
            other => return Err(unknown(&format!("--{other}"))),
        }
        Ok(())
    }

    /// Takes a URL.
    fn address(&mut self, word: Vec<u8>) -> Result<()> {
        let mut text = String::new();
        for byte in word {
            match byte {
                0x80.. => text.push_str(&format!("%{byte:02x}")),
                ascii => text.push(ascii.into()),
            }
        }
        if self.url.replace(text).is_some() {
            let told = "the curl command names several URLs";
            return Err(Failure::new(told).hint("give one request; `load` takes several URLs"));
        }
        Ok(())
    }

    /// Checks what depends on several options.
    fn finish(mut self) -> Result<Self> {
        let Some(url) = self.url.take() else {
            return Err(
                Failure::new("the curl command names no URL").hint("copy the whole command")
            );
        };
        let without = userinfo::without(&url);
        let shown = without.as_ref().map_or(url.as_str(), |(url, _)| url);
        if !self.is_literal && has_glob(shown) {
            let told = "curl would make several URLs of the brackets or braces in this one";
            return Err(Failure::new(told).hint("add -g to the curl command, if they are meant so"));
        }
        if (self.is_http2 || self.has_prior_knowledge) && url.starts_with("https:") {
            self.options.way.http2 = true;
        } else if self.is_http2 {
            let told = "--http2 of the curl command offers an upgrade of clear text, which is not \
                        supported";
            let hint = "leave it out, or use --http2-prior-knowledge";
            return Err(Failure::new(told).hint(hint));
        }
        self.options.way.http2 |= self.has_prior_knowledge;
        let headers = &self.options.headers;
        let has_cookie = headers.iter().any(|header| {
            let name = header.split([':', ';']).next().unwrap_or_default();
            name.eq_ignore_ascii_case("cookie")
        });
        if !self.cookies.is_empty() && !has_cookie {
            self.options.sender.cookie = vec![self.cookies.join(";")];
        }
        self.url = Some(if self.keeps_dots {
            url
        } else {
            without_dots(&url)
        });
        Ok(self)
    }
}

/// Returns true if curl would expand the URL: `{a,b}` or `[1-9]`, but neither an IPv6 address nor a
/// placeholder.
fn has_glob(url: &str) -> bool {
    let start = url.find("://").map_or(0, |at| at + 3);
    let rest = url.get(start..).unwrap_or_default();
    let rest = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, behind)) => behind,
        None => rest,
    };
    let is_placeholder = |text: &str| {
        let inside = text.split('}').next().unwrap_or_default();
        matches!(inside, "seq" | "uuid") || inside.starts_with("rand:")
    };
    let braces = rest.split('{').skip(1);
    rest.contains('[') || braces.into_iter().any(|behind| !is_placeholder(behind))
}

/// Removes `.` and `..` from the path of a URL (RFC 3986 §5.2.4).
fn without_dots(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let Some(slash) = url.get(start..).and_then(|rest| rest.find(['/', '?', '#'])) else {
        return url.to_owned();
    };
    let (origin, rest) = url.split_at(start + slash);
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (path, query) = rest.split_at(end);
    if !path.split('/').any(|part| matches!(part, "." | "..")) {
        return url.to_owned();
    }
    let mut kept: Vec<&str> = Vec::new();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    for (number, part) in (1..).zip(&parts) {
        let is_last = number == parts.len();
        match *part {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if is_last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("{origin}/{}{query}", kept.join("/"))
}

fn as_text(bytes: Vec<u8>, what: &str) -> Result<String> {
    let told = format!("{what} in the curl command is not text in UTF-8");
    String::from_utf8(bytes).map_err(|_| Failure::new(told))
}

fn unknown(option: &str) -> Failure {
    let told = format!("{option} in the curl command is not an option of curl that lagtrace knows");
    Failure::new(told).hint("leave it out, if the request is right without it")
}

fn missing(option: &str) -> Failure {
    Failure::new(format!("{option} in the curl command has no value"))
        .hint("copy the whole command")
}

//! Splits a configuration file into statements: words that end with `;`, `{` or `}`.
//!
//! The rules are those of nginx's `ngx_conf_read_token()` (`src/core/ngx_conf_file.c`). A word ends
//! at white space, `;` or `{`. Quotes and `#` are special only at the beginning of a word. A
//! backslash escapes the next byte. `{` after `$` is part of the word.

use std::fmt;
use std::ops::Deref;

/// Size of nginx's read buffer (`NGX_CONF_BUFFER`), which no word may exceed.
const MAX_WORD: usize = 4096;
/// Maximum number of words in one statement; nginx itself is limited only by memory.
const MAX_WORDS: usize = 65_536;

/// A word with its quotes and escapes resolved. Its bytes need not be UTF-8.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Word(Vec<u8>);

impl Word {
    /// Returns the word as text. Invalid UTF-8 is replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl Deref for Word {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

impl fmt::Display for Word {
    /// Writes the word, with quotes if it would otherwise be read as several words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        let is_plain = !text.is_empty() && !text.contains([' ', '\t', '\n', '\r', ';', '"', '\'']);
        if is_plain {
            f.write_str(&text)
        } else {
            write!(f, "{text:?}")
        }
    }
}

/// A position in a file. Line and column begin at 1, and columns count bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The end of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminator {
    /// `;`
    Semicolon,
    /// `{`
    Opening,
    /// `}`, with no words before it.
    Closing,
    /// The end of the text, with no words before it.
    Text,
}

/// The words of a statement and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Position of the first word, or of the terminator if there are no words.
    pub(crate) at: Position,
    pub(crate) words: Vec<Word>,
    pub(crate) end: Terminator,
}

/// Text that cannot be parsed as a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) at: Position,
    /// The text found.
    pub(crate) found: String,
    /// The text that would have been valid.
    pub(crate) expected: &'static str,
}

/// A lexer that reads statements one after the other.
#[derive(Debug)]
pub(crate) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            line_start: 0,
        }
    }

    /// Returns the next statement. After an error, the lexer must not be used any more.
    pub(crate) fn statement(&mut self) -> Result<Statement, SyntaxError> {
        let mut words = Vec::new();
        let mut at = None;
        loop {
            self.skip_blank();
            let here = self.position();
            let at = *at.get_or_insert(here);
            let end = match self.peek() {
                None if words.is_empty() => Terminator::Text,
                None => return Err(self.unexpected("\";\" or \"{\"")),
                Some(b';') if !words.is_empty() => Terminator::Semicolon,
                Some(b'{') if !words.is_empty() => Terminator::Opening,
                Some(b'}') if words.is_empty() => Terminator::Closing,
                Some(b';' | b'{') => return Err(self.unexpected("a directive")),
                Some(b'}') => return Err(self.unexpected("\";\" or \"{\"")),
                Some(_) if words.len() == MAX_WORDS => {
                    return Err(self.unexpected("\";\": the statement has too many words"));
                }
                Some(_) => {
                    words.push(self.word()?);
                    continue;
                }
            };
            self.bump();
            return Ok(Statement { at, words, end });
        }
    }

    /// Returns the position of the next byte.
    pub(crate) fn position(&self) -> Position {
        let column = self.at - self.line_start + 1;
        Position {
            line: self.line,
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(crate) fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn bump(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        if byte == b'\n' {
            self.line = self.line.saturating_add(1);
            self.line_start = self.at;
        }
        Some(byte)
    }

    fn skip_blank(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'#' => while self.bump().is_some_and(|byte| byte != b'\n') {},
                b' ' | b'\t' | b'\r' | b'\n' => {
                    self.bump();
                }
                _ => return,
            }
        }
    }

    fn word(&mut self) -> Result<Word, SyntaxError> {
        let start = self.position();
        let raw = match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote)?,
            _ => self.bare()?,
        };
        if raw.len() > MAX_WORD {
            return Err(SyntaxError {
                at: start,
                found: format!("a word of {} bytes", raw.len()),
                expected: "at most 4096, or its closing quote before",
            });
        }
        Ok(Word(unescape(raw)))
    }

    /// Returns the bytes between quotes. No other character may follow the closing quote directly.
    fn quoted(&mut self, quote: u8) -> Result<&'t [u8], SyntaxError> {
        let opening = self.position();
        self.bump();
        let start = self.at;
        loop {
            match self.bump() {
                None => {
                    return Err(SyntaxError {
                        at: opening,
                        found: "a quote that is never closed".into(),
                        expected: "its closing quote",
                    });
                }
                Some(b'\\') => {
                    self.bump();
                }
                Some(byte) if byte == quote => break,
                Some(_) => {}
            }
        }
        let raw = &self.text[start..self.at - 1];
        match self.peek() {
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')') => Ok(raw),
            Some(_) => Err(self.unexpected("white space, \";\" or \"{\" after a quote")),
        }
    }

    fn bare(&mut self) -> Result<&'t [u8], SyntaxError> {
        let start = self.at;
        let mut after_dollar = false;
        while let Some(byte) = self.peek() {
            match byte {
                b'{' if after_dollar => {}
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' => return Ok(&self.text[start..self.at]),
                b'\\' => {
                    self.bump();
                    after_dollar = false;
                }
                other => after_dollar = other == b'$',
            }
            self.bump();
        }
        Err(self.unexpected("\";\" or \"{\""))
    }

    fn unexpected(&self, expected: &'static str) -> SyntaxError {
        let found = match self.peek() {
            None => "the end of the file".into(),
            Some(byte) => format!("{:?}", char::from(byte)),
        };
        SyntaxError {
            at: self.position(),
            found,
            expected,
        }
    }
}

/// Resolves the escapes that nginx knows. A backslash before any other byte is kept, because
/// regular expressions need it.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut word = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let resolved = match (byte, bytes.peek()) {
            (b'\\', Some(quoted @ (b'"' | b'\'' | b'\\'))) => Some(*quoted),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            _ => None,
        };
        if resolved.is_some() {
            bytes.next();
        }
        word.push(resolved.unwrap_or(byte));
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats statements compactly for comparison: each word in brackets, then `;`, `{` or `}`. An
    /// error is formatted as `line:column`.
    fn read(text: &str) -> String {
        let mut lexer = Lexer::new(text.as_bytes());
        let mut shown = String::new();
        loop {
            let statement = match lexer.statement() {
                Ok(statement) => statement,
                Err(error) => {
                    shown += &format!("!{}:{}", error.at.line, error.at.column);
                    return shown;
                }
            };
            for word in &statement.words {
                shown += &format!("[{}]", word.text());
            }
            shown += match statement.end {
                Terminator::Semicolon => ";",
                Terminator::Opening => "{",
                Terminator::Closing => "}",
                Terminator::Text => return shown,
            };
        }
    }

    #[test]
    fn words_are_cut_as_nginx_cuts_them() {
        let table = [
            ("a b;c;", "[a][b];[c];"),
            ("a{b c;}", "[a]{[b][c];}"),
            ("a # comment ; {\n b;", "[a][b];"),
            ("a b#c;", "[a][b#c];"),
            ("a 'x y' \"z;{\";", "[a][x y][z;{];"),
            ("a x'y z';", "[a][x'y][z'];"),
            ("a \"\";", "[a][];"),
            ("a ${b}c$d;", "[a][${b}c$d];"),
            ("a $b{c;}", "[a][$b]{[c];}"),
            ("a b}c;", "[a][b}c];"),
            (r"a b\;c;", r"[a][b\;c];"),
            (r"a \ b;", r"[a][\ b];"),
            (r#"a "x\"y" 'x\'y' \\.\n;"#, "[a][x\"y][x'y][\\.\n];"),
            (r"a ^/x\.php$ \d;", r"[a][^/x\.php$][\d];"),
            ("if ($a = \"b\") {}", "[if][($a][=][b][)]{}"),
            ("a 'multi\nline'; !;", "[a][multi\nline];[!];"),
            ("", ""),
            ("# only a comment", ""),
            ("a\u{e9};", "[a\u{e9}];"),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_point_at_the_place() {
        let table = [
            ("a;\n  ;", "[a];!2:3"),
            ("a;\n{", "[a];!2:1"),
            ("a b\n}", "!2:1"),
            ("a 'b'c;", "!1:6"),
            ("a 'b'#c;", "!1:6"),
            ("a 'b", "!1:3"),
            ("a b", "!1:4"),
            ("a b\n", "!2:1"),
            ("a \\", "!1:4"),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text}");
        }
        let long = format!("a {};", "x".repeat(5000));
        assert_eq!(read(&long), "!1:3");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let mut lexer = Lexer::new(&bytes);
            let mut statements = 0;
            while let Ok(statement) = lexer.statement() {
                statements += 1;
                assert!(statements <= bytes.len() + 1);
                if statement.end == Terminator::Text {
                    break;
                }
            }
        }

        #[test]
        fn any_configuration_like_text_ends(text in "[a-c ;{}#$\\\\'\"\n]{0,80}") {
            read(&text);
        }
    }
}

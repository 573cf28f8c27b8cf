//! The words of a command as a shell reads them: bash, or cmd of Windows.
//!
//! Only quoting is read. What a shell would compute (variables, other commands) is refused, because
//! lagtrace cannot know its value.

use crate::failure::{Failure, Result};

/// The hint for everything that only a shell can compute.
const EXPANDED: &str = "write the value itself, or let your shell insert it: --from-curl \"…\"";

/// Splits a command into words. What follows `|` or `>` concerns the response and is left out.
pub(super) fn words(text: &str) -> Result<Vec<Vec<u8>>> {
    let text = text.trim();
    if is_cmd(text) {
        Ok(crt_words(&without_carets(text)))
    } else {
        Bash::new(text).words()
    }
}

/// Returns true for the quoting of cmd, where `^` is what `\` is in bash.
fn is_cmd(text: &str) -> bool {
    let second = text.split_whitespace().nth(1).unwrap_or_default();
    let mut lines = text.lines().rev().skip(1);
    second.starts_with("^\"") || lines.any(|line| line.ends_with('^'))
}

/// Reads what cmd itself reads: a caret makes the next character a plain one; after a line end, it
/// is the one behind the line end. Within plain quotes a caret is a caret.
fn without_carets(text: &str) -> Vec<char> {
    let mut read = Vec::new();
    let text = text.replace("\r\n", "\n");
    let mut rest = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(next) = rest.next() {
        match next {
            '^' if !is_quoted => {
                if rest.peek() == Some(&'\n') {
                    rest.next();
                }
                read.extend(rest.next());
            }
            '"' => {
                is_quoted = !is_quoted;
                read.push(next);
            }
            other => read.push(other),
        }
    }
    read
}

/// Splits into words as programs for Windows do: `\"` is a quote, and so is `""` within quotes;
/// backslashes are doubled only before a quote.
fn crt_words(text: &[char]) -> Vec<Vec<u8>> {
    let (mut words, mut word, mut has_word) = (Vec::new(), String::new(), false);
    let (mut is_quoted, mut at) = (false, 0);
    while let Some(&next) = text.get(at) {
        at += 1;
        match next {
            '\\' => {
                let more = text.iter().skip(at).take_while(|next| **next == '\\');
                let count = 1 + more.count();
                at += count - 1;
                has_word = true;
                if text.get(at) != Some(&'"') {
                    word.push_str(&"\\".repeat(count));
                    continue;
                }
                word.push_str(&"\\".repeat(count / 2));
                if count % 2 == 1 {
                    word.push('"');
                    at += 1;
                }
            }
            '"' if is_quoted && text.get(at) == Some(&'"') => {
                word.push('"');
                at += 1;
            }
            '"' => (is_quoted, has_word) = (!is_quoted, true),
            space if space.is_ascii_whitespace() && !is_quoted => {
                if core::mem::take(&mut has_word) {
                    words.push(core::mem::take(&mut word).into_bytes());
                }
            }
            other => {
                word.push(other);
                has_word = true;
            }
        }
    }
    if has_word {
        words.push(word.into_bytes());
    }
    words
}

/// A reader of bash's quoting.
struct Bash<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    words: Vec<Vec<u8>>,
    /// The word that is being read; `None` between words.
    word: Option<Vec<u8>>,
}

impl<'a> Bash<'a> {
    fn new(text: &'a str) -> Self {
        // The prompt of an example is not part of the command.
        let text = text.strip_prefix("$ ").unwrap_or(text);
        Self {
            rest: text.chars().peekable(),
            words: Vec::new(),
            word: None,
        }
    }

    fn words(mut self) -> Result<Vec<Vec<u8>>> {
        while let Some(next) = self.rest.next() {
            match next {
                '\\' => match self.rest.next() {
                    Some('\r') if self.rest.next_if_eq(&'\n').is_some() => {}
                    Some('\n') => {}
                    Some(other) => self.push(other),
                    None => {}
                },
                '\'' => self.single()?,
                '"' => self.double()?,
                '$' => self.dollar()?,
                '`' => return Err(computed("another command (`…`)")),
                '|' | '>' | '<' if self.rest.peek() != Some(&'(') => {
                    // The number of a redirected stream is not a word.
                    let is_stream = |word: &Vec<u8>| word.iter().all(u8::is_ascii_digit);
                    self.word = self.word.take().filter(|word| !is_stream(word));
                    break;
                }
                '<' | '>' => return Err(computed("the output of another command")),
                ';' | '&' => {
                    if self.rest.clone().all(char::is_whitespace) {
                        break;
                    }
                    let told = format!("the curl command contains `{next}` outside of quotes");
                    return Err(Failure::new(told).hint("quote the URL, and give one command"));
                }
                '#' if self.word.is_none() => while self.rest.next_if(|&c| c != '\n').is_some() {},
                '\n' if !self.words.is_empty() || self.word.is_some() => {
                    if self.rest.clone().all(char::is_whitespace) {
                        break;
                    }
                    let hint = "end each line but the last with a backslash";
                    return Err(Failure::new("the curl command has several lines").hint(hint));
                }
                space if space.is_ascii_whitespace() => self.end(),
                other => self.push(other),
            }
        }
        self.end();
        Ok(self.words)
    }

    fn end(&mut self) {
        self.words.extend(self.word.take());
    }

    fn push(&mut self, character: char) {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).as_bytes();
        self.word.get_or_insert_default().extend_from_slice(bytes);
    }

    fn single(&mut self) -> Result<()> {
        self.word.get_or_insert_default();
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some(other) => self.push(other),
                None => return Err(open_quote('\'')),
            }
        }
    }

    fn double(&mut self) -> Result<()> {
        self.word.get_or_insert_default();
        loop {
            match self.rest.next() {
                Some('"') => return Ok(()),
                Some('\\') => match self.rest.next() {
                    Some('\n') => {}
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => self.push(escaped),
                    Some(other) => {
                        self.push('\\');
                        self.push(other);
                    }
                    None => return Err(open_quote('"')),
                },
                Some('`') => return Err(computed("another command (`…`)")),
                Some('$') => self.variable()?,
                Some(other) => self.push(other),
                None => return Err(open_quote('"')),
            }
        }
    }

    /// Reads what follows a dollar outside of quotes.
    fn dollar(&mut self) -> Result<()> {
        match self.rest.peek() {
            Some('\'') => {
                self.rest.next();
                self.ansi()
            }
            Some('"') => {
                self.rest.next();
                self.double()
            }
            _ => self.variable(),
        }
    }

    /// Refuses a variable; a dollar before anything else is a dollar.
    fn variable(&mut self) -> Result<()> {
        match self.rest.peek() {
            Some('(') => Err(computed("the output of another command ($(…))")),
            Some(next) if next.is_ascii_alphanumeric() || "_{@*#?!$-".contains(*next) => {
                let is_name = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '{');
                let name: String = self.rest.clone().take_while(is_name).collect();
                let name = name.trim_start_matches('{');
                Err(computed(&format!("the variable ${name}")))
            }
            _ => {
                self.push('$');
                Ok(())
            }
        }
    }

    /// Reads `$'…'` (ANSI-C quoting).
    fn ansi(&mut self) -> Result<()> {
        self.word.get_or_insert_default();
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some('\\') => self.escape()?,
                Some(other) => self.push(other),
                None => return Err(open_quote('\'')),
            }
        }
    }

    fn escape(&mut self) -> Result<()> {
        let escaped = self.rest.next().ok_or_else(|| open_quote('\''))?;
        let byte = match escaped {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '?' => escaped as u8,
            'x' => match self.number(16, 2) {
                Some(number) => number as u8,
                None => return Err(odd_escape('x')),
            },
            '0'..='7' => {
                let first = escaped.to_digit(8).unwrap_or(0);
                let count = self.digits(8, 2);
                count.fold(first, |sum, digit| sum * 8 + digit) as u8
            }
            'u' | 'U' => {
                let number = self.number(16, if escaped == 'u' { 4 } else { 8 });
                let character = number.and_then(|number| self.character(number));
                self.push(character.ok_or_else(|| odd_escape(escaped))?);
                return Ok(());
            }
            other => {
                self.push('\\');
                self.push(other);
                return Ok(());
            }
        };
        self.word.get_or_insert_default().push(byte);
        Ok(())
    }

    /// Returns a character; the two halves of one beyond the first plane are joined, which browsers
    /// write as in JavaScript.
    fn character(&mut self, number: u32) -> Option<char> {
        if !(0xd800..0xdc00).contains(&number) {
            return char::from_u32(number);
        }
        self.rest.next_if_eq(&'\\')?;
        self.rest.next_if_eq(&'u')?;
        let low = self
            .number(16, 4)?
            .checked_sub(0xdc00)
            .filter(|low| *low < 0x400)?;
        char::from_u32(0x1_0000 + (number - 0xd800) * 0x400 + low)
    }

    fn number(&mut self, radix: u32, most: usize) -> Option<u32> {
        let digits: Vec<u32> = self.digits(radix, most).collect();
        let sum = |sum: u32, digit: u32| sum.checked_mul(radix)?.checked_add(digit);
        (!digits.is_empty()).then_some(())?;
        digits.into_iter().try_fold(0, sum)
    }

    /// Consumes at most this many digits.
    fn digits(&mut self, radix: u32, most: usize) -> impl Iterator<Item = u32> {
        let mut found = Vec::new();
        while found.len() < most
            && let Some(digit) = self.rest.peek().and_then(|next| next.to_digit(radix))
        {
            self.rest.next();
            found.push(digit);
        }
        found.into_iter()
    }
}

fn computed(what: &str) -> Failure {
    let told = format!("the curl command contains {what}, which only a shell can insert");
    Failure::new(told).hint(EXPANDED)
}

fn open_quote(quote: char) -> Failure {
    let told = format!("a quote ({quote}) of the curl command is not closed");
    let hint = "copy the whole command; --from-curl @FILE or @- needs no second quoting";
    Failure::new(told).hint(hint)
}

fn odd_escape(kind: char) -> Failure {
    let told = format!("an escape \\{kind} in the curl command has no valid number");
    Failure::new(told).hint("copy the whole command")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let words = words(text).expect(text).into_iter();
        words.map(|word| word.escape_ascii().to_string()).collect()
    }

    #[test]
    fn bash_quotes_in_many_ways() {
        for (text, want) in [
            ("curl a  b\tc", &["curl", "a", "b", "c"][..]),
            ("$ curl 'a b' \"c d\"", &["curl", "a b", "c d"]),
            (
                "curl \\\n  -H 'a: b' \\\r\n x",
                &["curl", "-H", "a: b", "x"],
            ),
            (
                r#"curl "a\"b\$c\x" 'd\e' f\ g"#,
                &["curl", r#"a\"b$c\\x"#, r"d\\e", "f g"],
            ),
            (
                r"curl $'it\'s\u0021\x41\101\n' ''",
                &["curl", r"it\'s!AA\n", ""],
            ),
            (r"curl $'\ud83d\ude00'", &["curl", r"\xf0\x9f\x98\x80"]),
            (r"curl $'\xe9' é", &["curl", r"\xe9", r"\xc3\xa9"]),
            ("curl a'b'\"c\"$'d'e", &["curl", "abcde"]),
            ("curl -s x | jq .", &["curl", "-s", "x"]),
            ("curl x 2>/dev/null", &["curl", "x"]),
            ("curl x # why\n", &["curl", "x"]),
            (
                "curl http://h/a#b 'x?a&b' $ \"5$\"",
                &["curl", "http://h/a#b", "x?a&b", "$", "5$"],
            ),
            ("curl x;", &["curl", "x"]),
        ] {
            assert_eq!(read(text), want, "{text}");
        }
    }

    #[test]
    fn cmd_quotes_with_carets() {
        for (text, want) in [
            (
                "curl ^\"http://h/?a=1^&b=2^\" ^\n  -H ^\"x: y^\" ^\r\n  --data-raw ^\"^{^\\^\"a^\\^\":1^}^\"",
                &[
                    "curl",
                    "http://h/?a=1&b=2",
                    "-H",
                    "x: y",
                    "--data-raw",
                    r#"{\"a\":1}"#,
                ][..],
            ),
            ("curl ^\"a%^20b^\"", &["curl", "a%20b"]),
            (
                "curl ^\"a\\\\b^\" -d ^\"1^\n\n2^\"",
                &["curl", r"a\\\\b", "-d", r"1\n2"],
            ),
            (
                "curl \"a b\" ^\n -d \"c\"\"d^e\"",
                &["curl", "a b", "-d", r#"c\"d^e"#],
            ),
        ] {
            assert_eq!(read(text), want, "{text}");
        }
    }

    #[test]
    fn what_only_a_shell_knows_is_refused() {
        for (text, what) in [
            ("curl -H \"Authorization: Bearer $TOKEN\"", "$TOKEN"),
            ("curl ${HOST}/x", "$HOST"),
            ("curl $(cat url)", "another command"),
            ("curl `cat url`", "another command"),
            ("curl <(cat url)", "another command"),
            ("curl 'abc", "not closed"),
            ("curl \"abc", "not closed"),
            ("curl http://h/?a=1&b=2", "`&`"),
            ("curl a; curl b", "`;`"),
            ("curl a\ncurl b", "several lines"),
            (r"curl $'\u'", r"\u"),
            (r"curl $'\ud83d'", r"\u"),
        ] {
            let told = words(text).expect_err(text).to_string();
            assert!(told.contains(what), "{text}: {told}");
        }
    }
}

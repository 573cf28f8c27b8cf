//! A cursor over captured and missing bytes, which the parsers of Redis and PostgreSQL share.

use super::reply_error::ReplyError;
use super::{Step, skip};
use crate::protocol::http::{Head, RequestLine};

/// Maximum length of a line or length prefix that is kept.
const LONGEST_LINE: usize = 8 * 1024;
/// Maximum length of a command word that is kept.
const LONGEST_WORD: usize = 32;

/// The available bytes: captured ones, followed by a number of missing ones.
pub(super) struct Input<'a, 'b> {
    pub(super) bytes: &'a mut &'b [u8],
    pub(super) missing: &'a mut u64,
}

impl Input<'_, '_> {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && *self.missing == 0
    }

    /// Returns true if the next byte was not captured.
    pub(super) fn is_torn(&self) -> bool {
        self.bytes.is_empty() && *self.missing > 0
    }

    pub(super) fn skip(&mut self, left: u64) -> u64 {
        skip(left, self.bytes, self.missing)
    }

    /// Moves bytes into `kept` until it has `count` bytes. Returns true if it has them.
    pub(super) fn fill(&mut self, kept: &mut Vec<u8>, count: usize) -> bool {
        let wanted = count.saturating_sub(kept.len()).min(self.bytes.len());
        let (taken, rest) = self.bytes.split_at(wanted);
        kept.extend_from_slice(taken);
        *self.bytes = rest;
        kept.len() >= count
    }

    /// Moves a line with its newline into `kept`. Returns true if the line is complete; `None` if
    /// it is longer than any valid line.
    pub(super) fn line(&mut self, kept: &mut Vec<u8>) -> Option<bool> {
        let end = memchr::memchr(b'\n', self.bytes);
        let count = end.map_or(self.bytes.len(), |at| at + 1);
        if kept.len() + count > LONGEST_LINE {
            return None;
        }
        let (taken, rest) = self.bytes.split_at(count);
        kept.extend_from_slice(taken);
        *self.bytes = rest;
        Some(end.is_some())
    }
}

/// Returns a request's head, with the first word of its command.
pub(super) fn command(word: &[u8]) -> Step {
    let word: String = String::from_utf8_lossy(word)
        .chars()
        .filter(|letter| !letter.is_control())
        .take(LONGEST_WORD)
        .collect();
    Step::Head(Head {
        request: Some(RequestLine::new(&word.to_uppercase(), "")),
        ..Head::default()
    })
}

/// Returns the head of a response that reports an error.
pub(super) fn error(error: ReplyError) -> Step {
    Step::Head(Head {
        error: Some(error),
        ..Head::default()
    })
}

/// Returns the first word of a line or statement, after any comments.
pub(super) fn first_word(text: &[u8]) -> &[u8] {
    let mut text = text.trim_ascii_start();
    while let Some(rest) = text.strip_prefix(b"/*") {
        let end = rest.windows(2).position(|two| two == b"*/");
        text = rest
            .get(end.map_or(rest.len(), |at| at + 2)..)
            .unwrap_or_default()
            .trim_ascii_start();
    }
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

//! Redis's protocol, RESP2 and RESP3 (redis.io, "Redis serialization protocol specification").
//!
//! A command is an array of bulk strings, or a line. Each command has one reply, in order. RESP3
//! pushes belong to no command.

use super::Step;
use super::messages::{Input, command, error};
use super::reply_error::ReplyError;
use crate::protocol::http::Role;

/// Maximum number of elements of one reply. A larger number is not plausible.
const MAX_ELEMENTS: u64 = 1 << 24;

/// Messages of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    role: Role,
    state: State,
    line: Vec<u8>,
    /// Number of elements of the current message that are still to come.
    elements: u64,
    is_push: bool,
    /// The part of the command's first word that was read.
    word: Vec<u8>,
    /// True if the command's first word was reported, or the reply's first element was read.
    has_head: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Between,
    /// Collecting an element's line.
    Line,
    /// In a string; contains the number of remaining bytes, including its CRLF.
    Bulk(u64),
    Ending,
    Lost,
}

/// Returns true if `bytes` begin a command: an array whose first element is a bulk string.
pub(super) fn begins_command(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"*") else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (1..8).contains(&digits)
        && rest
            .get(digits..)
            .is_some_and(|rest| rest.starts_with(b"\r\n$"))
}

/// Returns true if the command waits until another client sends something, or for a time that its
/// caller sets (redis.io, "Blocking commands"). XREAD and XREADGROUP wait only with BLOCK, which is not
/// kept; without it they answer at once.
pub(crate) fn waits_for_others(command: &str) -> bool {
    const COMMANDS: [&str; 10] = [
        "BLPOP",
        "BRPOP",
        "BLMOVE",
        "BLMPOP",
        "BRPOPLPUSH",
        "BZPOPMIN",
        "BZPOPMAX",
        "BZMPOP",
        "XREAD",
        "XREADGROUP",
    ];
    let may_be_one = matches!(command.as_bytes(), [b'b' | b'B' | b'x' | b'X', ..]);
    let mut commands = COMMANDS.iter();
    may_be_one && commands.any(|name| name.eq_ignore_ascii_case(command))
}

impl Messages {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            state: State::Between,
            line: Vec::new(),
            elements: 0,
            is_push: false,
            word: Vec::new(),
            has_head: false,
        }
    }

    /// Returns the memory that the parser holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.line.capacity() + self.word.capacity()
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.role);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    pub(crate) fn step(&mut self, bytes: &mut &[u8], missing: &mut u64) -> Step {
        let mut input = Input { bytes, missing };
        loop {
            match self.state {
                State::Lost => {
                    input.skip(u64::MAX);
                    return Step::NeedMore;
                }
                State::Ending => {
                    self.state = State::Between;
                    if !core::mem::take(&mut self.is_push) {
                        return Step::Ended;
                    }
                }
                _ if input.is_empty() => return Step::NeedMore,
                State::Bulk(left) => {
                    if let Some(step) = self.bulk(left, &mut input) {
                        return step;
                    }
                }
                _ if input.is_torn() => return self.lose(),
                State::Between => {
                    self.begin();
                    self.is_push =
                        self.role == Role::Response && input.bytes.first() == Some(&b'>');
                    if !self.is_push {
                        return Step::Began;
                    }
                }
                State::Line => match input.line(&mut self.line) {
                    None => return self.lose(),
                    Some(false) => {}
                    Some(true) => {
                        if let Some(step) = self.element() {
                            return step;
                        }
                    }
                },
            }
        }
    }

    fn begin(&mut self) {
        self.state = State::Line;
        self.elements = 1;
        self.has_head = false;
        self.line.clear();
        self.word.clear();
    }

    fn lose(&mut self) -> Step {
        self.reset();
        self.state = State::Lost;
        Step::Lost
    }

    /// Processes an element's complete line.
    fn element(&mut self) -> Option<Step> {
        let line = core::mem::take(&mut self.line);
        let text = line.trim_ascii_end();
        let (&kind, rest) = text.split_first().unwrap_or((&b' ', &[]));
        let count = || core::str::from_utf8(rest).ok()?.parse::<i64>().ok();
        let is_first = self.elements == 1 && !self.has_head;
        self.elements = self.elements.saturating_sub(1);
        let mut step = None;
        match (kind, self.role) {
            (b'*' | b'~' | b'>' | b'%' | b'|', _) => {
                let Some(count) = count() else {
                    return Some(self.lose());
                };
                let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                // Attributes precede the element to which they apply.
                let itself = u64::from(kind == b'|');
                let more = count.max(0).unsigned_abs().saturating_mul(each) + itself;
                self.elements = self.elements.saturating_add(more);
            }
            (b'$' | b'=' | b'!', _) => {
                let Some(length) = count() else {
                    return Some(self.lose());
                };
                if length >= 0 {
                    self.state = State::Bulk(length.unsigned_abs().saturating_add(2));
                }
            }
            (b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(', Role::Response) => {}
            // A command in the form of a line.
            (_, Role::Request) => {
                let end = text.iter().position(u8::is_ascii_whitespace);
                step = Some(command(
                    text.get(..end.unwrap_or(text.len())).unwrap_or_default(),
                ));
                self.has_head = true;
            }
            _ => return Some(self.lose()),
        }
        if self.elements > MAX_ELEMENTS {
            return Some(self.lose());
        }
        if self.role == Role::Response && is_first && matches!(kind, b'-' | b'!') && !self.is_push {
            step = ReplyError::of_redis(rest).map(error);
        }
        self.has_head |= self.role == Role::Response;
        self.settle();
        step
    }

    /// Continues in a string. The first string of a command is its first word.
    fn bulk(&mut self, left: u64, input: &mut Input<'_, '_>) -> Option<Step> {
        let is_word = self.role == Role::Request && !self.has_head;
        let captured = (left.saturating_sub(2)).min(input.bytes.len() as u64) as usize;
        if is_word && self.word.len() < 64 {
            let part = input.bytes.get(..captured).unwrap_or_default();
            self.word.extend(part.iter().take(64));
        }
        let left = input.skip(left);
        self.state = State::Bulk(left);
        if left > 0 {
            return None;
        }
        self.settle();
        if is_word {
            self.has_head = true;
            return Some(command(&core::mem::take(&mut self.word)));
        }
        None
    }

    fn settle(&mut self) {
        self.state = match (self.state, self.elements) {
            (State::Bulk(left), _) if left > 0 => State::Bulk(left),
            (_, 0) => State::Ending,
            _ => State::Line,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_waits_for_another_client_owes_no_answer() {
        for command in ["BLPOP", "brpop", "XREADGROUP", "bzpopmin"] {
            assert!(waits_for_others(command), "{command}");
        }
        for command in ["BGSAVE", "BITCOUNT", "XADD", "LPOP", "GET", ""] {
            assert!(!waits_for_others(command), "{command}");
        }
    }
}

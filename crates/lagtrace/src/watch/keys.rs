//! Keys that the user presses while the live page is shown.

use std::io::{self, IsTerminal as _};
use std::sync::{Mutex, PoisonError};

use rustix::io::read;
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

/// Maximum number of bytes read at once. Pasted text beyond it is read the next time.
const AT_ONCE: usize = 256;
/// Value of a special character that disables it (`_POSIX_VDISABLE`).
const DISABLED: u8 = 0;

/// The mode of the terminal before the keyboard was opened.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Char(char),
}

/// The terminal's keyboard in a mode in which each key is read at once, and not echoed. The former
/// mode is restored when this value is dropped.
pub(super) struct Keyboard {
    /// Bytes of a character that is not complete yet.
    rest: Vec<u8>,
}

impl Keyboard {
    /// Opens the keyboard; `None` if standard input is no terminal, or if this program runs in the
    /// background and must not change the terminal.
    pub(super) fn open() -> Option<Self> {
        let stdin = io::stdin();
        let is_ours = || tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
        if !stdin.is_terminal() || !is_ours() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut mode = before.clone();
        mode.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        mode.special_codes[SpecialCodeIndex::VMIN] = 0;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        // A suspended program would leave the shell with this mode. Ctrl-C still works.
        mode.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
        tcsetattr(&stdin, OptionalActions::Now, &mode).ok()?;
        BEFORE
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(before);
        let rest = Vec::new();
        Some(Self { rest })
    }

    /// Returns the keys pressed since the last call.
    pub(super) fn pressed(&mut self) -> Vec<Key> {
        let mut bytes = [0; AT_ONCE];
        let count = read(io::stdin(), &mut bytes).unwrap_or_default();
        if count == 0 {
            return Vec::new();
        }
        self.rest.extend(bytes.iter().take(count));
        let (keys, rest) = keys(&self.rest);
        self.rest = rest;
        keys
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal's mode if a keyboard is open.
pub(crate) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

/// Returns the keys that a terminal encodes as these bytes, and the bytes of an incomplete
/// character at their end. Unknown escape sequences (ECMA-48 §5.4) are skipped as a whole.
fn keys(mut bytes: &[u8]) -> (Vec<Key>, Vec<u8>) {
    let mut list = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        bytes = rest;
        match first {
            0x1b => match sequence(rest) {
                Some((key, rest)) => {
                    list.extend(key);
                    bytes = rest;
                }
                None => list.push(Key::Escape),
            },
            b'\r' | b'\n' => list.push(Key::Enter),
            0x7f | 0x08 => list.push(Key::Backspace),
            0x20..0x7f => list.push(Key::Char(char::from(first))),
            0x80.. => match character(first, rest) {
                Some((character, rest)) => {
                    list.extend(character.map(Key::Char));
                    bytes = rest;
                }
                None => return (list, [&[first], rest].concat()),
            },
            _ => {}
        }
    }
    (list, Vec::new())
}

/// Splits off the rest of a control sequence after its escape character, with its key if it is
/// known; `None` if the escape character begins no sequence.
fn sequence(bytes: &[u8]) -> Option<(Option<Key>, &[u8])> {
    let [b'[' | b'O', bytes @ ..] = bytes else {
        return None;
    };
    let end = bytes.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let (parameters, rest) = bytes.split_at(end);
    let (&last, rest) = rest.split_first()?;
    let key = match (last, parameters) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'H', _) | (b'~', b"1" | b"7") => Key::Home,
        (b'F', _) | (b'~', b"4" | b"8") => Key::End,
        (b'~', b"5") => Key::PageUp,
        (b'~', b"6") => Key::PageDown,
        _ => return Some((None, rest)),
    };
    Some((Some(key), rest))
}

/// Splits off a character in UTF-8 of several bytes, `None` within if it is invalid; `None` if it
/// is incomplete.
fn character(first: u8, rest: &[u8]) -> Option<(Option<char>, &[u8])> {
    let more = match first {
        0xc0..0xe0 => 1,
        0xe0..0xf0 => 2,
        0xf0..0xf8 => 3,
        _ => return Some((None, rest)),
    };
    let (more, after) = rest.split_at_checked(more)?;
    let bytes = [&[first], more].concat();
    match std::str::from_utf8(&bytes) {
        Ok(text) => Some((text.chars().next(), after)),
        Err(_) => Some((None, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_recognised() {
        let (list, rest) = keys(b"\x1b[A\x1b[B\x1bOB\r\x7f/q\x1b[5~\x1b[6~\x1b[H\x1b[4~");
        let wanted = [
            Key::Up,
            Key::Down,
            Key::Down,
            Key::Enter,
            Key::Backspace,
            Key::Char('/'),
            Key::Char('q'),
            Key::PageUp,
            Key::PageDown,
            Key::Home,
            Key::End,
        ];
        assert_eq!(list, wanted);
        assert!(rest.is_empty());
    }

    #[test]
    fn unknown_sequences_are_skipped_and_an_escape_alone_is_a_key() {
        assert_eq!(keys(b"\x1b[1;5Pa").0, [Key::Char('a')]);
        assert_eq!(keys(b"\x1b").0, [Key::Escape]);
        assert_eq!(keys(b"\x01\x02").0, []);
    }

    #[test]
    fn a_character_of_several_bytes_may_come_in_parts() {
        let (list, rest) = keys("aé".as_bytes().split_at(2).0);
        assert_eq!(
            (list.as_slice(), rest.as_slice()),
            (&[Key::Char('a')][..], &[0xc3][..])
        );
        let whole = [rest.as_slice(), &[0xa9, b'b']].concat();
        assert_eq!(keys(&whole).0, [Key::Char('é'), Key::Char('b')]);
        assert_eq!(keys(b"\xff\xc3(").0, [Key::Char('(')]);
    }
}

//! memcached's text protocol with its meta commands (memcached, `doc/protocol.txt`).
//!
//! Quiet commands are answered only for some results. All bytes that one end sends before the other
//! end sends therefore count as one message, and only its first line is read.

use super::Step;
use super::messages::{command, first_word};

/// Commands that may begin a connection.
const COMMANDS: [&[u8]; 24] = [
    b"get ",
    b"gets ",
    b"gat ",
    b"gats ",
    b"set ",
    b"add ",
    b"replace ",
    b"append ",
    b"prepend ",
    b"cas ",
    b"delete ",
    b"incr ",
    b"decr ",
    b"touch ",
    b"mg ",
    b"ms ",
    b"md ",
    b"ma ",
    b"me ",
    b"mn\r\n",
    b"stats",
    b"version\r\n",
    b"flush_all",
    b"verbosity ",
];

/// Returns true if `bytes` begin with a known command and contain its complete line.
pub(super) fn begins_command(bytes: &[u8]) -> bool {
    let has_line = bytes.windows(2).take(2048).any(|two| two == b"\r\n");
    has_line && COMMANDS.iter().any(|command| bytes.starts_with(command))
}

/// Returns the command in a client's first bytes; `None` if it gets no answer.
pub(super) fn request(bytes: &[u8]) -> Option<Step> {
    let end = bytes.windows(2).position(|two| two == b"\r\n");
    let line = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').take(16).collect();
    let word = first_word(line);
    let stored = words.get(4).filter(|_| words.len() > 5);
    let stored = stored.and_then(|size| core::str::from_utf8(size).ok()?.parse::<usize>().ok());
    let whole = line.len() + 2 + stored.map_or(0, |size| size + 2);
    let is_silent = words.last() == Some(&&b"noreply"[..]) && bytes.len() <= whole;
    (word != b"quit" && !is_silent).then(|| command(word))
}

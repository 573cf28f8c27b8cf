//! The classic protocol of MySQL and MariaDB (MySQL internals, "Client/Server Protocol": packets,
//! command phase).
//!
//! The protocol is half duplex. The packets of a command are numbered from 0, and the server's
//! answer continues the numbers. All bytes that one end sends before the other end sends therefore
//! are one message, and only its first bytes are read.

use super::Step;
use super::messages::{command, first_word};
use super::reply_error::ReplyError;

/// Length of a packet's header in bytes: its length field and its number.
const HEADER: usize = 4;
/// The version in greetings since MySQL 3.21.
const GREETING: u8 = 10;
/// Commands without an answer.
const COM_QUIT: u8 = 0x01;
const COM_STMT_SEND_LONG_DATA: u8 = 0x18;
const COM_STMT_CLOSE: u8 = 0x19;
/// A command whose text is shown in reports.
const COM_QUERY: u8 = 0x03;
/// The first byte of an answer that is an error.
const ERR: u8 = 0xff;

/// Returns a packet's length, number and first byte.
fn packet(bytes: &[u8]) -> Option<(usize, u8, u8)> {
    let &[a, b, c, number, first] = bytes.first_chunk()?;
    Some((u32::from_le_bytes([a, b, c, 0]) as usize, number, first))
}

/// Returns true if a server's first bytes are a greeting of this protocol.
pub(super) fn is_greeting(bytes: &[u8]) -> bool {
    if !matches!(packet(bytes), Some((20..=1024, 0, GREETING))) {
        return false;
    }
    let version = bytes.get(HEADER + 1..).unwrap_or_default();
    version.first().is_some_and(u8::is_ascii_digit)
        && version.iter().take(64).any(|&byte| byte == 0)
}

/// Returns the command in a client's first bytes; `None` if it gets no answer.
pub(super) fn request(bytes: &[u8]) -> Option<Step> {
    let (length, number, code) = packet(bytes)?;
    let word: &[u8] = match (number, code) {
        // The numbers of the handshake's packets continue those of the greeting.
        (1.., _) => b"LOGIN",
        (_, COM_QUIT | COM_STMT_SEND_LONG_DATA | COM_STMT_CLOSE)
            if bytes.len() <= HEADER + length =>
        {
            return None;
        }
        (_, COM_QUERY) => first_word(bytes.get(HEADER + 1..).unwrap_or_default()),
        (_, 0x02) => b"USE",
        (_, 0x04) => b"FIELDS",
        (_, 0x09) => b"STATISTICS",
        (_, 0x0e) => b"PING",
        (_, 0x11) => b"CHANGE_USER",
        (_, 0x16) => b"PREPARE",
        (_, 0x17) => b"EXECUTE",
        (_, 0x1a) => b"RESET_STATEMENT",
        (_, 0x1c) => b"FETCH",
        (_, 0x1f) => b"RESET_CONNECTION",
        _ => b"COMMAND",
    };
    Some(command(word))
}

/// Returns the error in an answer that begins with an error packet.
pub(super) fn error(bytes: &[u8]) -> Option<ReplyError> {
    let is_error = matches!(packet(bytes), Some((3.., 1.., ERR)));
    is_error.then(|| ReplyError::of_mysql(code(bytes)))
}

/// Returns the error that a server sends instead of its greeting.
pub(super) fn refusal(bytes: &[u8]) -> Option<ReplyError> {
    let (length, number, first) = packet(bytes)?;
    let is_error = (3..=512).contains(&length) && number == 0 && first == ERR;
    let is_whole = bytes.len() == HEADER + length;
    (is_error && is_whole).then(|| ReplyError::of_mysql(code(bytes)))
}

/// Returns the code in an error packet.
fn code(bytes: &[u8]) -> u16 {
    let code = bytes.get(HEADER + 1..).and_then(|rest| rest.first_chunk());
    code.map_or(0, |code| u16::from_le_bytes(*code))
}

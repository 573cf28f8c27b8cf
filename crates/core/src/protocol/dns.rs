//! The parts of DNS messages (RFC 1035 §4) on which latency depends.
//!
//! The input is the bytes of a datagram, or of a TCP segment with a length before each message. The
//! output is the question and the addresses in the answer. Malformed or truncated input gives
//! `None` or ends early, never an error.

use core::net::IpAddr;

/// The port of DNS servers.
pub(crate) const PORT: u16 = 53;
/// Maximum number of bytes of a name on the wire (RFC 1035 §2.3.4).
const MAX_NAME: usize = 255;
/// Maximum number of compression pointers followed in one name. Each must point backwards, and real
/// names need only one.
const MAX_POINTERS: usize = 16;
/// Maximum number of records of an answer that are examined.
const MAX_RECORDS: usize = 64;
/// Maximum number of addresses kept per answer.
pub(crate) const MAX_ADDRESSES: usize = 16;
/// Maximum number of questions examined in one multicast message.
const MAX_QUESTIONS: usize = 16;
/// Maximum number of messages examined in one TCP segment.
const MAX_MESSAGES: usize = 16;

const HEADER: usize = 12;
/// The class of the internet (RFC 1035 §3.2.4).
const INTERNET: u16 = 1;

/// The requested record type, by IANA's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind(pub(crate) u16);

impl Kind {
    pub(crate) const A: Self = Self(1);
    pub(crate) const AAAA: Self = Self(28);
}

/// A query or its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) id: u16,
    pub(crate) is_answer: bool,
    /// True if the answer did not fit into the datagram (TC).
    pub(crate) is_truncated: bool,
    /// RCODE: 0 means success, 3 that the name does not exist.
    pub(crate) code: u8,
    /// The name in lower case, its labels joined by dots; the root is empty.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The addresses in the answer, including those reached through aliases.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Reads a message with one question; `None` for anything else.
pub(crate) fn read(bytes: &[u8]) -> Option<Message> {
    let header: &[u8; HEADER] = bytes.first_chunk()?;
    let [i0, i1, high, low, q0, q1, a0, a1, ..] = *header;
    let questions = u16::from_be_bytes([q0, q1]);
    // OPCODE 0 is a plain query.
    if questions != 1 || high & 0x78 != 0 {
        return None;
    }
    let (name, end) = name(bytes, HEADER)?;
    let kind = Kind(half(bytes, end)?);
    let is_answer = high & 0x80 != 0;
    let answers = usize::from(u16::from_be_bytes([a0, a1]));
    Some(Message {
        id: u16::from_be_bytes([i0, i1]),
        is_answer,
        is_truncated: high & 0x02 != 0,
        code: low & 0x0f,
        name,
        kind,
        addresses: if is_answer {
            addresses(bytes, end + 4, answers)
        } else {
            Vec::new()
        },
    })
}

/// Passes each question of a multicast message to `visit` as a message of its own. For an answer it
/// passes the names that are answered. Multicast DNS asks several questions in one message, and
/// does not repeat them in its answers (RFC 6762 §6).
pub(crate) fn read_questions(bytes: &[u8], mut visit: impl FnMut(Message)) {
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return;
    };
    let [i0, i1, high, _, q0, q1, a0, a1, ..] = *header;
    if high & 0x78 != 0 {
        return;
    }
    let is_answer = high & 0x80 != 0;
    let (asked, answers) = (u16::from_be_bytes([q0, q1]), u16::from_be_bytes([a0, a1]));
    // Questions and answers have the same beginning: a name and a type.
    let count = if is_answer { asked.max(answers) } else { asked };
    let mut at = HEADER;
    for _ in 0..usize::from(count).min(MAX_QUESTIONS) {
        let Some(((name, end), kind)) =
            name(bytes, at).and_then(|n| half(bytes, n.1).map(|k| (n, k)))
        else {
            return;
        };
        let record = || record(bytes, at).map(|(_, end)| end);
        let next = if is_answer && asked == 0 {
            record()
        } else {
            Some(end + 4)
        };
        visit(Message {
            id: u16::from_be_bytes([i0, i1]),
            is_answer,
            is_truncated: false,
            code: 0,
            name,
            kind: Kind(kind),
            addresses: Vec::new(),
        });
        match next {
            Some(next) => at = next,
            None => return,
        }
    }
}

/// Passes each message that is completely in one TCP segment to `visit` (RFC 1035 §4.2.2). A
/// segment that begins in the middle of a message yields nothing, because its bytes are not read as
/// a message.
pub(crate) fn read_segment(mut bytes: &[u8], mut visit: impl FnMut(Message)) {
    for _ in 0..MAX_MESSAGES {
        let Some((length, rest)) = bytes.split_first_chunk::<2>() else {
            return;
        };
        let length = usize::from(u16::from_be_bytes(*length));
        let Some((message, rest)) = rest.split_at_checked(length) else {
            return;
        };
        if let Some(message) = read(message) {
            visit(message);
        }
        bytes = rest;
    }
}

/// Returns the addresses in the `count` records from `at` on, as far as they can be read.
fn addresses(bytes: &[u8], mut at: usize, count: usize) -> Vec<IpAddr> {
    let mut list = Vec::new();
    for _ in 0..count.min(MAX_RECORDS) {
        let Some((address, end)) = record(bytes, at) else {
            break;
        };
        if let Some(address) = address.filter(|_| list.len() < MAX_ADDRESSES) {
            list.push(address);
        }
        at = end;
    }
    list
}

/// Returns the address in the record at `at`, if it contains one, and the record's end.
fn record(bytes: &[u8], at: usize) -> Option<(Option<IpAddr>, usize)> {
    let fixed = skip_name(bytes, at)?;
    let (kind, class) = (half(bytes, fixed)?, half(bytes, fixed + 2)?);
    let data = fixed + 10;
    let end = data + usize::from(half(bytes, fixed + 8)?);
    let value = bytes.get(data..end)?;
    let address = match (Kind(kind), value.len()) {
        _ if class != INTERNET => None,
        (Kind::A, 4) => value.first_chunk::<4>().map(|octets| (*octets).into()),
        (Kind::AAAA, 16) => value.first_chunk::<16>().map(|octets| (*octets).into()),
        _ => None,
    };
    Some((address.map(|address: IpAddr| address.to_canonical()), end))
}

/// Returns the name at `at`, and the offset of the byte after it.
fn name(bytes: &[u8], at: usize) -> Option<(String, usize)> {
    let end = skip_name(bytes, at)?;
    let mut text = String::new();
    let (mut cursor, mut pointers, mut limit) = (at, 0, bytes.len());
    loop {
        let length = usize::from(*bytes.get(cursor)?);
        match length {
            0 => return Some((text, end)),
            1..=63 => {
                let label = bytes.get(cursor + 1..cursor + 1 + length)?;
                if text.len() + length + 1 > MAX_NAME {
                    return None;
                }
                if !text.is_empty() {
                    text.push('.');
                }
                text.extend(label.iter().map(|&byte| printable(byte)));
                cursor += 1 + length;
            }
            // A pointer must lead to an offset before all previous ones, so there are no loops.
            192..=255 => {
                let target = usize::from(half(bytes, cursor)? & 0x3fff);
                pointers += 1;
                if pointers > MAX_POINTERS || target >= limit.min(cursor) {
                    return None;
                }
                (cursor, limit) = (target, target);
            }
            _ => return None,
        }
    }
}

/// Returns the offset of the byte after the name at `at`.
fn skip_name(bytes: &[u8], at: usize) -> Option<usize> {
    let mut cursor = at;
    loop {
        match usize::from(*bytes.get(cursor)?) {
            0 => return Some(cursor + 1),
            length @ 1..=63 => cursor += 1 + length,
            192..=255 => return Some(cursor + 2),
            _ => return None,
        }
        if cursor - at > MAX_NAME {
            return None;
        }
    }
}

/// Returns a byte as a printable character; bytes other than letters, digits, `-` and `_` become
/// `?`.
fn printable(byte: u8) -> char {
    match byte {
        b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte),
        b'A'..=b'Z' => char::from(byte.to_ascii_lowercase()),
        _ => '?',
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with the question `a.test` of type A, then `rest`.
    fn message(flags: [u8; 2], answers: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, flags[0], flags[1], 0, 1, 0, answers, 0, 0, 0, 0];
        bytes.extend(b"\x01a\x04TeSt\x00\x00\x01\x00\x01");
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn questions_and_answers_are_read() {
        let query = read(&message([1, 0], 0, &[])).expect("is a query");
        assert_eq!(
            (query.id, query.is_answer, query.name.as_str(), query.kind),
            (0x1234, false, "a.test", Kind::A)
        );
        let records = b"\xc0\x0c\x00\x05\x00\x01\0\0\0\0\x00\x02\xc0\x0e\
                        \xc0\x0c\x00\x01\x00\x01\0\0\0\0\x00\x04\x0a\x00\x00\x07";
        let answer = read(&message([0x83, 3], 2, records)).expect("is an answer");
        assert!(answer.is_answer && answer.is_truncated);
        assert_eq!(answer.code, 3);
        assert_eq!(answer.addresses, [IpAddr::from([10, 0, 0, 7])]);
    }

    #[test]
    fn no_name_loops_and_no_cut_panics() {
        // The pointers lead to themselves, forwards, and to each other.
        for hostile in [
            &b"\xc0\x0c"[..],
            b"\xc0\x10\0\0\0\0\0\0",
            b"\x01a\xc0\x10\xc0\x0c",
            b"\x80\0",
        ] {
            let mut bytes = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            bytes.extend(hostile);
            bytes.extend([0, 1, 0, 1]);
            assert_eq!(read(&bytes), None, "{hostile:?}");
        }
        let records = b"\xc0\x0c\x00\x01\x00\x01\0\0\0\0\x00\x04\x0a\x00\x00\x07";
        let whole = message([0x80, 0], 255, records);
        for cut in 0..whole.len() {
            let _ = read(&whole[..cut]);
        }
        assert_eq!(read(&whole).map(|answer| answer.addresses.len()), Some(1));
    }

    #[test]
    fn a_name_is_as_long_as_the_standard_allows() {
        let mut bytes = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for _ in 0..5 {
            bytes.push(63);
            bytes.extend([b'x'; 63]);
        }
        bytes.extend([0, 0, 1, 0, 1]);
        assert_eq!(read(&bytes), None);
    }

    #[test]
    fn messages_in_a_segment_are_told_apart_by_their_lengths() {
        let one = message([1, 0], 0, &[]);
        let mut segment = Vec::new();
        for _ in 0..2 {
            segment.extend(u16::try_from(one.len()).expect("is short").to_be_bytes());
            segment.extend(&one);
        }
        segment.extend([0xff, 0xff, 0]);
        let mut seen = 0;
        read_segment(&segment, |_| seen += 1);
        assert_eq!(seen, 2);
    }
}

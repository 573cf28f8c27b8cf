//! HPACK (RFC 7541): the part of a field section that contains the request or the status, and the
//! dynamic table that is needed to decode it.

use core::ops::RangeInclusive;
use std::collections::VecDeque;

use super::huffman;
use crate::protocol::http;

/// The size in bytes of a dynamic table until a SETTINGS frame changes it (RFC 9113 §6.5.2), and
/// the maximum size supported here.
const DEFAULT_TABLE: usize = 4096;
const LARGEST_TABLE: usize = 64 * 1024;
/// Size in bytes that an entry has in addition to its name and value (RFC 7541 §4.1).
const ENTRY_OVERHEAD: usize = 32;
/// Maximum length of a path that is kept for the report, in characters.
const MAX_PATH: usize = 256;
/// Number of bytes of a name that are kept: more than any name has that matters.
const LONGEST_NAME: usize = 32;
/// Number of bytes of a value that are kept: a character has at most four.
const LONGEST_VALUE: usize = 4 * MAX_PATH;

/// Entries 1 to 14 of the static table (RFC 7541, appendix A), which contain the request and the
/// status.
const TELLING: [(&[u8], &[u8]); 14] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
];
/// Names of the other entries of the static table. A new entry of the dynamic table may use such a
/// name, whose length counts for the table's size.
#[rustfmt::skip]
const NAMES: [&str; 47] = [
    "accept-charset", "accept-encoding", "accept-language", "accept-ranges", "accept",
    "access-control-allow-origin", "age", "allow", "authorization", "cache-control",
    "content-disposition", "content-encoding", "content-language", "content-length",
    "content-location", "content-range", "content-type", "cookie", "date", "etag", "expect",
    "expires", "from", "host", "if-match", "if-modified-since", "if-none-match", "if-range",
    "if-unmodified-since", "last-modified", "link", "location", "max-forwards",
    "proxy-authenticate", "proxy-authorization", "range", "referer", "refresh", "retry-after",
    "server", "set-cookie", "strict-transport-security", "transfer-encoding", "user-agent",
    "vary", "via", "www-authenticate",
];
const STATIC: usize = TELLING.len() + NAMES.len();
/// The status codes of HTTP: three digits (RFC 9110 §15).
const STATUSES: RangeInclusive<u16> = 100..=999;

/// Content of a field section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) status: Option<u16>,
    /// The content type, if it says that the message is a stream.
    pub(crate) stream: Option<StreamType>,
    /// The outcome of a gRPC call (`grpc-status`).
    pub(crate) grpc_status: Option<u8>,
}

/// A content type whose parts are sent when there is something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamType {
    /// Messages of gRPC, each with its length. A call may have a single one in each direction.
    Grpc,
    /// Events, such as server-sent events.
    Events,
}

/// A field as far as it can matter to [`Fields`]. The whole of it may be much longer, and one byte can
/// refer to an entry of [`LARGEST_TABLE`], so no more of it is kept, copied or read.
#[derive(Clone, Debug)]
struct Entry {
    name: Vec<u8>,
    /// Length of the whole name.
    name_len: usize,
    value: Vec<u8>,
    /// Size of the whole entry (RFC 7541 §4.1).
    size: usize,
}

/// The name of an entry of the static or the dynamic table.
#[derive(Clone, Copy, Debug, Default)]
struct Name<'a> {
    start: &'a [u8],
    len: usize,
}

impl<'a> Name<'a> {
    fn of(name: &'a [u8]) -> Self {
        Self {
            start: name,
            len: name.len(),
        }
    }
}

impl Entry {
    fn new(name: Name<'_>, value: &[u8]) -> Self {
        Self {
            name: beginning(name.start, LONGEST_NAME).to_vec(),
            name_len: name.len,
            value: beginning(value, LONGEST_VALUE).to_vec(),
            size: name.len + value.len() + ENTRY_OVERHEAD,
        }
    }
}

fn beginning(bytes: &[u8], len: usize) -> &[u8] {
    bytes.get(..len).unwrap_or(bytes)
}

/// Decoder of one direction.
#[derive(Clone, Debug)]
pub(crate) struct HpackDecoder {
    table: VecDeque<Entry>,
    size: usize,
    limit: usize,
    /// True after a missed or invalid section: earlier entries of the table are unknown. Later ones
    /// are known, because the newest entry has the first index.
    is_partial: bool,
}

impl Default for HpackDecoder {
    fn default() -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            limit: DEFAULT_TABLE,
            is_partial: false,
        }
    }
}

impl HpackDecoder {
    /// Records that a field section was missed.
    pub(crate) fn miss(&mut self) {
        self.is_partial = true;
        (self.table, self.size) = (VecDeque::new(), 0);
    }

    /// Returns the memory that the dynamic table holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.table.capacity() * size_of::<Entry>() + self.size
    }

    /// Decodes a field section; `None` if it is invalid. Fields that are unknown entries of the table
    /// are left out.
    pub(crate) fn decode(&mut self, block: &[u8]) -> Option<Fields> {
        let mut fields = Fields::default();
        let mut rest = block;
        while !rest.is_empty() {
            if self.field(&mut rest, &mut fields).is_none() {
                self.miss();
                return None;
            }
        }
        Some(fields)
    }

    /// Decodes one field (RFC 7541 §6).
    fn field(&mut self, rest: &mut &[u8], fields: &mut Fields) -> Option<()> {
        let first = *rest.first()?;
        if first & 0x80 != 0 {
            let (name, value) = self.entry(integer(rest, 7)?)?;
            fields.note(name.start, value);
        } else if first & 0x40 != 0 {
            let entry = self.literal(rest, 6)?;
            fields.note(&entry.name, &entry.value);
            self.insert(entry);
        } else if first & 0x20 != 0 {
            self.limit = integer(rest, 5).filter(|&limit| limit <= LARGEST_TABLE)?;
            self.evict(0);
        } else {
            let entry = self.literal(rest, 4)?;
            fields.note(&entry.name, &entry.value);
        }
        Some(())
    }

    fn literal(&self, rest: &mut &[u8], prefix: u8) -> Option<Entry> {
        let own;
        let name = match integer(rest, prefix)? {
            0 => {
                own = string(rest)?;
                Name::of(&own)
            }
            index => self.entry(index)?.0,
        };
        Some(Entry::new(name, &string(rest)?))
    }

    /// Returns the name and the value of a table's entry.
    fn entry(&self, index: usize) -> Option<(Name<'_>, &[u8])> {
        if let Some(&(name, value)) = TELLING.get(index.checked_sub(1)?) {
            return Some((Name::of(name), value));
        }
        let Some(dynamic) = index.checked_sub(STATIC + 1) else {
            let name = NAMES.get(index.checked_sub(TELLING.len() + 1)?)?;
            return Some((Name::of(name.as_bytes()), b""));
        };
        let Some(entry) = self.table.get(dynamic) else {
            return self.is_partial.then_some((Name::default(), b""));
        };
        let name = Name {
            start: &entry.name,
            len: entry.name_len,
        };
        Some((name, &entry.value))
    }

    fn insert(&mut self, entry: Entry) {
        self.evict(entry.size);
        if entry.size <= self.limit {
            self.size += entry.size;
            self.table.push_front(entry);
        }
    }

    /// Evicts entries to make room for `room` bytes (RFC 7541 §4.3, §4.4).
    fn evict(&mut self, room: usize) {
        while self.size + room > self.limit {
            let Some(oldest) = self.table.pop_back() else {
                break;
            };
            self.size -= oldest.size;
        }
    }
}

impl Fields {
    /// Records a field. Of several methods or paths, which no valid section has (RFC 9113 §8.3), the
    /// first one counts.
    fn note(&mut self, name: &[u8], value: &[u8]) {
        let text = || {
            let text = String::from_utf8_lossy(beginning(value, LONGEST_VALUE));
            Some(text.chars().take(MAX_PATH).collect())
        };
        let digits = || core::str::from_utf8(value).ok();
        match name {
            b":method" if self.method.is_none() => self.method = text(),
            b":path" if self.path.is_none() => self.path = text(),
            b":status" => {
                let status = digits().and_then(|digits| digits.parse().ok());
                self.status = status.filter(|status| STATUSES.contains(status));
            }
            b"content-type" => self.stream = stream_type(value),
            b"grpc-status" => {
                self.grpc_status = digits().and_then(|digits| digits.parse().ok());
            }
            _ => {}
        }
    }
}

fn stream_type(content_type: &[u8]) -> Option<StreamType> {
    // gRPC's content type may have a suffix that names the encoding of its messages.
    if content_type.starts_with(b"application/grpc") {
        return Some(StreamType::Grpc);
    }
    http::is_stream(content_type).then_some(StreamType::Events)
}

/// Decodes an integer with a prefix of `prefix` bits (RFC 7541 §5.1), up to 2^28.
fn integer(rest: &mut &[u8], prefix: u8) -> Option<usize> {
    let (&first, after) = rest.split_first()?;
    *rest = after;
    let mask = (1_usize << prefix) - 1;
    let mut value = usize::from(first) & mask;
    if value < mask {
        return Some(value);
    }
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Decodes a string literal (RFC 7541 §5.2).
fn string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let is_coded = *rest.first()? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    if is_coded {
        huffman::decode(bytes)
    } else {
        Some(bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).expect("ASCII"), 16);
        digits
            .chunks(2)
            .map(|two| pair(two).expect("hex"))
            .collect()
    }

    /// The three requests of RFC 7541, appendix C.4, on one connection.
    #[test]
    fn requests_with_huffman_coding() {
        let mut decoder = HpackDecoder::default();
        let sections = [
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", "/"),
            ("8286 84be 5886 a8eb 1064 9cbf", "/"),
            (
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
                "/index.html",
            ),
        ];
        for (section, path) in sections {
            let fields = decoder.decode(&bytes(section)).expect("valid");
            assert_eq!(fields.method.as_deref(), Some("GET"));
            assert_eq!(fields.path.as_deref(), Some(path));
        }
        assert_eq!((decoder.table.len(), decoder.size), (3, 164));
    }

    /// The responses of RFC 7541, appendix C.6, with a table of 256 bytes.
    #[test]
    fn responses_that_evict() {
        let mut decoder = HpackDecoder {
            limit: 256,
            ..HpackDecoder::default()
        };
        let sections = [
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
                 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                302,
            ),
            ("4883 640e ffc1 c0bf", 307),
        ];
        for (section, status) in sections {
            assert_eq!(
                decoder.decode(&bytes(section)).expect("valid").status,
                Some(status)
            );
        }
        assert_eq!(decoder.size, 222);
    }

    /// An entry that is longer than anything that matters keeps its size, and the beginning of its
    /// value.
    #[test]
    fn of_a_long_entry_the_beginning_is_kept() {
        let mut decoder = HpackDecoder::default();
        // A table of 64 KiB; `:path` (4) with a literal of 5,000 bytes, to be an entry.
        let mut section = bytes("3f e1ff 03 44 7f 8926");
        section.extend([b'a'; 5000]);
        assert!(decoder.decode(&section).is_some());
        let fields = decoder.decode(&bytes("82 be be be")).expect("valid");
        assert_eq!(fields.path, Some("a".repeat(MAX_PATH)));
        assert_eq!(decoder.size, 5 + 5000 + ENTRY_OVERHEAD);
        // A name of 5,000 bytes with a value of one, and another entry with the same name.
        let mut section = bytes("40 7f 8926");
        section.extend([b'n'; 5000]);
        section.extend(bytes("01 78 7e 01 79"));
        assert!(decoder.decode(&section).is_some());
        let kept: usize = decoder
            .table
            .iter()
            .map(|it| it.name.len() + it.value.len())
            .sum();
        assert!(kept <= 3 * (LONGEST_NAME + LONGEST_VALUE), "{kept}");
        assert_eq!(decoder.size, 5 + 5000 + 2 * (5000 + 1) + 3 * ENTRY_OVERHEAD);
    }

    #[test]
    fn a_status_has_three_digits() {
        for (status, wanted) in [("200", Some(200)), ("99", None), ("1000", None), ("", None)] {
            let mut section = vec![0x08, status.len() as u8];
            section.extend(status.as_bytes());
            let fields = HpackDecoder::default().decode(&section).expect("valid");
            assert_eq!(fields.status, wanted, "{status}");
        }
    }

    #[test]
    fn what_is_missed_makes_the_rest_unknown() {
        let mut decoder = HpackDecoder::default();
        decoder.miss();
        // What the static table has, and a later entry, are known; an earlier entry is not.
        let fields = decoder.decode(&bytes("8286 be 4401 61")).expect("valid");
        assert_eq!(
            (fields.method, fields.path),
            (Some("GET".to_owned()), Some("a".to_owned()))
        );
        let fields = decoder.decode(&bytes("83 be bf")).expect("valid");
        assert_eq!(
            (fields.method, fields.path),
            (Some("POST".to_owned()), Some("a".to_owned()))
        );
        let mut decoder = HpackDecoder::default();
        assert_eq!(
            decoder.decode(&bytes("ff ff ff ff ff")),
            None,
            "an endless index"
        );
        let fields = decoder.decode(&bytes("82")).expect("valid");
        assert_eq!(fields.method.as_deref(), Some("GET"));
    }
}

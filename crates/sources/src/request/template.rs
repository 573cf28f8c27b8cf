//! Placeholders in requests: `{seq}`, `{uuid}` and `{rand:FIRST:LAST}`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::memchr;

/// Maximum length of a placeholder, in bytes: two numbers of 64 bits.
const MAX_LEN: usize = 48;

/// The state of the placeholders of a request, which all of its copies share.
#[derive(Clone, Debug)]
pub struct Placeholders {
    /// Number of requests that were drawn so far.
    drawn: Arc<AtomicU64>,
    seed: u64,
}

impl Default for Placeholders {
    fn default() -> Self {
        Self {
            drawn: Arc::default(),
            seed: RandomState::new().build_hasher().finish(),
        }
    }
}

impl Placeholders {
    /// Draws the values for one request.
    pub(super) fn draw(&self) -> Draw {
        let seq = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        let mut draw = Draw {
            seq,
            uuid: String::new(),
            state: self.seed ^ seq.wrapping_mul(0xd134_2543_de82_ef95),
        };
        draw.uuid = draw.uuid_v4();
        draw
    }
}

/// The values for one request. A UUID and a sequence number are the same in all places of the
/// request; each range has a number of its own.
#[derive(Debug)]
pub(super) struct Draw {
    seq: u64,
    uuid: String,
    state: u64,
}

/// A placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placeholder {
    Seq,
    Uuid,
    Rand(u64, u64),
}

impl Placeholder {
    /// Parses a placeholder at the beginning of `bytes`; also returns its length.
    fn at(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = memchr(b'}', bytes.get(..bytes.len().min(MAX_LEN))?)?;
        let inside = core::str::from_utf8(bytes.get(1..end)?).ok()?;
        let placeholder = match inside {
            "seq" => Self::Seq,
            "uuid" => Self::Uuid,
            _ => {
                let (first, last) = inside.strip_prefix("rand:")?.split_once(':')?;
                let (first, last) = (first.parse().ok()?, last.parse().ok()?);
                (first <= last).then_some(Self::Rand(first, last))?
            }
        };
        Some((placeholder, end + 1))
    }
}

/// Returns true if `bytes` contain a placeholder.
pub(super) fn has_placeholder(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = memchr(b'{', rest) {
        rest = rest.get(at..).unwrap_or_default();
        if Placeholder::at(rest).is_some() {
            return true;
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    false
}

/// Checks that every range in `text` has a first number and a last one that is not smaller.
///
/// # Errors
/// The range that does not.
pub fn check_placeholders(text: &[u8]) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = memchr(b'{', rest) {
        rest = rest.get(at..).unwrap_or_default();
        if rest.starts_with(b"{rand:") && Placeholder::at(rest).is_none() {
            let end = memchr(b'}', rest).map_or(rest.len(), |end| end + 1);
            let shown = rest.get(..end.min(MAX_LEN)).unwrap_or_default();
            return Err(shown.escape_ascii().to_string());
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    Ok(())
}

impl Draw {
    /// Returns `text` with the values in place of its placeholders.
    pub(super) fn fill(&mut self, text: &[u8]) -> Vec<u8> {
        let (mut filled, mut rest) = (Vec::with_capacity(text.len() + 32), text);
        while let Some(at) = memchr(b'{', rest) {
            let (before, from) = rest.split_at(at);
            filled.extend_from_slice(before);
            let found = Placeholder::at(from);
            let len = found.map_or(1, |(_, len)| len);
            match found {
                None => filled.push(b'{'),
                Some((Placeholder::Seq, _)) => filled.extend(self.seq.to_string().bytes()),
                Some((Placeholder::Uuid, _)) => filled.extend(self.uuid.bytes()),
                Some((Placeholder::Rand(first, last), _)) => {
                    filled.extend(self.between(first, last).to_string().bytes());
                }
            }
            rest = from.get(len..).unwrap_or_default();
        }
        filled.extend_from_slice(rest);
        filled
    }

    fn between(&mut self, first: u64, last: u64) -> u64 {
        let count = u128::from(last - first) + 1;
        // The high half of the product is evenly distributed over the range.
        let offset = (u128::from(self.next()) * count) >> 64;
        first + offset as u64
    }

    /// Returns a random UUID (RFC 9562 §5.4).
    fn uuid_v4(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        let high = high & !0xf000 | 0x4000;
        let low = low & !(0b11 << 62) | 0b10 << 62;
        let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
        format!(
            "{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}",
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// Returns the next random number (SplitMix64).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn fill(placeholders: &Placeholders, text: &str) -> String {
        String::from_utf8(placeholders.draw().fill(text.as_bytes())).expect("text")
    }

    #[test]
    fn each_request_has_values_of_its_own() {
        let placeholders = Placeholders::default();
        let mut uuids = HashSet::new();
        for n in 1..200 {
            let filled = fill(&placeholders, "{seq} {seq} {uuid} {uuid} {rand:7:9}");
            let words: Vec<&str> = filled.split(' ').collect();
            let [a, b, uuid, same, rand] = words[..] else {
                panic!("{filled}")
            };
            assert_eq!((a, b), (n.to_string().as_str(), a));
            assert!(uuid == same && uuid.len() == 36, "{filled}");
            assert_eq!(uuid.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
            assert!(("7"..="9").contains(&rand), "{rand}");
            uuids.insert(uuid.to_owned());
        }
        assert_eq!(uuids.len(), 199);
    }

    #[test]
    fn every_number_of_a_range_is_drawn() {
        let placeholders = Placeholders::default();
        let drawn: HashSet<String> = (0..200)
            .map(|_| fill(&placeholders, "{rand:0:3}"))
            .collect();
        assert_eq!(drawn.len(), 4);
        assert_eq!(fill(&placeholders, "{rand:5:5}"), "5");
        fill(&placeholders, "{rand:0:18446744073709551615}");
    }

    #[test]
    fn other_braces_stay_as_they_are() {
        for text in [
            "{",
            "{}",
            "{a}",
            "{\"a\":{\"b\":1}}",
            "{seq",
            "{ seq}",
            "{rand:2:1}",
            "é{ü}",
        ] {
            assert!(!has_placeholder(text.as_bytes()), "{text}");
            assert_eq!(fill(&Placeholders::default(), text), text);
        }
        assert_eq!(check_placeholders(b"{rand:1:2}{a}"), Ok(()));
        assert_eq!(
            check_placeholders(b"x{rand:2:1}"),
            Err("{rand:2:1}".to_owned())
        );
        assert_eq!(check_placeholders(b"{rand:"), Err("{rand:".to_owned()));
    }
}

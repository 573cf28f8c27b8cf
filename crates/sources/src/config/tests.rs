//! Configurations that were damaged: whatever is in a file, it is read in bounded time and memory,
//! and comments are left alone.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use proptest::sample::Index;
use rustix::time::{ClockId, clock_gettime};

use super::by_line::{self, Reader};
use super::files::{Contents, Files, Stamps};
use super::{apache, haproxy, nginx};

/// Configurations of the tests of this tree, each with words that include files of its kind.
const REAL: [(&str, &str); 8] = [
    (
        include_str!("../../../../scripts/field/programs/apache.conf"),
        "Include ",
    ),
    (
        include_str!("../../../../scripts/field/programs/haproxy.cfg"),
        ".include ",
    ),
    (
        include_str!("../../../../scripts/field/programs/nginx.conf"),
        "include ",
    ),
    (
        include_str!("../../tests/config/cases/head.conf"),
        "include ",
    ),
    (
        include_str!("../../tests/config/cases/inheritance.conf"),
        "include ",
    ),
    (
        include_str!("../../tests/config/cases/locations.conf"),
        "include ",
    ),
    (
        include_str!("../../tests/config/cases/names.conf"),
        "include ",
    ),
    (
        include_str!("../../tests/config/cases/redirects.conf"),
        "include ",
    ),
];
/// A value that stands in comments alone.
const IN_COMMENTS: &str = "424243";
/// Maximum time of the processor for one configuration. Not optimized, the largest takes a fifth.
const MOST_TIME: Duration = Duration::from_secs(5);
/// Maximum number of bytes that all readers together read.
const MOST_READ: usize = 32 << 20;
const STAMPS: Stamps = Stamps {
    modified: UNIX_EPOCH,
    changed: UNIX_EPOCH,
};

/// A file system in which each path leads to the same file.
struct Everywhere<'t> {
    text: &'t [u8],
    /// Number of bytes that were read.
    read: Cell<usize>,
}

impl Files for Everywhere<'_> {
    fn read(&self, _: &Path, limit: usize) -> io::Result<Contents> {
        let bytes = &self.text[..self.text.len().min(limit)];
        self.read.set(self.read.get() + bytes.len());
        Ok(Contents {
            bytes: bytes.to_vec(),
            is_cut: self.text.len() > limit,
            stamps: STAMPS,
        })
    }

    fn list(&self, _: &Path) -> io::Result<(Vec<Vec<u8>>, Stamps)> {
        Ok(((0..9).map(|name| vec![b'a' + name]).collect(), STAMPS))
    }
}

/// A way to damage a file. The indices choose places in it.
#[derive(Clone, Debug)]
enum Damage {
    Delete(Index, Index),
    Double(Index, Index),
    Swap(Index, Index, Index),
    Insert(Index, Vec<u8>),
    /// A file that includes itself.
    Include(Index, u8),
    /// A very long line.
    Prolong(Index, Vec<u8>, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    let bytes = || proptest::collection::vec(any::<u8>(), 1..8);
    let special = proptest::sample::select(&b"{};\"'\\#$\n\0*[]()<>~"[..]);
    let braces = proptest::collection::vec(special, 1..6);
    let long = prop_oneof![bytes(), Just(b"a ".to_vec()), Just(b"\"a".to_vec())];
    prop_oneof![
        (at(), at()).prop_map(|(begin, end)| Damage::Delete(begin, end)),
        (at(), at()).prop_map(|(begin, end)| Damage::Double(begin, end)),
        (at(), at(), at()).prop_map(|(one, two, three)| Damage::Swap(one, two, three)),
        (at(), bytes()).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        (at(), braces).prop_map(|(at, braces)| Damage::Insert(at, braces)),
        (at(), 1..40_u8).prop_map(|(at, times)| Damage::Include(at, times)),
        (at(), long, 1..400_000_usize)
            .prop_map(|(at, bytes, times)| Damage::Prolong(at, bytes, times)),
    ]
}

impl Damage {
    fn apply(&self, text: &mut Vec<u8>, include: &str) {
        let size = text.len() + 1;
        match self {
            Self::Delete(one, two) => {
                let (begin, end) = ordered(one.index(size), two.index(size));
                text.drain(begin..end);
            }
            Self::Double(one, two) => {
                let (begin, end) = ordered(one.index(size), two.index(size));
                let again = text[begin..end].to_vec();
                text.splice(end..end, again);
            }
            Self::Swap(one, two, three) => {
                let mut at = [one, two, three].map(|it| it.index(size));
                at.sort_unstable();
                text[at[0]..at[2]].rotate_left(at[1] - at[0]);
            }
            Self::Insert(at, bytes) => insert(text, at.index(size), bytes),
            Self::Include(at, times) => {
                let line = format!("\n{include}/etc/itself*;\n{include}itself;\n");
                insert(
                    text,
                    at.index(size),
                    line.repeat((*times).into()).as_bytes(),
                );
            }
            Self::Prolong(at, bytes, times) => insert(text, at.index(size), &bytes.repeat(*times)),
        }
    }
}

fn ordered(one: usize, two: usize) -> (usize, usize) {
    (one.min(two), one.max(two))
}

fn insert(text: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    text.splice(at..at, bytes.iter().copied());
}

/// Adds comments with settings behind the ends of lines, every few lines.
fn with_comments(text: &[u8], every: usize) -> Vec<u8> {
    let mut commented = Vec::new();
    for (number, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        commented.extend(line);
        if line.ends_with(b"\n") && number % every == 0 {
            for name in [
                "KeepAliveTimeout",
                "keepalive_timeout",
                "timeout client",
                "maxconn",
            ] {
                commented.extend(format!("  # {name} {IN_COMMENTS};\n").bytes());
            }
        }
    }
    commented
}

/// Returns the values that all readers find.
fn values(files: &Everywhere<'_>) -> Vec<String> {
    let start = UNIX_EPOCH;
    let of_apache = apache::settings(&mut Reader::new(files, start), &[b"apache2"]);
    let here = Path::new("/etc/haproxy");
    let of_haproxy = haproxy::settings(&mut Reader::new(files, start), &[b"haproxy"], here, 80);
    let by_line = of_apache.into_iter().chain(of_haproxy).flatten();
    let mut values: Vec<String> = by_line.map(|it: by_line::Setting| it.value).collect();
    values.extend(nginx::tests::values_of(files));
    values
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 48, ..ProptestConfig::default() })]

    #[test]
    fn damaged_configurations_are_read_in_bounds(
        which in 0..REAL.len(),
        damages in proptest::collection::vec(damage(), 0..6),
        every in 1..6_usize,
    ) {
        let (real, include) = REAL[which];
        let mut text = real.replace("$port", "80").into_bytes();
        for damage in &damages {
            damage.apply(&mut text, include);
        }
        let text = with_comments(&text, every);
        let files = Everywhere { text: &text, read: Cell::new(0) };
        let begin = processor_time();
        let values = values(&files);
        let took = processor_time() - begin;
        prop_assert!(took < MOST_TIME, "{took:?}");
        prop_assert!(files.read.get() <= MOST_READ, "{} bytes", files.read.get());
        let first = |value: &String| value.split([' ', ';']).next().map(str::to_owned);
        prop_assert!(!values.iter().filter_map(first).any(|it| it == IN_COMMENTS), "{values:?}");
    }
}

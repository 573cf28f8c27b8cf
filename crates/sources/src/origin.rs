//! The autonomous systems of addresses, from a table that the user provides.
//!
//! Each line of the table contains a range or a prefix. A range has the form of iptoasn.com: first
//! address, last address, AS number, country and name, separated by tabs. A prefix is followed by
//! AS number and name, separated by commas or tabs. The table may be compressed. The file is read
//! once from beginning to end. Only the entries of the requested addresses are kept, so the memory
//! used does not depend on the file's size.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use core::net::{IpAddr, Ipv4Addr};

use lagtrace_core::observed::route::AutonomousSystem;

use crate::capture::decompressed;
use crate::files;

/// Number of bytes of a line that are parsed.
const LINE: usize = 1_024;
/// Maximum number of bytes read, after decompression. All current ranges take a small fraction of
/// this.
const MOST: u64 = 1 << 30;
/// Maximum length of a name that is kept, in characters.
const NAME: usize = 100;
/// Maximum number of addresses in one lookup.
const ADDRESSES: usize = 1_024;

/// A reason why a table could not be used.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// The file could not be read.
    #[error("reading {} failed", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error from the kernel or the decompressor.
        source: io::Error,
    },
    /// No line of the file could be parsed.
    #[error("{} has no line with an address range and an AS number", path.display())]
    NoTable {
        /// The file.
        path: PathBuf,
    },
}

/// Finds the origins of `addresses`. If several ranges contain an address, the smallest range is
/// used. If several of these have the same size, the first one is used.
///
/// # Errors
/// Returns an error if the file cannot be read completely, or has another format.
pub fn find(
    path: &Path,
    addresses: &BTreeSet<IpAddr>,
) -> Result<BTreeMap<IpAddr, AutonomousSystem>, OriginError> {
    let unreadable = |source| OriginError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = files::open(path).map_err(unreadable)?;
    let input = decompressed(Box::new(file)).map_err(unreadable)?;
    let mut search = Search::new(addresses);
    search.read(input.take(MOST)).map_err(unreadable)?;
    if !search.has_understood {
        return Err(OriginError::NoTable {
            path: path.to_owned(),
        });
    }
    Ok(search.found())
}

/// The addresses to look up, and the best match found so far for each.
struct Search {
    /// The addresses with their family and numeric value, in sorted order.
    wanted: Vec<(bool, u128, IpAddr)>,
    best: BTreeMap<IpAddr, (u128, Option<AutonomousSystem>)>,
    has_understood: bool,
}

impl Search {
    fn new(addresses: &BTreeSet<IpAddr>) -> Self {
        let numbered = |&address: &IpAddr| {
            let (is_v4, number) = number(address);
            (is_v4, number, address)
        };
        let mut wanted: Vec<_> = addresses.iter().take(ADDRESSES).map(numbered).collect();
        wanted.sort_unstable();
        Self {
            wanted,
            best: BTreeMap::new(),
            has_understood: false,
        }
    }

    fn read(&mut self, input: impl Read) -> io::Result<()> {
        let mut input = BufReader::with_capacity(1 << 16, input);
        let mut line = Vec::with_capacity(LINE);
        loop {
            line.clear();
            let read = (&mut input)
                .take(LINE as u64)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            if line.last() != Some(&b'\n') && read == LINE {
                // The remaining part of a long line is skipped, because the range is at the
                // beginning.
                skip_line(&mut input)?;
            }
            if let Some(range) = Range::parse(&String::from_utf8_lossy(&line)) {
                self.has_understood = true;
                self.take(&range);
            }
        }
    }

    fn take(&mut self, range: &Range<'_>) {
        let first = self
            .wanted
            .partition_point(|&(is_v4, number, _)| (is_v4, number) < (range.is_v4, range.first));
        let span = range.last - range.first;
        for &(is_v4, number, address) in self.wanted.iter().skip(first) {
            if is_v4 != range.is_v4 || number > range.last {
                break;
            }
            let is_better = self.best.get(&address).is_none_or(|(its, _)| span < *its);
            if is_better {
                self.best.insert(address, (span, range.origin()));
            }
        }
    }

    fn found(self) -> BTreeMap<IpAddr, AutonomousSystem> {
        let best = self.best.into_iter();
        best.filter_map(|(address, (_, origin))| Some((address, origin?)))
            .collect()
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(buffer.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

/// A line of a table.
#[derive(Debug, PartialEq, Eq)]
struct Range<'a> {
    is_v4: bool,
    first: u128,
    last: u128,
    asn: u32,
    name: &'a str,
}

impl<'a> Range<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let mark = if line.contains('\t') { '\t' } else { ',' };
        let (head, rest) = line.split_once(mark)?;
        let head = bare(head);
        if let Some((network, bits)) = head.split_once('/') {
            let (asn, name) = rest.split_once(mark).unwrap_or((rest, ""));
            return Self::of_prefix(network, bits, asn, name);
        }
        let mut fields = rest.splitn(4, mark);
        let (is_v4, first) = number(address(head)?);
        let (its, last) = number(address(bare(fields.next()?))?);
        let asn = asn(fields.next()?)?;
        let country = fields.next();
        let name = fields.next().or(country).unwrap_or_default();
        (its == is_v4 && first <= last).then_some(Self {
            is_v4,
            first,
            last,
            asn,
            name: bare(name),
        })
    }

    fn of_prefix(network: &str, bits: &str, number_of: &str, name: &'a str) -> Option<Self> {
        let (is_v4, network) = number(address(network)?);
        let width = if is_v4 { 32 } else { 128 };
        let bits: u32 = bits.parse().ok().filter(|bits| *bits <= width)?;
        let hosts = match width - bits {
            128 => u128::MAX,
            free => (1 << free) - 1,
        };
        Some(Self {
            is_v4,
            first: network & !hosts,
            last: network | hosts,
            asn: asn(number_of)?,
            name: bare(name),
        })
    }

    /// Returns the origin; `None` for AS 0, which marks ranges that are not announced.
    fn origin(&self) -> Option<AutonomousSystem> {
        (self.asn != 0).then(|| AutonomousSystem {
            asn: self.asn,
            // In CSV, a quote within quotes is doubled.
            name: self.name.replace("\"\"", "\"").chars().take(NAME).collect(),
        })
    }
}

/// Returns a field without enclosing quotes.
fn bare(field: &str) -> &str {
    let field = field.trim();
    let inside = field.strip_prefix('"').and_then(|f| f.strip_suffix('"'));
    inside.unwrap_or(field)
}

fn asn(field: &str) -> Option<u32> {
    let field = bare(field);
    let digits = field.strip_prefix("AS").unwrap_or(field);
    digits.parse().ok()
}

/// Parses an address. A plain number is an IPv4 address.
fn address(field: &str) -> Option<IpAddr> {
    let plain = || field.parse().ok().map(|n: u32| Ipv4Addr::from(n).into());
    field.parse().ok().or_else(plain)
}

fn number(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(ip) => (true, u32::from(ip).into()),
        IpAddr::V6(ip) => (false, ip.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lookup(table: &[u8], asked: &[&str]) -> Vec<Option<(u32, String)>> {
        let parsed: Vec<IpAddr> = asked.iter().map(|a| a.parse().expect("one")).collect();
        let mut search = Search::new(&parsed.iter().copied().collect());
        search.read(table).expect("memory takes all");
        let found = search.found();
        let origin = |address| found.get(address).map(|o| (o.asn, o.name.clone()));
        parsed.iter().map(origin).collect()
    }

    fn is(asn: u32, name: &str) -> Option<(u32, String)> {
        Some((asn, name.to_owned()))
    }

    #[test]
    fn ranges_and_prefixes_are_read_and_the_longest_match_wins() {
        let ranges = b"1.0.0.0\t1.0.0.255\t64500\tUS\tEXAMPLE - One, Inc.\n\
            1.0.1.0\t1.0.3.255\t0\tNone\tNot routed\n\
            16777216\t16777219\t64501\tUS\tNEAR\n\
            2001:db8::\t2001:db8:ffff:ffff:ffff:ffff:ffff:ffff\t64502\tDE\tSIX\n";
        let asked = [
            "1.0.0.9",
            "1.0.0.3",
            "1.0.1.1",
            "2001:db8::7",
            "9.9.9.9",
            "::1",
        ];
        let one = is(64_500, "EXAMPLE - One, Inc.");
        let six = is(64_502, "SIX");
        let want = [one, is(64_501, "NEAR"), None, six, None, None];
        assert_eq!(lookup(ranges, &asked), want);
        let prefixes = b"network,asn,name\n10.0.0.0/8,64500,\"Wide, Ltd\"\n\
            10.1.0.0/16,AS64501,\"Nar \"\"row\"\"\"\n10.1.2.0/24\t64502\n0.0.0.0/0,1,All\n::/0,2,Six\n";
        let asked = ["10.2.0.1", "10.1.9.9", "10.1.2.3", "8.8.8.8", "::1"];
        let want = [
            is(64_500, "Wide, Ltd"),
            is(64_501, "Nar \"row\""),
            is(64_502, ""),
            is(1, "All"),
            is(2, "Six"),
        ];
        assert_eq!(lookup(prefixes, &asked), want);
    }

    #[test]
    fn nonsense_is_left_out_and_long_lines_are_cut() {
        let mut table =
            b"1.0.0.0/33,1,x\n1.0.0.9\t1.0.0.1\t1\tx\ty\n1.0.0.0\t::1\t1\tx\ty\n".to_vec();
        table.extend(b"1.0.0.0/8,7,");
        table.extend(std::iter::repeat_n(b'n', 1 << 20));
        table.extend(b"\n2.0.0.0/8,8,two");
        let found = lookup(&table, &["1.0.0.5", "2.0.0.1"]);
        let first = found[0].as_ref().expect("its begin was read");
        assert_eq!((first.0, first.1.len()), (7, NAME));
        assert_eq!(found[1], is(8, "two"));
    }

    #[test]
    fn files_are_read_compressed_or_not_and_others_refused() {
        use std::io::Write as _;
        let plain = b"192.0.2.0/24,64500,DOC\n";
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(plain).expect("memory");
        let packed = packed.finish().expect("memory");
        let asked = BTreeSet::from([IpAddr::from([192, 0, 2, 1])]);
        let of = |bytes: &[u8]| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), bytes).expect("room");
            find(file.path(), &asked).map(|found| found.len())
        };
        assert!(matches!((of(plain), of(&packed)), (Ok(1), Ok(1))));
        assert!(matches!(
            of(b"\x00\x01\x02 no table"),
            Err(OriginError::NoTable { .. })
        ));
        let cut = of(&packed[..packed.len() - 12]);
        assert!(
            matches!(cut, Err(OriginError::Unreadable { .. })),
            "{cut:?}"
        );
        assert!(find(Path::new("/nonexistent"), &asked).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = lookup(&bytes, &["10.0.0.1", "::1"]);
        }

        #[test]
        fn any_line_is_survived(line in "[0-9a-f:./,\t\"AS]{0,60}") {
            let _ = lookup(line.as_bytes(), &["10.0.0.1", "::1"]);
        }
    }
}

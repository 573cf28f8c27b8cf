//! Capture files of any format, fed in chunks of any size.

use super::frame::{Advance, Frame};
use super::pcap::Pcap;
use super::pcapng::Pcapng;
use super::snoop::Snoop;
use super::{Damage, Fault, Record};

/// The incremental reader of a pcap, pcapng or snoop file.
///
/// The caller owns a buffer and offers it to [`next`](Self::next). It then drops the consumed
/// bytes, and appends more when more are needed. The records do not depend on how the file is split
/// into buffers.
#[derive(Debug, Default)]
pub struct Container {
    format: Format,
    offset: u64,
    records: u64,
    damage: Option<Damage>,
    keeps_comments: bool,
}

/// A position between two records of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of bytes before it.
    pub offset: u64,
    /// Number of records before it.
    pub records: u64,
}

/// A step of [`Container::next`] in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Number of bytes at the beginning of the buffer that are no longer needed, including the
    /// record found.
    pub consumed: usize,
    /// The content found.
    pub found: Found<'a>,
}

/// The next content of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A packet.
    Record(Record<'a>),
    /// The buffer does not contain a complete record or block. The number is the total number of
    /// bytes needed, counted from the first unconsumed one: at most [`Container::LONGEST`]. At the
    /// end of the input see [`Container::finish`].
    NeedMore(usize),
    /// Damage: nothing can be read from here on.
    Damaged(Damage),
}

#[derive(Debug, Default)]
enum Format {
    #[default]
    Unknown,
    Pcap(Pcap),
    /// A pcap file before its first record. The first record shows how long record headers are.
    NewPcap(Pcap),
    /// A pcap file of an old version. It is a separate variant so that the current version is read
    /// without a check.
    OldPcap(Pcap),
    Pcapng(Pcapng),
    Snoop(Snoop),
}

impl Container {
    /// Maximum number of bytes that are needed at one time.
    pub const LONGEST: usize = super::pcapng::MAX_HELD_BLOCK as usize;

    /// Creates a reader positioned before the first byte of a file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the file's packet comments, up to 16 MiB.
    pub fn keep_comments(&mut self) {
        self.keeps_comments = true;
    }

    /// Returns the comments on the record with this number, from 1, if they are kept.
    pub fn comments(&self, record: u64) -> &[String] {
        match &self.format {
            Format::Pcapng(pcapng) => pcapng.comments().map_or(&[], |list| list.on(record)),
            _ => &[],
        }
    }

    /// Finds the next content at the beginning of `buffer`, which continues after the bytes
    /// consumed so far.
    #[inline]
    pub fn next<'a>(&mut self, buffer: &'a [u8]) -> Step<'a> {
        match self.next_plain(buffer) {
            Some((consumed, record)) => Step {
                consumed,
                found: Found::Record(record),
            },
            None => self.seek(buffer),
        }
    }

    /// Returns the record at the beginning of `buffer` and the number of bytes that it occupies.
    /// `None` if finding the record takes more work; then use [`next`](Self::next). A caller that
    /// reads many records tries this function first, because its result is not copied.
    #[inline(always)]
    pub fn next_plain<'a>(&mut self, buffer: &'a [u8]) -> Option<(usize, Record<'a>)> {
        let (Format::Pcap(pcap), None) = (&self.format, self.damage) else {
            return None;
        };
        let Advance::Frame(consumed, frame) = pcap.advance(buffer) else {
            return None;
        };
        self.offset += consumed as u64;
        Some((consumed, self.number(frame)))
    }

    /// Finds the next content at the beginning of `buffer`, of any kind.
    fn seek<'a>(&mut self, buffer: &'a [u8]) -> Step<'a> {
        let mut consumed = 0;
        if let Some(damage) = self.damage {
            let found = Found::Damaged(damage);
            return Step { consumed, found };
        }
        loop {
            let rest = buffer.get(consumed..).unwrap_or_default();
            let advance = match &mut self.format {
                Format::Pcap(pcap) => pcap.advance(rest),
                Format::NewPcap(pcap) => match pcap.fitted(rest) {
                    Ok(pcap) => {
                        self.format = Format::Pcap(pcap);
                        Advance::Passed(0)
                    }
                    Err(needed) => Advance::NeedMore(needed),
                },
                Format::OldPcap(pcap) => pcap.advance_old(rest),
                Format::Pcapng(pcapng) => pcapng.advance(rest),
                Format::Snoop(snoop) => snoop.advance(rest),
                Format::Unknown => self.recognize(rest),
            };
            let found = match advance {
                Advance::Frame(len, frame) => {
                    consumed += len;
                    self.offset += len as u64;
                    Found::Record(self.number(frame))
                }
                Advance::Passed(len) => {
                    consumed += len;
                    self.offset += len as u64;
                    continue;
                }
                Advance::NeedMore(len) => Found::NeedMore(len),
                Advance::Bad(fault) => Found::Damaged(self.give_up(fault)),
            };
            return Step { consumed, found };
        }
    }

    /// Returns the damage if the input ends with `rest` not consumed; `None` if it ends properly.
    pub fn finish(&mut self, rest: &[u8]) -> Option<Damage> {
        if self.damage.is_some() {
            return self.damage;
        }
        let fault = match &self.format {
            Format::Unknown if rest.is_empty() => Fault::Empty,
            Format::Unknown if rest.len() < 4 => Fault::NotCapture,
            Format::Pcapng(pcapng) if pcapng.passed_of_block() > 0 => Fault::Truncated,
            _ if rest.is_empty() => return None,
            _ => Fault::Truncated,
        };
        Some(self.give_up(fault))
    }

    /// Returns the number of bytes consumed so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the position after the bytes consumed so far. `None` within a block that is being
    /// skipped.
    pub fn position(&self) -> Option<Position> {
        let is_within = matches!(&self.format, Format::Pcapng(pcapng) if pcapng.is_passing());
        (!is_within).then_some(Position {
            offset: self.offset,
            records: self.records,
        })
    }

    /// Returns the length of the file's head in bytes: the header of the file, or of its first
    /// section. Reading can be resumed only behind it.
    pub fn head(&self) -> u64 {
        let len = match &self.format {
            Format::Unknown => 0,
            Format::Pcap(_) | Format::NewPcap(_) | Format::OldPcap(_) => Pcap::FILE_HEADER,
            Format::Pcapng(pcapng) => pcapng.head(),
            Format::Snoop(_) => Snoop::FILE_HEADER,
        };
        len as u64
    }

    /// Continues at a position where this reader has been. Returns false, and changes nothing, if
    /// the bytes there may have a meaning that is no longer known: before the format was recognized,
    /// and in a pcapng file with several sections, each of which describes its own interfaces.
    pub fn resume(&mut self, position: Position) -> bool {
        let is_known = match &mut self.format {
            Format::Unknown | Format::NewPcap(_) => false,
            Format::Pcap(_) | Format::OldPcap(_) | Format::Snoop(_) => true,
            Format::Pcapng(pcapng) => pcapng.resume(),
        };
        if is_known {
            self.offset = position.offset;
            self.records = position.records;
            self.damage = None;
        }
        is_known
    }

    /// Returns the number of records found so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the number of blocks with decryption secrets, such as the keys of TLS sessions, in
    /// the file so far.
    pub fn secrets(&self) -> u64 {
        match &self.format {
            Format::Pcapng(pcapng) => pcapng.secrets(),
            _ => 0,
        }
    }

    /// Returns the number of blocks with system calls, as written by sysdig, in the file so far.
    pub fn calls(&self) -> u64 {
        match &self.format {
            Format::Pcapng(pcapng) => pcapng.calls(),
            _ => 0,
        }
    }

    /// Returns the number of packets that the capturing program reports as dropped. In pcapng it is
    /// in the interface statistics and in packets, in snoop in the packets. `None` if the file does
    /// not contain the number.
    pub fn dropped(&self) -> Option<u64> {
        match &self.format {
            Format::Pcapng(pcapng) => pcapng.dropped(),
            Format::Snoop(snoop) if self.records > 0 => Some(snoop.dropped()),
            _ => None,
        }
    }

    fn recognize<'a>(&mut self, bytes: &[u8]) -> Advance<'a> {
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Advance::NeedMore(4);
        };
        if Pcapng::is_magic(*magic) {
            self.format = Format::Pcapng(Pcapng::new(self.keeps_comments));
            return Advance::Passed(0);
        }
        let (len, opened) = if Pcap::is_magic(*magic) {
            let len = Pcap::FILE_HEADER;
            (len, bytes.first_chunk().map(Pcap::open).map(of_version))
        } else if Snoop::is_magic(*magic) {
            let opened = bytes.first_chunk().map(Snoop::open);
            let len = Snoop::FILE_HEADER;
            (len, opened.map(|snoop| snoop.map(Format::Snoop)))
        } else {
            return Advance::Bad(Fault::NotCapture);
        };
        match opened {
            None => Advance::NeedMore(len),
            Some(Err(fault)) => Advance::Bad(fault),
            Some(Ok(format)) => {
                self.format = format;
                Advance::Passed(len)
            }
        }
    }

    #[inline]
    fn number<'a>(&mut self, frame: Frame<'a>) -> Record<'a> {
        self.records += 1;
        let captured = u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX);
        Record {
            number: self.records,
            at: frame.at,
            link: frame.link,
            interface: frame.interface,
            original_len: frame.original_len.max(captured),
            bytes: frame.bytes,
        }
    }

    fn give_up(&mut self, fault: Fault) -> Damage {
        let passed = match &self.format {
            Format::Pcapng(pcapng) => pcapng.passed_of_block(),
            _ => 0,
        };
        let damage = Damage {
            offset: self.offset.saturating_sub(passed),
            record: self.records + 1,
            fault,
        };
        self.damage = Some(damage);
        damage
    }
}

/// Returns the format for reading a pcap of this version.
fn of_version(opened: Result<Pcap, Fault>) -> Result<Format, Fault> {
    opened.map(|pcap| {
        if pcap.may_be_nokias() {
            Format::NewPcap(pcap)
        } else if pcap.is_current() {
            Format::Pcap(pcap)
        } else {
            Format::OldPcap(pcap)
        }
    })
}

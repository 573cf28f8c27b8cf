//! Captures from files and pipes.

mod compression;
mod landmarks;

use std::io::{self, Read};
use std::mem;
use std::ops::Range;
use std::path::Path;

use lagtrace_core::decode::{
    Container, Damage, Decoder, Fault, Found, LinkType, Packet, Position, Record, Sieve,
};
use lagtrace_core::observed::datagram::{Datagram, Neighbour};
use lagtrace_core::observed::event::{CaptureSummary, PointId};
use lagtrace_core::observed::icmp::{Echo, IcmpError};
use lagtrace_core::observed::segment::Segment;

use self::compression::Input;
pub(crate) use self::compression::decompressed;
use self::landmarks::Landmarks;
use super::{CaptureError, Foreign, Packets, count, count_beside};
use crate::files;

/// Number of bytes in one read. A larger block would not fit into the second-level cache, and would
/// be read from memory twice.
const BLOCK: usize = 512 * 1024;

/// Number of bytes read first, to recognize the file format, and size of the buffer until it is
/// filled.
const FIRST_READ: usize = 16 * 1024;

const _: () = assert!(BLOCK >= Container::LONGEST);

/// A capture file that is read in blocks. If the file grows or shrinks during that time, it is read
/// up to its current end. A file compressed with gzip, zstd or lz4 is recognized by its first bytes
/// and decompressed as it is read.
///
/// Damaged content is not an error: everything before the damage is used, and the
/// [summary](Self::summary) says where and why reading ended.
pub struct FileCapture {
    input: Input,
    buffer: Vec<u8>,
    /// The part of the buffer that has been read but not consumed.
    unread: Range<usize>,
    container: Container,
    decoder: Decoder,
    point: PointId,
    is_over: bool,
    /// True if the input is compressed, so that its parts cannot be read alone.
    is_compressed: bool,
    /// The parts read so far; `None` if they are not wanted.
    landmarks: Option<Landmarks>,
    /// The link type of the first packet; `None` if the first bytes read do not contain it.
    link: Option<LinkType>,
    summary: CaptureSummary,
}

impl FileCapture {
    /// Opens the file at `path`, or standard input for `-`. Packets of interface *n* of a pcapng
    /// section, counted from 0, belong to observation point `point + n`; other files have one
    /// point.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or does not begin like a capture.
    pub fn open(path: &Path, point: PointId) -> Result<Self, CaptureError> {
        if path == Path::new("-") {
            let name = "standard input".to_owned();
            let input = files::standard_input().map_err(|source| unreadable(&name, source))?;
            return Self::from_reader(name, input, point);
        }
        let name = path.display().to_string();
        let file = files::open(path).map_err(|source| unreadable(&name, source))?;
        Self::from_reader(name, file, point)
    }

    /// Begins to read a capture from `input`, called `name` in messages.
    ///
    /// # Errors
    /// Returns the same errors as [`open`](Self::open).
    pub fn from_reader(
        name: String,
        input: impl Read + Send + 'static,
        point: PointId,
    ) -> Result<Self, CaptureError> {
        let (input, is_compressed) =
            compression::undo(Box::new(input)).map_err(|e| unreadable(&name, e))?;
        let mut capture = Self {
            input,
            buffer: vec![0; FIRST_READ],
            unread: 0..0,
            container: Container::new(),
            decoder: Decoder::new(),
            point,
            is_over: false,
            is_compressed,
            landmarks: None,
            link: None,
            summary: CaptureSummary {
                name,
                ..CaptureSummary::default()
            },
        };
        capture.recognize()?;
        Ok(capture)
    }

    /// Returns the next TCP segment and the captured part of its payload; `None` at the end. Other
    /// records are skipped.
    pub fn next_segment(&mut self) -> Option<(Segment, &[u8])> {
        self.next_segment_and(|_| {})
    }

    /// Returns the next TCP segment, as [`Self::next_segment`] does, and passes the ICMP errors
    /// before it to `visit`.
    pub fn next_segment_and(
        &mut self,
        mut visit: impl FnMut(&IcmpError),
    ) -> Option<(Segment, &[u8])> {
        loop {
            match self.advance()? {
                Next::Segment(segment, place) => return Some((segment, self.payload(place))),
                Next::Icmp(error) => visit(&error),
                Next::Datagram(..) | Next::Echo(_) | Next::Neighbour(_) => {}
            }
        }
    }

    /// Returns the next packet that concerns a flow; `None` at the end. Other records are counted
    /// and skipped: the result is never [`Packet::Other`].
    pub fn next_packet(&mut self) -> Option<Packet<'_>> {
        Some(match self.advance()? {
            Next::Segment(segment, place) => Packet::Tcp(segment, self.payload(place)),
            Next::Datagram(header, place) => Packet::Udp(header, self.payload(place)),
            Next::Icmp(error) => Packet::Icmp(error),
            Next::Echo(echo) => Packet::Echo(echo),
            Next::Neighbour(step) => Packet::Neighbour(step),
        })
    }

    fn payload(&self, place: Place) -> &[u8] {
        match place {
            Place::Read(range) => self.buffer.get(range).unwrap_or_default(),
            Place::PutTogether => self.decoder.last_whole(),
        }
    }

    /// Replaces the contents of `packets` with the next packets that concern a flow: as many as one
    /// block holds, and at most `limit` TCP segments. Returns the number of segments. At the end of
    /// the file `packets` is empty.
    pub fn next_packets(&mut self, packets: &mut Packets, limit: u64) -> u64 {
        let begin = self.container.position();
        let segments = self.next_packets_unless(packets, limit, |_| false);
        if let Some(landmarks) = &mut self.landmarks {
            landmarks.add(begin, packets);
        }
        segments
    }

    /// Replaces the contents of `packets` as [`next_packets`](Self::next_packets) does, but without
    /// the packets that the sieve excludes. They are numbered all the same.
    pub fn next_sifted(&mut self, packets: &mut Packets, sieve: &Sieve) -> u64 {
        self.next_packets_unless(packets, u64::MAX, |record| sieve.excludes(record))
    }

    #[inline]
    fn next_packets_unless(
        &mut self,
        packets: &mut Packets,
        limit: u64,
        is_excluded: impl Fn(&Record<'_>) -> bool,
    ) -> u64 {
        packets.forget();
        let mut segments = 0;
        while packets.is_empty() && segments < limit && !self.is_over {
            match self.decode_block(packets, limit, &mut segments, &is_excluded) {
                Some(damage) => self.end(Some(damage)),
                None if packets.is_empty() && segments < limit => self.read_block(),
                None => {}
            }
        }
        // The bytes belong to the returned packets; bytes that are not consumed yet are copied
        // back.
        packets.bytes.resize(self.buffer.len(), 0);
        mem::swap(&mut self.buffer, &mut packets.bytes);
        let rest = packets.bytes.get(self.unread.clone()).unwrap_or_default();
        self.unread = 0..rest.len();
        self.buffer[..rest.len()].copy_from_slice(rest);
        segments
    }

    /// Decodes the bytes read, until more bytes are needed, `limit` segments are reached, or the
    /// data is damaged.
    #[inline]
    fn decode_block(
        &mut self,
        packets: &mut Packets,
        limit: u64,
        segments: &mut u64,
        is_excluded: impl Fn(&Record<'_>) -> bool,
    ) -> Option<Damage> {
        let mut rest = self.buffer.get(self.unread.clone()).unwrap_or_default();
        let mut damage = None;
        while *segments < limit {
            let record;
            if let Some((consumed, plain)) = self.container.next_plain(rest) {
                rest = rest.get(consumed..).unwrap_or_default();
                record = plain;
            } else {
                let step = self.container.next(rest);
                rest = rest.get(step.consumed..).unwrap_or_default();
                record = match step.found {
                    Found::Record(record) => record,
                    Found::NeedMore(_) => break,
                    Found::Damaged(met) => {
                        damage = Some(met);
                        break;
                    }
                };
            }
            count(&mut self.summary, &record);
            if is_excluded(&record) {
                continue;
            }
            let point = self.point.0.saturating_add(record.interface);
            let packet = self.decoder.packet(&record, PointId(point));
            match packet {
                Packet::Tcp(..) => *segments += 1,
                Packet::Udp(..) | Packet::Icmp(_) | Packet::Echo(_) | Packet::Neighbour(_) => {
                    count_beside(&mut self.summary, &record, &packet);
                }
                Packet::Other => {
                    count_beside(&mut self.summary, &record, &packet);
                    continue;
                }
            }
            match place_within(&self.buffer, packet.payload()) {
                Place::Read(range) => packets.place(&packet, range),
                Place::PutTogether => packets.put_aside(&packet),
            }
        }
        self.unread.start = self.unread.end - rest.len();
        damage
    }

    /// Enables keeping which flows are in which part of the file, in at most 4 MiB, for
    /// [`ranges`](Self::ranges).
    pub fn keep_landmarks(&mut self) {
        self.landmarks = Some(Landmarks::default());
    }

    /// Returns the parts of the file that may contain packets of the sieve's flows, among those
    /// that [`next_packets`](Self::next_packets) read: the position where each begins, and its
    /// bytes. `None` if this is not known, and if a part cannot be read alone, as in a compressed
    /// file.
    pub fn ranges(&self, sieve: &Sieve) -> Option<Vec<(Position, Range<u64>)>> {
        let landmarks = self.landmarks.as_ref().filter(|_| !self.is_compressed);
        landmarks?.ranges(sieve, self.container.head()..self.container.offset())
    }

    /// Continues at a position with other bytes of the same file: `input` reads those that follow
    /// it. Packets have their numbers in the whole file. Returns false, and changes nothing, if this
    /// file's parts cannot be read alone.
    pub fn resume(&mut self, position: Position, input: impl Read + Send + 'static) -> bool {
        let is_known = self.container.resume(position);
        if is_known {
            self.input = Box::new(input);
            self.unread = 0..0;
            self.is_over = false;
        }
        is_known
    }

    /// Passes all remaining segments to `visit` and returns the summary.
    pub fn for_each(mut self, mut visit: impl FnMut(&Segment, &[u8])) -> CaptureSummary {
        while let Some((segment, payload)) = self.next_segment() {
            visit(&segment, payload);
        }
        self.summary()
    }

    /// Enables keeping the packet comments in the file, up to 16 MiB.
    pub fn keep_comments(&mut self) {
        self.container.keep_comments();
    }

    /// Returns the comments on the packet with this number, among those read so far.
    pub fn comments(&self, packet: u64) -> &[String] {
        self.container.comments(packet)
    }

    /// Returns the link type of the first packet, if the first bytes read contain it.
    pub fn link(&self) -> Option<LinkType> {
        self.link
    }

    /// Returns the observation point of the first interface.
    pub fn point(&self) -> PointId {
        self.point
    }

    /// Returns the summary of the records read so far.
    pub fn summary(&self) -> CaptureSummary {
        CaptureSummary {
            dropped: self.container.dropped(),
            secrets: self.container.secrets(),
            calls: self.container.calls(),
            ..self.summary.clone()
        }
    }

    fn recognize(&mut self) -> Result<(), CaptureError> {
        while self.unread.len() < 4 {
            // Read no more than necessary: the caller may open many files before it reads any of
            // them.
            match self.fill() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(unreadable(&self.summary.name, source)),
            }
        }
        let name = &self.summary.name;
        let begin = &self.buffer[self.unread.clone()];
        // Reading changes the container's state, so that this trial uses a container of its own.
        let mut trial = Container::new();
        let damage = match trial.next(begin).found {
            Found::Damaged(damage) => Some(damage),
            Found::Record(record) => {
                self.link = Some(record.link);
                None
            }
            Found::NeedMore(_) => trial.finish(begin).filter(|_| begin.len() < 4),
        };
        match damage.map(|damage| damage.fault) {
            Some(Fault::Empty | Fault::NotCapture) => Err(CaptureError::NotCapture {
                name: name.clone(),
                found: Foreign::recognize(begin),
            }),
            Some(
                fault @ (Fault::Version(..) | Fault::SnoopVersion(_) | Fault::SnoopDatalink(_)),
            ) => {
                let name = name.clone();
                Err(CaptureError::Unsupported { name, fault })
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn advance(&mut self) -> Option<Next> {
        while !self.is_over {
            let unread = self.buffer.get(self.unread.clone()).unwrap_or_default();
            let step = self.container.next(unread);
            self.unread.start += step.consumed;
            match step.found {
                Found::Record(record) => {
                    count(&mut self.summary, &record);
                    let point = self.point.0.saturating_add(record.interface);
                    let packet = self.decoder.packet(&record, PointId(point));
                    if !matches!(packet, Packet::Tcp(..)) {
                        count_beside(&mut self.summary, &record, &packet);
                    }
                    let place = place_within(&self.buffer, packet.payload());
                    match packet {
                        Packet::Tcp(segment, _) => return Some(Next::Segment(segment, place)),
                        Packet::Udp(header, _) => return Some(Next::Datagram(header, place)),
                        Packet::Icmp(error) => return Some(Next::Icmp(error)),
                        Packet::Echo(echo) => return Some(Next::Echo(echo)),
                        Packet::Neighbour(step) => return Some(Next::Neighbour(step)),
                        Packet::Other => {}
                    }
                }
                Found::NeedMore(_) => self.read_block(),
                Found::Damaged(damage) => self.end(Some(damage)),
            }
        }
        None
    }

    fn read_block(&mut self) {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        loop {
            match self.fill() {
                Ok(0) => {
                    let rest = &self.buffer[self.unread.clone()];
                    let damage = self.container.finish(rest);
                    return self.end(damage);
                }
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_over = true;
                    self.summary.damage = Some(format!("could not be read further: {error}"));
                    return;
                }
            }
        }
    }

    /// Reads once behind the unread bytes; returns the number of bytes read, which is 0 at the end.
    ///
    /// A buffer that was filled is enlarged to a block: small captures never need that memory, which
    /// takes as long to prepare as they take to analyse.
    fn fill(&mut self) -> io::Result<usize> {
        let len = self.input.read(&mut self.buffer[self.unread.end..])?;
        self.unread.end += len;
        if self.unread.end == self.buffer.len() {
            self.buffer.resize(BLOCK, 0);
        }
        Ok(len)
    }

    fn end(&mut self, damage: Option<Damage>) {
        self.is_over = true;
        self.summary.damage = damage.map(|damage| damage.to_string());
    }
}

/// The last record read, with its payload as a range of the buffer.
enum Next {
    Segment(Segment, Place),
    Datagram(Datagram, Place),
    Icmp(IcmpError),
    Echo(Echo),
    Neighbour(Neighbour),
}

/// The storage that contains a payload.
enum Place {
    /// The buffer, at this position.
    Read(Range<usize>),
    /// The decoder, which reassembled the payload from fragments.
    PutTogether,
}

/// Returns the position of `part` in `buffer`, if `part` is a slice of `buffer`. The caller needs a
/// position because a borrowed slice cannot leave a loop that may refill the buffer.
#[inline]
fn place_within(buffer: &[u8], part: &[u8]) -> Place {
    if part.is_empty() {
        return Place::Read(0..0);
    }
    let begin = part.as_ptr().addr().wrapping_sub(buffer.as_ptr().addr());
    if begin < buffer.len() {
        Place::Read(begin..begin.wrapping_add(part.len()))
    } else {
        Place::PutTogether
    }
}

fn unreadable(name: &str, source: io::Error) -> CaptureError {
    let name = name.to_owned();
    CaptureError::Read { name, source }
}

//! Conversion of capture records to pcapng blocks.

use std::io::{self, Read, Write};

use lagtrace_core::decode::{Lengths, MAX_CAPTURED};

use super::{Annotated, Comments, Stop, put};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Option codes.
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
/// Maximum length of a block that holds a packet, in bytes.
const MAX_PACKET_BLOCK: u32 = MAX_CAPTURED + 128 * 1024;
/// Offset of the packet data in the body of a packet block. The body follows the block's type and
/// length.
const PACKET_FIXED: usize = 20;
/// Maximum length of one comment in bytes; an option's length field has 16 bits.
const MAX_COMMENT: usize = 4096;
/// Maximum number of comments on one packet, so that its block does not become too long to be read.
pub const MAX_COMMENTS: usize = 8;

/// The magic numbers of pcap files: microseconds, nanoseconds, and microseconds with longer record
/// headers.
const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

/// Copies one capture.
pub(super) struct Copier<'a, R, W> {
    from: R,
    to: W,
    comments: &'a Comments,
    result: Annotated,
    is_little: bool,
}

impl<'a, R: Read, W: Write> Copier<'a, R, W> {
    pub(super) fn new(from: R, to: W, comments: &'a Comments) -> Self {
        Self {
            from,
            to,
            comments,
            result: Annotated::default(),
            is_little: true,
        }
    }

    pub(super) fn result(&self) -> Annotated {
        self.result.clone()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Copies the whole capture.
    pub(super) fn run(&mut self) -> Result<(), Stop> {
        let mut magic = [0; 4];
        if !self.fill(&mut magic)? {
            return Ok(());
        }
        match u32::from_le_bytes(magic) {
            SECTION_HEADER => self.copy_blocks(magic),
            _ => self.copy_records(magic),
        }
    }

    /// Copies a pcapng file block by block.
    fn copy_blocks(&mut self, first: [u8; 4]) -> Result<(), Stop> {
        let mut kind = first;
        loop {
            let mut length = [0; 4];
            self.fill_all(&mut length)?;
            if u32::from_le_bytes(kind) == SECTION_HEADER {
                self.copy_section(length)?;
            } else {
                self.copy_block(kind, length)?;
            }
            if !self.fill(&mut kind)? {
                return Ok(());
            }
        }
    }

    /// Copies a section header. Its first field gives the byte order, which also applies to the
    /// header's own length. The length of the section is left unspecified because the comments
    /// change it.
    fn copy_section(&mut self, length: [u8; 4]) -> Result<(), Stop> {
        let mut fixed = [0; 16];
        self.fill_all(&mut fixed)?;
        self.is_little = match fixed {
            [0x4d, 0x3c, 0x2b, 0x1a, ..] => true,
            [0x1a, 0x2b, 0x3c, 0x4d, ..] => false,
            _ => return Err(damaged("a section header without its byte order")),
        };
        let total = self.u32(length);
        if let Some(section) = fixed.get_mut(8..) {
            section.fill(0xff);
        }
        let rest = total.checked_sub(24).filter(|_| total.is_multiple_of(4));
        let rest = rest.ok_or_else(|| damaged("a section header of no length"))?;
        put(&mut self.to, &SECTION_HEADER.to_le_bytes())?;
        put(&mut self.to, &length)?;
        put(&mut self.to, &fixed)?;
        self.pass(rest)
    }

    fn copy_block(&mut self, kind: [u8; 4], length: [u8; 4]) -> Result<(), Stop> {
        let total = self.u32(length);
        let rest = total
            .checked_sub(8)
            .filter(|&rest| rest >= 4 && total.is_multiple_of(4));
        let rest = rest.ok_or_else(|| damaged("a block of an impossible length"))?;
        let number = self.result.packets + 1;
        let is_packet = match self.u32(kind) {
            PACKET | ENHANCED_PACKET => true,
            SIMPLE_PACKET => {
                self.result.packets = number;
                false
            }
            _ => false,
        };
        let comments = self.comments.get(&number).filter(|_| is_packet);
        if let Some(comments) = comments {
            if total > MAX_PACKET_BLOCK {
                return Err(damaged("a packet that is too long"));
            }
            let mut body = vec![0; rest as usize];
            self.fill_all(&mut body)?;
            body.truncate(body.len() - 4);
            let body = self.commented(body, comments)?;
            self.put_block(kind, &body)?;
        } else {
            put(&mut self.to, &kind)?;
            put(&mut self.to, &length)?;
            self.pass(rest)?;
        }
        self.result.packets += u64::from(is_packet);
        Ok(())
    }

    /// Returns the body of a packet block with `comments` inserted before its other options.
    fn commented(&mut self, mut body: Vec<u8>, comments: &[String]) -> Result<Vec<u8>, Stop> {
        let captured = body.get(12..16).and_then(|raw| raw.first_chunk());
        let captured = captured.map_or(0, |raw| self.u32(*raw)) as usize;
        let data = PACKET_FIXED + captured.next_multiple_of(4);
        if data > body.len() {
            return Err(damaged("a packet that does not fit into its block"));
        }
        let others = body.split_off(data);
        for comment in comments.iter().take(MAX_COMMENTS) {
            self.option(&mut body, OPT_COMMENT, cut(comment).as_bytes());
            self.result.comments += 1;
        }
        if others.is_empty() {
            body.extend([0; 4])
        } else {
            body.extend(others)
        }
        Ok(body)
    }

    /// Copies a pcap file as one section with one interface.
    fn copy_records(&mut self, magic: [u8; 4]) -> Result<(), Stop> {
        let is_known = |magic| matches!(magic, MICROS | NANOS | MODIFIED);
        self.is_little = is_known(u32::from_le_bytes(magic));
        let magic = self.u32(magic);
        if !is_known(magic) {
            return Err(damaged(
                "neither pcap nor pcapng, to which editcap converts others",
            ));
        }
        let mut header = [0; 20];
        self.fill_all(&mut header)?;
        let version = [0, 2].map(|at| self.half(&header, at));
        let lengths = Lengths::of(version.into());
        let lengths = lengths.ok_or_else(|| damaged("a pcap of an unknown version"))?;
        self.begin_section(magic, &header)?;
        let resolution = if magic == NANOS {
            1_000_000_000
        } else {
            1_000_000
        };
        let mut record = [0; 24];
        let record_len = if magic == MODIFIED { 24 } else { 16 };
        loop {
            let Some(record) = record.get_mut(..record_len) else {
                return Ok(());
            };
            if !self.fill(record)? {
                return Ok(());
            }
            self.copy_record(record, resolution, lengths)?;
        }
    }

    fn begin_section(&mut self, magic: u32, header: &[u8; 20]) -> Result<(), Stop> {
        let word = |at: usize| header.get(at..).and_then(|rest| rest.first_chunk());
        let (snap_len, network) = (word(12).map_or(0, |raw| self.u32(*raw)), word(16));
        let network = network.map_or(0, |raw| self.u32(*raw));
        let mut section = Vec::new();
        section.extend(self.bytes(0x1a2b_3c4d));
        section.extend(self.halves(1, 0));
        section.extend([0xff; 8]);
        self.option(&mut section, SHB_USERAPPL, b"lagtrace");
        section.extend([0; 4]);
        self.put_block(SECTION_HEADER.to_le_bytes(), &section)?;
        let mut interface = Vec::new();
        interface.extend(self.halves((network & 0xffff) as u16, 0));
        interface.extend(self.bytes(snap_len));
        let digits = if magic == NANOS { 9 } else { 6 };
        self.option(&mut interface, IF_TSRESOL, &[digits]);
        // The upper half of the field describes frame check sequences. If bit 26 is set, the
        // highest four bits contain their length in units of 16 bits.
        if network & 1 << 26 != 0 {
            self.option(&mut interface, IF_FCSLEN, &[(network >> 28) as u8 * 16]);
        }
        interface.extend([0; 4]);
        self.put_block(self.bytes(INTERFACE_DESCRIPTION), &interface)
    }

    fn copy_record(
        &mut self,
        record: &[u8],
        resolution: u64,
        lengths: Lengths,
    ) -> Result<(), Stop> {
        let word = |at: usize| record.get(at..).and_then(|rest| rest.first_chunk());
        let [seconds, fraction, first, second] =
            [0, 4, 8, 12].map(|at| word(at).map_or(0, |raw| self.u32(*raw)));
        let [captured, original] = lengths.in_order([first, second]);
        if captured > MAX_CAPTURED {
            return Err(damaged("a packet that is too long"));
        }
        let ticks = u64::from(seconds) * resolution + u64::from(fraction);
        let mut body = Vec::with_capacity(PACKET_FIXED + captured as usize + 64);
        for value in [0, (ticks >> 32) as u32, ticks as u32, captured, original] {
            body.extend(self.bytes(value));
        }
        let begin = body.len();
        body.resize(begin + captured as usize, 0);
        if let Some(data) = body.get_mut(begin..) {
            self.fill_all(data)?;
        }
        body.resize(body.len().next_multiple_of(4), 0);
        self.result.packets += 1;
        if let Some(comments) = self.comments.get(&self.result.packets) {
            body = self.commented(body, comments)?;
        }
        self.put_block(self.bytes(ENHANCED_PACKET), &body)
    }

    fn put_block(&mut self, kind: [u8; 4], body: &[u8]) -> Result<(), Stop> {
        let total = u32::try_from(body.len() + 12).unwrap_or(u32::MAX);
        let total = self.bytes(total);
        put(&mut self.to, &kind)?;
        put(&mut self.to, &total)?;
        put(&mut self.to, body)?;
        put(&mut self.to, &total)
    }

    fn option(&self, to: &mut Vec<u8>, code: u16, value: &[u8]) {
        to.extend(self.halves(code, u16::try_from(value.len()).unwrap_or(u16::MAX)));
        to.extend(value);
        to.resize(to.len().next_multiple_of(4), 0);
    }

    /// Copies `len` bytes unchanged.
    fn pass(&mut self, len: u32) -> Result<(), Stop> {
        let mut left = len as usize;
        let mut piece = [0; 16 * 1024];
        while left > 0 {
            let most = left.min(piece.len());
            let Some(piece) = piece.get_mut(..most) else {
                break;
            };
            self.fill_all(piece)?;
            put(&mut self.to, piece)?;
            left -= most;
        }
        Ok(())
    }

    /// Fills the buffer; returns `false` if the input ends before the first byte.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, Stop> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.from.read(rest) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(damaged("it ends within a packet or block")),
                Ok(len) => filled += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Stop::Read(error)),
            }
        }
        Ok(true)
    }

    fn fill_all(&mut self, buffer: &mut [u8]) -> Result<(), Stop> {
        if buffer.is_empty() || self.fill(buffer)? {
            Ok(())
        } else {
            Err(damaged("it ends within a packet or block"))
        }
    }

    fn u32(&self, raw: [u8; 4]) -> u32 {
        if self.is_little {
            u32::from_le_bytes(raw)
        } else {
            u32::from_be_bytes(raw)
        }
    }

    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        let raw = bytes.get(at..).and_then(|rest| rest.first_chunk());
        let raw = raw.copied().unwrap_or_default();
        if self.is_little {
            u16::from_le_bytes(raw)
        } else {
            u16::from_be_bytes(raw)
        }
    }

    fn bytes(&self, value: u32) -> [u8; 4] {
        if self.is_little {
            value.to_le_bytes()
        } else {
            value.to_be_bytes()
        }
    }

    fn halves(&self, one: u16, other: u16) -> [u8; 4] {
        let halves = if self.is_little {
            [one.to_le_bytes(), other.to_le_bytes()]
        } else {
            [one.to_be_bytes(), other.to_be_bytes()]
        };
        let [[a, b], [c, d]] = halves;
        [a, b, c, d]
    }
}

fn damaged(what: &str) -> Stop {
    Stop::Damaged(format!("it is damaged: {what}"))
}

/// Cuts the comment to its maximum length, at a character boundary.
fn cut(comment: &str) -> &str {
    let mut end = comment.len().min(MAX_COMMENT);
    while !comment.is_char_boundary(end) {
        end -= 1;
    }
    comment.get(..end).unwrap_or_default()
}

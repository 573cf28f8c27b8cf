//! The pcapng format: sections of blocks.
//!
//! Source: the IETF draft `draft-ietf-opsawg-pcapng` (PCAP Now Generic
//! Dumpcap File Format).

mod aside;
mod interface;

pub(super) use self::aside::Comments;
use self::interface::Interface;
use super::byte_order::ByteOrder;
use super::frame::{Advance, Frame, MAX_CAPTURED};
use super::{Fault, LinkType};

/// Maximum length in bytes of a block that is held in memory because its content is read.
pub(super) const MAX_HELD_BLOCK: u32 = MAX_CAPTURED + 128 * 1024;
/// Maximum length of a block that is skipped, in bytes.
const MAX_PASSED_BLOCK: u32 = 16 * 1024 * 1024;
/// The length of an empty block in bytes: its type, and its length twice.
const LEAST_BLOCK: u32 = 12;
/// Maximum number of interfaces of one section that are kept.
const MAX_INTERFACES: usize = 1 << 16;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;
/// The block types that the versions of sysdig use for system calls (libscap's `scap_savefile.h`).
const SYSTEM_CALLS: [u32; 6] = [0x204, 0x208, 0x216, 0x217, 0x221, 0x222];
/// The drop count in an obsolete packet block that means "unknown".
const UNKNOWN_DROPS: u16 = u16::MAX;

/// The state of reading one pcapng file.
#[derive(Debug, Default)]
pub(super) struct Pcapng {
    /// Byte order of the section; `None` before the first section header.
    order: Option<ByteOrder>,
    interfaces: Vec<Interface>,
    /// Number of sections so far.
    sections: u64,
    /// The length in bytes of the first section header.
    head: usize,
    /// Number of packets dropped in the sections before this one.
    dropped_before: Option<u64>,
    passing: Option<Passing>,
    /// Number of packets so far.
    packets: u64,
    /// Number of blocks of decryption secrets so far.
    secrets: u64,
    /// Number of blocks of system calls so far.
    calls: u64,
    /// Comments on packets; `None` if they are not wanted.
    comments: Option<Comments>,
}

/// A block that is skipped while its bytes arrive.
#[derive(Clone, Copy, Debug)]
struct Passing {
    total: u32,
    left: u32,
}

/// A complete block's content, without its type and lengths.
struct Block<'a> {
    kind: u32,
    order: ByteOrder,
    body: &'a [u8],
}

impl Pcapng {
    /// Creates a reader that keeps packet comments if `keeps_comments` is true.
    pub(super) fn new(keeps_comments: bool) -> Self {
        Self {
            comments: keeps_comments.then(Comments::default),
            ..Self::default()
        }
    }

    pub(super) fn is_magic(bytes: [u8; 4]) -> bool {
        u32::from_le_bytes(bytes) == SECTION_HEADER
    }

    /// Returns the number of bytes that have been skipped of the block being skipped.
    pub(super) fn passed_of_block(&self) -> u64 {
        self.passing
            .map_or(0, |block| u64::from(block.total - block.left))
    }

    /// Returns the length in bytes of the first section header.
    pub(super) fn head(&self) -> usize {
        self.head
    }

    pub(super) fn is_passing(&self) -> bool {
        self.passing.is_some()
    }

    /// Prepares for other bytes of the only section; returns false if there are several.
    pub(super) fn resume(&mut self) -> bool {
        self.passing = None;
        self.sections == 1
    }

    /// Returns the number of packets reported as dropped so far, over all sections and interfaces.
    pub(super) fn dropped(&self) -> Option<u64> {
        let here = self.interfaces.iter().filter_map(Interface::dropped);
        self.dropped_before
            .into_iter()
            .chain(here)
            .reduce(u64::saturating_add)
    }

    /// Returns the number of blocks of decryption secrets, such as TLS keys, so far.
    pub(super) fn secrets(&self) -> u64 {
        self.secrets
    }

    /// Returns the number of blocks of system calls so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the comments on packets so far, if they are kept.
    pub(super) fn comments(&self) -> Option<&Comments> {
        self.comments.as_ref()
    }

    #[inline]
    pub(super) fn advance<'a>(&mut self, bytes: &'a [u8]) -> Advance<'a> {
        if let Some(block) = self.passing {
            return self.pass(block, bytes);
        }
        self.begin_block(bytes).unwrap_or_else(Advance::Bad)
    }

    #[inline]
    fn begin_block<'a>(&mut self, bytes: &'a [u8]) -> Result<Advance<'a>, Fault> {
        // The byte order of a section header's length is known only from its third word. No block
        // is shorter than three words, so three words are always read.
        let Some(head) = bytes.get(..LEAST_BLOCK as usize) else {
            return Ok(Advance::NeedMore(LEAST_BLOCK as usize));
        };
        let (order, kind) = self.order_and_kind(head)?;
        let total = order.u32(head, 4).unwrap_or_default();
        if total < LEAST_BLOCK || total % 4 != 0 || total > limit(kind) {
            return Err(Fault::BlockLength(total));
        }
        if !is_read(kind) {
            self.secrets += u64::from(kind == DECRYPTION_SECRETS);
            self.calls += u64::from(SYSTEM_CALLS.contains(&kind));
            let left = total - 8;
            self.passing = Some(Passing { total, left });
            return Ok(Advance::Passed(8));
        }
        let Some(block) = bytes.get(..total as usize) else {
            return Ok(Advance::NeedMore(total as usize));
        };
        let (content, end) = block.split_at(total as usize - 4);
        check_end(total, order.u32(end, 0))?;
        let body = content.get(8..).unwrap_or_default();
        let frame = self.read(&Block { kind, order, body })?;
        Ok(match frame {
            Some(frame) => Advance::Frame(total as usize, frame),
            None => Advance::Passed(total as usize),
        })
    }

    #[inline]
    fn order_and_kind(&self, head: &[u8]) -> Result<(ByteOrder, u32), Fault> {
        if ByteOrder::Little.u32(head, 0) == Some(SECTION_HEADER) {
            let order = match head.get(8..) {
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => ByteOrder::Big,
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => ByteOrder::Little,
                _ => return Err(Fault::ByteOrderMagic),
            };
            return Ok((order, SECTION_HEADER));
        }
        let order = self.order.ok_or(Fault::ByteOrderMagic)?;
        Ok((order, order.u32(head, 0).unwrap_or_default()))
    }

    fn pass<'a>(&mut self, block: Passing, bytes: &[u8]) -> Advance<'a> {
        let Passing { total, left } = block;
        if left > 4 {
            let passed = (left - 4).min(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            if passed == 0 {
                return Advance::NeedMore(1);
            }
            let left = left - passed;
            self.passing = Some(Passing { total, left });
            return Advance::Passed(passed as usize);
        }
        let Some(end) = bytes.get(..4) else {
            return Advance::NeedMore(4);
        };
        match check_end(total, self.order.and_then(|order| order.u32(end, 0))) {
            Ok(()) => {
                self.passing = None;
                Advance::Passed(4)
            }
            Err(fault) => Advance::Bad(fault),
        }
    }

    #[inline]
    fn read<'a>(&mut self, block: &Block<'a>) -> Result<Option<Frame<'a>>, Fault> {
        match block.kind {
            ENHANCED_PACKET => {
                let id = block.u32(0)?;
                return self.packet(block, id).map(Some);
            }
            PACKET => {
                let id = u32::from(block.u16(0)?);
                let lost = Some(block.u16(2)?).filter(|&lost| lost != UNKNOWN_DROPS);
                self.count_drops(id, lost.unwrap_or_default().into());
                return self.packet(block, id).map(Some);
            }
            SIMPLE_PACKET => return self.simple_packet(block).map(Some),
            SECTION_HEADER => self.begin_section(block)?,
            INTERFACE_DESCRIPTION => self.describe_interface(block)?,
            _ => self.read_statistics(block)?,
        }
        Ok(None)
    }

    /// Reads the enhanced packet block. The obsolete packet block differs only in the width of its
    /// interface field.
    #[inline]
    fn packet<'a>(&mut self, block: &Block<'a>, id: u32) -> Result<Frame<'a>, Fault> {
        let (number, interface) = self.interface(id)?;
        let ticks = u64::from(block.u32(4)?) << 32 | u64::from(block.u32(8)?);
        let frame = Frame {
            at: Some(interface.instant(ticks)),
            link: interface.link,
            interface: number,
            original_len: block.u32(16)?,
            bytes: block.captured(20, block.u32(12)?)?,
        };
        self.packets += 1;
        let data_end = 20 + frame.bytes.len().next_multiple_of(4);
        if block.body.len() > data_end {
            self.read_packet_options(block, id, data_end);
        }
        Ok(frame)
    }

    /// Reads a packet's options. Invalid options are skipped, because the packet itself is still
    /// valid.
    #[cold]
    fn read_packet_options(&mut self, block: &Block<'_>, id: u32, data_end: usize) {
        let options = block.body.get(data_end..).unwrap_or_default();
        let aside = aside::read(block.order, options, self.packets, self.comments.as_mut());
        if block.kind == ENHANCED_PACKET {
            self.count_drops(id, aside.unwrap_or_default());
        }
    }

    /// Counts the packets dropped between a packet and the previous one on its interface.
    fn count_drops(&mut self, id: u32, lost: u64) {
        let number = usize::try_from(id).ok();
        if let Some(interface) = number.and_then(|number| self.interfaces.get_mut(number)) {
            interface.count_drops(lost);
        }
    }

    /// Reads the simple packet block. It belongs to the first interface and has no time.
    fn simple_packet<'a>(&mut self, block: &Block<'a>) -> Result<Frame<'a>, Fault> {
        self.packets += 1;
        let (number, interface) = self.interface(0)?;
        let original_len = block.u32(0)?;
        let snap_len = match interface.snap_len {
            0 => u32::MAX,
            len => len,
        };
        Ok(Frame {
            at: None,
            link: interface.link,
            interface: number,
            original_len,
            bytes: block.captured(4, original_len.min(snap_len))?,
        })
    }

    #[inline]
    fn interface(&self, id: u32) -> Result<(u16, &Interface), Fault> {
        u16::try_from(id)
            .ok()
            .and_then(|number| Some((number, self.interfaces.get(usize::from(number))?)))
            .ok_or(Fault::UnknownInterface(id))
    }

    fn begin_section(&mut self, block: &Block<'_>) -> Result<(), Fault> {
        let (major, minor) = (block.u16(4)?, block.u16(6)?);
        // Some writers use minor version 2 for the same format.
        if major != 1 || !matches!(minor, 0 | 2) {
            return Err(Fault::Version(major, minor));
        }
        self.dropped_before = self.dropped();
        self.interfaces.clear();
        if self.sections == 0 {
            self.head = block.body.len() + LEAST_BLOCK as usize;
        }
        self.sections += 1;
        self.order = Some(block.order);
        Ok(())
    }

    fn describe_interface(&mut self, block: &Block<'_>) -> Result<(), Fault> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Fault::TooManyInterfaces);
        }
        let options = block.body.get(8..).ok_or(Fault::BlockContent)?;
        let (link, snap_len) = (LinkType(block.u16(0)?), block.u32(4)?);
        let interface = Interface::new(link, snap_len);
        self.interfaces
            .push(interface.with_options(block.order, options)?);
        Ok(())
    }

    fn read_statistics(&mut self, block: &Block<'_>) -> Result<(), Fault> {
        let id = block.u32(0)?;
        let options = block.body.get(12..).ok_or(Fault::BlockContent)?;
        usize::try_from(id)
            .ok()
            .and_then(|number| self.interfaces.get_mut(number))
            .ok_or(Fault::UnknownInterface(id))?
            .read_statistics(block.order, options)
    }
}

impl<'a> Block<'a> {
    #[inline]
    fn u16(&self, at: usize) -> Result<u16, Fault> {
        self.order.u16(self.body, at).ok_or(Fault::BlockContent)
    }

    #[inline]
    fn u32(&self, at: usize) -> Result<u32, Fault> {
        self.order.u32(self.body, at).ok_or(Fault::BlockContent)
    }

    #[inline]
    fn captured(&self, at: usize, len: u32) -> Result<&'a [u8], Fault> {
        if len > MAX_CAPTURED {
            return Err(Fault::RecordTooLong(len));
        }
        self.body
            .get(at..)
            .and_then(|rest| rest.get(..len as usize))
            .ok_or(Fault::BlockContent)
    }
}

fn is_read(kind: u32) -> bool {
    matches!(
        kind,
        SECTION_HEADER
            | INTERFACE_DESCRIPTION
            | PACKET
            | SIMPLE_PACKET
            | INTERFACE_STATISTICS
            | ENHANCED_PACKET
    )
}

fn limit(kind: u32) -> u32 {
    if is_read(kind) {
        MAX_HELD_BLOCK
    } else {
        MAX_PASSED_BLOCK
    }
}

fn check_end(total: u32, end: Option<u32>) -> Result<(), Fault> {
    match end {
        Some(end) if end == total => Ok(()),
        end => Err(Fault::BlockLengthsDiffer(total, end.unwrap_or_default())),
    }
}

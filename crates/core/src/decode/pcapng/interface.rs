//! Interfaces of a section: link type, clock and drops.

use crate::decode::byte_order::ByteOrder;
use crate::decode::{Fault, LinkType};
use crate::observed::time::Timestamp;

const END_OF_OPTIONS: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;

/// An interface, from its description block and later statistics blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    pub(super) link: LinkType,
    /// Maximum number of bytes captured per packet; 0 without limit.
    pub(super) snap_len: u32,
    /// Packets dropped on this interface up to the last statistics; `None` before any statistics.
    dropped: Option<u64>,
    /// Packets dropped on this interface according to the packets' own options.
    dropped_between: u64,
    tick: Tick,
    /// Seconds to be added to the interface's timestamps.
    offset_seconds: i64,
}

/// The length of one unit of an interface's timestamps.
#[derive(Clone, Copy, Debug)]
enum Tick {
    /// A number of nanoseconds.
    Nanos(u64),
    /// The number of units in a nanosecond.
    PerNano(u64),
    /// The number of halvings of a second that gives one unit.
    BinaryFraction(u32),
}

impl Interface {
    pub(super) fn new(link: LinkType, snap_len: u32) -> Self {
        Self {
            link,
            snap_len,
            dropped: None,
            dropped_between: 0,
            tick: Tick::Nanos(1_000),
            offset_seconds: 0,
        }
    }

    pub(super) fn with_options(mut self, order: ByteOrder, options: &[u8]) -> Result<Self, Fault> {
        for_each_option(order, options, |code, value| match code {
            IF_TSRESOL => self.tick = value.first().map_or(self.tick, |raw| Tick::new(*raw)),
            IF_TSOFFSET => self.offset_seconds = order.u64(value, 0).unwrap_or_default() as i64,
            _ => {}
        })?;
        Ok(self)
    }

    /// Returns the number of packets dropped on this interface. Packets and statistics count the
    /// same drops, so the greater of the two counts is returned. `None` if neither reports drops.
    pub(super) fn dropped(&self) -> Option<u64> {
        let between = Some(self.dropped_between).filter(|&lost| lost > 0);
        self.dropped.max(between)
    }

    /// Counts packets dropped on this interface since the previous packet.
    pub(super) fn count_drops(&mut self, lost: u64) {
        self.dropped_between = self.dropped_between.saturating_add(lost);
    }

    /// Reads statistics. They are totals since the capture began, so the last ones replace earlier
    /// ones.
    pub(super) fn read_statistics(
        &mut self,
        order: ByteOrder,
        options: &[u8],
    ) -> Result<(), Fault> {
        let mut dropped: Option<u64> = None;
        for_each_option(order, options, |code, value| {
            if matches!(code, ISB_IFDROP | ISB_OSDROP) {
                let lost = order.u64(value, 0).unwrap_or_default();
                dropped = Some(dropped.unwrap_or_default().saturating_add(lost));
            }
        })?;
        self.dropped = dropped.or(self.dropped);
        Ok(())
    }

    #[inline]
    pub(super) fn instant(&self, ticks: u64) -> Timestamp {
        let nanos = i64::try_from(self.tick.nanos(ticks)).unwrap_or(i64::MAX);
        let offset = self.offset_seconds.saturating_mul(1_000_000_000);
        Timestamp::from_nanos(nanos.saturating_add(offset))
    }
}

impl Tick {
    /// Reads the `if_tsresol` option: a negative power of 2 if the highest bit is set, and of 10
    /// otherwise.
    fn new(raw: u8) -> Self {
        let power = u32::from(raw & 0x7f);
        if raw & 0x80 != 0 {
            Self::BinaryFraction(power)
        } else if power <= 9 {
            Self::Nanos(10_u64.pow(9 - power))
        } else {
            Self::PerNano(10_u64.saturating_pow(power - 9))
        }
    }

    #[inline]
    fn nanos(self, ticks: u64) -> u64 {
        match self {
            Self::Nanos(nanos) => ticks.saturating_mul(nanos),
            Self::PerNano(count) => ticks / count,
            Self::BinaryFraction(power) => {
                let nanos = (u128::from(ticks) * 1_000_000_000) >> power;
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        }
    }
}

pub(super) fn for_each_option(
    order: ByteOrder,
    mut options: &[u8],
    mut visit: impl FnMut(u16, &[u8]),
) -> Result<(), Fault> {
    while !options.is_empty() {
        let code = order.u16(options, 0).ok_or(Fault::BlockContent)?;
        if code == END_OF_OPTIONS {
            break;
        }
        let len = usize::from(order.u16(options, 2).ok_or(Fault::BlockContent)?);
        let rest = options.get(4..).ok_or(Fault::BlockContent)?;
        visit(code, rest.get(..len).ok_or(Fault::BlockContent)?);
        options = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

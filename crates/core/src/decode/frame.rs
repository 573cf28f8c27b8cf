//! A packet in a capture file, as a format's reader finds it.

use super::{Fault, LinkType};
use crate::observed::time::Timestamp;

/// Maximum number of captured bytes in a record: libpcap's `MAXIMUM_SNAPLEN`.
pub const MAX_CAPTURED: u32 = 262_144;

/// A packet as a format's reader found it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) at: Option<Timestamp>,
    pub(super) link: LinkType,
    pub(super) interface: u16,
    pub(super) original_len: u32,
    pub(super) bytes: &'a [u8],
}

/// The next content of a container, which a format's reader found in the bytes offered to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Advance<'a> {
    /// A packet, with the number of bytes that it occupies.
    Frame(usize, Frame<'a>),
    /// Bytes without a packet, which are skipped. Contains their number.
    Passed(usize),
    /// The total number of bytes needed: more than were offered.
    NeedMore(usize),
    /// A fault, after which nothing can be read.
    Bad(Fault),
}

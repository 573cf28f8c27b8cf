//! The packets that the readers of the capture formats find.

use super::{Fault, LinkType};
use crate::observed::time::Timestamp;

/// Maximum number of captured bytes in a record: libpcap's `MAXIMUM_SNAPLEN`.
pub const MAX_CAPTURED: u32 = 262_144;

/// A packet as found by a format's reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) at: Option<Timestamp>,
    pub(super) link: LinkType,
    pub(super) interface: u16,
    pub(super) original_len: u32,
    pub(super) bytes: &'a [u8],
}

/// The next content of a container, as found by a format's reader in the bytes it was offered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Advance<'a> {
    /// A packet, with the number of bytes that it occupies.
    Frame(usize, Frame<'a>),
    /// The number of bytes to skip that hold no packet.
    Passed(usize),
    /// The total number of bytes needed: more than were offered.
    NeedMore(usize),
    /// The end of what can be read.
    Bad(Fault),
}

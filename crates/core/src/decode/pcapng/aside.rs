//! Options of an enhanced packet block: comments and drops.

use std::collections::BTreeMap;

use super::interface::for_each_option;
use crate::decode::byte_order::ByteOrder;

const OPT_COMMENT: u16 = 1;
const EPB_DROPCOUNT: u16 = 4;
/// Maximum number of comment bytes kept per file.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Comments by the number of their packet, from 1.
#[derive(Debug, Default)]
pub(in crate::decode) struct Comments {
    list: BTreeMap<u64, Vec<String>>,
    /// Number of bytes kept.
    len: usize,
}

impl Comments {
    /// Returns the comments on the packet with this number.
    pub(in crate::decode) fn on(&self, packet: u64) -> &[String] {
        self.list.get(&packet).map_or(&[], Vec::as_slice)
    }

    fn keep(&mut self, packet: u64, comment: &[u8]) {
        // The map's entry takes memory too, whatever the comment's length.
        self.len = self.len.saturating_add(comment.len() + 64);
        if self.len <= MAX_BYTES {
            let comment = String::from_utf8_lossy(comment).into_owned();
            self.list.entry(packet).or_default().push(comment);
        }
    }
}

/// Reads a packet's options. Keeps its comments if they are wanted, and returns the number of
/// packets dropped before it if the options contain it.
pub(super) fn read(
    order: ByteOrder,
    options: &[u8],
    packet: u64,
    mut comments: Option<&mut Comments>,
) -> Option<u64> {
    let mut lost = None;
    let each = |code, value: &[u8]| match code {
        OPT_COMMENT => {
            if let Some(comments) = &mut comments {
                comments.keep(packet, value);
            }
        }
        EPB_DROPCOUNT => lost = order.u64(value, 0),
        _ => {}
    };
    // The options before a damaged one are valid.
    let _ = for_each_option(order, options, each);
    lost
}

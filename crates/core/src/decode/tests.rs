//! Tests with containers and packets that are built byte by byte, and with arbitrary bytes.

mod container;
mod fragments;
mod headers;
mod icmp;
mod links;
mod tunnels;
mod writing;

use super::*;

/// A record of `bytes` as the container yields it.
fn record(link: LinkType, bytes: &[u8]) -> Record<'_> {
    Record {
        number: 7,
        at: Some(Timestamp::from_parts(1, 5)),
        link,
        interface: 0,
        original_len: u32::try_from(bytes.len()).expect("test frames are short"),
        bytes,
    }
}

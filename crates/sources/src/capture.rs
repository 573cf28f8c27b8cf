//! Packets from capture files and from live interfaces.
//!
//! Both sources yield [`Segment`](lagtrace_core::observed::segment::Segment)s with their payload
//! and end in a [`CaptureSummary`] that says what was lost, cut or damaged. This module decodes
//! packets only and does not interpret them.

mod annotate;
mod error;
mod file;
mod foreign;
mod live;
mod packets;
mod writer;

pub use annotate::{Annotated, Comments, MAX_COMMENTS, annotate};
pub use error::CaptureError;
pub use file::FileCapture;
pub(crate) use file::decompressed;
pub use foreign::Foreign;
pub use live::{Arrival, LiveCapture, LiveOptions, LiveOutcome};
pub use packets::Packets;
pub use writer::Written;

use lagtrace_core::decode::{Packet, Record};
use lagtrace_core::observed::event::CaptureSummary;

/// Counts a record that has not been decoded yet.
#[inline]
fn count(summary: &mut CaptureSummary, record: &Record<'_>) {
    summary.packets += 1;
    summary.bytes += u64::from(record.original_len);
    summary.cut_records += u64::from(record.is_cut());
}

/// Counts a decoded record other than a TCP segment.
fn count_beside(summary: &mut CaptureSummary, record: &Record<'_>, packet: &Packet<'_>) {
    if let Some(at) = record.at {
        let (first, last) = summary.beside_tcp.unwrap_or((at, at));
        summary.beside_tcp = Some((first.min(at), last.max(at)));
    }
    if matches!(packet, Packet::Other) {
        summary.undecoded += 1;
        if !record.link.is_read() {
            *summary.unread_links.entry(record.link.0).or_default() += 1;
        }
    }
}

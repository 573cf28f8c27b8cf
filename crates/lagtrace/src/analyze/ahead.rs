//! A file read and decoded on one thread while another analyses.
//!
//! Packets come out in the order of the file: what they amount to is the same
//! as on one thread.

use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use lagtrace_core::decode::Packet;
use lagtrace_sources::capture::FileCapture;

use super::batch::Batch;
use crate::interrupt::Interrupt;

/// Packets handed over at once.
const BATCH: usize = 4096;
/// Bytes of payload beyond which a batch is handed over.
const BATCH_BYTES: usize = 1 << 20;
/// Batches that may wait.
const WAITING: usize = 2;

/// Hands at most `limit` segments of `capture` to `visit`, and what else bears
/// on flows between them.
pub(super) fn drain(
    capture: &mut FileCapture,
    limit: u64,
    interrupt: &Interrupt,
    mut visit: impl FnMut(&Packet<'_>),
) {
    let (full, batches) = sync_channel(WAITING);
    let (empty, recycled) = sync_channel(WAITING + 2);
    thread::scope(|scope| {
        scope.spawn(move || read(capture, limit, &full, &recycled));
        for mut batch in batches {
            if interrupt.is_requested() {
                break;
            }
            let packets = (0..batch.len()).filter_map(|index| batch.at(index));
            packets.for_each(|packet| visit(&packet));
            batch.clear();
            // The reader may be gone, or have enough of them.
            empty.try_send(batch).ok();
        }
    });
}

/// Reads until the end, the limit, or nobody wants more.
fn read(
    capture: &mut FileCapture,
    limit: u64,
    full: &SyncSender<Batch>,
    recycled: &Receiver<Batch>,
) {
    let mut left = limit;
    let mut batch = Batch::default();
    while left > 0 {
        let Some(packet) = capture.next_packet() else {
            break;
        };
        left -= u64::from(matches!(packet, Packet::Tcp(..)));
        batch.push(packet);
        if is_full(&batch) {
            let next = recycled.try_recv().unwrap_or_default();
            if full.send(mem::replace(&mut batch, next)).is_err() {
                return;
            }
        }
    }
    full.send(batch).ok();
}

fn is_full(batch: &Batch) -> bool {
    batch.len() >= BATCH || batch.bytes() >= BATCH_BYTES
}

//! Packets captured during the load, which are kept until they are analysed afterwards, because the
//! analysis would disturb the measurement.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lagtrace_sources::capture::{
    Arrival, CaptureError, LiveCapture, LiveOptions, LiveOutcome, Packets,
};

/// Maximum memory of the packets until they are analysed, in bytes.
const MOST_BYTES: usize = 256 * 1024 * 1024;
/// The time that the recorder waits for packets in one call.
const PATIENCE: Duration = Duration::from_millis(50);

/// A capture that runs in the background.
pub(super) struct Recorder {
    stop: Arc<AtomicBool>,
    shelf: Arc<Shelf>,
    thread: JoinHandle<LiveOutcome>,
}

/// The state shared by both threads.
#[derive(Debug, Default)]
struct Shelf {
    packets: Mutex<Packets>,
    /// The number of packets that were dropped for lack of memory.
    skipped: AtomicU64,
}

impl Recorder {
    /// Starts the capture.
    pub(super) fn start(options: &LiveOptions) -> Result<Self, CaptureError> {
        let stop = Arc::new(AtomicBool::new(false));
        let capture = LiveCapture::start(options, Arc::clone(&stop))?;
        let shelf = Arc::new(Shelf::default());
        let keep = Arc::clone(&shelf);
        let thread = thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || fill(capture, &keep))
            .map_err(CaptureError::Thread)?;
        Ok(Self {
            stop,
            shelf,
            thread,
        })
    }

    /// Returns the packets captured since the last call.
    pub(super) fn take(&self) -> Packets {
        let mut packets = self
            .shelf
            .packets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut packets)
    }

    /// Ends the capture. Returns the remaining packets, the capture's result, and the number of
    /// packets that were dropped for lack of memory.
    pub(super) fn stop(self) -> (Packets, LiveOutcome, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let outcome = self.thread.join().unwrap_or_default();
        let skipped = self.shelf.skipped.load(Ordering::Relaxed);
        let mut packets = self
            .shelf
            .packets
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut packets), outcome, skipped)
    }
}

fn fill(mut capture: LiveCapture, shelf: &Shelf) -> LiveOutcome {
    loop {
        match capture.next_batch(PATIENCE) {
            Arrival::Batch(batch) => {
                let mut packets = shelf.packets.lock().unwrap_or_else(PoisonError::into_inner);
                for (packet, payload) in batch.iter() {
                    if packets.memory() < MOST_BYTES {
                        packets.push(packet, payload);
                    } else {
                        shelf.skipped.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            Arrival::Quiet => {}
            Arrival::Ended => return capture.finish(),
        }
    }
}

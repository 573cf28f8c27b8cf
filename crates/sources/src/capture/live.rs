//! Live capture with libpcap.
//!
//! A dedicated thread empties the kernel's rings, decodes the packets, writes the file and passes
//! batches of packets to the consumer. The thread never waits for the consumer: packets that find
//! the channel full are counted as dropped. When stopped, the thread first drains the rings, so
//! that packets captured before the stop are in the result.

mod handle;
mod sink;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lagtrace_core::decode::{LinkType, MAX_CAPTURED};
use lagtrace_core::observed::event::{CaptureSummary, PointId};

use self::handle::Handle;
use self::sink::Sink;
use self::worker::Worker;
use super::writer::{PcapWriter, Written};
use super::{CaptureError, Packets};

/// Maximum number of full batches that wait for the consumer.
const WAITING_BATCHES: usize = 16;

/// The options of a live capture.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The interfaces, each with its observation point; `any` means all interfaces.
    pub interfaces: Vec<(String, PointId)>,
    /// A filter expression in the language of `pcap-filter(7)`; `None` for all
    /// packets.
    pub filter: Option<String>,
    /// Bytes kept of each packet, at most [`MAX_CAPTURED`].
    pub snap_len: u32,
    /// Size of the kernel's ring for each interface, in bytes.
    pub buffer_bytes: u32,
    /// True to capture in promiscuous mode, which also captures packets for other hosts.
    pub is_promiscuous: bool,
    /// The pcap file to write the packets to, `-` for standard output.
    pub write: Option<PathBuf>,
    /// Number of packets after which the capture ends by itself.
    pub packets: Option<u64>,
    /// Time after which the capture ends by itself.
    pub duration: Option<Duration>,
}

impl LiveOptions {
    /// Returns options that capture whole packets on one interface, without a filter, until
    /// stopped.
    pub fn new(interface: &str, point: PointId) -> Self {
        Self {
            interfaces: vec![(interface.to_owned(), point)],
            filter: None,
            snap_len: MAX_CAPTURED,
            buffer_bytes: 32 * 1024 * 1024,
            is_promiscuous: false,
            write: None,
            packets: None,
            duration: None,
        }
    }
}

/// A running capture.
pub struct LiveCapture {
    stop: Arc<AtomicBool>,
    packets: Arc<AtomicU64>,
    batches: Option<Receiver<Packets>>,
    spent: Sender<Packets>,
    current: Option<Packets>,
    worker: Option<JoinHandle<LiveOutcome>>,
}

/// The result of waiting for packets.
#[derive(Debug)]
pub enum Arrival<'a> {
    /// Packets that arrived.
    Batch(&'a Packets),
    /// No packets arrived within the time allowed.
    Quiet,
    /// The capture has ended and there are no more packets.
    Ended,
}

/// The result of a live capture.
#[derive(Debug, Default)]
pub struct LiveOutcome {
    /// The summary of each interface, in the order given.
    pub summaries: Vec<(PointId, CaptureSummary)>,
    /// The result of writing the file; `None` if no file was requested.
    pub written: Option<Written>,
}

impl LiveCapture {
    /// Starts the capture. Every packet that arrives after this function returns is captured.
    /// Setting `stop` ends the capture as [`stop`](Self::stop) does.
    ///
    /// # Errors
    /// Returns an error if an interface cannot be opened, the filter cannot be compiled, the file
    /// cannot be created, or the thread cannot be started.
    pub fn start(options: &LiveOptions, stop: Arc<AtomicBool>) -> Result<Self, CaptureError> {
        let open = |(name, point): &(String, PointId)| Handle::open(name, *point, options);
        let handles: Vec<_> = options
            .interfaces
            .iter()
            .map(open)
            .collect::<Result<_, _>>()?;
        let writer = match &options.write {
            Some(path) => Some(PcapWriter::create(path, single_link(&handles)?)?),
            None => None,
        };
        let (full, batches) = sync_channel(WAITING_BATCHES);
        let (spent, recycled) = channel();
        let packets = Arc::new(AtomicU64::new(0));
        let worker = Worker::new(handles, Sink::new(writer, full, recycled))
            .ending(options.packets, options.duration, Arc::clone(&stop))
            .counting(Arc::clone(&packets));
        let worker = thread::Builder::new()
            .name("capture".into())
            .spawn(move || worker.run())
            .map_err(CaptureError::Thread)?;
        Ok(Self {
            stop,
            packets,
            batches: Some(batches),
            spent,
            current: None,
            worker: Some(worker),
        })
    }

    /// Waits for packets that concern a flow, for at most `wait`.
    pub fn next_batch(&mut self, wait: Duration) -> Arrival<'_> {
        if let Some(batch) = self.current.take() {
            // Fails only if the worker has ended and needs no more batches.
            let _ = self.spent.send(batch);
        }
        let Some(batches) = &self.batches else {
            return Arrival::Ended;
        };
        match batches.recv_timeout(wait) {
            Ok(batch) => Arrival::Batch(self.current.insert(batch)),
            Err(RecvTimeoutError::Timeout) => Arrival::Quiet,
            Err(RecvTimeoutError::Disconnected) => Arrival::Ended,
        }
    }

    /// Returns the number of packets captured so far, of any protocol.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Ends the capture once the kernel's rings are drained; packets captured before the call still
    /// arrive.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the capture, discards the packets that the consumer has not taken, and returns the
    /// result.
    pub fn finish(mut self) -> LiveOutcome {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<LiveOutcome> {
        self.stop();
        // The receiver is dropped first, so that the worker does not wait to send a batch.
        self.batches = None;
        match self.worker.take()?.join() {
            Ok(outcome) => Some(outcome),
            Err(_) if thread::panicking() => None,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for LiveCapture {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the common link type of all interfaces, or an error if the link types differ.
fn single_link(handles: &[Handle]) -> Result<LinkType, CaptureError> {
    let mut links = handles.iter().map(Handle::link);
    let first = links.next().unwrap_or_default();
    match links.find(|link| *link != first) {
        Some(other) => Err(CaptureError::MixedLinkTypes(first, other)),
        None => Ok(first),
    }
}

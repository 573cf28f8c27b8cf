//! Destinations of captured packets: the file and the consumer.

use std::io;
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use lagtrace_core::decode::{Decoder, Packet, Record};
use lagtrace_core::observed::event::{CaptureSummary, PointId};

use crate::capture::writer::{PcapWriter, Written};
use crate::capture::{Packets, count, count_beside};

/// Maximum number of packets in a batch.
const MAX_PACKETS: usize = 4_096;
/// Maximum bytes of payload in a batch.
const MAX_PAYLOAD: usize = 2 * 1024 * 1024;

/// The destination of the packets that the capturing thread reads.
pub(super) struct Sink {
    file: PacketFile,
    outbox: Outbox,
    decoder: Decoder,
    packets: u64,
}

/// The packets for the consumer, in batches.
struct Outbox {
    full: SyncSender<Packets>,
    recycled: Receiver<Packets>,
    batch: Packets,
}

/// The file for the packets.
enum PacketFile {
    /// No file was requested.
    Absent,
    Open(PcapWriter),
    /// The file was closed after an error.
    Closed(Written),
}

impl Sink {
    /// Creates a sink that writes to `writer` and sends filled batches to `full`; the consumer
    /// returns the batches through `recycled`.
    pub(super) fn new(
        writer: Option<PcapWriter>,
        full: SyncSender<Packets>,
        recycled: Receiver<Packets>,
    ) -> Self {
        Self {
            file: writer.map_or(PacketFile::Absent, PacketFile::Open),
            outbox: Outbox {
                full,
                recycled,
                batch: Packets::default(),
            },
            decoder: Decoder::new(),
            packets: 0,
        }
    }

    /// Returns the number of packets taken.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns true if the packets are written to a pipe whose reader has exited.
    pub(super) fn is_pipe_closed(&self) -> bool {
        matches!(&self.file, PacketFile::Closed(written) if written.fault.is_none())
    }

    /// Numbers, counts, writes and decodes a packet.
    pub(super) fn take(
        &mut self,
        point: PointId,
        summary: &mut CaptureSummary,
        record: Record<'_>,
    ) {
        self.packets += 1;
        let number = self.packets;
        let record = Record { number, ..record };
        count(summary, &record);
        self.with_file(|writer| writer.write(&record));
        let packet = self.decoder.packet(&record, point);
        if !matches!(packet, Packet::Tcp(..)) {
            count_beside(summary, &record, &packet);
        }
        if packet != Packet::Other && !self.outbox.add(&packet) {
            *summary.dropped.get_or_insert_default() += 1;
        }
    }

    /// Passes the current batch to the consumer; keeps it if the channel is full.
    pub(super) fn deliver(&mut self) {
        self.outbox.deliver();
    }

    /// Writes buffered packets to the file.
    pub(super) fn flush(&mut self) {
        self.with_file(PcapWriter::flush);
    }

    /// Finishes the file and waits for the consumer to take the last batch.
    pub(super) fn finish(self) -> Option<Written> {
        let written = match self.file {
            PacketFile::Absent => None,
            PacketFile::Open(writer) => Some(writer.finish()),
            PacketFile::Closed(written) => Some(written),
        };
        self.outbox.finish();
        written
    }

    /// Calls `write` on the file. If the file cannot be written, it is closed and capturing
    /// continues.
    fn with_file(&mut self, write: impl FnOnce(&mut PcapWriter) -> io::Result<()>) {
        if let PacketFile::Open(writer) = &mut self.file
            && let Err(error) = write(writer)
        {
            self.close_file(error);
        }
    }

    fn close_file(&mut self, error: io::Error) {
        let file = mem::replace(&mut self.file, PacketFile::Absent);
        if let PacketFile::Open(writer) = file {
            self.file = PacketFile::Closed(writer.into_written(Some(error)));
        }
    }
}

impl Outbox {
    /// Passes the current batch to the consumer; keeps it if the channel is full.
    fn deliver(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        match self.full.try_send(mem::take(&mut self.batch)) {
            Ok(()) => {
                self.batch = self.recycled.try_recv().unwrap_or_default();
                self.batch.clear();
            }
            Err(TrySendError::Full(batch)) => self.batch = batch,
            // The consumer has stopped receiving.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Waits for the consumer to take the last batch.
    fn finish(self) {
        if !self.batch.is_empty() {
            // Fails if the consumer has stopped receiving.
            let _ = self.full.send(self.batch);
        }
    }

    fn add(&mut self, packet: &Packet<'_>) -> bool {
        let payload = packet.payload();
        if self.is_full_for(payload) {
            self.deliver();
        }
        let has_room = !self.is_full_for(payload);
        if has_room {
            self.batch.push(packet, payload);
        }
        has_room
    }

    /// Returns true if a packet with this payload no longer fits into the
    /// batch.
    fn is_full_for(&self, payload: &[u8]) -> bool {
        let bytes = self.batch.bytes() + payload.len();
        self.batch.len() >= MAX_PACKETS || !self.batch.is_empty() && bytes > MAX_PAYLOAD
    }
}

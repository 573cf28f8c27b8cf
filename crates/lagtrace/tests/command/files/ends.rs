//! A connection between a client and a server, written segment by segment.

use super::frames::{Capture, Tcp};

pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;
pub(super) const PUSH: u8 = 0x18;
pub(super) const SYN_ACK: u8 = 0x12;
pub(super) const FIN: u8 = 0x11;

pub(super) const CLIENT: u32 = 0x0a00_0001;
pub(super) const SERVER: u32 = 0x0a00_0002;

/// A connection's client and server, each with its next segment.
pub(super) struct Ends {
    pub(super) client: Tcp,
    pub(super) server: Tcp,
}

impl Ends {
    pub(super) fn new(client: u32, port: u16, server: u32) -> Self {
        Self {
            client: Tcp::new((client, port), (server, 80)),
            server: Tcp::new((server, 80), (client, port)),
        }
    }

    pub(super) fn open(capture: &mut Capture, client: u32, port: u16, server: u32) -> Self {
        let mut ends = Self::new(client, port, server);
        capture.tcp(&ends.client.flags(SYN));
        ends.client.seq += 1;
        capture.tcp(&ends.server.flags(SYN_ACK).ack(ends.client.seq));
        ends.server.seq += 1;
        capture.tcp(&ends.client.flags(ACK).ack(ends.server.seq));
        ends
    }

    pub(super) fn say(&mut self, capture: &mut Capture, payload: &[u8]) {
        capture.tcp(&self.client.flags(PUSH).ack(self.server.seq).with(payload));
        self.client.seq = self.client.seq.wrapping_add(payload.len() as u32);
    }

    pub(super) fn answer(&mut self, capture: &mut Capture, payload: &[u8]) {
        capture.tcp(&self.server.flags(PUSH).ack(self.client.seq).with(payload));
        self.server.seq = self.server.seq.wrapping_add(payload.len() as u32);
    }

    pub(super) fn acknowledge(&self, capture: &mut Capture) {
        capture.tcp(&self.client.flags(ACK).ack(self.server.seq));
    }

    pub(super) fn close(&mut self, capture: &mut Capture) {
        capture.tcp(&self.client.flags(FIN).ack(self.server.seq));
        capture.tcp(&self.server.flags(FIN).ack(self.client.seq + 1));
        self.client.seq += 1;
        self.server.seq += 1;
        self.acknowledge(capture);
    }
}

pub(super) const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: example\r\n\r\n";
pub(super) const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Returns one of many clients, which differ in address and port.
pub(super) fn client(index: u32) -> (u32, u16) {
    (0x0b00_0000 + index / 50_000, 1024 + (index % 50_000) as u16)
}

/// Returns an HTTP/2 frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, len @ ..] = (payload.len() as u32).to_be_bytes();
    let mut frame = Vec::from(len);
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

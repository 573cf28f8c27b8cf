//! Captures written packet by packet.

/// The time between two packets, in microseconds.
const STEP: u64 = 10;
const HARDWARE: &[u8; 12] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01";
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMP: u8 = 1;

/// A pcap file of Ethernet frames that is being written.
pub(crate) struct Capture {
    bytes: Vec<u8>,
    micros: u64,
    /// The microseconds by which the clock of the timestamps was set.
    set_by: i64,
    /// True if TCP segments have timestamps of their senders' clocks.
    has_senders_clocks: bool,
    identification: u16,
}

/// A TCP segment.
#[derive(Clone)]
pub(crate) struct Tcp {
    from: (u32, u16),
    to: (u32, u16),
    /// The segment's sequence number.
    pub(crate) seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    payload: Vec<u8>,
}

impl Tcp {
    pub(crate) fn new(from: (u32, u16), to: (u32, u16)) -> Self {
        let (options, payload) = (Vec::new(), Vec::new());
        Self {
            from,
            to,
            seq: 0,
            ack: 0,
            flags: 0,
            window: 60_000,
            options,
            payload,
        }
    }

    pub(crate) fn flags(&self, flags: u8) -> Self {
        Self {
            flags,
            ..self.clone()
        }
    }

    pub(crate) fn ack(self, ack: u32) -> Self {
        Self { ack, ..self }
    }

    pub(crate) fn window(self, window: u16) -> Self {
        Self { window, ..self }
    }

    pub(crate) fn with(self, payload: &[u8]) -> Self {
        Self {
            payload: payload.to_vec(),
            ..self
        }
    }

    /// Returns the segment with SACK blocks (RFC 2018).
    pub(crate) fn selective(self, blocks: &[(u32, u32)]) -> Self {
        let mut options = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
        for (begin, end) in blocks {
            options.extend(begin.to_be_bytes());
            options.extend(end.to_be_bytes());
        }
        Self { options, ..self }
    }

    fn wire(&self) -> Vec<u8> {
        let mut wire = Vec::new();
        wire.extend(self.from.1.to_be_bytes());
        wire.extend(self.to.1.to_be_bytes());
        wire.extend(self.seq.to_be_bytes());
        wire.extend(self.ack.to_be_bytes());
        let words = 5 + self.options.len() / 4;
        wire.extend([(words as u8) << 4, self.flags]);
        wire.extend(self.window.to_be_bytes());
        wire.extend([0; 4]);
        wire.extend(&self.options);
        wire.extend(&self.payload);
        wire
    }
}

/// Returns an IPv4 packet with this payload.
pub(crate) fn ipv4(
    protocol: u8,
    from: u32,
    to: u32,
    id: u16,
    part: u16,
    content: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + content.len() as u16).to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(part.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(from.to_be_bytes());
    packet.extend(to.to_be_bytes());
    packet.extend(content);
    packet
}

impl Capture {
    pub(crate) fn new() -> Self {
        let mut bytes = Vec::from(0xa1b2_c3d4_u32.to_le_bytes());
        bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(262_144_u32.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        Self {
            bytes,
            micros: 0,
            set_by: 0,
            has_senders_clocks: false,
            identification: 0,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Adds an IPv4 packet.
    pub(crate) fn packet(&mut self, packet: &[u8]) {
        self.frame([8, 0], packet);
    }

    /// Advances the clock without a packet.
    pub(crate) fn pause(&mut self, micros: u64) {
        self.micros += micros;
    }

    /// Sets the clock of the timestamps, by which no time passes.
    pub(crate) fn set_clock(&mut self, micros: i64) {
        self.set_by += micros;
    }

    /// Gives TCP segments timestamps of their senders' clocks (RFC 7323).
    pub(crate) fn with_senders_clocks(self) -> Self {
        let has_senders_clocks = true;
        Self {
            has_senders_clocks,
            ..self
        }
    }

    fn frame(&mut self, kind: [u8; 2], packet: &[u8]) {
        self.micros += STEP;
        let micros = (1_700_000_000_000_000 + self.micros).saturating_add_signed(self.set_by);
        let [seconds, rest] = [micros / 1_000_000, micros % 1_000_000].map(|it| it as u32);
        let len = (14 + packet.len()) as u32;
        for word in [seconds, rest, len, len] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(HARDWARE);
        self.bytes.extend(kind);
        self.bytes.extend(packet);
    }

    fn ip(&mut self, protocol: u8, from: u32, to: u32, content: &[u8]) {
        self.identification = self.identification.wrapping_add(1).max(1);
        let packet = ipv4(protocol, from, to, self.identification, 0, content);
        self.frame([8, 0], &packet);
    }

    pub(crate) fn tcp(&mut self, segment: &Tcp) {
        let mut segment = segment.clone();
        if self.has_senders_clocks {
            let millis = (self.micros / 1_000) as u32;
            let clock = millis.wrapping_add(segment.from.0.wrapping_mul(77_777));
            segment.options.extend([1, 1, 8, 10]);
            segment.options.extend(clock.to_be_bytes());
            segment.options.extend([0; 4]);
        }
        self.ip(PROTOCOL_TCP, segment.from.0, segment.to.0, &segment.wire());
    }

    /// Adds a segment as a middle fragment, so that other fragments must come before and after it.
    pub(crate) fn fragment(&mut self, segment: &Tcp, id: u16, offset: u16) {
        const MORE: u16 = 0x2000;
        let (from, to) = (segment.from.0, segment.to.0);
        let packet = ipv4(PROTOCOL_TCP, from, to, id, MORE | offset, &segment.wire());
        self.frame([8, 0], &packet);
    }

    pub(crate) fn udp(&mut self, from: (u32, u16), to: (u32, u16), payload: &[u8]) {
        let mut wire = Vec::from(from.1.to_be_bytes());
        wire.extend(to.1.to_be_bytes());
        wire.extend((8 + payload.len() as u16).to_be_bytes());
        wire.extend([0, 0]);
        wire.extend(payload);
        self.ip(PROTOCOL_UDP, from.0, to.0, &wire);
    }

    /// Adds an ARP request.
    pub(crate) fn neighbour_wanted(&mut self, by: u32, wanted: u32) {
        let mut wire = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1];
        wire.extend(by.to_be_bytes());
        wire.extend([0; 6]);
        wire.extend(wanted.to_be_bytes());
        self.frame([8, 6], &wire);
    }

    /// Adds a router's ICMP destination unreachable message that quotes the segment.
    pub(crate) fn unreachable(&mut self, router: u32, segment: &Tcp) {
        let (from, to) = (segment.from.0, segment.to.0);
        let mut wire = vec![3, 1, 0, 0, 0, 0, 0, 0];
        let told = segment.wire();
        wire.extend(ipv4(PROTOCOL_TCP, from, to, 1, 0, &told));
        self.ip(PROTOCOL_ICMP, router, from, &wire);
    }
}

/// A capture of 3,000 exchanges, of which the page cannot show all.
pub(crate) fn long() -> Capture {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    const PUSH: u8 = 24;
    let mut capture = Capture::new();
    let (client, server) = ((0x0a00_0001, 40_000), (0x0a00_0002, 80));
    let (mut asks, mut answers) = (Tcp::new(client, server), Tcp::new(server, client));
    capture.tcp(&asks.flags(SYN));
    asks.seq += 1;
    capture.tcp(&answers.flags(SYN | ACK).ack(asks.seq));
    answers.seq += 1;
    for number in 0..3_000_u64 {
        let request = format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        capture.tcp(&asks.flags(PUSH).ack(answers.seq).with(request.as_bytes()));
        asks.seq += request.len() as u32;
        capture.pause(1_000 + number);
        capture.tcp(&answers.flags(PUSH).ack(asks.seq).with(response));
        answers.seq += response.len() as u32;
        capture.tcp(&asks.flags(ACK).ack(answers.seq));
    }
    capture
}

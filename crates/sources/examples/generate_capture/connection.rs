//! A connection: its handshake, its exchanges and its end, generated one exchange at a time.

use std::collections::VecDeque;
use std::io::{self, Write};

use super::chance::Chance;
use super::frame::{self, ACK, Ends, FIN, PSH, SYN, Segment};

/// Payload of a full segment with timestamps, in bytes.
const MSS: u64 = 1448;
/// Initial congestion window, in segments (RFC 6928).
const INITIAL_WINDOW: u64 = 10;
/// Time in nanoseconds to transmit a full segment at 1 Gbit/s.
const SERIALIZED: u64 = 12_000;
/// Number of data segments for each lost one, on average.
const LOSSES: u64 = 400;

/// A connection in progress.
pub(crate) struct Connection {
    ends: Ends,
    rtt: u64,
    /// Segments that have not been written yet, in order of time, up to the next message of each
    /// end.
    due: VecDeque<Segment>,
    next_seq: [u32; 2],
    /// Number of packets that the connection may still write.
    left: u64,
    request: Vec<u8>,
    response: Vec<u8>,
    is_held: bool,
    is_over: bool,
}

impl Connection {
    pub(crate) fn new(
        number: u64,
        at: u64,
        packets: u64,
        is_held: bool,
        chance: &mut Chance,
    ) -> Self {
        let [.., a, b] = (number / 40_000).to_be_bytes();
        let [.., c, d] = (chance.next()).to_be_bytes();
        let mut connection = Self {
            ends: Ends {
                client: [10, a, b, (number % 251) as u8],
                client_port: (20_000 + number % 40_000) as u16,
                server: [192, 0, 2, (number % 8) as u8],
                identifications: [u16::from_be_bytes([c, d]), u16::from_be_bytes([d, c])],
                stamps: [0; 2],
            },
            rtt: 200_000 + chance.skewed(8_000_000),
            due: VecDeque::new(),
            next_seq: [chance.next() as u32, chance.next() as u32],
            left: chance.below(packets.saturating_sub(8) * 2) + 2,
            request: Vec::new(),
            response: Vec::new(),
            is_held,
            is_over: false,
        };
        connection.shake_hands(at);
        connection
    }

    /// Returns the time of the next packet; `None` if there are no more packets.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.due.front().map(|segment| segment.at)
    }

    /// Writes the next packet; returns the number of packets written, 0 or 1.
    pub(crate) fn write_next(
        &mut self,
        output: &mut impl Write,
        chance: &mut Chance,
    ) -> io::Result<u64> {
        let Some(segment) = self.due.pop_front() else {
            return Ok(0);
        };
        let message = if segment.is_from_client {
            &self.request
        } else {
            &self.response
        };
        frame::write(output, &mut self.ends, &segment, message)?;
        if self.due.is_empty() && !self.is_over {
            self.go_on(segment.at, chance);
        }
        Ok(1)
    }

    fn go_on(&mut self, at: u64, chance: &mut Chance) {
        if self.left > 0 {
            self.exchange(at + chance.skewed(20_000_000), chance);
        } else {
            self.is_over = true;
            if !self.is_held {
                self.close(at + chance.skewed(1_000_000));
            }
        }
    }

    fn shake_hands(&mut self, at: u64) {
        let [server, client] = self.next_seq;
        self.say(at, true, SYN, client, 0);
        self.say(
            at + 20_000,
            false,
            SYN | ACK,
            server,
            client.wrapping_add(1),
        );
        self.next_seq = [server.wrapping_add(1), client.wrapping_add(1)];
        let [server, client] = self.next_seq;
        self.say(at + 20_000 + self.rtt, true, ACK, client, server);
    }

    fn close(&mut self, at: u64) {
        let [server, client] = self.next_seq;
        self.say(at, false, FIN | ACK, server, client);
        self.say(
            at + self.rtt,
            true,
            FIN | ACK,
            client,
            server.wrapping_add(1),
        );
        let (server, client) = (server.wrapping_add(1), client.wrapping_add(1));
        self.say(at + self.rtt + 15_000, false, ACK, server, client);
    }

    fn say(&mut self, at: u64, is_from_client: bool, flags: u8, seq: u32, ack: u32) {
        self.due.push_back(Segment {
            at,
            is_from_client,
            flags,
            seq,
            ack,
            ..Segment::default()
        });
    }

    fn exchange(&mut self, at: u64, chance: &mut Chance) {
        let full = match self.left {
            left @ 0..=6 => chance.below(left),
            left => chance.skewed(3).min(left * 2 / 3),
        };
        let body = full * MSS + chance.below(MSS / 2);
        self.left = self.left.saturating_sub(2 + full + full.div_ceil(2));
        let (id, user) = (chance.below(100_000), chance.below(1_000));
        self.request = format!(
            "GET /api/items/{id}?user={user} HTTP/1.1\r\nHost: shop.example\r\n\
             User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\n\
             Cookie: session={:016x}\r\n\r\n",
            chance.next()
        )
        .into_bytes();
        self.response = format!(
            "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
             Content-Type: application/json\r\nContent-Length: {body}\r\n\
             Connection: keep-alive\r\n\r\n"
        )
        .into_bytes();
        let [server, client] = self.next_seq;
        self.due.push_back(Segment {
            at,
            is_from_client: true,
            flags: PSH | ACK,
            seq: client,
            ack: server,
            len: self.request.len() as u16,
            ..Segment::default()
        });
        let client = client.wrapping_add(self.request.len() as u32);
        self.next_seq = [server, client];
        let think = 100_000 + chance.skewed(2_000_000);
        let len = self.response.len() as u64 + body;
        if think > 30_000_000 {
            self.say(at + 1_000_000, false, ACK, server, client);
        }
        self.answer(at + think, len, chance);
    }

    /// Queues the response in slow start: bursts at intervals of a round trip, each twice as long
    /// as the one before. Every second segment is acknowledged.
    fn answer(&mut self, mut at: u64, len: u64, chance: &mut Chance) {
        let [server, client] = self.next_seq;
        let first = self.due.len();
        let (mut sent, mut window) = (0, INITIAL_WINDOW);
        while sent < len {
            let mut lost = None;
            for place in 0..window {
                if sent >= len {
                    break;
                }
                let seq = server.wrapping_add(sent as u32);
                let data = (len - sent).min(MSS);
                let seen = at + place * SERIALIZED;
                self.due.push_back(Segment {
                    at: seen,
                    flags: if data < MSS { PSH | ACK } else { ACK },
                    seq,
                    ack: client,
                    len: data as u16,
                    offset: sent as u32,
                    ..Segment::default()
                });
                sent += data;
                let next = server.wrapping_add(sent as u32);
                if lost.is_none() && sent < len && chance.once_in(LOSSES) {
                    lost = Some((seq, next, data as u16, (sent - data) as u32));
                    continue;
                }
                if place % 2 == 1 || sent >= len || lost.is_some() {
                    let hole = lost.map(|(seq, right, ..)| (seq, (right, next)));
                    self.acknowledge(seen + self.rtt, client, hole.map_or(next, |h| h.0), hole);
                }
            }
            if let Some((seq, _, data, offset)) = lost {
                let again = at + window * SERIALIZED + self.rtt + 30_000;
                self.due.push_back(Segment {
                    at: again,
                    flags: ACK,
                    seq,
                    ack: client,
                    len: data,
                    offset,
                    ..Segment::default()
                });
                self.acknowledge(
                    again + self.rtt,
                    client,
                    server.wrapping_add(sent as u32),
                    None,
                );
                at = again;
            }
            at += self.rtt + 10_000;
            window *= 2;
        }
        self.next_seq = [server.wrapping_add(len as u32), client];
        self.due.make_contiguous()[first..].sort_by_key(|segment| segment.at);
    }

    fn acknowledge(&mut self, at: u64, seq: u32, ack: u32, hole: Option<(u32, (u32, u32))>) {
        self.due.push_back(Segment {
            at,
            is_from_client: true,
            flags: ACK,
            seq,
            ack,
            sack: hole.map(|(_, beyond)| beyond),
            ..Segment::default()
        });
    }
}

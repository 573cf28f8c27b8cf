//! Captures as lists of frames, read and written.

use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use lagtrace_core::decode::{Container, Found};

use crate::packet::Packet;

/// Link types (<https://www.tcpdump.org/linktypes.html>).
const ETHERNET: u16 = 1;
const RAW: u16 = 101;
const COOKED: u16 = 113;
const COOKED_2: u16 = 276;

/// The frames of a capture, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    pub(crate) link: u16,
    pub(crate) frames: Vec<Frame>,
}

#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The time in nanoseconds since 1970.
    pub(crate) at: i64,
    /// The link-layer header.
    pub(crate) head: Vec<u8>,
    pub(crate) network: Network,
}

#[derive(Clone, Debug)]
pub(crate) enum Network {
    Packet(Packet),
    /// A packet of another kind, such as ARP: its bytes, and its length on the wire.
    Other(Vec<u8>, usize),
}

/// The file format in which a capture is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// Classic pcap with nanoseconds, in big-endian or in little-endian byte order.
    Pcap { is_big_endian: bool },
    /// Classic pcap with microseconds.
    CoarsePcap,
    /// Pcapng with this `if_tsresol`, and with times relative to `offset` seconds after 1970.
    Pcapng { resolution: u8, offset: i64 },
}

impl Form {
    pub(crate) const PLAIN: Self = Self::Pcap {
        is_big_endian: false,
    };
}

impl Capture {
    pub(crate) fn read(path: &Path) -> Self {
        let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut bytes = Vec::new();
        GzDecoder::new(file)
            .read_to_end(&mut bytes)
            .expect("it is compressed by gzip");
        let (mut container, mut rest) = (Container::new(), bytes.as_slice());
        let mut capture = Self {
            link: RAW,
            frames: Vec::new(),
        };
        loop {
            let step = container.next(rest);
            rest = &rest[step.consumed..];
            let Found::Record(record) = step.found else {
                return capture;
            };
            capture.link = record.link.0;
            let at = record.at.expect("the corpus has stamps").as_nanos();
            let frame = Frame::read(capture.link, at, record.bytes, record.original_len as usize);
            capture.frames.push(frame);
        }
    }

    /// Returns all parsed packets.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.frames.iter().filter_map(Frame::packet)
    }

    pub(crate) fn packets_mut(&mut self) -> impl Iterator<Item = &mut Packet> {
        self.frames.iter_mut().filter_map(Frame::packet_mut)
    }

    /// Sorts the frames by time. Frames of equal time keep their order.
    pub(crate) fn sort(&mut self) {
        self.frames.sort_by_key(|frame| frame.at);
    }

    /// Returns the file, with each frame cut to `snap` bytes.
    pub(crate) fn file(&self, form: Form, snap: usize) -> Vec<u8> {
        match form {
            Form::Pcap { is_big_endian } => self.pcap(is_big_endian, 1, snap),
            Form::CoarsePcap => self.pcap(false, 1000, snap),
            Form::Pcapng { resolution, offset } => self.pcapng(resolution, offset, snap),
        }
    }

    fn pcap(&self, is_big_endian: bool, unit: i64, snap: usize) -> Vec<u8> {
        let word = |value: u32| {
            if is_big_endian {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let version = if is_big_endian {
            [0, 2, 0, 4]
        } else {
            [2, 0, 4, 0]
        };
        let magic = if unit == 1 { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut file = word(magic).to_vec();
        file.extend(version);
        for value in [0, 0, 262_144, u32::from(self.link)] {
            file.extend(word(value));
        }
        for frame in &self.frames {
            let (bytes, len) = frame.bytes(snap);
            let seconds = u32::try_from(frame.at.div_euclid(1_000_000_000));
            let seconds = seconds.expect("a time that pcap can hold");
            let ticks = (frame.at.rem_euclid(1_000_000_000) / unit) as u32;
            for value in [seconds, ticks, bytes.len() as u32, len as u32] {
                file.extend(word(value));
            }
            file.extend(bytes);
        }
        file
    }

    fn pcapng(&self, resolution: u8, offset: i64, snap: usize) -> Vec<u8> {
        let section = [
            &0x1a2b_3c4d_u32.to_le_bytes()[..],
            &[1, 0, 0, 0],
            &[0xff; 8],
        ];
        let mut file = block(0x0a0d_0d0a, &section.concat());
        let mut interface = self.link.to_le_bytes().to_vec();
        interface.extend([0; 6]);
        interface.extend([9, 0, 1, 0, resolution, 0, 0, 0, 14, 0, 8, 0]);
        interface.extend(offset.to_le_bytes());
        interface.extend([0; 4]);
        file.extend(block(1, &interface));
        for frame in &self.frames {
            let since = i128::from(frame.at) - i128::from(offset) * 1_000_000_000;
            let since = u128::try_from(since).expect("a time after the offset");
            let ticks = match resolution & 0x80 {
                0 => since * 10_u128.pow(resolution.into()) / 1_000_000_000,
                // Rounded up, so that reading the time gives the same nanosecond.
                _ => (since << (resolution & 0x7f)).div_ceil(1_000_000_000),
            };
            let (bytes, len) = frame.bytes(snap);
            let mut body = vec![0; 4];
            let words = [
                (ticks >> 32) as u32,
                ticks as u32,
                bytes.len() as u32,
                len as u32,
            ];
            words
                .iter()
                .for_each(|word| body.extend(word.to_le_bytes()));
            body.extend(bytes);
            file.extend(block(6, &body));
        }
        file
    }
}

/// Returns a pcapng block that contains `body`, with padding.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let total = (padded as u32 + 12).to_le_bytes();
    let mut block = kind.to_le_bytes().to_vec();
    block.extend(total);
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(total);
    block
}

impl Frame {
    fn read(link: u16, at: i64, bytes: &[u8], len: usize) -> Self {
        let head_len = head_len(link, bytes).min(bytes.len());
        let (head, rest) = bytes.split_at(head_len);
        let len = len - head_len;
        let network = match Packet::read(rest, len) {
            Some(packet) => Network::Packet(packet),
            None => Network::Other(rest.to_vec(), len),
        };
        Self {
            at,
            head: head.to_vec(),
            network,
        }
    }

    pub(crate) fn packet(&self) -> Option<&Packet> {
        match &self.network {
            Network::Packet(packet) => Some(packet),
            Network::Other(..) => None,
        }
    }

    pub(crate) fn packet_mut(&mut self) -> Option<&mut Packet> {
        match &mut self.network {
            Network::Packet(packet) => Some(packet),
            Network::Other(..) => None,
        }
    }

    /// Returns at most `snap` bytes of the frame, and its length on the wire.
    fn bytes(&self, snap: usize) -> (Vec<u8>, usize) {
        let mut bytes = self.head.clone();
        let len = match &self.network {
            Network::Packet(packet) => {
                bytes.extend(packet.bytes());
                packet.len()
            }
            Network::Other(other, len) => {
                bytes.extend(other);
                *len
            }
        };
        bytes.truncate(snap);
        (bytes, self.head.len() + len)
    }

    /// Returns the bytes of the link-layer header that contain the network protocol; `None` if it
    /// has none.
    pub(crate) fn ethertype_mut(&mut self, link: u16) -> Option<&mut [u8]> {
        let at = match link {
            COOKED_2 => 0,
            _ => self.head.len().checked_sub(2)?,
        };
        self.head.get_mut(at..at + 2)
    }
}

/// Returns the length of a frame's link-layer header.
pub(crate) fn head_len(link: u16, bytes: &[u8]) -> usize {
    match link {
        ETHERNET => {
            let is_tag = |at: &usize| {
                let kind = bytes.get(*at..*at + 2);
                kind == Some(&[0x81, 0]) || kind == Some(&[0x88, 0xa8])
            };
            let tags = (12..).step_by(4).take_while(is_tag).count();
            14 + 4 * tags
        }
        RAW => 0,
        COOKED => 16,
        COOKED_2 => 20,
        other => panic!("frames of link type {other} are not read here"),
    }
}

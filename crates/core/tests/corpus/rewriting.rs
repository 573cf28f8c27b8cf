//! Rewrites packets into other containers, over other link layers, cut, or over IPv6.

/// IP packets with their times and lengths.
#[derive(Clone, Debug)]
pub(crate) struct Frames(Vec<Frame>);

#[derive(Clone, Debug)]
struct Frame {
    at_ns: u64,
    /// The captured bytes from the IP header on.
    packet: Vec<u8>,
    /// The packet's length on the wire.
    wire_len: usize,
}

/// The link layer whose header is put in front of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Raw,
    Ethernet,
    Vlan,
    DoubleVlan,
    Cooked,
    Cooked2,
}

impl Link {
    fn number(self) -> u16 {
        match self {
            Self::Raw => 101,
            Self::Ethernet | Self::Vlan | Self::DoubleVlan => 1,
            Self::Cooked => 113,
            Self::Cooked2 => 276,
        }
    }

    fn header(self, packet: &[u8]) -> Vec<u8> {
        let protocol: [u8; 2] = match packet[0] >> 4 {
            6 => [0x86, 0xdd],
            _ => [0x08, 0x00],
        };
        let macs = [0x02_u8; 12];
        match self {
            Self::Raw => Vec::new(),
            Self::Ethernet => [&macs[..], &protocol].concat(),
            Self::Vlan => [&macs[..], &[0x81, 0, 0, 7], &protocol].concat(),
            Self::DoubleVlan => {
                [&macs[..], &[0x88, 0xa8, 0, 7], &[0x81, 0, 0, 9], &protocol].concat()
            }
            Self::Cooked => [&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0][..], &protocol].concat(),
            Self::Cooked2 => [
                &protocol[..],
                &[0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0],
            ]
            .concat(),
        }
    }
}

impl Frames {
    /// Reads a little-endian pcap with nanoseconds, over Ethernet or raw IP.
    pub(crate) fn read(file: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 bytes"));
        assert_eq!(word(0), 0xa1b2_3c4d, "a nanosecond pcap");
        let link_len = if word(20) == 1 { 14 } else { 0 };
        let mut frames = Vec::new();
        let mut at = 24;
        while at < file.len() {
            let (captured, wire) = (word(at + 8) as usize, word(at + 12) as usize);
            frames.push(Frame {
                at_ns: u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)),
                packet: file[at + 16 + link_len..at + 16 + captured].to_vec(),
                wire_len: wire - link_len,
            });
            at += 16 + captured;
        }
        Self(frames)
    }

    /// Cuts each packet so that its Ethernet frame has at most `snap` bytes.
    pub(crate) fn cut_to(mut self, snap: usize) -> Self {
        for frame in &mut self.0 {
            frame.packet.truncate(snap - 14);
        }
        self
    }

    /// Gives the same segments IPv6 addresses.
    pub(crate) fn over_ipv6(mut self) -> Self {
        for frame in &mut self.0 {
            let old = &frame.packet;
            let header_len = usize::from(old[0] & 0x0f) * 4;
            let total = usize::from(u16::from_be_bytes([old[2], old[3]]));
            let payload_len = u16::try_from(total - header_len).expect("it was one packet");
            let mut new = vec![0x60, 0, 0, 0];
            new.extend(payload_len.to_be_bytes());
            new.extend([6, old[8]]);
            for end in [&old[12..16], &old[16..20]] {
                new.extend([0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                new.extend(end);
            }
            new.extend(&old[header_len..]);
            frame.wire_len = frame.wire_len + 40 - header_len;
            frame.packet = new;
        }
        self
    }

    /// Writes a pcap with nanoseconds or microseconds.
    pub(crate) fn pcap(&self, link: Link, nanoseconds: bool) -> Vec<u8> {
        let unit = if nanoseconds { 1 } else { 1000 };
        let magic: u32 = if nanoseconds {
            0xa1b2_3c4d
        } else {
            0xa1b2_c3d4
        };
        let mut file = Vec::new();
        file.extend(magic.to_le_bytes());
        file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        file.extend(262_144_u32.to_le_bytes());
        file.extend(u32::from(link.number()).to_le_bytes());
        for frame in &self.0 {
            for word in frame.words(link, unit) {
                file.extend(word.to_le_bytes());
            }
            file.extend(link.header(&frame.packet));
            file.extend(&frame.packet);
        }
        file
    }

    /// Writes a big-endian pcap with nanoseconds.
    pub(crate) fn big_endian_pcap(&self) -> Vec<u8> {
        let link = Link::Ethernet;
        let mut file = Vec::new();
        file.extend(0xa1b2_3c4d_u32.to_be_bytes());
        file.extend([0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        file.extend(262_144_u32.to_be_bytes());
        file.extend(u32::from(link.number()).to_be_bytes());
        for frame in &self.0 {
            for word in frame.words(link, 1) {
                file.extend(word.to_be_bytes());
            }
            file.extend(link.header(&frame.packet));
            file.extend(&frame.packet);
        }
        file
    }

    /// Writes a pcapng whose timestamps have the unit `resolution` (`if_tsresol`).
    pub(crate) fn pcapng(&self, link: Link, resolution: u8) -> Vec<u8> {
        let mut file = block(
            0x0a0d_0d0a,
            &[
                &0x1a2b_3c4d_u32.to_le_bytes()[..],
                &[1, 0, 0, 0],
                &[0xff; 8],
            ]
            .concat(),
        );
        let mut interface = Vec::new();
        interface.extend(link.number().to_le_bytes());
        interface.extend([0, 0, 0, 0, 0, 0]);
        interface.extend([9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0]);
        file.extend(block(1, &interface));
        for frame in &self.0 {
            let units = match resolution {
                9 => u128::from(frame.at_ns),
                6 => u128::from(frame.at_ns / 1000),
                binary => (u128::from(frame.at_ns) << (binary & 0x7f)) / 1_000_000_000,
            };
            let bytes = [link.header(&frame.packet), frame.packet.clone()].concat();
            let wire = frame.wire_len + bytes.len() - frame.packet.len();
            let mut body = Vec::new();
            body.extend(0_u32.to_le_bytes());
            body.extend(((units >> 32) as u32).to_le_bytes());
            body.extend((units as u32).to_le_bytes());
            body.extend((bytes.len() as u32).to_le_bytes());
            body.extend((wire as u32).to_le_bytes());
            body.extend(&bytes);
            file.extend(block(6, &body));
        }
        file
    }
}

impl Frame {
    /// Returns the fields of the packet's record header in a pcap.
    fn words(&self, link: Link, unit: u64) -> [u32; 4] {
        let link_len = link.header(&self.packet).len();
        [
            (self.at_ns / 1_000_000_000) as u32,
            (self.at_ns % 1_000_000_000 / unit) as u32,
            (self.packet.len() + link_len) as u32,
            (self.wire_len + link_len) as u32,
        ]
    }
}

/// Returns a padded pcapng block with this body.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let len = (body.len() + padding + 12) as u32;
    let mut block = Vec::new();
    block.extend(kind.to_le_bytes());
    block.extend(len.to_le_bytes());
    block.extend(body);
    block.extend(vec![0; padding]);
    block.extend(len.to_le_bytes());
    block
}

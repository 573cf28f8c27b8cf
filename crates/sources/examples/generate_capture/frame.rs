//! Frames of a pcap file: Ethernet, IPv4, TCP with timestamps.

use std::io::{self, Write};

/// 2023-11-14T22:13:20Z, in seconds.
const EPOCH: u64 = 1_700_000_000;

/// A TCP segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// Time of the segment in nanoseconds since the beginning of the capture.
    pub(crate) at: u64,
    pub(crate) is_from_client: bool,
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) len: u16,
    /// Offset of the payload in its message.
    pub(crate) offset: u32,
    /// The range received after a hole, for a SACK option.
    pub(crate) sack: Option<(u32, u32)>,
}

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const PSH: u8 = 0x08;
pub(crate) const ACK: u8 = 0x10;

/// The endpoints, and the next IP identification of each side.
pub(crate) struct Ends {
    pub(crate) client: [u8; 4],
    pub(crate) client_port: u16,
    pub(crate) server: [u8; 4],
    pub(crate) identifications: [u16; 2],
    /// The last timestamps of the server and of the client.
    pub(crate) stamps: [u32; 2],
}

/// Writes the header of a file with timestamps in nanoseconds.
pub(crate) fn file_header(output: &mut impl Write) -> io::Result<()> {
    let mut header = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
    header.extend([2, 0, 4, 0]);
    header.extend([0; 8]);
    header.extend(262_144_u32.to_le_bytes());
    header.extend(1_u32.to_le_bytes());
    output.write_all(&header)
}

/// Writes one record: the segment with the bytes of `message` at its offset. Payload after the end
/// of the message is filler.
pub(crate) fn write(
    output: &mut impl Write,
    ends: &mut Ends,
    segment: &Segment,
    message: &[u8],
) -> io::Result<()> {
    let mut options = [1_u8; 36];
    let options_len = options_of(ends, segment, &mut options);
    let headers = 14 + 20 + 20 + options_len;
    let whole = (headers + usize::from(segment.len)) as u32;
    let mut head = [0_u8; 16 + 14 + 20 + 20 + 36];
    let (seconds, nanos) = (segment.at / 1_000_000_000, segment.at % 1_000_000_000);
    head[0..4].copy_from_slice(&((EPOCH + seconds) as u32).to_le_bytes());
    head[4..8].copy_from_slice(&(nanos as u32).to_le_bytes());
    head[8..12].copy_from_slice(&whole.to_le_bytes());
    head[12..16].copy_from_slice(&whole.to_le_bytes());
    head[28..30].copy_from_slice(&[0x08, 0x00]);
    ip_header(&mut head[30..50], ends, segment, whole as u16 - 14);
    tcp_header(&mut head[50..70], ends, segment, options_len);
    head[70..70 + options_len].copy_from_slice(&options[..options_len]);
    output.write_all(&head[..70 + options_len])?;
    let text = message.get(segment.offset as usize..).unwrap_or_default();
    let text = &text[..text.len().min(usize::from(segment.len))];
    output.write_all(text)?;
    const FILLER: [u8; 1500] = [b'x'; 1500];
    output.write_all(&FILLER[..usize::from(segment.len) - text.len()])
}

fn ip_header(header: &mut [u8], ends: &mut Ends, segment: &Segment, len: u16) {
    let (source, destination) = if segment.is_from_client {
        (ends.client, ends.server)
    } else {
        (ends.server, ends.client)
    };
    let identification = &mut ends.identifications[usize::from(segment.is_from_client)];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&len.to_be_bytes());
    header[4..6].copy_from_slice(&identification.to_be_bytes());
    header[6] = 0x40;
    header[8] = if segment.is_from_client { 52 } else { 64 };
    header[9] = 6;
    header[12..16].copy_from_slice(&source);
    header[16..20].copy_from_slice(&destination);
    *identification = identification.wrapping_add(1);
}

fn tcp_header(header: &mut [u8], ends: &Ends, segment: &Segment, options_len: usize) {
    let (source, destination) = if segment.is_from_client {
        (ends.client_port, 80)
    } else {
        (80, ends.client_port)
    };
    header[0..2].copy_from_slice(&source.to_be_bytes());
    header[2..4].copy_from_slice(&destination.to_be_bytes());
    header[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    header[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    header[12] = (((20 + options_len) / 4) << 4) as u8;
    header[13] = segment.flags;
    header[14..16].copy_from_slice(&0xfaf0_u16.to_be_bytes());
}

/// Writes the TCP options and returns their length. Timestamps count milliseconds, and the echoed
/// timestamp is the last one that the other end sent.
fn options_of(ends: &mut Ends, segment: &Segment, options: &mut [u8; 36]) -> usize {
    let stamp = (segment.at / 1_000_000) as u32;
    let side = usize::from(segment.is_from_client);
    ends.stamps[side] = stamp;
    let echo = ends.stamps[1 - side];
    let mut times = [8, 10, 0, 0, 0, 0, 0, 0, 0, 0];
    times[2..6].copy_from_slice(&stamp.to_be_bytes());
    times[6..10].copy_from_slice(&echo.to_be_bytes());
    if segment.flags & SYN != 0 {
        options[..4].copy_from_slice(&[2, 4, 0x05, 0xb4]);
        options[4..6].copy_from_slice(&[4, 2]);
        options[6..16].copy_from_slice(&times);
        options[17..20].copy_from_slice(&[3, 3, 7]);
        return 20;
    }
    options[2..12].copy_from_slice(&times);
    let Some((left, right)) = segment.sack else {
        return 12;
    };
    options[14..16].copy_from_slice(&[5, 10]);
    options[16..20].copy_from_slice(&left.to_be_bytes());
    options[20..24].copy_from_slice(&right.to_be_bytes());
    24
}

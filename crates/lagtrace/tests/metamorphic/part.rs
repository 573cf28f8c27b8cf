//! Changes of a capture's extent: without its beginning, merged with another capture, or in pieces.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::capture::{Capture, Frame, Network};
use crate::draw::Draw;
use crate::packet::{Packet, Tcp};
use crate::place;

/// Returns the capture without its first packets, 1 % to 10 % of all; `None` unless most
/// connections begin later. These still show the fault completely.
pub(crate) fn without_begin(capture: &Capture, draw: &mut Draw) -> Option<Capture> {
    let count = capture.frames.len();
    let gone = (count as f64 * (0.01 + 0.09 * draw.part())).ceil() as usize;
    let frames: Vec<Frame> = capture.frames.iter().skip(gone).cloned().collect();
    let begun = |frames: &[Frame]| {
        let packets = frames.iter().filter_map(Frame::packet);
        let opening = packets.filter(|packet| {
            packet
                .tcp()
                .is_some_and(|tcp| tcp.has(Tcp::SYN) && !tcp.has(Tcp::ACK))
        });
        opening.map(Packet::way).collect::<HashSet<_>>().len()
    };
    let (before, after) = (begun(&capture.frames), begun(&frames));
    (after * 2 > before).then_some(Capture {
        link: capture.link,
        frames,
    })
}

/// Returns the capture merged with another one, of other hosts, that begins at a random moment
/// within it.
pub(crate) fn beside(capture: &Capture, other: &Capture, draw: &mut Draw) -> Option<Capture> {
    let (first, last) = (capture.frames.first()?, capture.frames.last()?);
    let model = capture
        .frames
        .iter()
        .find(|frame| frame.packet().is_some())?;
    let begin = first.at + ((last.at - first.at) as f64 * draw.part()) as i64;
    let shift = begin - other.frames.first()?.at;
    let mut both = capture.clone();
    for frame in &place::rehosted(other, &elsewhere).frames {
        // Only IP packets can get the link-layer header of another capture.
        let Network::Packet(packet) = &frame.network else {
            continue;
        };
        let mut frame = Frame {
            at: frame.at + shift,
            head: model.head.clone(),
            network: Network::Packet(packet.clone()),
        };
        let ethertype = if packet.source.is_ipv6() {
            [0x86, 0xdd]
        } else {
            [8, 0]
        };
        if let Some(place) = frame.ethertype_mut(capture.link) {
            place.copy_from_slice(&ethertype);
        }
        both.frames.push(frame);
    }
    both.sort();
    Some(both)
}

/// Returns the address of a host that is in no recording.
fn elsewhere(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) if v4.is_multicast() || v4.is_broadcast() => address,
        IpAddr::V6(v6) if v6.is_multicast() => address,
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & 0xffff | 0xac1f_0000).into(),
        IpAddr::V6(v6) => {
            let low = v6.to_bits() & u128::from(u64::MAX);
            Ipv6Addr::from_bits(low | 0xfd5e << 112).into()
        }
    }
}

/// Returns the capture in two to four pieces, one after the other.
pub(crate) fn pieces(capture: &Capture, draw: &mut Draw) -> Vec<Capture> {
    let count = draw.from(2, 4) as usize;
    let len = capture.frames.len().div_ceil(count).max(1);
    let piece = |frames: &[Frame]| Capture {
        link: capture.link,
        frames: frames.to_vec(),
    };
    capture.frames.chunks(len).map(piece).collect()
}

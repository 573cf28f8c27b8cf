//! Fragmentation of an IPv4 packet that is larger than the next link's MTU, by a router (RFC 791
//! §3.2).

use super::icmp::checksum;
use super::packet::u16_at;

const DONT: u16 = 0x4000;
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1FFF;

/// Returns the fragments of a packet for a link of this MTU, in order; `None` if it must not be
/// fragmented (DF), is IPv6, or malformed.
pub(super) fn fragments(packet: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let first = *packet.first()?;
    let head = usize::from(first & 15) * 4;
    if first >> 4 != 4 || !(20..packet.len()).contains(&head) {
        return None;
    }
    let field = u16_at(packet, 6)?;
    // All but the last carry a multiple of eight bytes.
    let step = mtu.checked_sub(head)? / 8 * 8;
    if field & DONT != 0 || step == 0 {
        return None;
    }
    let (header, data) = packet.split_at(head);
    let begin = usize::from(field & OFFSET);
    let count = data.len().div_ceil(step);
    let cut = |(n, part): (usize, &[u8])| {
        let more = if n + 1 < count { MORE } else { field & MORE };
        let offset = u16::try_from(begin + n * step / 8).ok()?;
        (offset <= OFFSET).then(|| fragment(header, part, offset | more))?
    };
    data.chunks(step).enumerate().map(cut).collect()
}

/// Returns a fragment. The options are copied into each fragment, as most options require.
fn fragment(header: &[u8], part: &[u8], field: u16) -> Option<Vec<u8>> {
    let mut whole = header.to_vec();
    let length = u16::try_from(header.len() + part.len()).ok()?;
    whole[2..4].copy_from_slice(&length.to_be_bytes());
    whole[6..8].copy_from_slice(&field.to_be_bytes());
    whole[10..12].fill(0);
    let sum = checksum(0, &whole);
    whole[10..12].copy_from_slice(&sum.to_be_bytes());
    whole.extend_from_slice(part);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::super::packet::ACK;
    use super::super::packet::tests::{datagram_v6, segment};
    use super::*;

    /// Returns a packet that may be fragmented.
    fn packet(payload: usize) -> Vec<u8> {
        let mut packet = segment((1, 2), ACK, 7, payload);
        packet[6..8].fill(0);
        packet
    }

    #[test]
    fn fragments_carry_all_of_it_and_know_their_place() {
        let whole = packet(2000);
        let cut = fragments(&whole, 1400).expect("may be cut");
        let data: Vec<u8> = cut.iter().flat_map(|part| part[20..].to_vec()).collect();
        assert_eq!(data, whole[20..]);
        let places: Vec<_> = cut.iter().map(|part| u16_at(part, 6)).collect();
        assert_eq!(places, [Some(MORE), Some(1376 / 8)]);
        for part in &cut {
            assert!(part.len() <= 1400);
            assert_eq!(u16_at(part, 2), u16::try_from(part.len()).ok());
            assert_eq!(checksum(0, &part[..20]), 0);
        }
        // A fragment can be fragmented again, like a whole packet.
        let again = fragments(&cut[0], 700).expect("may be cut");
        let places: Vec<_> = again.iter().map(|part| u16_at(part, 6)).collect();
        assert_eq!(places, [Some(MORE), Some(MORE | 85), Some(MORE | 170)]);
    }

    #[test]
    fn what_may_not_be_cut_is_not() {
        assert_eq!(fragments(&segment((1, 2), ACK, 7, 2000), 1400), None);
        assert_eq!(fragments(&datagram_v6(2000), 1400), None);
        assert_eq!(fragments(&packet(2000), 24), None);
        for cut in 0..21 {
            assert_eq!(fragments(&packet(2000)[..cut], 100), None);
        }
    }
}

//! The Internet checksum (RFC 1071).

use core::net::IpAddr;

/// Returns the sum of the big-endian 16-bit words; an odd last byte is padded with zero.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| {
        let byte = |at: usize| u32::from(pair.get(at).copied().unwrap_or(0));
        byte(0) << 8 | byte(1)
    };
    bytes.chunks(2).map(word).sum()
}

/// Returns the sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1).
pub(crate) fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> u32 {
    let address = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => sum(&ip.octets()),
        IpAddr::V6(ip) => sum(&ip.octets()),
    };
    let len = u32::try_from(len).unwrap_or(0);
    address(source) + address(destination) + u32::from(protocol) + len
}

/// Adds the carries to the low 16 bits of a sum. The complement of the result is the checksum.
pub(crate) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bears_its_checksum_sums_up_to_ones() {
        // RFC 1071 §3 adds up these words to 0xddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), 0xddf2);
        let checked = [&bytes[..], &(!fold(sum(&bytes))).to_be_bytes()].concat();
        assert_eq!(fold(sum(&checked)), 0xffff);
        assert_eq!(sum(&[1, 2, 3]), 0x0102 + 0x0300);
    }
}

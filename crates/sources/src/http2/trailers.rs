//! The outcome of a gRPC call, from the field section that ends the response: its trailers, or its
//! head if there is no message. There is no dynamic table.

/// The name of the field, and the same with Huffman coding (RFC 7541, appendix B).
const NAME: &[u8] = b"grpc-status";
const NAME_CODED: [u8; 8] = [0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f];
/// The status of a call whose server sent none.
pub(super) const UNKNOWN: u8 = 2;
/// The highest status (`UNAUTHENTICATED`); others are unknown.
const HIGHEST: u8 = 16;

/// Returns the value of `grpc-status` in a field section; `None` if there is no such field.
pub(super) fn grpc_status(section: &[u8]) -> Option<u8> {
    let mut rest = section;
    while let Some(&first) = rest.first() {
        if first & 0x80 != 0 {
            integer(&mut rest, 7)?;
            continue;
        }
        if first & 0xe0 == 0x20 {
            integer(&mut rest, 5)?;
            continue;
        }
        let bits = if first & 0x40 != 0 { 6 } else { 4 };
        let is_named = integer(&mut rest, bits)? == 0;
        let name = is_named.then(|| string(&mut rest));
        let value = string(&mut rest)?;
        let is_status = match name.flatten() {
            Some((name, false)) => name == NAME,
            Some((name, true)) => name == NAME_CODED,
            None => false,
        };
        if is_status {
            let status = digits(value).filter(|&status| status <= HIGHEST);
            return Some(status.unwrap_or(UNKNOWN));
        }
    }
    None
}

/// Consumes an integer with a prefix of this many bits (RFC 7541 §5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Option<usize> {
    let (&first, behind) = rest.split_first()?;
    *rest = behind;
    let most = (1 << bits) - 1;
    let mut number = usize::from(first) & most;
    if number < most {
        return Some(number);
    }
    for shift in [0, 7, 14] {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        number += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Consumes a text; also returns true if it is Huffman-coded (§5.2).
fn string<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], bool)> {
    let is_coded = rest.first()? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some((text, is_coded))
}

/// Parses a number of at most two digits.
fn digits((text, is_coded): (&[u8], bool)) -> Option<u8> {
    if text.is_empty() || text.len() > 2 {
        return None;
    }
    let mut number = 0_u8;
    if !is_coded {
        for byte in text {
            let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
            number = number.checked_mul(10)?.checked_add(digit)?;
        }
        return Some(number);
    }
    // The digits 0 to 2 have the five-bit codes 0 to 2. The others have six-bit codes from 0x19 on.
    // The last byte is padded with ones.
    let mut left = 8 * text.len();
    let mut bits = text
        .iter()
        .fold(0_u16, |sum, &byte| sum << 8 | u16::from(byte))
        << (16 - left);
    while left >= 5 && bits != u16::MAX << (16 - left) {
        let (five, six) = ((bits >> 11) as u8, (bits >> 10) as u8);
        let (digit, len) = match five {
            0..=2 => (five, 5),
            _ => (six.checked_sub(0x19)? + 3, 6),
        };
        number = number.checked_mul(10)?.checked_add(digit)?;
        (bits, left) = (bits << len, left.checked_sub(len)?);
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_an_outcome() {
        let coded = |value: &[u8]| [&b"\x40\x88"[..], &NAME_CODED, value].concat();
        for (section, status) in [
            (&b"\x00\x0bgrpc-status\x010"[..], Some(0)),
            (b"\x40\x0bgrpc-status\x0214\x00\x01a\x01b", Some(14)),
            (
                b"\x88\x5f\x10application/grpc\x00\x0bgrpc-status\x0216",
                Some(16),
            ),
            (b"\x20\x10\x0bgrpc-status\x015", Some(5)),
            // Huffman-coded: 0 is 00000, 14 is 00001 011010, 7 is 011101, padded with ones.
            (&coded(b"\x81\x07"), Some(0)),
            (&coded(b"\x82\x0b\x5f"), Some(14)),
            (&coded(b"\x81\x77"), Some(7)),
            // Other fields, and values that are no status.
            (b"\x88", None),
            (b"\x00\x0cgrpc-message\x010", None),
            (b"\x00\x0bgrpc-status\x01x", Some(UNKNOWN)),
            (b"\x00\x0bgrpc-status\x0299", Some(UNKNOWN)),
            (b"\x00\x0bgrpc-status\x03100", Some(UNKNOWN)),
            (b"\x00\x0bgrpc-stat", None),
            (b"", None),
        ] {
            assert_eq!(grpc_status(section), status, "{}", section.escape_ascii());
        }
    }
}

//! The status of a response, parsed from the beginning of its field section. Pseudo-header fields
//! such as `:status` come first (RFC 9113 §8.3). There is no dynamic table.

/// Statuses of the static table, from index 8 on (RFC 7541, appendix A).
const STATIC: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
/// Index of the first entry of the static table that is named `:status`.
const STATUS: u8 = 8;

/// Returns the status at the beginning of a field section.
pub(super) fn of(section: &[u8]) -> Option<u16> {
    let mut rest = section;
    // Size updates of the dynamic table can come first (§4.2). They set the size to zero.
    while let Some((&first, behind)) = rest.split_first() {
        if first & 0xe0 != 0x20 || first & 0x1f == 0x1f {
            break;
        }
        rest = behind;
    }
    let (&first, behind) = rest.split_first()?;
    if first & 0x80 != 0 {
        return STATIC
            .get(usize::from((first & 0x7f).checked_sub(STATUS)?))
            .copied();
    }
    // Literal fields: the name's index has 6 bits with indexing, and 4 bits without.
    let name = if first & 0x40 != 0 {
        first & 0x3f
    } else {
        first & 0x0f
    };
    if !(STATUS..STATUS + STATIC.len() as u8).contains(&name) {
        return None;
    }
    // The value: a Huffman flag, the length and the bytes (§5.2).
    let (&length, value) = behind.split_first()?;
    let digits = value.get(..usize::from(length & 0x7f))?;
    let status = match length & 0x80 {
        0 => number(digits.iter().map(|digit| digit.checked_sub(b'0')))?,
        _ => huffman(digits)?,
    };
    (100..=999).contains(&status).then_some(status)
}

/// Parses three decimal digits.
fn number(digits: impl ExactSizeIterator<Item = Option<u8>>) -> Option<u16> {
    if digits.len() != 3 {
        return None;
    }
    digits
        .map(|digit| digit.filter(|&digit| digit < 10))
        .try_fold(0, |sum, digit| Some(sum * 10 + u16::from(digit?)))
}

/// Parses three Huffman-coded digits (RFC 7541, appendix B). The digits 0 to 2 have the five-bit
/// codes 0 to 2. The others have six-bit codes from 0x19 on. The last byte is padded with ones.
fn huffman(bytes: &[u8]) -> Option<u16> {
    if bytes.is_empty() || bytes.len() > 3 {
        return None;
    }
    let filled = bytes
        .iter()
        .fold(0_u32, |sum, &byte| sum << 8 | u32::from(byte));
    let mut bits = filled << (32 - 8 * bytes.len());
    let mut digits = [None; 3];
    for digit in &mut digits {
        let (five, six) = ((bits >> 27) as u8, (bits >> 26) as u8);
        let length;
        (*digit, length) = match five {
            0..=2 => (Some(five), 5),
            _ => (six.checked_sub(0x19).map(|above| above + 3), 6),
        };
        bits <<= length;
    }
    number(digits.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_status() {
        for (section, status) in [
            (&b"\x88\x5f"[..], Some(200)),
            (b"\x20\x8e", Some(500)),
            (b"\x20\x20\x8d rest", Some(404)),
            (b"\x48\x03301", Some(301)),
            (b"\x08\x03503\x00", Some(503)),
            (b"\x18\x03599", Some(599)),
            // RFC 7541, C.6.1 (302, Huffman-coded) and C.6.2 (307).
            (b"\x48\x82\x64\x02", Some(302)),
            (b"\x48\x83\x64\x0e\xff", Some(307)),
            // Invalid: another field, an entry of the dynamic table, a status without digits, a
            // truncated field.
            (b"\x82", None),
            (b"\xbe", None),
            (b"\x48\x0330x", None),
            (b"\x48\x0430", None),
            (b"\x48\x03099", None),
            (b"\x48\x85\xff\xff\xff\xff\xff", None),
            (b"\x48", None),
            (b"\x20", None),
            (b"", None),
        ] {
            assert_eq!(of(section), status, "{}", section.escape_ascii());
        }
    }
}

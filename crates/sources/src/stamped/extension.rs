//! The extensions of ICMP errors, which come after the quoted packet (RFC 4884, RFC 4950).

use lagtrace_core::observed::route::MplsLabel;

/// Maximum number of labels read from one message.
const MAX_LABELS: usize = 8;
/// Maximum number of objects read from one message.
const MAX_OBJECTS: usize = 16;
/// Number of bytes in the header of the extension, and in that of an object (RFC 4884 §7, §8).
const HEADER: usize = 4;
/// Class and type of an incoming label stack (RFC 4950 §3).
const LABEL_STACK: (u8, u8) = (1, 1);

/// Returns the MPLS labels in an extension structure, up to the first truncated object. Returns
/// none if the version or the checksum is wrong.
pub(super) fn labels(extension: &[u8]) -> Vec<MplsLabel> {
    let mut labels = Vec::new();
    if !is_valid(extension) {
        return labels;
    }
    let mut rest = extension.get(HEADER..).unwrap_or_default();
    for _ in 0..MAX_OBJECTS {
        let Some(&[high, low, class, kind]) = rest.first_chunk::<HEADER>() else {
            break;
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some(object) = rest.get(HEADER..length) else {
            break;
        };
        if (class, kind) == LABEL_STACK {
            let room = MAX_LABELS - labels.len();
            labels.extend(object.chunks_exact(4).take(room).filter_map(label));
        }
        rest = rest.get(length.max(HEADER)..).unwrap_or_default();
    }
    labels
}

/// Parses an entry of a label stack (RFC 3032 §2.1).
fn label(entry: &[u8]) -> Option<MplsLabel> {
    let entry = u32::from_be_bytes(entry.try_into().ok()?);
    let [_, _, third, ttl] = entry.to_be_bytes();
    Some(MplsLabel {
        label: entry >> 12,
        class: (third >> 1) & 7,
        is_bottom: third & 1 == 1,
        ttl,
    })
}

/// Returns true if the version is 2, and the checksum is correct or absent.
fn is_valid(extension: &[u8]) -> bool {
    let is_version = extension.first().is_some_and(|first| first >> 4 == 2);
    let is_sent = extension.get(2..HEADER).is_some_and(|sum| sum != [0, 0]);
    let mut sum: u64 = extension
        .chunks(2)
        .map(|pair| {
            let low = pair.get(1).copied().unwrap_or(0);
            u64::from(u16::from_be_bytes([
                pair.first().copied().unwrap_or(0),
                low,
            ]))
        })
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    is_version && extension.len() >= HEADER && (!is_sent || sum == 0xffff)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns an extension with two labels, in the layout of RFC 4950. The checksum was computed
    /// by hand.
    fn two() -> Vec<u8> {
        let mut bytes = vec![0x20, 0, 0, 0, 0, 12, 1, 1];
        bytes.extend([0x05, 0xdc, 0x1a, 0x01, 0x00, 0x01, 0x03, 0xff]);
        let sum: u32 = bytes
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
            .sum();
        let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn a_label_stack_is_read() {
        let labels = labels(&two());
        let read = |l: &MplsLabel| (l.label, l.class, l.is_bottom, l.ttl);
        let read: Vec<_> = labels.iter().map(read).collect();
        assert_eq!(read, [(24_001, 5, false, 1), (16, 1, true, 255)]);
    }

    #[test]
    fn what_is_damaged_or_cut_holds_no_labels() {
        for at in 0..16 {
            let mut bytes = two();
            bytes[at] ^= 0x40;
            assert_eq!(labels(&bytes), [], "byte {at}");
        }
        for len in 0..16 {
            assert_eq!(labels(&two()[..len]), [], "cut at {len}");
        }
    }

    #[test]
    fn objects_without_length_end_the_reading_and_labels_are_bounded() {
        assert_eq!(labels(&[0x20, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]), []);
        let mut many = vec![0x20, 0, 0, 0];
        many.extend((4_u16 + 400).to_be_bytes());
        many.extend([1, 1]);
        many.extend([0; 400]);
        assert_eq!(labels(&many).len(), MAX_LABELS);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = bytes;
            prop_assert!(labels(&bytes).len() <= MAX_LABELS);
            if bytes.len() >= 4 {
                (bytes[0], bytes[2], bytes[3]) = (0x20, 0, 0);
            }
            prop_assert!(labels(&bytes).len() <= MAX_LABELS);
        }
    }
}

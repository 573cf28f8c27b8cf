//! VLAN tags (IEEE 802.1Q) added to the frames of a capture, as on the mirror port of a switch.
//! Tags are added afterwards because not every kernel that the lab runs on has VLAN devices.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// The lengths of the file header and of each record header (draft-ietf-opsawg-pcap §4, §5).
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// The length of the destination and source addresses, which the tag follows.
const ADDRESSES: usize = 12;

/// The link type of Ethernet.
const ETHERNET: u32 = 1;

/// The tag's protocol number.
const TPID: [u8; 2] = [0x81, 0x00];

/// Tags every frame of a capture that tcpdump wrote on this machine.
pub(super) fn tag(file: &Path, vlan: u16) -> Result<(), Error> {
    let capture = fs::read(file).map_err(Error::file("read", file))?;
    let tagged = tagged(&capture, vlan).ok_or_else(|| Error::Recording {
        host: "a VLAN".to_owned(),
        message: format!("{} holds no Ethernet frames", file.display()),
    })?;
    fs::write(file, tagged).map_err(Error::file("write", file))
}

/// Returns the capture with tags; `None` if it is not a complete capture of Ethernet frames.
fn tagged(capture: &[u8], vlan: u16) -> Option<Vec<u8>> {
    let (head, mut rest) = capture.split_at_checked(FILE_HEADER)?;
    if word(head, 20)? != ETHERNET {
        return None;
    }
    let mut out = Vec::with_capacity(capture.len() + capture.len() / 8);
    out.extend_from_slice(head);
    while !rest.is_empty() {
        let (record, after) = rest.split_at_checked(RECORD_HEADER)?;
        let (kept, original) = (word(record, 8)?, word(record, 12)?);
        let (frame, after) = after.split_at_checked(kept as usize)?;
        let (addresses, payload) = frame.split_at_checked(ADDRESSES)?;
        out.extend_from_slice(&record[..8]);
        out.extend_from_slice(&(kept + 4).to_ne_bytes());
        out.extend_from_slice(&(original + 4).to_ne_bytes());
        out.extend_from_slice(addresses);
        out.extend_from_slice(&TPID);
        out.extend_from_slice(&(vlan & 0x0FFF).to_be_bytes());
        out.extend_from_slice(payload);
        rest = after;
    }
    Some(out)
}

/// Returns the number at an offset, in the machine's own byte order.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(link: u32, frame: &[u8]) -> Vec<u8> {
        let mut file = vec![0; FILE_HEADER - 4];
        file.extend(link.to_ne_bytes());
        file.extend([7; 8]);
        file.extend((frame.len() as u32).to_ne_bytes());
        file.extend((frame.len() as u32).to_ne_bytes());
        file.extend(frame);
        file
    }

    #[test]
    fn the_tag_stands_behind_the_addresses() {
        let mut frame = vec![0xAA; ADDRESSES];
        frame.extend([0x08, 0x00, 1, 2, 3]);
        let tagged = tagged(&capture(ETHERNET, &frame), 5).expect("Ethernet");
        let frame = &tagged[FILE_HEADER + RECORD_HEADER..];
        assert_eq!(frame[..ADDRESSES], [0xAA; ADDRESSES]);
        assert_eq!(frame[ADDRESSES..], [0x81, 0, 0, 5, 0x08, 0, 1, 2, 3]);
        assert_eq!(word(&tagged, FILE_HEADER + 8), Some(21));
    }

    #[test]
    fn what_is_cut_or_of_another_link_is_refused() {
        let whole = capture(ETHERNET, &[0; 60]);
        assert!(tagged(&whole[..whole.len() - 1], 5).is_none());
        assert!(tagged(&whole[..10], 5).is_none());
        assert!(tagged(&capture(101, &[0; 60]), 5).is_none());
    }
}

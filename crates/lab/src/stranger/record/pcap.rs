//! Cutting of captures as tcpdump writes them: pcap with nanoseconds, in this machine's byte order.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// The size of the file's header, and of a packet's.
const FILE_HEAD: usize = 24;
const HEAD: usize = 16;

/// Returns the time of the first packet; 0 if there is none.
pub(super) fn begin_ns(file: &Path) -> Result<u64, Error> {
    let bytes = read(file)?;
    Ok(packets(&bytes).next().map_or(0, |(time, _)| time))
}

/// Returns the time of the packet behind this share of all packets; 0 if there are none.
pub(super) fn time_at(file: &Path, percent: u8) -> Result<u64, Error> {
    let bytes = read(file)?;
    let times: Vec<u64> = packets(&bytes).map(|(time, _)| time).collect();
    let at = times.len() * usize::from(percent) / 100;
    Ok(times.get(at).copied().unwrap_or_default())
}

/// Removes the packets before a time.
pub(super) fn cut(file: &Path, from_ns: u64) -> Result<(), Error> {
    let bytes = read(file)?;
    let mut kept = bytes[..FILE_HEAD.min(bytes.len())].to_vec();
    for (_, packet) in packets(&bytes).skip_while(|&(time, _)| time < from_ns) {
        kept.extend(packet);
    }
    fs::write(file, kept).map_err(Error::file("write", file))
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    fs::read(file).map_err(Error::file("read", file))
}

/// Returns each packet with its header, and its time in ns since 1970.
fn packets(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = bytes.get(FILE_HEAD..).unwrap_or_default();
    std::iter::from_fn(move || {
        let word = |at: usize| -> Option<u32> {
            let word = rest.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(word))
        };
        let (seconds, nanos, length) = (word(0)?, word(4)?, word(8)?);
        let length = HEAD + usize::try_from(length).ok()?;
        let packet = rest.get(..length)?;
        rest = &rest[length..];
        Some((
            u64::from(seconds) * 1_000_000_000 + u64::from(nanos),
            packet,
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_apart() {
        let mut bytes = vec![0; FILE_HEAD];
        for (seconds, length) in [(1_u32, 3_u32), (2, 5)] {
            for word in [seconds, 7, length, length] {
                bytes.extend(word.to_ne_bytes());
            }
            bytes.extend(vec![9; length as usize]);
        }
        let found: Vec<_> = packets(&bytes)
            .map(|(time, packet)| (time, packet.len()))
            .collect();
        assert_eq!(found, [(1_000_000_007, 19), (2_000_000_007, 21)]);
    }
}

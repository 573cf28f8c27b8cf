//! The minimum of work for any analysis of a capture: maps a pcap file, walks its records and reads
//! the 5-tuple of each. Supports Ethernet and IPv4 only.
//!
//! `walk_capture FILE` prints the number of packets and a sum over the tuples. The file is trusted,
//! because this program serves only for comparison.
#![allow(clippy::print_stdout, unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        println!("usage: walk_capture FILE");
        return ExitCode::from(2);
    };
    let file = File::open(&path).expect("a file that can be read");
    let len = file.metadata().expect("a file's length").len() as usize;
    // SAFETY: this is a new read-only mapping of a whole file, and nobody changes a benchmark's
    // file while the benchmark runs.
    let bytes = unsafe {
        let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let begin = libc::mmap(
            std::ptr::null_mut(),
            len,
            read,
            private,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(begin, libc::MAP_FAILED, "a file that can be mapped");
        std::slice::from_raw_parts(begin.cast::<u8>(), len)
    };
    let (packets, sum) = walk(bytes);
    println!("{packets} packets, {sum:016x}");
    ExitCode::SUCCESS
}

fn walk(bytes: &[u8]) -> (u64, u64) {
    let mut rest = bytes.get(24..).unwrap_or_default();
    let (mut packets, mut sum) = (0, 0_u64);
    while let Some(header) = rest.first_chunk::<16>() {
        let captured = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let Some(packet) = rest.get(16..16 + captured) else {
            break;
        };
        if let Some(tuple) = tuple(packet) {
            sum = sum.rotate_left(5) ^ tuple;
        }
        packets += 1;
        rest = &rest[16 + captured..];
    }
    (packets, sum)
}

fn tuple(packet: &[u8]) -> Option<u64> {
    if packet.get(12..14)? != [0x08, 0x00] {
        return None;
    }
    let ip = packet.get(14..)?;
    let header_len = usize::from(*ip.first()? & 0x0f) * 4;
    let protocol = u64::from(*ip.get(9)?);
    let addresses = u64::from_be_bytes(*ip.get(12..)?.first_chunk()?);
    let ports = u32::from_be_bytes(*ip.get(header_len..)?.first_chunk()?);
    Some(addresses ^ u64::from(ports) << 16 ^ protocol)
}

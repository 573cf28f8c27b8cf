//! The fields of `TCP_INFO` that a probe needs.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};

use core::time::Duration;

/// Offsets into `struct tcp_info` (`include/uapi/linux/tcp.h`).
const RTT: usize = 68;
const TOTAL_RETRANS: usize = 100;
const MIN_RTT: usize = 148;
/// Length of the buffer in bytes, larger than any kernel's `struct tcp_info`.
const BUFFER_LEN: usize = 512;

/// Values that the kernel reports for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Minimum round-trip time, or the smoothed one if the kernel has no minimum; `None` if the
    /// kernel has measured neither.
    pub(crate) rtt: Option<Duration>,
    /// Number of retransmitted segments, including the SYN.
    pub(crate) retransmissions: u32,
}

impl TcpInfo {
    /// Reads the values of a TCP socket. Values that the kernel does not provide are left empty.
    pub(crate) fn of(socket: impl AsFd) -> Self {
        let mut buffer = [0_u8; BUFFER_LEN];
        let mut len = BUFFER_LEN as libc::socklen_t;
        // SAFETY: `buffer` is valid for writing `len` bytes. The kernel sets `len` to the number of
        // bytes written.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                buffer.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let filled = if result == 0 { len as usize } else { 0 };
        Self::parse(buffer.get(..filled).unwrap_or_default())
    }

    fn parse(bytes: &[u8]) -> Self {
        let field = |at: usize| {
            let field = bytes.get(at..at + 4)?;
            field.try_into().ok().map(u32::from_ne_bytes)
        };
        // The kernel sets all bits of `tcpi_min_rtt` until it has a measurement.
        let min_rtt = field(MIN_RTT).filter(|&rtt| rtt != 0 && rtt != u32::MAX);
        let rtt = min_rtt.or(field(RTT).filter(|&rtt| rtt != 0));
        Self {
            rtt: rtt.map(|micros| Duration::from_micros(micros.into())),
            retransmissions: field(TOTAL_RETRANS).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_any_length() {
        let mut bytes = [0xff; 200];
        bytes[RTT..RTT + 4].copy_from_slice(&250_u32.to_ne_bytes());
        bytes[TOTAL_RETRANS..TOTAL_RETRANS + 4].copy_from_slice(&3_u32.to_ne_bytes());
        for len in 0..bytes.len() {
            let info = TcpInfo::parse(&bytes[..len]);
            let rtt = (len >= 72).then(|| Duration::from_micros(250));
            assert_eq!(info.rtt, rtt, "{len}");
            assert_eq!(info.retransmissions, if len >= 104 { 3 } else { 0 });
        }
        bytes[MIN_RTT..MIN_RTT + 4].copy_from_slice(&200_u32.to_ne_bytes());
        assert_eq!(TcpInfo::parse(&bytes).rtt, Some(Duration::from_micros(200)));
    }

    #[test]
    fn the_kernel_measured_a_handshake_on_loopback() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let stream = std::net::TcpStream::connect(address).expect("connected");
        let info = TcpInfo::of(&stream);
        assert!(
            info.rtt.is_some_and(|rtt| rtt < Duration::from_secs(1)),
            "{info:?}"
        );
        assert_eq!(info.retransmissions, 0);
    }
}

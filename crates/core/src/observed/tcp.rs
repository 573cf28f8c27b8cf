//! Constants of TCP, with the names that the Linux kernel gives them.

use core::time::Duration;

/// Minimum retransmission timeout (`include/net/tcp.h`).
pub(crate) const TCP_RTO_MIN: Duration = Duration::from_millis(200);
/// Maximum delay of an acknowledgement (`include/net/tcp.h`); RFC 9293 §3.8.6.3 allows half a
/// second, which no system uses.
pub(crate) const TCP_DELACK_MAX: Duration = Duration::from_millis(200);
/// The initial congestion window, in segments (`include/net/tcp.h`, RFC 6928).
pub(crate) const TCP_INIT_CWND: u64 = 10;
/// The number of bytes that the timestamp option occupies in each segment (`include/net/tcp.h`, RFC
/// 7323 appendix A).
pub(crate) const TCPOLEN_TSTAMP_ALIGNED: u32 = 12;

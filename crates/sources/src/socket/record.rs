//! A socket's record in a `sock_diag` reply (`include/uapi/linux/inet_diag.h`). Its length depends
//! on the kernel, because newer kernels append fields.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use lagtrace_core::observed::event::TcpSample;
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::sockets::{Buffers, TcpInfo};

use super::info;
use crate::netlink::attributes_after;
use crate::netlink::message::{array_at, be16_at, text, u32_at, u64_at};

/// Bytes of `struct inet_diag_msg`.
const RECORD_BYTES: usize = 72;
/// Attributes that are used.
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_CGROUP_ID: u16 = 21;
/// Maximum length of the name of a congestion control algorithm, in bytes (`TCP_CA_NAME_MAX`).
const CONGESTION_NAME_BYTES: usize = 16;

/// A TCP state (`include/net/tcp_states.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TcpState {
    /// Open; data can flow in both directions.
    Established = 1,
    /// A SYN was sent.
    SynSent = 2,
    /// A SYN was received and answered.
    SynRecv = 3,
    /// The local end has closed; its FIN is not acknowledged.
    FinWait1 = 4,
    /// The local end has closed; the peer has not.
    FinWait2 = 5,
    /// Both ends have closed; the socket waits for late segments.
    TimeWait = 6,
    /// No connection.
    Close = 7,
    /// The peer has closed; the local end has not.
    CloseWait = 8,
    /// Both ends have closed; the local end's FIN is not acknowledged.
    LastAck = 9,
    /// Waiting for connections.
    Listen = 10,
    /// Both ends closed at the same time.
    Closing = 11,
}

impl TcpState {
    /// All states in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Established,
        Self::SynSent,
        Self::SynRecv,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Close,
        Self::CloseWait,
        Self::LastAck,
        Self::Listen,
        Self::Closing,
    ];

    /// Returns the state's name as in the output of `ss`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTAB",
            Self::SynSent => "SYN-SENT",
            Self::SynRecv => "SYN-RECV",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::TimeWait => "TIME-WAIT",
            Self::Close => "UNCONN",
            Self::CloseWait => "CLOSE-WAIT",
            Self::LastAck => "LAST-ACK",
            Self::Listen => "LISTEN",
            Self::Closing => "CLOSING",
        }
    }

    /// Returns the state with this number; `None` if the number is unknown.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&state| state as u8 == number)
    }

    /// Returns the state's bit in a request's filter.
    pub(super) const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// The pending timer of a socket (`idiag_timer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketTimer {
    /// No timer, or one that the kernel does not report.
    Off,
    /// Retransmission, early retransmission or tail-loss probe.
    Retransmission,
    /// The keep-alive timer, or the timer that ends a closing socket.
    KeepAlive,
    /// The end of TIME_WAIT.
    TimeWait,
    /// The timer for the next window probe, or for sending data that waits while nothing is in
    /// flight.
    Probe,
    /// A delayed ACK; only reported by kernels newer than 6.18.
    DelayedAck,
    /// A timer with an unknown number.
    Unknown(u8),
}

impl SocketTimer {
    /// Returns the timer's name; `None` if no timer is pending.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Off => return None,
            Self::Retransmission => "retransmission",
            Self::KeepAlive => "keep-alive",
            Self::TimeWait => "time-wait",
            Self::Probe => "probe",
            Self::DelayedAck => "delayed-ack",
            Self::Unknown(_) => "unknown",
        })
    }

    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Off,
            1 => Self::Retransmission,
            2 => Self::KeepAlive,
            3 => Self::TimeWait,
            4 => Self::Probe,
            5 => Self::DelayedAck,
            other => Self::Unknown(other),
        }
    }
}

/// A TCP or UDP socket as the kernel reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketRecord {
    /// TCP state.
    pub state: TcpState,
    /// Local address.
    pub local: Endpoint,
    /// Remote address; port 0 for a listener.
    pub remote: Endpoint,
    /// Pending timer and the time until it expires.
    pub timer: (SocketTimer, Duration),
    /// Unique number of the socket in the kernel (`SO_COOKIE`).
    pub cookie: u64,
    /// Inode number of the socket's descriptors; 0 if no process holds it.
    pub inode: u32,
    /// User ID of the socket's creator.
    pub uid: u32,
    /// Bytes that have not been read; for a listener, number of connections in the accept queue.
    pub receive_queue: u32,
    /// Bytes that are not acknowledged; for a listener, maximum length of the accept queue.
    pub send_queue: u32,
    /// Selected fields of `tcp_info`; `None` for a listener and for sockets in SYN_RECV or
    /// TIME_WAIT.
    pub tcp: Option<TcpSample>,
    /// All fields of `tcp_info`.
    pub info: Option<TcpInfo>,
    /// Buffer sizes and limits; `None` if the kernel does not report them.
    pub memory: Option<Buffers>,
    /// Name of the congestion control algorithm.
    pub congestion: Option<String>,
    /// Number of the creator's control group (since Linux 5.9).
    pub cgroup: Option<u64>,
}

/// Parses a record from a message's payload; `None` if it is shorter than in any kernel, or does
/// not describe an IP socket in a known state.
pub fn parse(payload: &[u8]) -> Option<SocketRecord> {
    if payload.len() < RECORD_BYTES {
        return None;
    }
    let family = *payload.first()?;
    let (receive_queue, send_queue) = (u32_at(payload, 56)?, u32_at(payload, 60)?);
    let state = TcpState::from_number(*payload.get(1)?)?;
    let cookie = u64::from(u32_at(payload, 44)?) | u64::from(u32_at(payload, 48)?) << 32;
    let mut record = SocketRecord {
        state,
        local: Endpoint::new(address(family, payload, 8)?, be16_at(payload, 4)?),
        remote: Endpoint::new(address(family, payload, 24)?, be16_at(payload, 6)?),
        timer: (
            SocketTimer::from_number(*payload.get(2)?),
            Duration::from_millis(u64::from(u32_at(payload, 52)?)),
        ),
        cookie,
        inode: u32_at(payload, 68)?,
        uid: u32_at(payload, 64)?,
        receive_queue,
        send_queue,
        tcp: None,
        info: None,
        memory: None,
        congestion: None,
        cgroup: None,
    };
    let has_connection = !matches!(
        state,
        TcpState::Listen | TcpState::SynRecv | TcpState::TimeWait
    );
    for (kind, value) in attributes_after(payload, RECORD_BYTES) {
        match kind {
            INET_DIAG_INFO if has_connection => {
                record.tcp = tcp_sample(value, receive_queue, send_queue);
                record.info = info::parse(value);
            }
            INET_DIAG_SKMEMINFO => record.memory = memory(value),
            INET_DIAG_CGROUP_ID => record.cgroup = u64_at(value, 0),
            INET_DIAG_CONG => record.congestion = Some(text(value, CONGESTION_NAME_BYTES)),
            _ => {}
        }
    }
    Some(record)
}

/// Returns the IP address at `at`; `None` if it is truncated or `family` is another family.
fn address(family: u8, payload: &[u8], at: usize) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(IpAddr::V4(Ipv4Addr::from(array_at::<4>(payload, at)?))),
        libc::AF_INET6 => Some(IpAddr::V6(Ipv6Addr::from(array_at::<16>(payload, at)?))),
        _ => None,
    }
}

/// Parses `SK_MEMINFO_*` (`include/uapi/linux/sock_diag.h`).
pub(super) fn memory(value: &[u8]) -> Option<Buffers> {
    Some(Buffers {
        receive_used: u32_at(value, 0)?,
        receive_limit: u32_at(value, 4)?,
        send_used: u32_at(value, 8)?,
        send_limit: u32_at(value, 12)?,
        drops: u32_at(value, 32).unwrap_or(0),
    })
}

/// Parses `struct tcp_info`; `None` if it is shorter than the oldest version. Fields that the
/// kernel does not provide are zero or `None`.
pub(crate) fn tcp_sample(info: &[u8], receive_queue: u32, send_queue: u32) -> Option<TcpSample> {
    let micros = |at| u32_at(info, at).map(|us| Duration::from_micros(u64::from(us)));
    let long_micros = |at| Duration::from_micros(u64_at(info, at).unwrap_or(0));
    let total_retrans = u32_at(info, 100)?; // the last field of the oldest version
    Some(TcpSample {
        rto: micros(8)?,
        ato: micros(12)?,
        snd_mss: u32_at(info, 16)?,
        rcv_mss: u32_at(info, 20)?,
        unacked: u32_at(info, 24)?,
        rtt: micros(68)?,
        rttvar: micros(72)?,
        cwnd: u32_at(info, 80)?,
        total_retrans,
        notsent_bytes: u32_at(info, 144).unwrap_or(0),
        min_rtt: u32_at(info, 148)
            .filter(|&us| us != u32::MAX) // the kernel has no measurement yet
            .map(|us| Duration::from_micros(u64::from(us))),
        busy: long_micros(168),
        rwnd_limited: long_micros(176),
        sndbuf_limited: long_micros(184),
        snd_wnd: u32_at(info, 228),
        receive_queue_bytes: receive_queue,
        send_queue_bytes: send_queue,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::message::push_attribute;

    /// Returns a record of an IPv4 socket in `state` with its addresses and queues.
    fn header(state: u8) -> Vec<u8> {
        let mut bytes = vec![0; RECORD_BYTES];
        bytes[0] = libc::AF_INET as u8;
        bytes[1] = state;
        bytes[4..8].copy_from_slice(&[0x1f, 0x90, 0x9c, 0x40]);
        bytes[8..12].copy_from_slice(&[10, 0, 0, 1]);
        bytes[24..28].copy_from_slice(&[10, 0, 0, 2]);
        bytes[56..60].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[60..64].copy_from_slice(&511_u32.to_ne_bytes());
        bytes
    }

    fn with_info(length: usize) -> SocketRecord {
        let info: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
        let mut bytes = header(1);
        push_attribute(&mut bytes, INET_DIAG_INFO, &info);
        push_attribute(&mut bytes, INET_DIAG_CONG, b"bbr\0");
        parse(&bytes).expect("a whole record")
    }

    #[test]
    fn older_kernels_have_less_to_tell() {
        let oldest = with_info(104).tcp.expect("the oldest part");
        assert_eq!(
            (oldest.snd_wnd, oldest.min_rtt, oldest.notsent_bytes),
            (None, None, 0)
        );
        let with_window = with_info(232).tcp.expect("all that is read");
        assert!(with_window.snd_wnd.is_some() && with_window.min_rtt.is_some());
        assert_eq!(
            with_info(4096).tcp,
            Some(with_window),
            "a later kernel appends"
        );
        assert_eq!(with_info(103).tcp, None, "no kernel is that short");
    }

    #[test]
    fn a_record_is_read_field_by_field() {
        let record = with_info(248);
        assert_eq!(record.local.to_string(), "10.0.0.1:8080");
        assert_eq!(record.remote.to_string(), "10.0.0.2:40000");
        assert_eq!((record.receive_queue, record.send_queue), (3, 511));
        assert_eq!(record.congestion.as_deref(), Some("bbr"));
    }

    #[test]
    fn a_listener_has_queues_and_no_connection() {
        let mut bytes = header(TcpState::Listen as u8);
        push_attribute(&mut bytes, INET_DIAG_INFO, &[0; 248]);
        let record = parse(&bytes).expect("a listener");
        assert_eq!((record.state, record.tcp), (TcpState::Listen, None));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..700),
            shape in any::<bool>(),
        ) {
            if let (true, [family, state, ..]) = (shape, bytes.as_mut_slice()) {
                *family = libc::AF_INET6 as u8;
                *state %= 12;
            }
            if let Some(record) = parse(&bytes) {
                prop_assert!(bytes.len() >= RECORD_BYTES);
                prop_assert!(record.congestion.is_none_or(|name| name.len() <= 3 * CONGESTION_NAME_BYTES));
            }
        }

        #[test]
        fn any_length_of_tcp_info_is_read(info in proptest::collection::vec(any::<u8>(), 0..400)) {
            let sample = tcp_sample(&info, 0, 0);
            prop_assert_eq!(sample.is_some(), info.len() >= 104);
        }
    }
}

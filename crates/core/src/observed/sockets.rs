//! Sockets of this host, as its kernel reports them at one instant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observed::flow::Endpoint;

/// Maximum kernel memory for a datagram in one Ethernet frame, including its `sk_buff`, in bytes:
/// about a page.
const ONE_DATAGRAM: u64 = 4096;

/// The protocol of a socket.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// A stream between processes of this host.
    UnixStream,
    /// Datagrams between processes of this host.
    UnixDatagram,
    /// Messages in order between processes of this host (`SOCK_SEQPACKET`).
    UnixSeqpacket,
}

/// The two ends of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Internet addresses.
    Ip {
        /// Address of the socket.
        local: Endpoint,
        /// Address of the socket's peer; port 0 if it has none.
        remote: Endpoint,
    },
    /// A socket of this host only.
    Unix {
        /// The path to which the socket is bound; begins with `@` if it is not a file.
        path: Option<String>,
        /// Inode of the socket.
        inode: u32,
        /// Inode of the socket's peer.
        peer: Option<u32>,
    },
}

/// The identity of one end of a connection, unique within a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SocketIdentity {
    /// Protocol, own address and the peer's address.
    Ip(Protocol, Endpoint, Endpoint),
    /// Inode of the socket.
    Unix(u32),
}

/// The state of a socket at one instant. `None`: not read.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveSocket {
    /// Protocol of the socket.
    pub protocol: Protocol,
    /// The network namespace of the socket, by its inode number; `None` for ours.
    pub namespace: Option<u64>,
    /// The kernel's unique number for this socket (`SO_COOKIE`).
    pub cookie: u64,
    /// State of the socket as `ss` writes it: `ESTAB`, `LISTEN`.
    pub state: &'static str,
    /// Ends of the socket.
    pub ends: Ends,
    /// The processes and the user that the socket belongs to.
    pub owner: SocketOwner,
    /// Bytes or connections that wait in the socket's queues.
    pub queues: Queues,
    /// The running timer, if any.
    pub timer: Option<Timer>,
    /// Buffers of the socket.
    pub buffers: Option<Buffers>,
    /// Name of the socket's congestion control algorithm.
    pub congestion: Option<String>,
    /// The kernel's `tcp_info`; `None` for a listener and for anything other than a full socket.
    pub tcp: Option<TcpInfo>,
    /// Options as set by the process, or their defaults.
    pub options: Option<LiveOptions>,
    /// True if the socket was selected; false if it is the other end of a selected socket.
    pub is_chosen: bool,
}

/// The processes and the user that a socket belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOwner {
    /// Descriptors that refer to the socket, by process: several after a `fork`.
    pub holders: Vec<Holder>,
    /// The control group of the first of these processes.
    pub cgroup: Option<String>,
    /// The beginning of the id of its container.
    pub container: Option<String>,
    /// User id of its creator.
    pub uid: u32,
}

/// The queues of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Bytes not yet read, for UDP including the kernel's overhead; for a listener, the number of
    /// connections not yet accepted.
    pub receive: u32,
    /// Bytes not yet acknowledged, not yet sent (UDP) or not yet read by the peer (Unix); for a
    /// listener, the maximum number of connections that may wait.
    pub send: u32,
}

/// A descriptor that refers to a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Process id in our own pid namespace.
    pub pid: u32,
    /// Name (`comm`) of the process.
    pub name: String,
    /// Number of the descriptor in the process.
    pub fd: u32,
}

/// A running timer (`idiag_timer`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timer {
    /// Name of the timer: `retransmission`, `keep-alive`, `time-wait`, `probe`, `delayed-ack`.
    pub name: String,
    /// Time until the timer expires, from when it was read.
    pub expires_ns: u64,
}

/// A socket's buffers (`SK_MEMINFO_*`), in bytes of kernel memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Buffers {
    /// Bytes in use for received data.
    pub receive_used: u32,
    /// The receive buffer's limit.
    pub receive_limit: u32,
    /// Bytes in use for data to be sent.
    pub send_used: u32,
    /// The send buffer's limit.
    pub send_limit: u32,
    /// Packets dropped at this socket.
    pub drops: u32,
}

/// The options relevant to latency, read by `getsockopt`. `None`: the kernel does not have the
/// option, or it does not exist in the socket's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LiveOptions {
    /// `TCP_NODELAY`: Nagle's algorithm is off.
    pub nodelay: Option<bool>,
    /// `TCP_CORK`: partial segments wait for its removal, at most 200 ms.
    pub cork: Option<bool>,
    /// `TCP_QUICKACK`: true if acknowledgements are sent immediately at this instant. The kernel
    /// changes this state itself, typically at the next send, so it is not what the program set.
    pub quickack: Option<bool>,
    /// `SO_KEEPALIVE`.
    pub keepalive: Option<bool>,
    /// `TCP_KEEPIDLE`: idle time until the first keep-alive probe.
    pub keepalive_idle_ns: Option<u64>,
    /// `TCP_KEEPINTVL`: time from one probe to the next.
    pub keepalive_interval_ns: Option<u64>,
    /// `TCP_KEEPCNT`: number of unanswered probes until the connection is given up.
    pub keepalive_count: Option<u32>,
    /// `TCP_USER_TIMEOUT`: time without acknowledgement until the connection is given up; 0:
    /// determined by `tcp_retries2`.
    pub user_timeout_ns: Option<u64>,
    /// `SO_SNDBUF`, as the kernel counts it: twice what was set.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF`, as the kernel counts it: twice what was set.
    pub receive_buffer: Option<u32>,
    /// True if the send buffer was set explicitly: the kernel no longer adjusts it (`SO_BUF_LOCK`,
    /// since Linux 5.14).
    pub is_send_buffer_set: Option<bool>,
    /// True if the receive buffer was set explicitly: the kernel no longer adjusts it
    /// (`SO_BUF_LOCK`, since Linux 5.14).
    pub is_receive_buffer_set: Option<bool>,
    /// `TCP_DEFER_ACCEPT`: a connection is accepted only when data has arrived, or after this long.
    pub defer_accept_ns: Option<u64>,
    /// `TCP_NOTSENT_LOWAT`: number of unsent bytes at which a socket stops being writable. In the
    /// kernel's own default all bits are 1.
    pub notsent_lowat: Option<u32>,
    /// `TCP_MAXSEG`: maximum segment size, in bytes.
    pub maxseg: Option<u32>,
    /// `SO_REUSEPORT`: several sockets share the port.
    pub reuseport: Option<bool>,
    /// `SO_TIMESTAMPING` flags; 0: none.
    pub timestamping: Option<u32>,
}

/// Content of `struct tcp_info` (`include/uapi/linux/tcp.h`). Fields that a kernel does not have
/// are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TcpInfo {
    /// Smoothed round trip.
    pub rtt_ns: u64,
    /// Mean deviation of the round trip.
    pub rttvar_ns: u64,
    /// Minimum round trip seen by the kernel's filter.
    pub min_rtt_ns: Option<u64>,
    /// The receiver's estimate of the round trip.
    pub receiver_rtt_ns: u64,
    /// Delayed-ACK timeout in use.
    pub ato_ns: u64,
    /// Retransmission timeout in use.
    pub rto_ns: u64,
    /// Number of doublings of the retransmission timeout.
    pub backoff: u8,
    /// Number of retransmissions of the segment whose acknowledgement is awaited.
    pub retransmits: u8,
    /// Number of unanswered probes of a closed window.
    pub probes: u8,
    /// State of loss recovery.
    pub recovery: Recovery,
    /// Sending MSS in bytes.
    pub snd_mss: u32,
    /// Estimate of the peer's segment size in bytes.
    pub rcv_mss: u32,
    /// The MSS that was advertised to the peer.
    pub advmss: u32,
    /// Path MTU in bytes.
    pub pmtu: u32,
    /// Window scale of the peer's windows, and of ours.
    pub window_scales: [u8; 2],
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Congestion window at which slow start ends; `None` before any loss.
    pub ssthresh: Option<u32>,
    /// Segments sent but not acknowledged.
    pub unacked: u32,
    /// Unacknowledged segments that were acknowledged selectively.
    pub sacked: u32,
    /// Unacknowledged segments that are considered lost.
    pub lost: u32,
    /// Unacknowledged segments that were retransmitted.
    pub retrans: u32,
    /// Total number of retransmitted segments.
    pub total_retrans: u32,
    /// The greatest reordering distance seen, in segments.
    pub reordering: u32,
    /// Time since data was last sent.
    pub last_data_sent_ns: u64,
    /// Time since data was last received.
    pub last_data_received_ns: u64,
    /// Time since an ACK was last received.
    pub last_ack_received_ns: u64,
    /// Bytes written but not yet sent.
    pub notsent_bytes: Option<u32>,
    /// Bytes sent, including retransmissions.
    pub bytes_sent: Option<u64>,
    /// Bytes retransmitted.
    pub bytes_retrans: Option<u64>,
    /// Bytes that the peer acknowledged.
    pub bytes_acked: Option<u64>,
    /// Bytes received in order.
    pub bytes_received: Option<u64>,
    /// Pacing rate in bytes per second; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// Delivery rate in bytes per second.
    pub delivery_rate: Option<u64>,
    /// True if the delivery rate was limited by the program.
    pub is_app_limited: bool,
    /// Time with data outstanding.
    pub busy_ns: Option<u64>,
    /// The part of `busy_ns` limited by the peer's window.
    pub rwnd_limited_ns: Option<u64>,
    /// The part of `busy_ns` limited by the send buffer.
    pub sndbuf_limited_ns: Option<u64>,
    /// The peer's receive window in bytes.
    pub snd_wnd: Option<u32>,
    /// Our receive window in bytes.
    pub rcv_wnd: Option<u32>,
    /// Segments that arrived out of order.
    pub out_of_order: Option<u32>,
    /// Segments that arrived twice at the peer.
    pub dsack_dups: Option<u32>,
}

/// Kernel settings that limit the sockets of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLimits {
    /// The namespace, by its inode number; `None` for ours.
    pub namespace: Option<u64>,
    /// Settings that this kernel has.
    pub settings: Vec<KernelSetting>,
}

/// A setting of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSetting {
    /// Name as `sysctl` prints it, `net.core.somaxconn`.
    pub name: String,
    /// The value, or several values separated by a space.
    pub value: String,
}

/// State of a sender's loss recovery (`tcpi_ca_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Nothing unusual.
    #[default]
    Open,
    /// Duplicate ACKs came.
    Disorder,
    /// The congestion window was reduced because routers marked packets.
    Cwr,
    /// Fast retransmission is in progress.
    Recovery,
    /// A retransmission timeout expired.
    Loss,
}

impl Ends {
    /// Returns the socket's own end as text.
    pub fn local(&self) -> String {
        match self {
            Self::Ip { local, .. } => local.to_string(),
            Self::Unix { path, inode, .. } => {
                format!("{} {inode}", path.as_deref().unwrap_or("*"))
            }
        }
    }

    /// Returns the other end as text.
    pub fn remote(&self) -> String {
        match self {
            Self::Ip { remote, .. } => remote.to_string(),
            Self::Unix { peer, .. } => format!("* {}", peer.unwrap_or_default()),
        }
    }
}

impl LiveSocket {
    /// Returns the identity of the socket's own end.
    pub fn place(&self) -> SocketIdentity {
        match self.ends {
            Ends::Ip { local, remote } => SocketIdentity::Ip(self.protocol, local, remote),
            Ends::Unix { inode, .. } => SocketIdentity::Unix(inode),
        }
    }

    /// Returns the identity of the peer's end; `None` if the socket is not an end of a connection.
    pub fn peer_place(&self) -> Option<SocketIdentity> {
        match self.ends {
            Ends::Ip { local, remote } => {
                (remote.port != 0).then_some(SocketIdentity::Ip(self.protocol, remote, local))
            }
            Ends::Unix { peer, .. } => peer.map(SocketIdentity::Unix),
        }
    }

    /// Returns true if there is hardly any room left; `None` for other sockets than these:
    ///
    /// - Listener: the accept queue, which is full when it holds one more than its limit
    ///   (`sk_acceptq_is_full()`, `unix_recvq_full()`).
    /// - UDP: the receive buffer, if less than an eighth of it is left, or no room for a datagram.
    /// - Unix: the send buffer, if more than a quarter of it waits for the peer to read. `poll`
    ///   then no longer reports the socket as writable (`unix_writable()`).
    pub fn is_full(&self) -> Option<bool> {
        if self.state == "LISTEN" {
            return Some(self.queues.receive > self.queues.send);
        }
        let of = self.buffers?;
        let wide = u64::from;
        match self.protocol {
            Protocol::Tcp => None,
            Protocol::Udp => {
                let left = wide(of.receive_limit).saturating_sub(wide(of.receive_used));
                let is_small = left < ONE_DATAGRAM && of.receive_used > 0;
                Some(is_small || left * 8 < wide(of.receive_limit))
            }
            _ => Some(wide(of.send_used) * 4 > wide(of.send_limit)),
        }
    }

    /// Returns true if the host's own stack is holding bytes back at this instant
    /// (`tcp_nagle_check()`): less than one segment is unsent, few segments are in flight, and the
    /// windows are open. Neither congestion nor the peer explains such a hold. `None` if the kernel
    /// reports too little.
    pub(crate) fn is_holding(&self) -> Option<bool> {
        let tcp = self.tcp.as_ref()?;
        let notsent = tcp.notsent_bytes?;
        let has_room = tcp.snd_wnd.is_none_or(|window| window > 2 * tcp.snd_mss);
        Some(
            notsent > 0
                && notsent < tcp.snd_mss
                && tcp.unacked > 0
                && tcp.unacked < tcp.cwnd
                && tcp.recovery == Recovery::Open
                && has_room,
        )
    }
}

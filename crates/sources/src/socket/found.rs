//! Conversion of the kernel's socket records to the core's types.

use lagtrace_core::observed::sockets::{Ends, LiveSocket, Protocol, Queues, SocketOwner, Timer};

use super::record::SocketRecord;
use super::unix::UnixRecord;

/// A socket, with the numbers that link it to processes and to a control group.
pub(super) struct Found {
    pub(super) socket: LiveSocket,
    /// Inode number of the socket's descriptors; 0 if no process holds it.
    pub(super) inode: u32,
    /// Number of the creator's control group.
    pub(super) cgroup: Option<u64>,
}

impl Found {
    /// Converts a TCP or UDP socket.
    pub(super) fn ip(namespace: Option<u64>, protocol: Protocol, record: SocketRecord) -> Self {
        let (timer, expires) = record.timer;
        let ends = Ends::Ip {
            local: record.local,
            remote: record.remote,
        };
        let socket = LiveSocket {
            owner: owned_by(record.uid),
            queues: Queues {
                receive: record.receive_queue,
                send: record.send_queue,
            },
            timer: timer.name().map(|name| Timer {
                name: name.to_owned(),
                expires_ns: u64::try_from(expires.as_nanos()).unwrap_or(u64::MAX),
            }),
            buffers: record.memory,
            congestion: record.congestion,
            tcp: record.info,
            ..plain(
                namespace,
                protocol,
                record.cookie,
                record.state.name(),
                ends,
            )
        };
        Self {
            socket,
            inode: record.inode,
            cgroup: record.cgroup,
        }
    }

    /// Converts a Unix socket. The kernel does not report its control group.
    pub(super) fn unix(namespace: Option<u64>, record: UnixRecord) -> Self {
        let ends = Ends::Unix {
            path: record.path,
            inode: record.inode,
            peer: record.peer,
        };
        let socket = LiveSocket {
            owner: owned_by(record.uid.unwrap_or_default()),
            queues: Queues {
                receive: record.receive_queue,
                send: record.send_queue,
            },
            buffers: record.memory,
            ..plain(
                namespace,
                record.protocol,
                record.cookie,
                record.state.name(),
                ends,
            )
        };
        Self {
            socket,
            inode: record.inode,
            cgroup: None,
        }
    }
}

fn owned_by(uid: u32) -> SocketOwner {
    SocketOwner {
        uid,
        ..SocketOwner::default()
    }
}

/// Returns a socket in which only the given fields are set.
fn plain(
    namespace: Option<u64>,
    protocol: Protocol,
    cookie: u64,
    state: &'static str,
    ends: Ends,
) -> LiveSocket {
    LiveSocket {
        protocol,
        namespace,
        cookie,
        state,
        ends,
        owner: SocketOwner::default(),
        queues: Queues::default(),
        timer: None,
        buffers: None,
        congestion: None,
        tcp: None,
        options: None,
        is_chosen: false,
    }
}

//! State of the sockets in one network namespace, read over `NETLINK_SOCK_DIAG` (`sock_diag(7)`).
//! This needs no privilege.

use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;

use lagtrace_core::observed::event::ListenerSample;
use lagtrace_core::observed::flow::Endpoint;

use super::record::{self, SocketRecord, TcpState};
use super::unix::{self, UnixRecord};
use crate::netlink::message::Message;
use crate::netlink::{NetlinkProtocol, NetlinkSocket};
use crate::privilege::{HostError, NetworkNamespace};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Extensions that are requested in addition to the record: `INET_DIAG_INFO`, `INET_DIAG_CONG` and
/// `INET_DIAG_SKMEMINFO`. Bit 0 stands for extension 1.
const EXTENSIONS: u8 = 1 << 1 | 1 << 3 | 1 << 6;
/// Maximum number of listeners reported for one port.
const MOST_LISTENERS: usize = 64;

/// A set of TCP states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States(u32);

impl States {
    /// Connections that can still transfer data.
    pub(crate) const CONNECTED: Self = Self::of(&[
        TcpState::Established,
        TcpState::FinWait1,
        TcpState::FinWait2,
        TcpState::CloseWait,
        TcpState::LastAck,
        TcpState::Closing,
    ]);
    /// Listeners.
    pub(crate) const LISTENING: Self = Self::of(&[TcpState::Listen]);
    /// Listeners, and connections that wait for the handshake's last ACK.
    pub(crate) const OPENING: Self = Self::of(&[TcpState::Listen, TcpState::SynRecv]);

    /// Returns the set that consists of `states`.
    pub const fn of(states: &[TcpState]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < states.len() {
            bits |= states[i].bit();
            i += 1;
        }
        Self(bits)
    }

    /// Returns the union of the sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The choice of sockets to report. The kernel compares the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// States of the sockets.
    pub states: States,
    /// Local port.
    pub local_port: Option<u16>,
    /// Remote port.
    pub remote_port: Option<u16>,
}

/// A netlink socket for queries about other sockets.
#[derive(Debug)]
pub struct DiagSocket {
    netlink: NetlinkSocket,
}

impl DiagSocket {
    /// Opens a socket in the calling thread's namespace.
    ///
    /// # Errors
    /// Returns an error if the kernel has no `sock_diag`, or no descriptors are left.
    pub fn open() -> Result<Self, HostError> {
        NetlinkSocket::open(NetlinkProtocol::SockDiag)
            .map(|netlink| Self { netlink })
            .map_err(|e| HostError::failed("opening a sock_diag socket", e))
    }

    /// Opens a socket in another namespace.
    ///
    /// # Errors
    /// Returns an error if `CAP_SYS_ADMIN` is missing.
    pub(crate) fn open_in(namespace: &NetworkNamespace) -> Result<Self, HostError> {
        let netlink = namespace.netlink(NetlinkProtocol::SockDiag)?;
        Ok(Self { netlink })
    }

    /// Passes every selected socket to `visit`, IPv4 first, until `visit` breaks off. IPv6 sockets
    /// with IPv4 connections are reported with IPv4 addresses.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the request, or its reply is not complete.
    pub fn dump(
        &mut self,
        selection: &Selection,
        visit: impl FnMut(SocketRecord) -> ControlFlow<()>,
    ) -> Result<(), HostError> {
        self.dump_of(libc::IPPROTO_TCP, selection, visit).map(drop)
    }

    /// Like [`Self::dump`], for UDP. A connected UDP socket has the state
    /// [`TcpState::Established`], any other [`TcpState::Close`]. Returns `false` if the kernel does
    /// not support this.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::dump`].
    pub(crate) fn dump_udp(
        &mut self,
        selection: &Selection,
        visit: impl FnMut(SocketRecord) -> ControlFlow<()>,
    ) -> Result<bool, HostError> {
        self.dump_of(libc::IPPROTO_UDP, selection, visit)
    }

    /// Like [`Self::dump_udp`], for all Unix sockets in these states.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::dump`].
    pub(crate) fn dump_unix(
        &mut self,
        states: States,
        mut visit: impl FnMut(UnixRecord) -> ControlFlow<()>,
    ) -> Result<bool, HostError> {
        let request = unix::request(states.0);
        self.ask(&request, |message| match unix::parse(message.payload) {
            Some(record) => visit(record),
            None => ControlFlow::Continue(()),
        })
    }

    /// Runs a dump. Returns `false` if the kernel does not support it.
    fn ask(
        &mut self,
        request: &[u8],
        visit: impl FnMut(Message<'_>) -> ControlFlow<()>,
    ) -> Result<bool, HostError> {
        match self.netlink.dump(SOCK_DIAG_BY_FAMILY, request, visit) {
            Ok(()) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) => Err(HostError::failed("asking sock_diag for sockets", e)),
        }
    }

    fn dump_of(
        &mut self,
        protocol: libc::c_int,
        selection: &Selection,
        mut visit: impl FnMut(SocketRecord) -> ControlFlow<()>,
    ) -> Result<bool, HostError> {
        let mut is_answered = false;
        let mut flow = ControlFlow::Continue(());
        for family in [libc::AF_INET, libc::AF_INET6] {
            let request = dump_request(family, protocol, selection);
            is_answered |= self.ask(&request, |message| {
                if let Some(record) = record::parse(message.payload) {
                    flow = visit(record);
                }
                flow
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(is_answered)
    }

    /// Returns the selected sockets, at most `most`.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::dump`].
    pub fn list(
        &mut self,
        selection: &Selection,
        most: usize,
    ) -> Result<Vec<SocketRecord>, HostError> {
        let mut records = Vec::new();
        self.dump(selection, |record| {
            if records.len() < most {
                records.push(record);
            }
            if records.len() < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(records)
    }

    /// Returns the socket with exactly these two ends; `None` if there is no such socket.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the request, or does not reply.
    pub fn find(
        &mut self,
        local: Endpoint,
        remote: Endpoint,
    ) -> Result<Option<SocketRecord>, HostError> {
        let mut found = None;
        let request = exact_request(local, remote);
        let outcome = self
            .netlink
            .request(SOCK_DIAG_BY_FAMILY, &request, |message| {
                found = record::parse(message.payload);
            });
        match outcome {
            Ok(()) => Ok(found.filter(|r| r.local == local && r.remote == remote)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(HostError::failed(
                format!("asking sock_diag for {local} to {remote}"),
                e,
            )),
        }
    }

    /// Returns the listeners that accept connections to `target`, with their queues and their
    /// number of connections in SYN_RECV. The namespace's SYN backlog is not included, because
    /// `sock_diag` does not report it.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::dump`].
    pub fn listeners(&mut self, target: Endpoint) -> Result<Vec<ListenerSample>, HostError> {
        let selection = Selection {
            states: States::OPENING,
            local_port: Some(target.port),
            remote_port: None,
        };
        let mut queues = OpeningQueues::new(target);
        self.dump(&selection, |record| {
            queues.add(&record);
            ControlFlow::Continue(())
        })?;
        Ok(queues.listeners().map(|(_, listener)| listener).collect())
    }
}

/// The queues of a target's listeners, collected from the records of one dump.
#[derive(Debug)]
pub(super) struct OpeningQueues {
    target: Endpoint,
    listeners: Vec<SocketRecord>,
    embryonic: u32,
}

impl OpeningQueues {
    pub(super) fn new(target: Endpoint) -> Self {
        Self {
            target,
            listeners: Vec::new(),
            embryonic: 0,
        }
    }

    pub(super) fn add(&mut self, record: &SocketRecord) {
        match record.state {
            TcpState::Listen
                if self.listeners.len() < MOST_LISTENERS
                    && listens_for(record.local, self.target) =>
            {
                self.listeners.push(record.clone());
            }
            TcpState::SynRecv if record.local == self.target => self.embryonic += 1,
            _ => {}
        }
    }

    /// Returns the listeners, each with its socket's cookie.
    pub(super) fn listeners(&self) -> impl Iterator<Item = (u64, ListenerSample)> {
        self.listeners.iter().map(|record| {
            let sample = ListenerSample {
                local: record.local,
                queued: record.receive_queue,
                limit: record.send_queue,
                embryonic: self.embryonic,
                syn_backlog: None,
                somaxconn: None,
            };
            (record.cookie, sample)
        })
    }
}

/// Returns true if a listener on `bound` accepts connections to `target`. A listener on `[::]` can
/// also accept IPv4.
pub(super) fn listens_for(bound: Endpoint, target: Endpoint) -> bool {
    let accepts = match bound.addr {
        IpAddr::V4(address) => address.is_unspecified() && target.addr.is_ipv4(),
        IpAddr::V6(address) => address.is_unspecified(),
    };
    bound.port == target.port && (accepts || bound.addr == target.addr)
}

/// Encodes `struct inet_diag_req_v2` for a dump.
fn dump_request(family: libc::c_int, protocol: libc::c_int, selection: &Selection) -> [u8; 56] {
    let mut request = request_head(family, protocol, selection.states);
    request[8..10].copy_from_slice(&selection.local_port.unwrap_or(0).to_be_bytes());
    request[10..12].copy_from_slice(&selection.remote_port.unwrap_or(0).to_be_bytes());
    request
}

/// Encodes `struct inet_diag_req_v2` for the socket with exactly these two ends.
fn exact_request(local: Endpoint, remote: Endpoint) -> [u8; 56] {
    let family = if local.addr.is_ipv4() && remote.addr.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let mut request = request_head(family, libc::IPPROTO_TCP, States(u32::MAX));
    request[8..10].copy_from_slice(&local.port.to_be_bytes());
    request[10..12].copy_from_slice(&remote.port.to_be_bytes());
    for (at, address) in [(12, local.addr), (28, remote.addr)] {
        match address {
            IpAddr::V4(v4) if family == libc::AF_INET => {
                request[at..at + 4].copy_from_slice(&v4.octets());
            }
            IpAddr::V4(v4) => {
                request[at..at + 16].copy_from_slice(&v4.to_ipv6_mapped().octets());
            }
            IpAddr::V6(v6) => request[at..at + 16].copy_from_slice(&v6.octets()),
        }
    }
    request
}

/// Encodes the common part of all requests. It names no interface and no cookie
/// (`INET_DIAG_NOCOOKIE`).
fn request_head(family: libc::c_int, protocol: libc::c_int, states: States) -> [u8; 56] {
    let mut request = [0; 56];
    request[0] = u8::try_from(family).unwrap_or(0);
    request[1] = u8::try_from(protocol).unwrap_or(0);
    request[2] = EXTENSIONS;
    request[4..8].copy_from_slice(&states.0.to_ne_bytes());
    request[48..56].fill(0xff);
    request
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        text.parse::<std::net::SocketAddr>()
            .expect("an address")
            .into()
    }

    #[test]
    fn listeners_take_what_they_are_bound_to() {
        for (bound, target, expected) in [
            ("0.0.0.0:80", "10.0.0.1:80", true),
            ("0.0.0.0:80", "10.0.0.1:81", false),
            ("0.0.0.0:80", "[::1]:80", false),
            ("[::]:80", "10.0.0.1:80", true),
            ("[::]:80", "[fe80::1]:80", true),
            ("10.0.0.2:80", "10.0.0.1:80", false),
            ("10.0.0.1:80", "10.0.0.1:80", true),
        ] {
            let takes = listens_for(endpoint(bound), endpoint(target));
            assert_eq!(takes, expected, "{bound} for {target}");
        }
    }

    #[test]
    fn both_ends_of_a_connection_are_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).expect("loopback");
            let server: Endpoint = listener.local_addr().expect("bound").into();
            let client = TcpStream::connect(std::net::SocketAddr::from(server)).expect("connects");
            let here: Endpoint = client.local_addr().expect("bound").into();
            let mut diag = DiagSocket::open().expect("sock_diag");
            for (local, remote) in [(here, server), (server, here)] {
                let record = diag
                    .find(local, remote)
                    .expect("an answer")
                    .expect("it exists");
                assert_eq!(record.state, TcpState::Established);
                assert!(
                    record
                        .tcp
                        .is_some_and(|tcp| tcp.snd_mss > 0 && tcp.snd_wnd.is_some())
                );
                assert!(record.congestion.is_some() && record.memory.is_some());
            }
            let none = diag.find(here, endpoint("127.0.0.1:1")).expect("an answer");
            assert_eq!(none, None);
            let waiting = diag.listeners(server).expect("an answer");
            assert_eq!(waiting.len(), 1);
            assert_eq!((waiting[0].local, waiting[0].queued), (server, 1));
            assert!(waiting[0].limit > 0);
        }
    }

    #[test]
    fn the_kernel_selects_by_port() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        let clients: Vec<_> = (0..5)
            .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("connects"))
            .collect();
        let mut diag = DiagSocket::open().expect("sock_diag");
        let mut selection = Selection {
            states: States::CONNECTED,
            local_port: None,
            remote_port: Some(port),
        };
        let ours = diag.list(&selection, 100).expect("an answer");
        assert_eq!(ours.len(), clients.len());
        assert!(ours.iter().all(|r| r.remote.port == port));
        assert_eq!(diag.list(&selection, 2).expect("an answer").len(), 2);
        selection.states = States::LISTENING;
        selection.remote_port = None;
        selection.local_port = Some(port);
        let listening = diag.list(&selection, 100).expect("an answer");
        assert_eq!(
            listening.len(),
            1,
            "the socket is usable after breaking off"
        );
        assert_eq!(listening[0].receive_queue, 5);
    }
}

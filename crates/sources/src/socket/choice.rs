//! The choice of sockets for a survey.

use std::collections::HashSet;
use std::net::IpAddr;

use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::sockets::{Ends, Holder, LiveSocket};

use super::cgroup::Groups;
use super::diag::States;
use super::record::TcpState;

/// A choice of sockets, which must match all of these criteria.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Kinds of sockets.
    pub protocols: Protocols,
    /// Ports. A socket matches if one of them is its local or remote port. Empty: any port.
    pub ports: Vec<u16>,
    /// Endpoints. A socket matches if one of them is its local or remote end. Without endpoints and
    /// paths, any socket matches.
    pub ends: Vec<End>,
    /// Paths of Unix sockets. The peers of these sockets match too.
    pub paths: Vec<String>,
    /// PIDs. A socket matches if a process with one of them holds it. Empty: any process.
    pub pids: Vec<u32>,
    /// Process names (`comm`). A socket matches if a process with one of them holds it. Empty: any
    /// process.
    pub names: Vec<String>,
    /// Control groups and containers; `None`: any.
    pub groups: Option<Groups>,
    /// True if only listeners match.
    pub listening: bool,
    /// True if sockets in all states match, including closed connections.
    pub all_states: bool,
    /// `Some(false)`: only IPv4. `Some(true)`: only IPv6. `None`: both.
    pub is_v6: Option<bool>,
}

/// Kinds of sockets; TCP by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    /// TCP.
    pub tcp: bool,
    /// UDP.
    pub udp: bool,
    /// Unix sockets of all three types.
    pub unix: bool,
}

impl Default for Protocols {
    fn default() -> Self {
        Self {
            tcp: true,
            udp: false,
            unix: false,
        }
    }
}

/// An endpoint of a connection, as the user specified it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Address.
    pub address: IpAddr,
    /// Port; `None`: any.
    pub port: Option<u16>,
}

impl End {
    pub(crate) fn is(&self, end: &Endpoint) -> bool {
        end.addr == self.address && self.port.is_none_or(|port| end.port == port)
    }
}

impl Choice {
    pub(super) fn states(&self) -> States {
        match (self.listening, self.all_states) {
            (true, _) => States::LISTENING,
            (false, true) => States::of(&TcpState::ALL),
            (false, false) => States::CONNECTED
                .with(States::OPENING)
                .with(States::of(&[TcpState::SynSent])),
        }
    }

    /// Returns the states of UDP sockets. UDP has no listeners. An unconnected socket counts as
    /// one, because it receives from any address.
    pub(super) fn udp_states(&self) -> States {
        if self.listening {
            States::of(&[TcpState::Close])
        } else {
            States::of(&[TcpState::Close, TcpState::Established])
        }
    }

    pub(super) fn unix_states(&self) -> States {
        let bound = States::of(&[TcpState::Listen, TcpState::Close]);
        match (self.listening, self.all_states) {
            (true, _) => bound,
            (false, true) => States::of(&TcpState::ALL),
            (false, false) => bound.with(States::of(&[TcpState::Established])),
        }
    }

    /// Returns true if the socket is a Unix socket with one of the chosen paths.
    pub(super) fn has_path(&self, socket: &LiveSocket) -> bool {
        match &socket.ends {
            Ends::Unix { path, .. } => path.as_ref().is_some_and(|path| self.paths.contains(path)),
            Ends::Ip { .. } => false,
        }
    }

    /// Returns true if the socket's endpoints match. `at_paths` contains the inode numbers of the
    /// sockets with a chosen path.
    pub(super) fn is_meant(&self, socket: &LiveSocket, at_paths: &HashSet<u32>) -> bool {
        let is_any = self.ends.is_empty() && self.paths.is_empty();
        match &socket.ends {
            Ends::Ip { local, remote } => {
                let ends = [local, remote];
                let is_port = |end: &&Endpoint| self.ports.contains(&end.port);
                let is_end = |end: &&Endpoint| self.ends.iter().any(|asked| asked.is(end));
                (self.ports.is_empty() || ends.iter().any(is_port))
                    && (is_any || ends.iter().any(is_end))
                    && self.is_v6.is_none_or(|v6| local.addr.is_ipv6() == v6)
            }
            Ends::Unix { path, inode, peer } => {
                // A socket that is neither bound nor connected is left out by default.
                let is_used = path.is_some() || peer.is_some() || socket.state != "UNCONN";
                let mut ends = peer.iter().chain([inode]);
                (is_used || self.all_states)
                    && (is_any || ends.any(|inode| at_paths.contains(inode)))
                    && self.ports.is_empty()
                    && self.is_v6.is_none()
            }
        }
    }

    /// Returns true if the socket's holders and control group match. One holder that matches all
    /// criteria is enough.
    pub(super) fn is_held_by_meant(&self, cgroup: Option<u64>, holders: &[Holder]) -> bool {
        let by_pid = |holder: &Holder| self.pids.is_empty() || self.pids.contains(&holder.pid);
        let by_name = |holder: &Holder| self.names.is_empty() || self.names.contains(&holder.name);
        let own = |groups: &Groups| cgroup.is_some_and(|id| groups.has_socket(id));
        let by_group = |holder: &Holder| match &self.groups {
            Some(groups) => own(groups) || groups.has_process(holder.pid),
            None => true,
        };
        let is_any = self.pids.is_empty() && self.names.is_empty();
        is_any && self.groups.as_ref().is_none_or(own)
            || holders
                .iter()
                .any(|holder| by_pid(holder) && by_name(holder) && by_group(holder))
    }
}

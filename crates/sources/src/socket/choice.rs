//! Which sockets a survey asks for.

use std::net::IpAddr;

use lagtrace_core::flow::Endpoint;
use lagtrace_core::live::Holder;

use super::cgroup::Groups;
use super::diag::States;
use super::record::{SocketRecord, TcpState};

/// Which sockets are asked for: those that meet all that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// With one of these ports on either side; empty: any.
    pub ports: Vec<u16>,
    /// With one of these at either end; empty: any.
    pub ends: Vec<End>,
    /// Held by one of these processes; empty: any.
    pub pids: Vec<u32>,
    /// Held by a process of one of these names (`comm`); empty: any.
    pub names: Vec<String>,
    /// Of one of these control groups or containers; `None`: any.
    pub groups: Option<Groups>,
    /// Listeners only.
    pub listening: bool,
    /// In all states, those of connections that are over among them.
    pub all_states: bool,
    /// Over IPv4 (`Some(false)`) or IPv6 (`Some(true)`) only.
    pub is_v6: Option<bool>,
}

/// An end of a connection, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its address.
    pub address: IpAddr,
    /// Its port; `None`: any.
    pub port: Option<u16>,
}

impl End {
    fn is(&self, end: &Endpoint) -> bool {
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

    /// Whether its addresses are asked for.
    pub(super) fn is_meant(&self, record: &SocketRecord) -> bool {
        let ends = [record.local, record.remote];
        let has = |wanted: &dyn Fn(&Endpoint) -> bool| ends.iter().any(wanted);
        let is_asked_for = |end: &Endpoint| self.ends.iter().any(|asked| asked.is(end));
        (self.ports.is_empty() || has(&|end| self.ports.contains(&end.port)))
            && (self.ends.is_empty() || has(&is_asked_for))
            && self
                .is_v6
                .is_none_or(|is_v6| record.local.addr.is_ipv6() == is_v6)
    }

    /// Whether its holders and its control group are asked for: it is enough
    /// that one holder meets what is said.
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

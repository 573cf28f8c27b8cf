//! Packet filter rules of this host that could block connections to the target. Both kinds of rules
//! are read from the kernel, without running any tool: those of nftables, to which `iptables-nft`
//! adds its rules, and those of legacy iptables.
//!
//! A rule counts if it drops or rejects packets, is reached from a hook that the target's packets
//! pass, and may apply to these packets. The count can be too high, but not too low. A count of
//! zero therefore rules out the firewall, while a larger count does not prove that the firewall
//! blocks.

use lagtrace_core::observed::event::FirewallState;
use lagtrace_core::observed::flow::Endpoint;

use crate::privilege::{HostError, NetworkNamespace};

mod legacy;
mod rule;
mod ruleset;

/// The properties of the target's packets that a packet filter can test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilteredTraffic {
    /// The target.
    pub target: Endpoint,
    /// True if this namespace forwards the packets, as a host does for its containers.
    pub is_forwarded: bool,
    /// The lowest ephemeral port of this host's own connections (`net.ipv4.ip_local_port_range`).
    pub first_ephemeral_port: u16,
}

impl FilteredTraffic {
    /// Returns true if a segment to or from the target can have this port.
    pub(crate) fn may_use_port(&self, port: u16) -> bool {
        port == self.target.port || port >= self.first_ephemeral_port
    }
}

/// Counts the rules that could block connections to `target` in `namespace`.
pub fn read(namespace: &NetworkNamespace, target: Endpoint, is_forwarded: bool) -> FirewallState {
    let first = namespace.sysctl("net/ipv4/ip_local_port_range");
    let traffic = FilteredTraffic {
        target,
        is_forwarded,
        first_ephemeral_port: first.ok().and_then(|p| p.try_into().ok()).unwrap_or(1024),
    };
    match count(namespace, &traffic) {
        Ok((nftables, legacy)) => FirewallState {
            blocking_rules: Some(nftables + legacy),
            because: format!(
                "rules and policies read from the kernel that drop or reject and could match: \
                 {nftables} of nftables, {legacy} of legacy iptables"
            ),
        },
        Err(e) => FirewallState {
            blocking_rules: None,
            because: e.to_string(),
        },
    }
}

fn count(namespace: &NetworkNamespace, traffic: &FilteredTraffic) -> Result<(u32, u32), HostError> {
    let nftables = ruleset::count(namespace, traffic)?;
    let legacy = legacy::count(namespace, traffic)?;
    Ok((nftables, legacy))
}

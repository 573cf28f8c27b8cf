//! Errors with which the kernel reports that it cannot reach the target.

use core::net::SocketAddr;

use lagtrace_core::observed::event::ProbeAnswer;
use rustix::io::Errno;

/// Returns the ICMP error that corresponds to a kernel error: there is no route, or the next hop
/// did not answer ARP or neighbour solicitations (RFC 792, RFC 4443 §3.1).
pub(super) fn unreachable_by(error: Errno, address: SocketAddr) -> Option<ProbeAnswer> {
    let is_v4 = address.is_ipv4();
    match error {
        // The packet exceeds the MTU of the device or the path MTU that the kernel knows.
        Errno::MSGSIZE if is_v4 => Some(ProbeAnswer::Unreachable(3, 4)),
        Errno::MSGSIZE => Some(ProbeAnswer::Unreachable(2, 0)),
        Errno::NETUNREACH | Errno::NETDOWN if is_v4 => Some(ProbeAnswer::Unreachable(3, 0)),
        Errno::HOSTUNREACH | Errno::HOSTDOWN if is_v4 => Some(ProbeAnswer::Unreachable(3, 1)),
        Errno::ACCESS | Errno::PERM if is_v4 => Some(ProbeAnswer::Unreachable(3, 13)),
        Errno::NETUNREACH | Errno::NETDOWN => Some(ProbeAnswer::Unreachable(1, 0)),
        Errno::HOSTUNREACH | Errno::HOSTDOWN => Some(ProbeAnswer::Unreachable(1, 3)),
        Errno::ACCESS | Errno::PERM => Some(ProbeAnswer::Unreachable(1, 1)),
        _ => None,
    }
}

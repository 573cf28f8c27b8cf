//! Wireshark display filters that show a finding.

use core::net::SocketAddr;

use crate::report::{EvidenceKind, Exemplar, Finding};

/// Number of exchanges that the filter shows in full.
const EXCHANGES: usize = 3;

/// Returns the filter that selects the finding's best examples (all packets of an exchange) and the
/// packets that its evidence names; `None` if there are no packets to select.
pub(super) fn display_filter(finding: &Finding) -> Option<String> {
    let exchanges = finding.exemplars.iter().filter_map(of_exchange);
    let mut parts: Vec<String> = exchanges.take(EXCHANGES).collect();
    let mut packets: Vec<u64> = finding
        .evidence
        .iter()
        .filter(|piece| piece.kind == EvidenceKind::Wire)
        .flat_map(|piece| piece.packets.iter().copied())
        .collect();
    packets.sort_unstable();
    packets.dedup();
    if !packets.is_empty() {
        let list: Vec<String> = packets.iter().map(u64::to_string).collect();
        parts.push(format!("frame.number in {{{}}}", list.join(", ")));
    }
    match parts.len() {
        0 | 1 => parts.pop(),
        _ => {
            let parts: Vec<String> = parts.iter().map(|part| format!("({part})")).collect();
            Some(parts.join(" || "))
        }
    }
}

fn of_exchange(exemplar: &Exemplar) -> Option<String> {
    packets_filter(exemplar, exemplar.first_packet?, exemplar.last_packet?)
}

/// Returns a filter for packets `first` to `last` of an exchange's connection, such as `ip.addr ==
/// 10.0.0.1 && tcp.port == 40212 && tcp.port == 80 && frame.number in {5..9}`.
pub(crate) fn packets_filter(exemplar: &Exemplar, first: u64, last: u64) -> Option<String> {
    let client: SocketAddr = exemplar.client.parse().ok()?;
    let server: SocketAddr = exemplar.server.parse().ok()?;
    let protocol = if client.is_ipv6() { "ipv6" } else { "ip" };
    Some(format!(
        "{protocol}.addr == {} && tcp.port == {} && tcp.port == {} && \
         frame.number in {{{}..{}}}",
        client.ip(),
        client.port(),
        server.port(),
        first.min(last),
        first.max(last)
    ))
}

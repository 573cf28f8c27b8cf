//! `packet-filter-cost`: in packets, this time looks like the server's or the path's. The server's
//! kernel shows how long packets take through its network stack.

use super::kernel_place::KernelPlace;
use super::served;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::Claim;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: " in its network stack before TCP, where filters check each packet.",
    ruled_out: &[],
    overturned_by: "few rules in `nft list ruleset` and `iptables-save`, and no program at the \
        device (`tc filter show`, `bpftool net`)",
    fix: &[
        (
            "server",
            "sets and maps instead of one rule for each address (nft: `ip saddr @blocked drop`)",
        ),
        (
            "server",
            "accept established connections first: `ct state established accept` above the list",
        ),
        (
            "server",
            "remove rules that are not needed; filter large amounts of traffic at the device (XDP)",
        ),
    ],
};

/// Watches requests that take long between the network device and TCP.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let found = served::claim(Id::PacketFilterCost, case, |place| {
            place == KernelPlace::Stack
        });
        found.map(|(claim, _)| told(claim)).into()
    }
}

fn told(mut claim: Claim) -> Claim {
    WORDING.tell(&mut claim, &[]);
    claim
}

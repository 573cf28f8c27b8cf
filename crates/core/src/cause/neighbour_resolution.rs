//! The rule of the cause `neighbour-resolution`.

use core::time::Duration;

use super::delays::Delays;
use super::evidence::{self, human};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::preconnect::Silent;
use crate::report::{Affected, EvidenceKind, counted};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "Before the first packet to {service} can leave, the kernel has to find the hardware \
              address of the next hop. This takes {took} (median), because the first question gets \
              no answer and the kernel asks again after a second.",
    ruled_out: &[(Id::SynLoss, "no SYN was sent before the address was known")],
    overturned_by: "connections that begin equally late although `ip neigh` lists the next hop as \
        REACHABLE",
    fix: &[
        (
            "path",
            "find what loses broadcasts on the link: switch ports, storm control, a sleeping host",
        ),
        (
            "client",
            "larger tables if they overflow (net.ipv4.neigh.default.gc_thresh1, 2, 3); a permanent entry (`ip neigh replace`)",
        ),
    ],
};

/// The wording if no host answers for the hardware address.
const SILENT: Wording = Wording {
    summary: "Nobody on the link of {asker} answers for {target}. The kernel gives up after three \
              tries, one second apart, and reports to the program that the host is unreachable; no \
              packet is ever sent.",
    ruled_out: &[(Id::FirewallDrop, "no SYN was sent that could be dropped")],
    overturned_by: "`ip neigh show {target}` with a hardware address",
    fix: &[
        (
            "server",
            "check that the host is up, on this link, and has this address",
        ),
        (
            "client",
            "check address, netmask and route: is the target really on this link?",
        ),
    ],
};

/// Minimum time after which a neighbour resolution is late. A neighbour answers within
/// microseconds. If it takes longer, the request or the answer was lost, or the neighbour was
/// asleep.
const LATE: Duration = Duration::from_millis(20);

/// Watches connections whose SYN left only at the end of a late neighbour resolution. The kernel
/// had queued the SYN until then.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    delays: Delays,
    repeated: u64,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let approach = setup.approach.as_ref();
        let search = approach.and_then(|approach| approach.search);
        if let Some(search) = search.filter(|search| search.took >= LATE) {
            self.delays.add(search.took, &search.packets.numbers());
            self.repeated += u64::from(search.requests > 1);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.delays.conclude(case, || self.claim(case))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self
            .delays
            .claim(Id::NeighbourResolution, Owner::Path, case);
        let text = format!(
            "{} began at the moment at which the next hop's hardware address was found, after {} \
             (median); {} of the questions had to be repeated",
            counted(self.delays.count(), "connection", "connections"),
            self.delays.median(),
            self.repeated,
        );
        claim.evidence.push(self.delays.evidence(text));
        claim.basis = Basis::new(self.delays.count(), false);
        WORDING.tell(&mut claim, &[("took", &self.delays.median())]);
        claim
    }
}

/// Returns the claim on a host whose hardware address nobody reported, so that no packet can be
/// sent to it. `is_missed` is true if the capture contains a connection attempt to the host.
pub(crate) fn silent(case: &Case<'_>, host: &Silent, is_missed: bool) -> Claim {
    let mut claim = evidence::bare_claim(Id::NeighbourResolution, Owner::Path, case);
    let text = format!(
        "{} asked {} within {} for the hardware address of {}, but no host answered",
        host.asker,
        counted(u64::from(host.requests), "time", "times"),
        human(host.took),
        host.target,
    );
    claim.affected = Affected {
        exchanges: 1,
        of: 1,
    };
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(host.requests.into())
            .packets(&host.packets.numbers()),
    );
    claim.basis = Basis::new(host.requests.into(), !is_missed);
    SILENT.tell(
        &mut claim,
        &[("asker", &host.asker), ("target", &host.target)],
    );
    claim
}

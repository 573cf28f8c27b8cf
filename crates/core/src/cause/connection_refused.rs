//! The rule of the cause `connection-refused`.

use super::attempts::{Attempts, repeats};
use super::evidence;
use super::refusals::Refusals;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::Basis;
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::observed::event::{ProbeAnswer, RequestFailure};
use crate::report::Affected;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "No program listens on {service}: its host answers each connection attempt with a \
              reset.",
    ruled_out: &[(
        Id::FirewallDrop,
        "the resets come from the same distance (hop count) as the host's answers on other ports",
    )],
    overturned_by: "`ss -ltn` on the server listing port {port}",
    fix: &[
        ("server", "start the service, or bind it to {service}"),
        ("client", "check host and port of the URL"),
    ],
};

/// The wording if the host sent nothing but resets.
const UNCOMPARED: Wording = Wording {
    ruled_out: &[(
        Id::FirewallDrop,
        "an answer came; a packet filter that rejects by reset looks the same unless other packets \
         of the host are seen",
    )],
    ..WORDING
};

/// The wording if the host accepted some attempts: then a program listens at least at times.
const AT_TIMES: Wording = Wording {
    summary: "{service} answers {part} of the connection attempts with a reset, and accepts \
              others: its program listens only part of the time, or refuses some clients.",
    ruled_out: &[],
    overturned_by: "`ss -ltn` on the server listing port {port} at the time of these attempts",
    fix: &[(
        "server",
        "find in the log of the service when it started and stopped, and which clients it refuses",
    )],
};

/// Counts SYNs that the host answered with a RST. A RST whose TTL shows another distance than the
/// host's SYN/ACKs comes from a packet filter (`firewall-drop`).
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    refusals: Refusals,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        self.refusals.add_setup(setup);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let (own, foreign) = self.refusals.resets(case);
        let (refused, others) = (own.count, self.refusals.others);
        let mut found = Vec::new();
        found.extend(own.evidence(
            "SYN was answered by a reset",
            "SYNs were answered by a reset",
        ));
        if refused == 0 && foreign.count > 0 {
            return Conclusion::Nothing;
        }
        let attempts = Attempts::of(case).unwrap_or_default();
        found.extend(attempts.handshakes(|a| a == ProbeAnswer::Refused, "were refused"));
        found.extend(attempts.requests(
            |answer| answer == ProbeAnswer::Refused,
            |failure| failure == RequestFailure::Refused,
            "could not connect: refused",
        ));
        if found.is_empty() || attempts.has_connected() && refused == 0 {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::bare_claim(Id::ConnectionRefused, Owner::Server, case);
        claim.affected = Affected {
            exchanges: refused,
            of: refused + others,
        };
        let accepted = self.refusals.accepted;
        let has_look_alike = others > refused || accepted > 0;
        claim.basis = Basis::new(repeats(&found), has_look_alike);
        claim.evidence = found;
        let wording = match case.facts.hosts.ttl(case.endpoint.addr) {
            _ if accepted > 0 => &AT_TIMES,
            Some(_) => &WORDING,
            None => &UNCOMPARED,
        };
        wording.tell(&mut claim, &[("port", &case.endpoint.port)]);
        Conclusion::Claim(Box::new(claim))
    }
}

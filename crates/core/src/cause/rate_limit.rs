//! `rate-limit`: a limit on requests per second. [`byte_rate`](super::byte_rate) finds limits on
//! bytes per second.

use core::time::Duration;

use super::byte_rate::ByteRate;
use super::evidence::{self, human, median};
use super::rhythm::{Gate, Nature};
use super::settings::{self, Measured};
use super::thinking::quickest_idle_think;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::report::EvidenceKind;
use crate::service::tally::Tally;
use crate::service::timeline::Moment;
use crate::stats::Merge;

/// Minimum ratio of the interval to the time of a request to the idle server that shows a limit. A
/// server's first request may take less work than the others: a proxy then has a connection to its
/// upstream.
const QUICK: u32 = 5;

const WORDING: Wording = Wording {
    summary: "The server answers one request every {turn}, {rate} per second, whatever the \
              request. The others wait for their turn, {saved} (median), {share} of all request \
              time. The server can answer sooner: it does so if no other request is waiting.",
    ruled_out: &[(
        Id::WorkerSaturation,
        "a worker that needs {turn} for a request needs it for the first one too; here it took \
         {quickest}",
    )],
    overturned_by: "a server configuration without a limit, or fast responses between these \
        intervals",
    fix: &[
        (
            "server",
            "raise the limit, or let bursts pass immediately: `{limit_req} … burst=N nodelay` (nginx)",
        ),
        (
            "client",
            "send requests no faster than the limit: the excess only waits",
        ),
    ],
};

/// The wording for a limit in the server's configuration.
const CONFIGURED: Wording = Wording {
    summary: "The server's configuration lets one request through every {turn}, {rate} per second. \
              The others wait for their turn, {saved} (median), {share} of all request time.",
    ruled_out: &[],
    ..WORDING
};

/// The wording if only our own requests to the idle server show that it can answer sooner.
const IDLE_QUICK: Wording = Wording {
    summary: "The server answers one request every {turn}, {rate} per second. The others wait for \
              their turn, {saved} (median), {share} of all request time. The idle server answered \
              in {quickest}, so the interval is not work.",
    ..WORDING
};

/// Watches responses that leave one at a time, at a fixed interval, although the server answers
/// immediately if a request meets no other. So the interval is a limit, and not work.
///
/// Two signs show a limit. A single request is quick: a worker that needs an interval for each
/// request would need it for the first one too. And the rate is a round number, like configured
/// limits. A server that accepts connections at its own pace also has constant intervals, but their
/// rate is round only by chance. Instead of the round number, our own requests to the idle server
/// can show a limit, which is then only *possible*.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    bytes: ByteRate,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::DELIVERIES;

    fn observe(&mut self, exchange: &Exchange) {
        self.bytes.observe(exchange);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match case.rhythm.claim(case) {
            Some((Nature::Admits(gate), tally)) => {
                Conclusion::Claim(Box::new(claim(case, gate, tally)))
            }
            Some((Nature::Queues(gate), _)) if gate.has_met_idle => self.bytes.conclude(case),
            Some((Nature::Queues(_), _)) | None => {
                match configured(case).or_else(|| idle_quick(case)) {
                    Some(found) => Conclusion::Claim(Box::new(found)),
                    None => self.bytes.conclude(case),
                }
            }
            Some(_) => self.bytes.conclude(case),
        }
    }

    fn measured(&self, case: &Case<'_>) -> Measured {
        let rate = limited(case).map(|(gate, _)| gate.rate());
        let admitted = match case.rhythm.claim(case) {
            Some((Nature::Admits(gate), _)) => Some(gate.rate()),
            _ => None,
        };
        let request_rate = admitted.or(rate);
        Measured {
            request_rate,
            byte_rate: self.bytes.rate().filter(|_| request_rate.is_none()),
            ..Measured::default()
        }
    }
}

/// Returns true if a limit makes requests wait, by the server's configuration or by our own requests
/// to the idle server.
pub(super) fn is_shown(case: &Case<'_>) -> bool {
    limited(case).is_some() || admitted(case).is_some()
}

/// Returns the intervals of a busy server that answers one request at a time, with the time of the
/// quickest request to the idle server, if that time is too short for work.
fn admitted(case: &Case<'_>) -> Option<(Gate, Duration)> {
    let is_work = match case.rhythm.claim(case) {
        Some((Nature::Queues(gate), _)) => gate.has_met_idle,
        claimed => claimed.is_some(),
    };
    let quickest = quickest_idle_think(case).filter(|_| !is_work && case.has_all())?;
    let gate = case.rhythm.paced()?;
    (quickest * QUICK <= gate.turn).then_some((gate, quickest))
}

/// Returns the claim on a limit that our own requests to the idle server show. A server that is
/// slow for another reason as soon as it has several requests may look the same.
fn idle_quick(case: &Case<'_>) -> Option<Claim> {
    let (gate, quickest) = admitted(case)?;
    let waited = |moment: &Moment| moment.think().saturating_sub(quickest);
    let tally = case.rhythm.tally(waited);
    if !evidence::is_material(case, &tally) {
        return None;
    }
    let mut claim = of_gate(case, &gate, &tally);
    let text = format!(
        "one of our own requests to the idle server was answered in {}",
        human(quickest)
    );
    claim
        .evidence
        .push(Statement::fits(EvidenceKind::OwnSocket, text));
    tell(&IDLE_QUICK, &mut claim, &gate, &tally, quickest);
    Some(claim)
}

/// Returns the intervals that a limit in the server's configuration causes, with their cost.
fn limited(case: &Case<'_>) -> Option<(Gate, Tally)> {
    let gate = case.rhythm.turns()?;
    let measured = Measured {
        request_rate: Some(gate.rate()),
        ..Measured::default()
    };
    settings::supporting(case, Id::RateLimit, Owner::Server, &measured)?;
    let tally = case.rhythm.tally(Moment::think);
    evidence::is_material(case, &tally).then_some((gate, tally))
}

/// Returns the claim on a limit in the server's configuration: requests are answered at even
/// intervals, and a directive sets this rate.
fn configured(case: &Case<'_>) -> Option<Claim> {
    let (gate, tally) = limited(case)?;
    // The packets do not show whether the server could answer sooner, but its configuration does.
    let mut claim = of_gate(case, &gate, &tally);
    claim.basis = Basis::new(tally.affected, false);
    CONFIGURED.tell(
        &mut claim,
        &[
            ("turn", &human(gate.turn)),
            ("rate", &format!("{:.0}", gate.rate())),
            ("saved", &median(&tally.saved)),
        ],
    );
    Some(claim)
}

/// Returns a claim with the even intervals as evidence.
fn of_gate(case: &Case<'_>, gate: &Gate, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::RateLimit, Owner::Server, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let answers = evidence::answers(&claim.exemplars);
    claim
        .evidence
        .push(gate.evidence(case.timed_by(), &answers));
    claim
}

fn claim(case: &Case<'_>, gate: &Gate, tally: &Tally) -> Claim {
    let mut claim = of_gate(case, gate, tally);
    let text = format!(
        "a request that overlapped no other was answered in {}",
        human(gate.quickest)
    );
    claim.evidence.push(Statement::shows(case.timed_by(), text));
    claim.basis = Basis::new(tally.affected, false);
    tell(&WORDING, &mut claim, gate, tally, gate.quickest);
    claim
}

/// Adds a wording to the claim on a limit that the configuration does not show.
fn tell(wording: &Wording, claim: &mut Claim, gate: &Gate, tally: &Tally, quickest: Duration) {
    wording.tell(
        claim,
        &[
            ("turn", &human(gate.turn)),
            ("rate", &format!("{:.3}", gate.rate())),
            ("saved", &median(&tally.saved)),
            ("quickest", &human(quickest)),
        ],
    );
}

//! `rate-limit`: a limit on requests; one on bytes is in [`byte_rate`](super::byte_rate).

use super::byte_rate::ByteRate;
use super::evidence::{self, human, median};
use super::rhythm::{Gate, Nature};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::observed::event::ConfigurationLine;
use crate::report::{Evidence, EvidenceKind, Finding};
use crate::service::tally::Tally;
use crate::service::timeline::Moment;

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
    fix: &[("server", RAISE), ASK_LESS],
};

/// The wording for a limit that the configuration sets.
const CONFIGURED: Wording = Wording {
    summary: "The server's configuration lets one request through every {turn}, {rate} per second. \
              The others wait for their turn, {saved} (median), {share} of all request time.",
    ruled_out: &[],
    fix: &[("{place}", RAISE), ASK_LESS],
    ..WORDING
};

/// The change of the limit itself.
const RAISE: &str =
    "raise the limit, or let bursts pass immediately: `limit_req … burst=N nodelay` (nginx)";

/// The change at the client.
const ASK_LESS: (&str, &str) = (
    "client",
    "send requests no faster than the limit: the excess only waits",
);

/// Watches for responses one at a time, at a fixed interval, by a server that answers immediately
/// when a request meets no other: the interval is a limit, not work.
///
/// The discriminator is the quick answer: a worker that needs a turn for each
/// request needs it for the first one too. And its rate is a round number, as
/// limits are: a server that takes up connections at some pace of its own shows
/// the same turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    bytes: ByteRate,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::DELIVERIES;

    fn observe(&mut self, exchange: &Exchange) {
        self.bytes.observe(exchange);
    }

    fn merge(&mut self, other: Self) {
        self.bytes.merge(other.bytes);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match case.rhythm.claim(case) {
            Some((Nature::Admits(gate), tally)) => {
                Conclusion::Finding(Box::new(finding(case, gate, tally)))
            }
            Some((Nature::Queues(gate), _)) if gate.has_met_idle => self.bytes.conclude(case),
            Some((Nature::Queues(_), _)) | None => match configured(case) {
                Some(found) => Conclusion::Finding(Box::new(found)),
                None => self.bytes.conclude(case),
            },
            Some(_) => self.bytes.conclude(case),
        }
    }
}

/// Returns true if a limit set in the server's configuration makes requests wait.
pub(super) fn is_configured(case: &Case<'_>) -> bool {
    limit(case).is_some()
}

/// Returns the configuration line of the limit, the turns that it causes, and their cost.
fn limit<'a>(case: &Case<'a>) -> Option<(&'a ConfigurationLine, Gate, Tally)> {
    let line = case.facts.setting(case.target?, "limit_req")?;
    let is_set = !line.value.is_empty() && line.set_at.is_some();
    // With `nodelay` no request waits: excess requests are refused.
    let delays = line.value.split(' ').all(|word| word != "nodelay");
    let gate = case.rhythm.turns().filter(|_| is_set && delays)?;
    let tally = case.rhythm.tally(Moment::think);
    evidence::is_material(case, &tally).then_some((line, gate, tally))
}

/// Returns the finding on a limit set in the server's configuration: requests are answered at even
/// intervals, and a directive requires that.
fn configured(case: &Case<'_>) -> Option<Finding> {
    let (line, gate, tally) = limit(case)?;
    let place = line
        .set_at
        .as_ref()
        .map(|at| format!("{}:{}", at.file, at.line));
    // Whether the server could answer sooner was not seen; its configuration shows the limit.
    let mut finding = of_gate(case, &gate, &tally);
    let text = format!(
        "{} has `limit_req {}` for this server and location ({})",
        line.program, line.value, line.scope
    );
    finding
        .evidence
        .push(Evidence::circumstance(EvidenceKind::Configuration, text).at(place.clone()));
    finding.verdict = evidence::judge(&finding.evidence, tally.affected, false);
    CONFIGURED.tell(
        &mut finding,
        &[
            ("turn", &human(gate.turn)),
            ("rate", &format!("{:.0}", 1.0 / gate.turn.as_secs_f64())),
            ("saved", &median(&tally.saved)),
            ("place", &place.unwrap_or_else(|| line.program.clone())),
        ],
    );
    Some(finding)
}

/// Returns a finding with the turns as evidence.
fn of_gate(case: &Case<'_>, gate: &Gate, tally: &Tally) -> Finding {
    let mut finding = evidence::finding(Id::RateLimit, Owner::Server, case, tally);
    finding.exemplars = case.ledger.slowest.exemplars();
    let answers = evidence::answers(&finding.exemplars);
    finding.evidence.push(gate.evidence(&answers));
    finding
}

fn finding(case: &Case<'_>, gate: &Gate, tally: &Tally) -> Finding {
    let mut finding = of_gate(case, gate, tally);
    let text = format!(
        "a request with no other open was answered in {}",
        human(gate.quickest)
    );
    finding
        .evidence
        .push(Evidence::mechanism(EvidenceKind::Wire, text));
    finding.verdict = evidence::judge(&finding.evidence, tally.affected, false);
    WORDING.tell(
        &mut finding,
        &[
            ("turn", &human(gate.turn)),
            ("rate", &format!("{:.3}", 1.0 / gate.turn.as_secs_f64())),
            ("saved", &median(&tally.saved)),
            ("quickest", &human(gate.quickest)),
        ],
    );
    finding
}

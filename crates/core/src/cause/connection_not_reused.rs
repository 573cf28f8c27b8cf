//! `connection-not-reused`.

use core::time::Duration;

use super::evidence::{self, fix, human, percent, ruled_out};
use super::tally::{Cost, Tally};
use super::{Case, Conclusion, Features, Id};
use crate::exchange::{Exchange, Outcome};
use crate::histogram::Distribution;
use crate::report::{Evidence, EvidenceKind, Finding};
use crate::time::Timestamp;
use crate::timeline::Moment;
use crate::wait::{Owner, WaitKind};

/// Of all exchanges, this share must have paid for a connection.
const SHARE: f64 = 0.5;

/// Watches connections that carry one exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    tally: Tally,
    /// Latencies of those that paid for a connection, with its cost.
    paid: Distribution,
    client_asked: u64,
    server_asked: u64,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::SETUP.or(Features::CLOSING);

    fn observe(&mut self, exchange: &Exchange) {
        if !matches!(exchange.outcome, Outcome::Complete(_)) {
            return;
        }
        self.client_asked += u64::from(exchange.closing.client_asked);
        self.server_asked += u64::from(exchange.closing.server_asked);
        if let Some(setup) = exchange.setup {
            self.paid.record(exchange.latency() + setup);
            self.tally.add(exchange, Cost::exactly(setup), setup);
        }
    }

    fn merge(&mut self, other: Self) {
        self.tally.merge(other.tally);
        self.paid.absorb(other.paid);
        self.client_asked += other.client_asked;
        self.server_asked += other.server_asked;
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let spared = self.spared(case);
        let is_common = self.tally.affected as f64 >= case.ledger.whole() as f64 * SHARE;
        let is_repeated = spared > 0 && self.tally.affected >= evidence::REPEATS;
        // Who reuses connections that are dead is not told to reuse them.
        let is_forced = case.ledger.stale * 2 >= self.tally.affected;
        if !is_common || !is_repeated || is_forced || !self.is_material(case) {
            return Conclusion::Nothing;
        }
        Conclusion::Finding(Box::new(self.finding(case, spared)))
    }
}

/// How many exchanges were open at once at most, with half of the setup before
/// them: beside the server the rest is not told from the next one's.
fn most_at_once(moments: &[Moment], setup: Duration) -> u64 {
    let begun = moments.iter().map(|moment| (moment.begin - setup / 2, 1));
    let ended = moments.iter().map(|moment| (moment.end, -1));
    let mut changes: Vec<(Timestamp, i64)> = begun.chain(ended).collect();
    changes.sort_unstable();
    let open = changes.iter().scan(0_i64, |open, (_, change)| {
        *open += change;
        Some(*open)
    });
    u64::try_from(open.max().unwrap_or_default()).unwrap_or_default()
}

impl Rule {
    fn is_material(&self, case: &Case<'_>) -> bool {
        let whole = &case.gathered.bearing.whole;
        evidence::betters(whole, &whole.with_replaced(&self.paid, &self.tally.before))
    }

    fn culprit(&self) -> Owner {
        if self.client_asked * 2 >= self.tally.affected {
            Owner::Client
        } else if self.server_asked * 2 >= self.tally.affected {
            Owner::Server
        } else {
            // Nobody said so: the connections were there to be used again.
            Owner::Client
        }
    }

    /// Connections that a client which reuses them would not make: it needs as many as
    /// it has requests open at once, and pays for these.
    fn spared(&self, case: &Case<'_>) -> u64 {
        let setup = self.tally.saved.quantile(0.5).unwrap_or_default();
        let pool = most_at_once(&case.rhythm.moments, setup);
        self.tally.affected.saturating_sub(pool)
    }

    fn leave_pool(&self, spared: u64, finding: &mut Finding) {
        let all = self.tally.affected.max(1);
        let part = |cost: u64| (u128::from(cost) * u128::from(spared) / u128::from(all)) as u64;
        finding.cost_ns = part(finding.cost_ns);
        finding.cost_low_ns = part(finding.cost_low_ns);
        finding.affected.exchanges = part(finding.affected.exchanges);
    }

    fn finding(&self, case: &Case<'_>, spared: u64) -> Finding {
        let culprit = self.culprit();
        let mut finding = evidence::finding(Id::ConnectionNotReused, culprit, case, &self.tally);
        self.leave_pool(spared, &mut finding);
        let total = u64::try_from(case.gathered.bearing.whole.sum_ns())
            .unwrap_or(u64::MAX)
            .max(1);
        finding.share = finding.cost_ns as f64 / total as f64;
        let setup = human(self.tally.saved.quantile(0.5).unwrap_or_default());
        let text = format!(
            "{} of {} exchanges followed a handshake of their own ({setup}, median); the client \
             asked to close after {}, the server after {}",
            self.tally.affected,
            case.ledger.whole(),
            self.client_asked,
            self.server_asked
        );
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(self.tally.affected)
                .median(&self.tally.saved),
        );
        finding.verdict = evidence::judge(&finding.evidence, self.tally.affected, false);
        let whole = case.ledger.whole();
        let [who, pays] = match self.tally.affected == whole {
            true => [
                "Each request opens a connection of its own".to_owned(),
                "pays".to_owned(),
            ],
            false => [
                format!(
                    "{} of {whole} requests open a connection of their own",
                    self.tally.affected
                ),
                "pay".to_owned(),
            ],
        };
        finding.summary = format!(
            "{who} and {pays} {setup} (median) for it, {} of the time including it.",
            percent(finding.share),
        );
        let setups = &case.ledger.setups;
        if setups.waits.of(WaitKind::Recovery) == 0 && setups.count > 0 {
            finding.ruled_out.push(ruled_out(
                Id::SynLoss,
                format!("none of {} handshakes had to repeat its SYN", setups.count),
            ));
        }
        finding.overturned_by = "exchanges that reuse these connections later on".to_owned();
        finding.fix = match culprit {
            Owner::Client => vec![fix("client", "keep connections alive and pool them")],
            _ => vec![fix(
                "server",
                "let connections live: keepalive_timeout and keepalive_requests above 0 (nginx), \
                 no `Connection: close`",
            )],
        };
        finding
    }
}

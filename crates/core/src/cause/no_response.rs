//! The rule of the cause `no-response`.

use super::attempts::Attempts;
use super::calls::CallKind;
use super::failures::{FailureKind, Failures};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id, starved};
use crate::claim::{Claim, Statement};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome, Unheard};
use crate::observed::event::{ProbeAnswer, RequestFailure};
use crate::report::{Candidate, EvidenceKind, counted};
use crate::service::LEAST_PATIENCE;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "{service} accepts connections and requests but sends no response in the time \
              allowed.",
    ruled_out: &[],
    overturned_by: "a response that comes after the time allowed (--timeout)",
    fix: &[
        (
            "server",
            "find out why its workers wait: all busy, a deadlock, a backend that hangs",
        ),
        (
            "client",
            "allow more time (--timeout) if the answer is only late",
        ),
    ],
};

/// The wording for requests of another protocol than the port's.
const OTHER: Wording = Wording {
    summary: "{service} accepts connections but sends no response in the time allowed. The requests \
              are not HTTP, for which this port is registered.",
    fix: &[
        (
            "client",
            "check that the port is the right one for its protocol",
        ),
        (
            "server",
            "check which protocol the listening program expects: it may wait for more",
        ),
    ],
    ..WORDING
};

/// The wording for a server whose kernel shows that it answers.
const UNDELIVERED: Wording = Wording {
    summary: "{service} answers its requests, as its kernel shows, but no response arrives in the \
              time allowed.",
    overturned_by: "a capture at the client that has the responses",
    fix: &[
        (
            "path",
            "find what drops the responses: a filter, or a link with a smaller MTU whose ICMP \
             messages do not reach the server (small responses arrive then, and large ones do not)",
        ),
        (
            "server",
            "if it is the MTU: `ip link set dev IF mtu 1280` as a test, or clamp the MSS",
        ),
    ],
    ..WORDING
};

/// The wording for answers of which nothing shows that they were not sent.
const UNHEARD: Wording = Wording {
    summary: "{service} accepts connections and requests, but no response arrives in the time \
              allowed: it sends none, or the path drops it.",
    overturned_by: "a capture at the server, which shows whether responses leave",
    fix: &[
        (
            "server",
            "find out why its workers wait: all busy, a deadlock, a backend that hangs",
        ),
        (
            "path",
            "see whether large packets get through (ping -M do -s 1472): small ones carry the \
             handshake and the ACKs, large ones the response",
        ),
    ],
    ..WORDING
};

/// The ports that are registered for HTTP (IANA's registry).
const HTTP_PORTS: [u16; 3] = [80, 8008, 8080];

const KIND: FailureKind = FailureKind {
    id: Id::NoResponse,
    is_answer: |answer| answer == ProbeAnswer::Silence,
    is_failure: |failure| failure == RequestFailure::Timeout,
    is_refuted: Attempts::has_answer,
    what: "were accepted and not answered in the time allowed",
};

/// The quantile of the response times above which an unanswered request is late.
const NEARLY_ALL: f64 = 0.9;

/// Watches requests that the server's kernel acknowledged, but that its program did not answer
/// before the client gave up.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    failures: Failures,
    /// Ages of the unanswered requests when the connection or the capture ended.
    ages: Distribution,
    /// Number of unanswered requests whose bytes were seen and are of no protocol that is parsed.
    unread: u64,
    /// Number of unanswered requests after which the server was heard again, and had sent nothing.
    silent: u64,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FAILED;

    fn observe(&mut self, exchange: &Exchange) {
        let has_failed = exchange.outcome == Outcome::TimedOut
            && !exchange.signs.has_response
            && !exchange.signs.tls.is_answered
            && exchange.signs.is_request_acked
            && exchange.signs.fault.unheard != Unheard::Lost
            // The last data before a FIN, such as a TLS alert, gets no response.
            && exchange.latency() >= LEAST_PATIENCE;
        if has_failed {
            self.failures.add(exchange);
            self.ages.record(exchange.latency());
            self.unread += u64::from(exchange.signs.doubts.is_unread);
            self.silent += u64::from(exchange.signs.fault.unheard == Unheard::Nothing);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        // The server answers, but only on other connections.
        if starved::passed_over(case).is_some() {
            return Conclusion::Nothing;
        }
        let sent = self.sent(case);
        let may_be_lost = sent.is_none() && !self.is_known_silent(case);
        let failed = (self.overdue(case), may_be_lost);
        let port = case.endpoint.port;
        self.failures
            .conclude_of(case, &KIND, failed, |claim| match sent {
                Some(evidence) => undelivered(claim, evidence),
                None => {
                    self.wording(port, may_be_lost).tell(claim, &[]);
                    claim.candidates.extend(unreachable(case));
                }
            })
    }
}

impl Rule {
    /// Returns true if the server sent no answer: a loss of the answer on the path, such as at a
    /// link that takes only small packets, looks the same at the client. The server's next sequence
    /// number tells it, and within one host there is no path.
    fn is_known_silent(&self, case: &Case<'_>) -> bool {
        let address = case.endpoint.addr;
        let mut routes = case.facts.kernel.routes.iter();
        let is_here =
            address.is_loopback() || routes.any(|route| route.target == address && route.is_local);
        let seen = self.failures.tally.affected;
        is_here || (seen > 0 && self.silent * 2 >= seen)
    }

    /// Returns the texts for a service at `port`. `may_be_lost`: the answers may be lost on the way.
    fn wording(&self, port: u16, may_be_lost: bool) -> &'static Wording {
        let is_unread = self.unread * 2 > self.failures.tally.affected;
        if may_be_lost {
            &UNHEARD
        } else if is_unread && HTTP_PORTS.contains(&port) {
            &OTHER
        } else {
            &WORDING
        }
    }

    /// Returns the evidence that the server's kernel saw the responses leave to at least half of the
    /// unanswered requests, if no request was answered: it times only requests with a response, and
    /// does not tell to which of them one came.
    fn sent(&self, case: &Case<'_>) -> Option<Statement> {
        let turns = case.facts.turns.services.get(&case.endpoint)?;
        let unanswered = self.failures.tally.affected;
        let is_answered = case.ledger.counts.count > 0
            || Attempts::of(case).is_some_and(|attempts| attempts.has_answer());
        let is_most = !is_answered && turns.turns > 0 && turns.turns * 2 >= unanswered;
        let text = format!(
            "its kernel saw {} and the responses to them leave",
            counted(turns.turns, "request", "requests")
        );
        let evidence = Statement::shows(EvidenceKind::KernelTrace, text);
        is_most.then(|| evidence.count(turns.turns))
    }

    /// Returns the number of unanswered requests that were late. At the end of a load run, the
    /// client also leaves requests whose responses were not yet due.
    fn overdue(&self, case: &Case<'_>) -> u64 {
        let all = self.failures.tally.affected;
        let cut = case.target.map_or(0, |target| case.facts.loads.cut(target));
        let mut answered = case.ledger.latency.all.clone();
        answered.subtract(&self.ages);
        let usual = answered.quantile(NEARLY_ALL);
        let late = usual.map_or(1.0, |usual| self.ages.share_above(usual));
        let late = (late * all as f64).round() as u64;
        late.min(all.saturating_sub(cut))
    }
}

/// Returns the candidate for a server that waits for something that does not answer it either.
fn unreachable(case: &Case<'_>) -> Option<Candidate> {
    let (call, count) = case.calls.unanswered_of(case.endpoint)?;
    let what = match call.kind {
        CallKind::SilentResolver => "a resolver",
        _ => "another server",
    };
    Some(Candidate {
        cause: Id::UpstreamUnreachable,
        because: format!(
            "the server's host called {}, {what}, {} without an answer, and may wait for it",
            call.to,
            counted(count, "time", "times"),
        ),
        decided_by: "the server's log, or `strace -f -T -e trace=network -p PID` on it".to_owned(),
    })
}

/// Words a claim on responses that left the server and did not arrive.
fn undelivered(claim: &mut Claim, evidence: Statement) {
    UNDELIVERED.tell(claim, &[]);
    "The server's responses do not arrive".clone_into(&mut claim.text.title);
    // Somewhere after the server's kernel, which may be this host's own filter.
    claim.culprit = Owner::Unknown;
    claim.evidence.push(evidence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_gets_another_protocol_than_its_ports_is_not_said_to_hang() {
        let changes = |unread, port| {
            let rule = Rule {
                unread,
                ..Rule::default()
            };
            let fix = rule.wording(port, false).fix.iter();
            fix.map(|(_, change)| *change).collect::<String>()
        };
        assert!(changes(0, 80).contains("deadlock"));
        assert!(changes(1, 7000).contains("deadlock"));
        assert!(!changes(1, 80).contains("deadlock"));
    }
}

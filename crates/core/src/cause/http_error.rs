//! The rule of the cause `http-error`.

mod statuses;
mod wording;

use core::time::Duration;
use std::collections::BTreeSet;

use super::attempts::Attempts;
use super::evidence::{self, REPEATS, human, median};
use super::settings::{self, Measured};
use super::wording::{Values, Wording, part};
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::exchange::{Exchange, Outcome};
use crate::observed::time::Timestamp;
use crate::protocol::http::status::StatusMeaning;
use crate::report::{Affected, EvidenceKind, Remark, count, counted};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;
pub(crate) use statuses::Statuses;

/// Maximum part of the time, as one in this many, for which errors count as those of a beginning.
const BEGINNING: i64 = 5;
/// Minimum share of errors that all came at the beginning for a claim: a service that starts is
/// not broken.
const SHARE_AT_FIRST: f64 = 0.05;
/// Maximum number of targets that a client asks for by habit, although nothing is there: a health
/// check, an icon.
const HABITS: usize = 2;
/// Minimum length of a load from which the rate of its good answers is told.
const LONG_ENOUGH: f64 = 1.0;

/// Connection attempts of a host that were refused or given up (RFC 4022 §4).
const ATTEMPT_FAILS: &str = "Tcp:AttemptFails";

/// Counts error responses.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::bound)]
pub(crate) struct Rule {
    /// Times of the requests that were answered by an error.
    took: Distribution,
    /// Time from the first such request to the end of the last error.
    #[merge(span)]
    span: Option<(Timestamp, Timestamp)>,
    /// Fingerprints of their targets, up to one more than there are habits.
    #[merge(extend)]
    targets: BTreeSet<u64>,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::ERROR;

    fn observe(&mut self, exchange: &Exchange) {
        let is_error = matches!(exchange.outcome, Outcome::Complete(Some(status))
            if StatusMeaning::of(status).is_some());
        if is_error {
            self.took.record(exchange.latency());
            self.extend((exchange.begin, exchange.end));
            self.add_target(exchange.particulars.target);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let own = own(case);
        let seen = seen(case);
        let unmet = seen.unmet();
        if own.are_redirects() && case.facts.loads.expected.is_empty() {
            return Conclusion::Note(redirects(&own));
        }
        let (is_own, is_seen) = (is_frequent(&own, &own), is_frequent(&unmet, &seen));
        if !is_own && (!is_seen || self.is_beginning(case, &seen)) {
            return Conclusion::Nothing;
        }
        if !is_own && self.is_habit(&unmet, &seen) {
            return Conclusion::Note(habit(&unmet, &seen));
        }
        let (errors, all) = if is_own {
            (&own, &own)
        } else {
            (&unmet, &seen)
        };
        let mut found = Vec::new();
        if is_seen {
            found.push(of_packets(&unmet, &seen));
        }
        if is_own {
            found.push(of_own(&own));
        }
        let has_others = all.all() > errors.errors() && case.facts.loads.expected.is_empty();
        if has_others {
            found.extend(self.apart(case));
        }
        found.extend(refused_behind(case, errors));
        let fault = errors.errors_that(StatusMeaning::is_servers_fault);
        let is_fault = fault as f64 >= all.all() as f64 * evidence::FAILING_SHARE;
        let culprit = if is_fault || self.is_configured(case) {
            Owner::Server
        } else {
            Owner::Unknown
        };
        let mut claim = evidence::bare_claim(Id::HttpError, culprit, case);
        claim.affected = Affected {
            exchanges: errors.errors(),
            of: all.all(),
        };
        claim.basis = Basis::new(claim.affected.exchanges, false);
        claim.evidence = found;
        self.tell(&mut claim, case, errors);
        Conclusion::Claim(Box::new(claim))
    }

    fn measured(&self, case: &Case<'_>) -> Measured {
        let worst = own(case).worst().or_else(|| seen(case).worst());
        Measured {
            status: worst,
            connections: case.facts.loads.connections(case.target),
            ..Measured::default()
        }
    }
}

impl Rule {
    fn extend(&mut self, (begin, end): (Timestamp, Timestamp)) {
        let (first, last) = self.span.unwrap_or((begin, end));
        self.span = Some((first.min(begin), last.max(end)));
    }

    fn add_target(&mut self, target: u64) {
        self.targets.insert(target);
        self.bound();
    }

    fn bound(&mut self) {
        while self.targets.len() > HABITS + 1 {
            self.targets.pop_last();
        }
    }

    fn tell(&self, claim: &mut Claim, case: &Case<'_>, errors: &Statuses) {
        let own = |text: &'static str| if case.target.is_some() { text } else { "" };
        // 503 may have other reasons than a limit.
        let is_limited = errors.meaning() == Some(StatusMeaning::TooMany)
            || errors.errors() * 2 > claim.affected.of;
        let (let_through, slower) = match good_rate(case).filter(|_| is_limited) {
            Some(rate) => (
                format!(" About {rate:.0} requests/s were served."),
                format!(" (--rate {rate:.0})"),
            ),
            None => (String::new(), own(" (a lower --rate)").to_owned()),
        };
        let meaning = errors.meaning();
        let parted = meaning.map(|meaning| errors.parted(meaning));
        let [meant, others] = parted.unwrap_or_else(|| [errors.clone(), Statuses::default()]);
        let share = part(meant.errors(), claim.affected.of);
        let values: &Values<'_> = &[
            ("part", &share),
            ("statuses", &meant.list_of_errors()),
            (
                "credentials",
                &own(" (-u USER:PASSWORD, -H 'Authorization: …', -b COOKIE)"),
            ),
            ("method", &own(" (-X METHOD)")),
            ("let_through", &let_through),
            ("slower", &slower),
        ];
        let is_expected = meaning.is_some() || case.facts.loads.expected.is_empty();
        let (title, wording) = if is_expected {
            (wording::title(meaning), wording::of(meaning))
        } else {
            (Some(wording::UNEXPECTED_TITLE), &wording::UNEXPECTED)
        };
        if let Some(title) = title {
            title.clone_into(&mut claim.text.title);
        }
        wording.tell(claim, values);
        if others.errors() > 0 {
            tell_others(claim, &others, values);
        }
        match self.beginning(case) {
            Some(beginning) => {
                wording::AT_FIRST.tell(claim, &[("beginning", &human(beginning))]);
            }
            None => wording::NO_MEASURE.tell(claim, &[]),
        }
    }

    /// Returns the time in which all errors came, if that was only the beginning.
    fn beginning(&self, case: &Case<'_>) -> Option<Duration> {
        let (begin, end) = case.ledger.span?;
        let (_, last) = self.span?;
        let all = end.as_nanos().saturating_sub(begin.as_nanos());
        let of = last.as_nanos().saturating_sub(begin.as_nanos());
        (of.saturating_mul(BEGINNING) <= all).then(|| last.since(begin))
    }

    /// Returns true if there were only a few errors, all at the beginning.
    fn is_beginning(&self, case: &Case<'_>, seen: &Statuses) -> bool {
        let share = seen.errors() as f64 / seen.all().max(1) as f64;
        share < SHARE_AT_FIRST && self.beginning(case).is_some()
    }

    /// Returns true if clients only ask now and again for something that is not there, while most
    /// requests are answered.
    fn is_habit(&self, errors: &Statuses, all: &Statuses) -> bool {
        let missing = errors.errors_that(|meaning| meaning == StatusMeaning::Missing);
        missing == errors.errors() && missing * 2 < all.all() && self.targets.len() <= HABITS
    }

    /// Returns evidence of the errors' latency, apart from the latency of the other requests.
    fn apart(&self, case: &Case<'_>) -> Option<Statement> {
        let mut others = case.ledger.latency.all.clone();
        others.subtract(&self.took);
        if self.took.is_empty() || others.is_empty() {
            return None;
        }
        let text = format!(
            "the errors came after {} (median), all other answers after {}",
            median(&self.took),
            median(&others),
        );
        Some(Statement::fits(case.timed_by(), text))
    }

    /// Returns true if the server's configuration has it answer with this error.
    fn is_configured(&self, case: &Case<'_>) -> bool {
        let measured = super::Rule::measured(self, case);
        settings::supporting(case, Id::HttpError, Owner::Server, &measured).is_some()
    }
}

/// Adds the errors with other meanings than most, and what to do about most of these.
fn tell_others(claim: &mut Claim, others: &Statuses, values: &Values<'_>) {
    let told = format!(
        " Other errors: {} ({}).",
        part(others.errors(), claim.affected.of),
        others.list_of_errors()
    );
    claim.text.summary += &told;
    let also = Wording {
        fix: wording::of(others.meaning()).fix,
        ..Wording::NONE
    };
    also.tell(claim, values);
}

/// Returns the responses to our own requests.
fn own(case: &Case<'_>) -> Statuses {
    let own: Statuses = Attempts::of(case).unwrap_or_default().statuses.into();
    own.expecting(&case.facts.loads.expected)
}

/// Returns the responses in the capture.
fn seen(case: &Case<'_>) -> Statuses {
    if case.has_packets {
        let seen = Statuses::of(&case.ledger.counts.outcomes);
        match case.target {
            Some(_) => seen.expecting(&case.facts.loads.expected),
            None => seen,
        }
    } else {
        Statuses::default()
    }
}

fn is_frequent(errors: &Statuses, all: &Statuses) -> bool {
    let (errors, all) = (errors.errors(), all.all());
    errors > 0 && errors as f64 >= all as f64 * evidence::FAILING_SHARE
}

fn of_packets(errors: &Statuses, seen: &Statuses) -> Statement {
    let met = match seen.errors() - errors.errors() {
        0 => String::new(),
        met => format!(
            ", not counting {} (401, 407)",
            counted(met, "challenge", "challenges")
        ),
    };
    let text = format!(
        "{} of {} were errors ({}){met}",
        count(errors.errors()),
        counted(seen.all(), "response", "responses"),
        errors.list_of_errors(),
    );
    Statement::shows(EvidenceKind::Wire, text).count(errors.errors())
}

fn of_own(own: &Statuses) -> Statement {
    let text = format!("our own requests were answered by {}", own.list());
    Statement::shows(EvidenceKind::OwnSocket, text).count(own.errors())
}

/// Returns the rate of the answers of our own load that were no errors, if some were.
fn good_rate(case: &Case<'_>) -> Option<f64> {
    let target = case.target?;
    let seconds = case.facts.loads.baseline_seconds(target);
    let statuses: Statuses = case.facts.loads.baseline(target)?.statuses.clone().into();
    let statuses = statuses.expecting(&case.facts.loads.expected);
    let good = statuses.all() - statuses.errors();
    let is_told = seconds >= LONG_ENOUGH && good > 0 && statuses.errors() > 0;
    is_told.then(|| good as f64 / seconds)
}

/// Returns evidence that the host on which both we and the gateway run failed to connect about as
/// often as the gateway answered that nothing valid came from behind it.
fn refused_behind(case: &Case<'_>, errors: &Statuses) -> Option<Statement> {
    let behind = errors.errors_that(|meaning| meaning == StatusMeaning::BadGateway);
    let failed = case.facts.targets_counter(ATTEMPT_FAILS)?;
    let text = format!(
        "meanwhile {} of its host were refused or failed ({ATTEMPT_FAILS})",
        counted(failed, "connection attempt", "connection attempts")
    );
    let is_told = behind > 0 && failed >= REPEATS;
    is_told.then(|| Statement::fits(EvidenceKind::Counter, text).count(failed))
}

fn redirects(own: &Statuses) -> Remark {
    Remark {
        id: "only-redirects".to_owned(),
        text: format!(
            "Only redirects were measured ({}), not what they lead to: -L follows them.",
            own.list()
        ),
    }
}

fn habit(errors: &Statuses, all: &Statuses) -> Remark {
    Remark {
        id: Id::HttpError.as_str().to_owned(),
        text: format!(
            "{} of {} were errors ({}), all for the same path or two: clients ask for something that is not \
             there, and everything else is answered.",
            count(errors.errors()),
            counted(all.all(), "response", "responses"),
            errors.list_of_errors(),
        ),
    }
}

//! Settings in the server's configuration that explain claims.
//!
//! [`table`] has one row for each directive: the causes that it explains, and a test that compares
//! its effective value with the traffic. A directive alone is no evidence. For example,
//! `keepalive_requests 10` explains a claim on new connections only if connections were closed
//! after ten requests.

mod table;
mod tunable;
mod value;

use core::time::Duration;

use super::{Case, Conclusion, Id};
use crate::claim::{Advice, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::facts::Facts;
use crate::observed::event::{ConfigurationLine, TargetId};
use crate::observed::flow::Endpoint;
use crate::report::{EvidenceKind, Says};
pub(super) use table::PASSING;
pub(super) use table::by_directive;
pub use table::directives;
use table::{Row, TABLE};
pub(super) use tunable::tunable;

/// The figures of the traffic with which settings are compared. Each rule provides the figures that
/// it has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    /// Number of requests after which the server closes a connection, if this number is constant.
    pub(super) requests: Option<u64>,
    /// The shortest idle time after which the server had closed a connection.
    pub(super) idle: Option<Duration>,
    /// Length of the longest first TLS record, in bytes.
    pub(super) record: Option<u64>,
    /// The rate at which the server limits a response, in bytes per second.
    pub(super) byte_rate: Option<f64>,
    /// The rate at which requests are let through one at a time, in requests per second.
    pub(super) request_rate: Option<f64>,
    /// Number of requests that the server handles at the same time.
    pub(super) served: Option<f64>,
    /// The most frequent status of error responses.
    pub(super) status: Option<u16>,
    /// Number of handshakes in which the server chose a lower version than the client's best.
    pub(super) lowered: u64,
    /// Number of full handshakes.
    pub(super) full: u64,
    /// Number of handshakes with a HelloRetryRequest.
    pub(super) retried: u64,
    /// Number of connections that our own load uses.
    pub(super) connections: u64,
}

/// A setting, with the figures with which it is compared.
struct Seen<'a> {
    line: &'a ConfigurationLine,
    facts: &'a Facts,
    endpoint: Endpoint,
    culprit: Owner,
    measured: &'a Measured,
}

impl<'a> Seen<'a> {
    /// Returns the words of the setting's value.
    fn words(&self) -> impl Iterator<Item = &'a str> {
        self.line.value.split_ascii_whitespace()
    }

    /// Returns the first word of the value; empty for an empty value.
    fn value(&self) -> &'a str {
        self.words().next().unwrap_or_default()
    }

    /// Returns the values of another directive in the same server's configuration.
    fn values(&self, directive: &'a str) -> impl Iterator<Item = &'a str> {
        let (target, lines) = (self.line.target, &self.facts.configuration);
        lines
            .iter()
            .filter(move |line| line.target == target && line.directive == directive)
            .map(|line| line.value.as_str())
    }

    /// Returns true if another directive of the same server has this value.
    fn has(&self, directive: &'a str, value: &str) -> bool {
        self.values(directive).any(|other| other == value)
    }

    /// Returns true if the server forwards these requests to an upstream.
    fn is_passed_on(&self) -> bool {
        PASSING
            .iter()
            .any(|directive| self.values(directive).any(is_set))
    }
}

/// A setting that supports or contradicts a cause.
#[derive(Clone, Copy)]
pub(super) struct SettingMatch<'a> {
    pub(super) line: &'a ConfigurationLine,
    row: &'static Row,
    says: Says,
}

/// Returns the settings that support or contradict a cause, in the order of the table.
pub(super) fn on<'a>(
    case: &Case<'a>,
    cause: Id,
    culprit: Owner,
    measured: &Measured,
) -> Vec<SettingMatch<'a>> {
    let facts = case.facts;
    let rows = TABLE.iter().filter(|row| row.causes.contains(&cause));
    let held = rows.flat_map(|row| {
        let lines = facts.configuration.iter();
        let lines = lines.filter(move |line| {
            Some(line.target) == case.target && row.directives.contains(&line.directive.as_str())
        });
        lines.map(move |line| (row, line))
    });
    held.filter_map(|(row, line)| {
        let says = (row.test)(&Seen {
            line,
            facts,
            endpoint: case.endpoint,
            culprit,
            measured,
        });
        // A setting that may not be in effect contradicts nothing.
        let is_told =
            says == Says::Supports || (says == Says::Contradicts && caveat(line).is_none());
        is_told.then_some(SettingMatch { line, row, says })
    })
    .collect()
}

/// Returns the first setting that supports a cause.
pub(super) fn supporting<'a>(
    case: &Case<'a>,
    cause: Id,
    culprit: Owner,
    measured: &Measured,
) -> Option<&'a ConfigurationLine> {
    let mut matches = on(case, cause, culprit, measured).into_iter();
    let found = matches.find(|found| found.says == Says::Supports)?;
    Some(found.line)
}

/// Adds the settings that support or contradict the claim. A setting that supports it becomes
/// evidence, and names the change to make.
pub(super) fn explained(
    conclusion: Conclusion,
    case: &Case<'_>,
    measured: impl FnOnce() -> Measured,
) -> Conclusion {
    let Conclusion::Claim(mut claim) = conclusion else {
        return conclusion;
    };
    if !case.facts.configuration.is_empty() {
        let matches = on(case, claim.cause, claim.culprit, &measured()).into_iter();
        let (against, fitting): (Vec<_>, Vec<_>) =
            matches.partition(|found| found.says == Says::Contradicts);
        for (at, found) in fitting.iter().enumerate() {
            found.support(&mut claim, at);
        }
        for found in against.iter().filter(|_| fitting.is_empty()) {
            found.contradict(&mut claim);
        }
    }
    Conclusion::Claim(claim)
}

impl SettingMatch<'_> {
    /// Returns a clause with the setting and the place where it applies.
    fn clause(&self) -> String {
        let line = self.line;
        let default = if line.set_at.is_none() && is_set(&line.value) {
            " by default"
        } else {
            ""
        };
        let scope = match line.scope.as_str() {
            "" => String::new(),
            scope => format!(" ({scope})"),
        };
        format!("{} has {}{default}{scope}", line.program, written(line))
    }

    fn support(&self, claim: &mut Claim, at: usize) {
        let place = place(self.line);
        let caveat = caveat(self.line).unwrap_or_default();
        let text = format!("{}: {}{caveat}", self.clause(), self.row.effect);
        let location = self.line.set_at.as_ref().map(|_| place.clone());
        let piece = Statement::fits(EvidenceKind::Configuration, text).at(location);
        claim.evidence.push(piece);
        if !self.row.change.is_empty() {
            let change = self.row.change.replace("{setting}", &written(self.line));
            let advice = Advice::new(place, change).on_line(self.line);
            claim.advise(tunable(name(self.line)), advice, at);
        }
    }

    fn contradict(&self, claim: &mut Claim) {
        let (clause, place) = (self.clause(), place(self.line));
        let text = format!("{clause} ({place}), which contradicts this cause");
        let against = Statement::contradicts(EvidenceKind::Configuration, text);
        claim.evidence.push(against);
    }
}

/// Returns the subject's settings that claims propose to change, each with the cause that it
/// explains.
pub(crate) fn accused<'a>(facts: &'a Facts, claims: &[Claim]) -> Vec<(&'a ConfigurationLine, Id)> {
    let lines = facts.configuration.iter();
    let lines = lines.filter(|line| line.target == TargetId::Subject);
    let accused = lines.filter_map(|line| {
        let mut claims = claims.iter();
        let accuser = claims.find(|claim| claim.advice.iter().any(|one| one.is_on_line(line)))?;
        Some((line, accuser.cause))
    });
    accused.collect()
}

/// Returns the place of a setting: its file and line, its command line or, for a default value, the
/// blocks in which it applies.
pub(crate) fn place(line: &ConfigurationLine) -> String {
    match &line.set_at {
        Some(at) => at.to_string(),
        None if line.scope.is_empty() => line.program.clone(),
        None => format!("{}, {}", line.program, line.scope),
    }
}

/// Returns the setting as its program's configuration files write it.
fn written(line: &ConfigurationLine) -> String {
    let (directive, value) = (name(line), line.value.as_str());
    match line.directive.split_once(' ') {
        _ if !is_set(value) => format!("no `{directive}`"),
        Some(("listen", option)) if value == "on" => format!("`listen … {option}`"),
        Some(("listen", option)) if value == "off" => format!("no `{option}` in `listen`"),
        Some(("listen", option)) => format!("`listen … {option}={value}`"),
        _ if is_assigned(line) => format!("`{} = {value}`", assigned_name(directive)),
        _ if is_variable(directive) || directive.starts_with("-XX") && value != "on" => {
            format!("`{directive}={value}`")
        }
        _ if line.program == "nginx" => format!("`{directive} {value};`"),
        _ if value == "on" => format!("`{directive}`"),
        _ => format!("`{directive} {value}`"),
    }
}

/// Returns true for an option that a file sets: gunicorn's `--worker-class` is `worker_class` there.
fn is_assigned(line: &ConfigurationLine) -> bool {
    let is_file = line.set_at.as_ref().is_some_and(|at| at.line > 0);
    is_file && line.directive.starts_with("--")
}

/// Returns the name of gunicorn's option in its file.
fn assigned_name(option: &str) -> String {
    match option {
        "--keep-alive" => "keepalive".to_owned(),
        _ => option.trim_start_matches('-').replace('-', "_"),
    }
}

/// Returns true for the name of an environment variable.
fn is_variable(directive: &str) -> bool {
    directive.contains(|c: char| c.is_ascii_uppercase())
        && directive
            .chars()
            .all(|c| c.is_ascii_uppercase() || c == '_')
}

/// Returns the name of a directive, or of an option of nginx's `listen`.
fn name(line: &ConfigurationLine) -> &str {
    let option = line.directive.strip_prefix("listen ");
    option.unwrap_or(&line.directive)
}

/// Returns the reason why the setting may not be in effect; `None` if it certainly is.
fn caveat(line: &ConfigurationLine) -> Option<String> {
    if let Some(doubt) = &line.doubt {
        return Some(format!("; not certain: {doubt}"));
    }
    let is_newer = line.is_newer_than_process == Some(true);
    is_newer.then(|| "; the file is newer than the workers, which may not have read it".to_owned())
}

/// Returns true if the directive has a value, set or by default.
fn is_set(value: &str) -> bool {
    !value.is_empty() && value != "not set"
}

#[cfg(test)]
pub(super) mod tests;

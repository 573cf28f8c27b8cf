//! The option that helps, if a service answers with a status that is no success.

use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::report::{Remark, Report, StatusCount};

use super::{Answer, Options};
use crate::clock;
use crate::words;

impl Answer {
    /// Returns the event that tells which statuses are a success; `None` if the user expects none in
    /// particular.
    pub(crate) fn expectation(&self) -> Option<Event> {
        let body = EventBody::Expected(self.expect_status.clone());
        let event = Event::here(clock::now(), Phase::Baseline, body);
        (!self.expect_status.is_empty()).then_some(event)
    }

    /// Adds a remark to the report if responses had other statuses than the user expects. Returns
    /// whether all were expected; `None` if the user expects none in particular.
    pub(crate) fn check(&self, report: &mut Report) -> Option<bool> {
        let expected = &self.expect_status;
        if expected.is_empty() {
            return None;
        }
        let load = report.load.as_ref().map(|load| &load.outcomes);
        let outcomes = load.unwrap_or(&report.exchanges.statuses);
        let is_other = |outcome: &&StatusCount| {
            let status = outcome.status.parse();
            status.is_ok_and(|status| !expected.contains(&status))
        };
        let others: Vec<String> = outcomes
            .iter()
            .filter(is_other)
            .map(|other| format!("{} of status {}", words::count(other.count), other.status))
            .collect();
        let has_failed = outcomes
            .iter()
            .any(|outcome| outcome.status.parse::<u16>().is_err());
        if others.is_empty() {
            return Some(!has_failed);
        }
        let statuses: Vec<String> = expected.iter().map(u16::to_string).collect();
        let text = format!(
            "Responses with another status than expected ({}): {}.",
            statuses.join(", "),
            others.join(", ")
        );
        report.notes.push(Remark {
            id: "unexpected-status".to_owned(),
            text,
        });
        Some(false)
    }
}

/// Returns true if a status is a success: one of those that the user expects, if there are any.
pub(crate) fn is_success(status: u16, expected: &[u16]) -> bool {
    match expected {
        [] => (200..300).contains(&status),
        expected => expected.contains(&status),
    }
}

/// Returns what to do about a status, which is not a success; `None` if no option helps.
pub(crate) fn with(status: u16, location: Option<&str>, options: &Options) -> Option<String> {
    if !options.answer.expect_status.is_empty() {
        let expected = options.answer.expect_status.iter().map(u16::to_string);
        let expected: Vec<String> = expected.collect();
        return Some(format!(
            "Status {status}, but {} was expected (--expect-status).",
            expected.join(" or ")
        ));
    }
    let is_known = options.sender.user.is_some() || options.sender.oauth2_bearer.is_some();
    Some(match status {
        301..=303 | 307 | 308 => {
            let to = location.map_or_else(String::new, |to| format!(" to {to}"));
            format!("Status {status}: a redirect{to}. -L measures the place that it leads to.")
        }
        401 if is_known => {
            "Status 401: the service does not accept these credentials (-u, --oauth2-bearer)."
                .to_owned()
        }
        401 | 403 => format!(
            "Status {status}: the service wants to know who asks: -u NAME:PASSWORD, \
             --oauth2-bearer TOKEN, -b COOKIES or -H 'Authorization: …'. --from-curl takes a \
             request from a browser that is logged in."
        ),
        405 => "Status 405: another method is needed: -X METHOD, or --json and --data for POST."
            .to_owned(),
        415 => "Status 415: another type of body is needed: -H 'Content-Type: …', or --json."
            .to_owned(),
        429 => "Status 429: the service limits how often one may ask: --rate N asks N times per \
                second."
            .to_owned(),
        _ => return None,
    })
}

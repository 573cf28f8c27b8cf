//! The levers of a fix: the socket options and the lines of configuration that it changes.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exchange::wait::Owner;
use crate::observed::syscall::SocketOption;
use crate::report::{CountOf, EvidenceKind, Finding, Report, Setting, SocketGroup};

/// Minimum share of the samples that must show an option for it to be in force. It is less than 1,
/// because a server may set the option only after a connection's first response.
const IN_FORCE: f64 = 0.9;
/// Maximum share of the samples that may show an option that is not in force.
const NOT_IN_FORCE: f64 = 0.1;

/// A value that a fix changes, as read in both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lever {
    /// The place where the value was read.
    pub place: LeverPlace,
    /// `TCP_NODELAY on nginx's sockets`, `tcp_nodelay of nginx`.
    pub name: String,
    /// The value read before: `0 of 100`, `off (nginx.conf:12)`.
    pub before: String,
    /// The value read after.
    pub after: String,
    /// The new state in words: `TCP_NODELAY is now on`.
    #[serde(default)]
    pub change: String,
    /// True if the value was changed. Sockets must change from off to on, or from on to off if the
    /// option is harmful.
    pub has_changed: bool,
}

impl fmt::Display for Lever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} before {}, after {}",
            self.name, self.before, self.after
        )
    }
}

/// The place where a lever was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LeverPlace {
    /// On live sockets.
    Sockets,
    /// In a program's effective configuration.
    Configuration,
}

/// Returns the values in both reports that the fix of `finding` changes.
pub(super) fn read(finding: &Finding, before: &Report, after: &Report) -> Vec<Lever> {
    let is_own = finding.culprit == Owner::Client;
    let sockets = finding
        .cause
        .cause()
        .option
        .and_then(|option| sockets(option, is_own, &before.sockets, &after.sockets));
    let settings = before
        .configuration
        .iter()
        .filter(|setting| setting.target == "subject" && is_named(setting, finding))
        .filter_map(|setting| configuration(setting, &after.configuration));
    sockets.into_iter().chain(settings).collect()
}

fn sockets(
    option: SocketOption,
    is_own: bool,
    before: &[SocketGroup],
    after: &[SocketGroup],
) -> Option<Lever> {
    let (old, new) = (
        tally(option, is_own, before)?,
        tally(option, is_own, after)?,
    );
    let (name, has_changed, change) = match option {
        SocketOption::NoDelay => (
            "TCP_NODELAY set",
            share(old) <= NOT_IN_FORCE && share(new) >= IN_FORCE,
            "TCP_NODELAY is now on",
        ),
        SocketOption::Cork => (
            "TCP_CORK set",
            share(old) > NOT_IN_FORCE && share(new) < share(old) / 2.0,
            "TCP_CORK is now off",
        ),
        _ => return None,
    };
    let whose = if is_own {
        "our sockets"
    } else {
        "the server's sockets"
    };
    Some(Lever {
        place: LeverPlace::Sockets,
        name: format!("{name} on {whose}"),
        before: format!("{} of {}", old.count, old.of),
        after: format!("{} of {}", new.count, new.of),
        change: change.to_owned(),
        has_changed,
    })
}

/// Returns all samples of an option on the subject's sockets; `None` if the option was not read.
fn tally(option: SocketOption, is_own: bool, groups: &[SocketGroup]) -> Option<CountOf> {
    groups
        .iter()
        .filter(|group| group.target == "subject" && (group.owner == "own") == is_own)
        .filter_map(|group| match option {
            SocketOption::NoDelay => group.nodelay,
            SocketOption::Cork => group.cork,
            _ => None,
        })
        .filter(|tally| tally.of > 0)
        .reduce(|sum, tally| CountOf {
            count: sum.count.saturating_add(tally.count),
            of: sum.of.saturating_add(tally.of),
        })
}

fn share(tally: CountOf) -> f64 {
    tally.count as f64 / tally.of.max(1) as f64
}

/// Returns true if a finding is based on a setting, or if its fix names the setting.
fn is_named(setting: &Setting, finding: &Finding) -> bool {
    let is_evidence = setting.set_at.is_some()
        && finding.evidence.iter().any(|evidence| {
            evidence.kind == EvidenceKind::Configuration && evidence.location == setting.set_at
        });
    let is_in_fix = finding.fix.iter().any(|fix| {
        fix.change
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| word == setting.directive)
    });
    is_evidence || is_in_fix
}

fn configuration(old: &Setting, after: &[Setting]) -> Option<Lever> {
    let is_same = |new: &&Setting| {
        new.target == old.target && new.program == old.program && new.directive == old.directive
    };
    let new = after
        .iter()
        .find(|new| is_same(new) && new.scope == old.scope)
        .or_else(|| after.iter().find(is_same))?;
    Some(Lever {
        place: LeverPlace::Configuration,
        name: format!("{} of {}", old.directive, old.program),
        before: describe(old),
        after: describe(new),
        change: format!("{} is now {}", new.directive, describe(new)),
        has_changed: new.value != old.value,
    })
}

fn describe(setting: &Setting) -> String {
    let place = setting.set_at.as_deref().unwrap_or("built-in default");
    format!("{} ({place})", setting.value)
}

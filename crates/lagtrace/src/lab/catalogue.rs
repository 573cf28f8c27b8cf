//! The command `lagtrace-lab list`, which prints the scenarios with their causes, and the running
//! labs.

mod page;

use lagtrace_core::registry::Id;
use lagtrace_lab::Scenario;
use serde::Serialize;
use serde_json::{Value, json};

use super::failed;
use super::score::case::Kind;
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::output::Format;

/// The scenarios with the same cause, or the healthy scenarios.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    /// The cause's id; `None` for the healthy scenarios.
    pub(crate) cause: Option<Id>,
    /// The cause's title; empty for the healthy scenarios.
    pub(crate) title: &'static str,
    pub(crate) entries: Vec<Entry>,
}

/// A summary of a scenario.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) title: String,
    /// The kind of the scenario's recordings.
    kind: Kind,
    /// For each expected finding, the most costly first: the causes of which any one is correct.
    expected: Vec<Vec<Id>>,
    /// The Debian packages that the scenario needs.
    pub(crate) needs: Vec<String>,
    /// The packages that are not installed.
    pub(crate) missing: Vec<String>,
}

/// Prints the scenarios and the running labs.
pub(super) fn list(console: &Console) -> Result<Outcome> {
    let scenarios = Scenario::all().map_err(failed)?;
    let entries: Vec<_> = scenarios.iter().map(Entry::of).collect();
    // A list of runs that cannot be read is no error: only root can keep runs, and other users may
    // list scenarios.
    let runs = lagtrace_lab::runs().unwrap_or_default();
    let up: Vec<_> = runs
        .into_iter()
        .map(|run| (run.scenario.name, run.id))
        .collect();
    let as_json = |(name, id): &(String, String)| json!({"scenario": name, "id": id});
    let document = match console.output().format {
        Format::Text => page::text(&groups(entries), &up, &console.style()),
        Format::Json => {
            let up: Vec<_> = up.iter().map(as_json).collect();
            format!("{:#}\n", json!({"scenarios": entries, "up": up}))
        }
        Format::Ndjson => {
            let lines = entries.iter().map(|entry| json!(entry));
            let lines: Vec<Value> = lines.chain(up.iter().map(as_json)).collect();
            lines.iter().map(|line| format!("{line}\n")).collect()
        }
    };
    deliver(console, &document)?;
    Ok(Outcome::Clean)
}

impl Entry {
    fn of(scenario: &Scenario) -> Self {
        let truth = &scenario.target().truth;
        let requirements = scenario.requirements();
        let packages = |is_wanted: &dyn Fn(&lagtrace_lab::Requirement) -> bool| {
            let wanted = requirements.iter().filter(|need| is_wanted(need));
            let mut packages: Vec<_> = wanted.map(|need| need.package.clone()).collect();
            packages.dedup();
            packages
        };
        Self {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            kind: Kind::of(truth),
            expected: truth.expected.iter().map(|e| e.cause.clone()).collect(),
            needs: packages(&|_| true),
            missing: packages(&|need| !need.is_met()),
        }
    }
}

/// Groups the entries by cause, with the healthy scenarios last. Within a group, the entries keep
/// their order.
fn groups(entries: Vec<Entry>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for entry in entries {
        let names = entry.expected.first();
        let id = names.and_then(|names| names.first()).copied();
        let is_own = |group: &&mut Group| group.cause == id && group.kind == entry.kind;
        match groups.iter_mut().find(is_own) {
            Some(group) => group.entries.push(entry),
            None => groups.push(Group {
                kind: entry.kind,
                cause: id,
                title: id.map_or("", |id| id.cause().title),
                entries: vec![entry],
            }),
        }
    }
    groups.sort_by_key(|group| (group.kind, group.cause.map(Id::as_str)));
    groups
}

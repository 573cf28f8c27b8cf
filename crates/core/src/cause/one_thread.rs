//! Servers that serve everything with one thread, by the names of their programs: a larger
//! number of workers is no change that they know.

use super::Case;
use super::evidence::fix;
use crate::report::Fix;

/// What such a server can change, by what its program is called.
const KNOWN: [(&[&str], &str); 1] = [(
    &["redis-server", "valkey-server"],
    "one thread serves all commands, one after the other: find the slow ones (`SLOWLOG GET`, \
         `LATENCY LATEST`) and take them away, SCAN for KEYS, UNLINK for DEL, smaller ranges; \
         what must be slow goes to a replica",
)];

/// The change for requests that wait until others are served: the server's own, where its
/// program is known to have one thread, else `general`, which must hold for any server.
pub(super) fn fix_for(case: &Case<'_>, general: &str) -> Fix {
    fix("server", own(case).unwrap_or(general))
}

fn own(case: &Case<'_>) -> Option<&'static str> {
    let turns = case.facts.turns.services.get(&case.endpoint)?;
    let is_running = |names: &[&str]| {
        let mut programs = turns.programs.iter();
        programs.any(|(name, _)| names.contains(&name.as_str()))
    };
    let known = KNOWN.iter().find(|(names, _)| is_running(names));
    known.map(|&(_, change)| change)
}

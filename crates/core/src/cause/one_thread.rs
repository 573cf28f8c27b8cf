//! Servers that serve all requests with one thread, by the names of their programs: they have no
//! setting for a larger number of workers.

use super::Case;

/// The changes for such servers, by the names of their programs.
const KNOWN: [(&[&str], &str); 1] = [(
    &["redis-server", "valkey-server"],
    "one thread serves all commands, one after the other: find the slow ones (`SLOWLOG GET`, \
     `LATENCY LATEST`) and replace them: SCAN for KEYS, UNLINK for DEL, smaller ranges; run \
     unavoidable slow commands on a replica",
)];

/// Returns what to change when requests wait for others to be served: the advice for this server if
/// its program is known to be single-threaded, else `general`, which must be valid for any server.
pub(super) fn change_for(case: &Case<'_>, general: &'static str) -> &'static str {
    let turns = case.facts.turns.services.get(&case.endpoint);
    let mut programs = turns.into_iter().flat_map(|turns| &turns.programs);
    let own = programs.find_map(|(name, _)| change(name));
    own.unwrap_or(general)
}

/// Returns the change for the program of this name, if the program is known.
fn change(program: &str) -> Option<&'static str> {
    let known = KNOWN.iter().find(|(names, _)| names.contains(&program));
    known.map(|&(_, change)| change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_one_thread_is_told_to_do_less_and_others_are_not() {
        let redis = change("redis-server").expect("known");
        assert!(
            redis.contains("SLOWLOG") && !redis.contains("worker"),
            "{redis}"
        );
        assert_eq!(change("redis"), None);
        assert_eq!(change("nginx"), None);
    }
}

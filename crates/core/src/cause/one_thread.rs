//! Servers that handle all requests in one thread, known by the names of their programs. They have
//! no setting for more workers.

use super::Case;

/// The change to make at servers with a single thread, by the names of their programs.
const KNOWN: [(&[&str], &str); 1] = [(
    &["redis-server", "valkey-server"],
    "one thread serves all commands: find the slow ones (`SLOWLOG GET`, `LATENCY LATEST`) and \
     replace them (KEYS by SCAN, DEL by UNLINK, large ranges by small ones); run unavoidable slow \
     commands on a replica",
)];

/// Returns the change to make if requests wait for each other. If the server is known to have one
/// thread, the change is specific to it; otherwise it is `general`.
pub(super) fn change_for(case: &Case<'_>, general: &'static str) -> &'static str {
    let turns = case.facts.turns.services.get(&case.endpoint);
    let mut programs = turns.into_iter().flat_map(|turns| &turns.programs);
    let own = programs.find_map(|(name, _)| change(name));
    own.unwrap_or(general)
}

/// Returns the change for the program with this name; `None` if the program is not known.
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

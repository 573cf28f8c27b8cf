//! Diagnoses of targets that do not answer.

use std::thread;

use lagtrace_trial::live;

use super::chain::Chain;
use super::program::{findings, has_root, has_tool};

/// A host that is down is told from a packet filter, on the same link and behind a router. Nothing
/// comes from either for three seconds; then the kernel or the router reports that the host is
/// unreachable.
#[test]
fn a_host_that_is_down_is_told_from_a_filter() {
    const TEST: &str = "a_host_that_is_down_is_told_from_a_filter";
    if has_root(TEST) && has_tool(TEST, "nft") && has_tool(TEST, "ping") {
        live(TEST).run(down_or_filtered);
    }
}

fn down_or_filtered() {
    let chain = Chain::new(2);
    chain.filter(2, "input", "tcp dport 80 drop");
    // New devices answer for each other only after some time.
    for target in ["10.97.2.2", "fd97:2::2"] {
        chain.within(0, &format!("ping -q -c 1 -w 10 {target}"));
    }
    let expect = |host: &str, cause: &str| {
        let url = format!("http://{host}/");
        let run = chain.lagtrace(&["diagnose", &url, "--format", "json"]);
        assert_eq!(findings(&run.json()), [cause], "{host}");
    };
    thread::scope(|scope| {
        for down in ["10.97.1.9", "[fd97:1::9]", "10.97.2.9", "[fd97:2::9]"] {
            scope.spawn(|| expect(down, "host-unreachable"));
        }
        for filtered in ["10.97.2.2", "[fd97:2::2]"] {
            scope.spawn(|| expect(filtered, "firewall-drop"));
        }
    });
}

//! A process that ends while it is observed, and another one that gets its number.

use std::process::Command;

use lagtrace_trial::free_port;

use super::program::{Run, has_root, has_tool, program, run};

/// Runs a server under the number 300 of a PID namespace, and the program that observes it. Once the
/// program has told of a first request, the server ends, and another one begins under its number,
/// which gets more requests. The program's output goes to standard output.
const SCRIPT: &str = r#"
    port=$1; pid=300; shift
    start() {
        until [ "$server" = $pid ]; do
            [ -z "$server" ] || { kill -9 "$server"; wait "$server"; }
            echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid
            python3 -m http.server "$port" --bind 127.0.0.1 >/dev/null 2>&1 &
            server=$!
        done
        until wget -q -O /dev/null "http://127.0.0.1:$port/?start"; do sleep 0.1; done
    }
    start
    told=$(mktemp)
    "$@" --pid $pid -d 4s >"$told" &
    run=$!
    until [ -s "$told" ] || ! kill -0 $run; do
        wget -q -O /dev/null "http://127.0.0.1:$port/?first"
        sleep 0.1
    done
    kill -9 $server; wait $server; server=
    start
    for _ in 1 2 3; do wget -q -O /dev/null "http://127.0.0.1:$port/?second"; done
    wait $run; code=$?
    kill -9 $server
    cat "$told"; rm "$told"
    exit $code
"#;

/// Observes the process of this number, in namespaces of its own.
fn observed(command: &[&str]) -> Run {
    let mut own = Command::new("unshare");
    own.args([
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        "sh",
        "-c",
    ]);
    own.args([SCRIPT, "sh", &free_port().to_string()]);
    run(own.arg(program()).args(command))
}

fn may_renumber(test: &str) -> bool {
    let tools = ["unshare", "python3", "wget"];
    has_root(test) && tools.iter().all(|tool| has_tool(test, tool))
}

#[test]
fn a_process_that_gets_the_number_of_a_watched_one_is_not_watched() {
    const TEST: &str = "a_process_that_gets_the_number_of_a_watched_one_is_not_watched";
    if !may_renumber(TEST) {
        return;
    }
    let told = observed(&["watch", "-q", "--format", "ndjson"]).stdout;
    let exchanges = told
        .lines()
        .filter(|line| line.contains("\"type\":\"exchange\""));
    let requests: Vec<&str> = exchanges.collect();
    assert!(!requests.is_empty(), "{told}");
    assert!(requests.iter().all(|one| one.contains("/?first")), "{told}");
}

#[test]
fn calls_of_a_process_that_gets_the_number_of_a_traced_one_are_not_traced() {
    const TEST: &str = "calls_of_a_process_that_gets_the_number_of_a_traced_one_are_not_traced";
    if !may_renumber(TEST) {
        return;
    }
    let run = observed(&["sockets", "--trace", "-q", "--format", "ndjson"]).expect(0);
    // Only the second server begins to listen while calls are traced.
    assert!(!run.stdout.contains("\"listen\""), "{run:#?}");
}

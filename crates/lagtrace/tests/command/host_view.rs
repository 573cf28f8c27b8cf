//! The diagnosis of `diagnose`, joined with the times of the same requests in the server's kernel.

use serde_json::Value;

use super::lab::{Lab, Load, verdict};
use super::program::{findings, lagtrace, notes};

/// Returns the joined requests of the service, and its waits of this kind.
fn joined<'a>(report: &'a Value, service: &str, kind: &str) -> (&'a Value, Option<&'a Value>) {
    let services = report["watch"]["services"].as_array().unwrap();
    let it = services.iter().find(|it| it["service"] == service);
    let joined = &it.unwrap_or_else(|| panic!("{service}: {:#}", report["watch"]))["joined"];
    let waits = joined["waits"].as_array().unwrap();
    (joined, waits.iter().find(|wait| wait["wait"] == kind))
}

fn mean(figures: &Value) -> f64 {
    figures["mean"].as_f64().unwrap()
}

fn stage(wait: &Value, name: &str) -> f64 {
    let stages = wait["stages"].as_array().unwrap();
    let stage = stages.iter().find(|stage| stage["name"] == name).unwrap();
    mean(&stage["time_ns"])
}

/// Returns the share of joined requests on which packets and kernel disagree.
fn disagreements(joined: &Value) -> f64 {
    let count = |part: &str| joined[part]["exchanges"]["count"].as_f64().unwrap();
    (count("beyond") + count("within")) / joined["exchanges"]["count"].as_f64().unwrap()
}

/// The case with client and server in separate namespaces: packets are captured at the client, and
/// the kernel is watched at the server.
#[test]
fn the_case_is_held_by_packets_and_by_kernel_alike() {
    const TEST: &str = "the_case_is_held_by_packets_and_by_kernel_alike";
    verdict(TEST).run(|| {
        if let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") {
            let other = Lab::up(TEST, "nagle-delayed-ack").expect("a second lab");
            // Its server has the same address and port in another namespace.
            let beside = Load::begin(&other, "8080", &["-c", "20"]);
            held_alike(&lab);
            drop((beside, other));
            not_held(&lab);
            let arguments = ["-c", "2", "-d", "1s", "--no-watch"];
            let run = lab.diagnose("http://10.77.0.2:80/", &arguments);
            assert_eq!(run.json()["watch"], Value::Null);
        }
    });
}

fn held_alike(lab: &Lab) {
    let server = lab.namespace("server");
    let arguments = ["-c", "20", "-d", "2s", "--server-netns", &server];
    let run = lab.diagnose("http://10.77.0.2:8080/", &arguments);
    let report = run.expect(1).json();
    assert_eq!(findings(&report), ["nagle-delayed-ack"], "{report:#}");
    let finding = &report["findings"][0];
    assert_eq!(finding["verdict"], "proven");
    let evidence = finding["evidence"].as_array().unwrap();
    let is_split = |piece: &&Value| {
        let text = piece["text"].as_str().unwrap();
        piece["kind"] == "kernel-trace" && text.contains("its kernel shows")
    };
    let split = evidence.iter().find(is_split);
    let split = split.unwrap_or_else(|| panic!("no split: {evidence:#?}"));
    assert_eq!(split["shows_mechanism"], true, "{split:#}");
    // Although the finding has evidence from the kernel, it also names the packets in the capture.
    assert!(finding["display_filter"].is_string(), "{finding:#}");
    let (joined, held) = joined(&report, "10.77.0.2:8080", "response-held");
    let exchanges = &joined["exchanges"];
    let [count, of] = ["count", "of"].map(|part| exchanges[part].as_u64().unwrap());
    assert!(count > 50 && count * 10 >= of * 8, "{exchanges}");
    let held = held.expect("held");
    let by_packets = mean(&held["packets_ns"]);
    let by_kernel = stage(held, "held");
    assert!((0.9..1.1).contains(&(by_kernel / by_packets)), "{held:#}");
    assert!(disagreements(joined) < 0.1, "{joined:#}");
}

fn not_held(lab: &Lab) {
    let arguments = ["-c", "20", "-d", "2s", "--rate", "200"];
    let run = lab.diagnose("http://10.77.0.2:80/", &arguments);
    let report = run.expect(0).json();
    let (joined, held) = joined(&report, "10.77.0.2:80", "response-held");
    let count = joined["exchanges"]["count"].as_u64();
    assert!(count > Some(50), "{joined:#}");
    assert_eq!(held, None);
    assert!(disagreements(joined) < 0.1, "{joined:#}");
    let notes = notes(&report);
    assert!(!notes.iter().any(|id| id.starts_with("host-")), "{notes:?}");
}

/// A server outside the specified namespace is not watched. A namespace that does not exist is an
/// error before anything is measured.
#[test]
fn the_server_is_looked_for_where_the_user_says() {
    const TEST: &str = "the_server_is_looked_for_where_the_user_says";
    for (option, place) in [
        ("--server-netns", "no-such-place"),
        ("--server-pid", "4194305"),
    ] {
        let run = lagtrace(["diagnose", "http://127.0.0.1:9/", option, place]).expect(2);
        assert!(run.stderr.contains(place), "{run:#?}");
        assert!(run.stderr.contains("hint"), "{run:#?}");
    }
    let run = lagtrace([
        "diagnose",
        "http://127.0.0.1:9/",
        "--server-netns",
        "/dev/null",
    ]);
    assert!(run.expect(2).stderr.contains("network namespace"));
    let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") else {
        return;
    };
    let client = lab.namespace("client");
    let arguments = ["-c", "2", "-d", "1s", "--server-netns", &client];
    let run = lab.diagnose("http://10.77.0.2:80/", &arguments);
    assert!(
        run.stderr.contains("no connection of ours ends in"),
        "{run:#?}"
    );
    assert_eq!(run.json()["watch"], Value::Null);
    let own = std::process::id().to_string();
    let run = lab.diagnose("http://10.77.0.2:80/", &["-d", "1s", "--server-pid", &own]);
    assert!(
        run.stderr.contains("no connection of ours ends in"),
        "{run:#?}"
    );
}

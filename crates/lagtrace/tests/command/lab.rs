//! The lab through the command, start to end.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::program::{Run, findings, has_root, has_tool, lagtrace, program, run};

/// Runs a scenario of the lab; `None` where that is not possible here.
fn lab_run(test: &str, arguments: &[&str]) -> Option<Run> {
    if !has_root(test) || !has_tool(test, "nginx") || !has_tool(test, "ip") {
        return None;
    }
    let all = ["lab", "run", "--format", "json"];
    Some(lagtrace(all.iter().chain(arguments)))
}

/// Every service of the run was diagnosed as is true.
#[track_caller]
fn expect_truth(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, Some(0), "{run:#?}");
    let services = run.json().as_array().unwrap().clone();
    for service in &services {
        assert_eq!(service["misses"], serde_json::json!([]), "{service:#}");
    }
    services
}

/// How often a live measurement is tried. Client, path and server share this
/// machine: when something else takes its processors for a while, the server
/// does pause, the host does drop, and the tool says so. What is wrong in the
/// tool is wrong each time.
const TRIES: usize = 3;

/// Runs a live measurement until it comes out as is true, at most [`TRIES`] times.
pub(super) fn measured(test: impl Fn()) {
    for _ in 1..TRIES {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)).is_ok() {
            return;
        }
    }
    test();
}

#[test]
fn the_case_is_solved() {
    let load = ["nagle-delayed-ack", "--", "-d", "3s", "-c", "20"];
    measured(|| {
        if let Some(run) = lab_run("the_case_is_solved", &load) {
            let services = expect_truth(&run);
            assert_eq!(services.len(), 2);
            let case = services.iter().find(|s| s["service"] == "latency").unwrap();
            let finding = &case["report"]["findings"][0];
            assert_eq!(finding["cause"], "nagle-delayed-ack");
            assert_eq!(finding["culprit"], "server");
            assert_eq!(finding["verdict"], "proven");
        }
    });
}

#[test]
fn the_case_is_solved_without_rights() {
    let load = [
        "nagle-delayed-ack",
        "--unprivileged",
        "--",
        "-d",
        "3s",
        "-c",
        "20",
    ];
    measured(|| {
        if let Some(run) = lab_run("the_case_is_solved_without_rights", &load) {
            let services = expect_truth(&run);
            let case = services.iter().find(|s| s["service"] == "latency").unwrap();
            assert_eq!(case["report"]["findings"][0]["verdict"], "proven");
        }
    });
}

#[test]
fn a_filtered_target_is_called_so_within_ten_seconds() {
    const TEST: &str = "a_filtered_target_is_called_so_within_ten_seconds";
    if !has_tool(TEST, "nft") {
        return;
    }
    if let Some(run) = lab_run(TEST, &["firewall-drop"]) {
        expect_truth(&run);
        // Bringing the lab up and down is in it.
        assert!(run.took < Duration::from_secs(14), "{:?}", run.took);
    }
}

#[test]
fn labs_are_listed_and_shown() {
    let list = lagtrace(["lab", "list"]).expect(0);
    assert!(list.stdout.contains("nagle-delayed-ack"), "{list:#?}");
    let shown = lagtrace(["lab", "show", "nagle-delayed-ack"]).expect(0);
    assert!(shown.stdout.contains("latency on port 8080"), "{shown:#?}");
}

/// The case at each distance: named first, proven, the server's; and its
/// healthy twin stays without a finding.
#[test]
fn the_case_is_solved_at_every_distance() {
    for rtt in ["8", "50"] {
        measured(|| the_case_is_solved_at(rtt));
    }
}

fn the_case_is_solved_at(rtt: &str) {
    let load = [
        "nagle-delayed-ack",
        "--rtt",
        rtt,
        "--",
        "-d",
        "3s",
        "-c",
        "20",
    ];
    let Some(run) = lab_run("the_case_is_solved_at_every_distance", &load) else {
        return;
    };
    let services = expect_truth(&run);
    let case = services.iter().find(|s| s["service"] == "latency").unwrap();
    let finding = &case["report"]["findings"][0];
    assert_eq!(
        finding["cause"], "nagle-delayed-ack",
        "{rtt} ms: {finding:#}"
    );
    assert_eq!(finding["culprit"], "server", "{rtt} ms");
    assert_eq!(finding["verdict"], "proven", "{rtt} ms");
    let good = services.iter().find(|s| s["service"] == "good").unwrap();
    assert_eq!(
        good["report"]["findings"],
        serde_json::json!([]),
        "{rtt} ms"
    );
}

#[test]
fn a_healthy_server_stays_without_a_finding_time_after_time() {
    let load = [
        "nagle-delayed-ack",
        "--service",
        "good",
        "--rtt",
        "8",
        "--",
        "-d",
        "2s",
    ];
    for _ in 0..5 {
        measured(|| {
            let Some(run) = lab_run("a_healthy_server_stays_without_a_finding", &load) else {
                return;
            };
            let services = expect_truth(&run);
            // A path that is late itself is no healthy one.
            if services[0]["path_was_late"] != true {
                assert_eq!(services[0]["report"]["findings"], serde_json::json!([]));
            }
        });
    }
}

/// Decoys, faults and look-alikes, each met by whoever asks for a page, and each with a rule
/// for its cause. The case and the filtered port have tests of their own; all others are
/// recorded and scored.
const DIAGNOSED: &[&str] = &[
    "case-on-lossy-path",
    "closes-at-once",
    "connection-refused",
    "fin-closed",
    "garbage",
    "http-error",
    "nagle-write-write-read",
    "never-answers",
    "nodelay-off-elsewhere",
    "nodelay-off-one-segment",
    "nopush",
    "packet-loss",
    "path-queueing",
    "server-pause",
    "server-think",
    "short-delayed-ack",
    "syn-loss",
    "tls-on-plain-port",
];

/// What is true of each is found, and nothing else.
#[test]
fn scenarios_are_diagnosed_rightly() {
    let mut wrong = Vec::new();
    for name in DIAGNOSED {
        let mut misses = Vec::new();
        for _ in 0..TRIES {
            misses = misdiagnosed(name);
            if misses.is_empty() {
                break;
            }
            eprintln!("{}", misses.join("\n"));
        }
        wrong.extend(misses);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with the diagnosis of a scenario's services.
fn misdiagnosed(name: &str) -> Vec<String> {
    // Where timers of seconds expire, a short run sees too few of them.
    let is_slow = name == "case-on-lossy-path";
    let duration = if is_slow { "10s" } else { "3s" };
    let Some(run) = lab_run(
        "scenarios_are_diagnosed_rightly",
        &[name, "--", "-d", duration],
    ) else {
        return Vec::new();
    };
    let services = run.json();
    let missed = services.as_array().unwrap().iter();
    let missed = missed.filter(|service| service["misses"] != serde_json::json!([]));
    missed
        .map(|service| format!("{name}, {}: {}", service["service"], service["misses"]))
        .collect()
}

/// A lab that stays up until this value goes.
pub(super) struct Lab {
    id: String,
}

impl Lab {
    pub(super) fn up(test: &str, scenario: &str) -> Option<Self> {
        if !has_root(test) || !has_tool(test, "nginx") || !has_tool(test, "ip") {
            return None;
        }
        let told = lagtrace(["lab", "up", scenario]).expect(0).stdout;
        let id = told.lines().next().unwrap().rsplit(' ').next().unwrap();
        Some(Self { id: id.to_owned() })
    }

    /// The namespace of the client or the server.
    pub(super) fn namespace(&self, host: &str) -> String {
        format!("lagtrace-{}-{host}", self.id)
    }

    /// `lagtrace` on the client.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let namespace = self.namespace("client");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace]);
        command.arg(program()).args(arguments);
        command
    }

    /// `lagtrace diagnose` on the client, as JSON.
    pub(super) fn diagnose(&self, url: &str, arguments: &[&str]) -> Run {
        run(self
            .command(&["diagnose", url, "--format", "json"])
            .args(arguments))
    }

    /// Edits nginx's configuration and lets it read it again.
    fn reconfigure(&self, from: &str, to: &str) {
        let folder = Path::new("/run/lagtrace-lab");
        let file = folder.join(&self.id).join("nginx/nginx.conf");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&file, text.replace(from, to)).unwrap();
        let record = fs::read(folder.join(format!("{}.json", self.id))).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        let members = record["processes"].as_array().unwrap();
        let master = members
            .iter()
            .find(|member| member["role"] == "nginx")
            .unwrap();
        let pid = master["process"]["pid"].to_string();
        assert!(
            Command::new("kill")
                .args(["-HUP", &pid])
                .status()
                .unwrap()
                .success()
        );
        // The old workers end once their connections are closed; new ones serve.
        std::thread::sleep(Duration::from_secs(1));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        lagtrace(["lab", "down", &self.id]);
    }
}

/// Under load the server's sockets are seen to hold answers back, and those of
/// its healthy twin are not.
#[test]
fn held_answers_are_seen_at_live_sockets() {
    let Some(lab) = Lab::up("held_answers_are_seen_at_live_sockets", "nagle-delayed-ack") else {
        return;
    };
    let looks = |port: &str| {
        let url = format!("http://10.77.0.2:{port}/");
        let mut load = lab.command(&["load", &url, "-c", "20", "-d", "4s", "-q"]);
        let mut load = load.stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let sockets = ["sockets", "--name", "nginx", "-p", port, "--format", "json"];
        let report = lagtrace(sockets.iter().chain(&["-f", "-i", "10ms", "-d", "2s"]));
        load.wait().unwrap();
        let report = report.expect(0).json();
        let list = report["live"].as_array().unwrap().clone();
        let busy = list.into_iter().filter(|s| s["state"] == "ESTAB");
        let busy: Vec<Value> = busy.collect();
        assert!(busy.len() >= 20, "{report:#}");
        assert!(
            busy.iter().all(|s| s["peer"][0]["name"] == "lagtrace"),
            "{report:#}"
        );
        let sum = |part: &str| {
            busy.iter()
                .map(|s| s["holding"][part].as_f64().unwrap())
                .sum::<f64>()
        };
        let remarks: Vec<Value> = busy
            .iter()
            .flat_map(|s| s["remarks"].as_array().unwrap().clone())
            .collect();
        let held = remarks
            .iter()
            .filter(|text| text.as_str().unwrap().contains("held back"));
        (sum("count") / sum("of"), held.count(), busy)
    };
    let (share, told, sockets) = looks("8080");
    assert!(share > 0.5 && told == sockets.len(), "{share} {told}");
    assert_eq!(sockets[0]["options"]["nodelay"], false);
    let (share, told, sockets) = looks("80");
    assert!(share < 0.05 && told == 0, "{share} {told} {sockets:#?}");
}

#[test]
fn a_fix_is_verified() {
    measured(verify_a_fix);
}

fn verify_a_fix() {
    let Some(lab) = Lab::up("a_fix_is_verified", "nagle-delayed-ack") else {
        return;
    };
    let url = "http://10.77.0.2:8080/";
    let folder = tempfile::tempdir().unwrap();
    let before = folder.path().join("before.json");
    let before = before.to_str().unwrap();
    let load = ["-c", "20", "-d", "3s"];
    lab.diagnose(url, &[&load[..], &["-o", before]].concat())
        .expect(1);
    let again = lab.diagnose(url, &[&load[..], &["--verify", before]].concat());
    // Nothing was changed; whether so short a run is slower by chance is open.
    assert!(matches!(again.code, Some(0 | 1)), "{again:#?}");
    let still = again.json();
    assert_eq!(still["comparison"]["findings"][0]["fate"], "stayed");
    assert_eq!(findings(&still["report"]), ["nagle-delayed-ack"]);
    lab.reconfigure("tcp_nodelay off", "tcp_nodelay on");
    let fixed = lab.diagnose(url, &[&load[..], &["--verify", before]].concat());
    let document = fixed.expect(0).json();
    assert_eq!(
        document["comparison"]["outcome"], "better",
        "{:#}",
        document["comparison"]
    );
    assert_eq!(findings(&document["report"]), Vec::<&str>::new());
}

#[test]
fn what_if_tries_the_option_and_puts_it_back() {
    measured(try_an_option);
}

fn try_an_option() {
    const TEST: &str = "what_if_tries_the_option_and_puts_it_back";
    let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") else {
        return;
    };
    let load = ["-c", "10", "-d", "2s", "--what-if"];
    let run = lab.diagnose("http://10.77.0.2:8080/", &load).expect(1);
    let report = run.json();
    let said: Vec<&str> = report["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note["text"].as_str().unwrap())
        .collect();
    for words in [
        "after it was put back",
        "has been switched on",
        "switched off again",
    ] {
        assert!(
            said.iter().any(|text| text.contains(words)),
            "{words}: {said:#?}"
        );
    }
}

#[test]
fn a_healthy_twin_is_measured_beside_the_subject_over_ipv6() {
    measured(measure_a_twin);
}

fn measure_a_twin() {
    const TEST: &str = "a_healthy_twin_is_measured_beside_the_subject_over_ipv6";
    let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") else {
        return;
    };
    let twin = ["--control", "http://[fd77::2]/", "-c", "10", "-d", "3s"];
    let report = lab
        .diagnose("http://[fd77::2]:8080/", &twin)
        .expect(1)
        .json();
    assert_eq!(findings(&report), ["nagle-delayed-ack"]);
    let count = |part: &str| report[part]["count"].as_u64().unwrap();
    assert!(count("exchanges") > 0 && count("twin") > count("exchanges"));
}

/// The scenarios are recorded in as many parts, so that the gate stays short.
const PARTS: usize = 8;

/// Which part of the scenarios is recorded: `LAGTRACE_LAB_PART` says 0 to 7 or
/// all, otherwise the day does, so that each has its turn.
fn part(scenarios: &[String]) -> Vec<String> {
    let said = std::env::var("LAGTRACE_LAB_PART").unwrap_or_default();
    let which = match said.as_str() {
        "all" => return scenarios.to_vec(),
        "" => {
            let now = std::time::SystemTime::now();
            let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
            let day = usize::try_from(since.as_secs() / 86_400).unwrap();
            day % PARTS
        }
        said => said.parse().expect("LAGTRACE_LAB_PART is 0 to 7 or all"),
    };
    scenarios
        .iter()
        .skip(which)
        .step_by(PARTS)
        .cloned()
        .collect()
}

/// Records scenarios anew and scores them: the cases, and the names of those that could not be
/// recorded though nothing that they need is missing.
fn score_fresh(scenarios: &[String], seed: &str) -> (Vec<Value>, Vec<String>) {
    if scenarios.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let names = scenarios.join(",");
    let fresh = ["lab", "score", "--fresh", "--format", "json", "-q"];
    let run = lagtrace(fresh.iter().chain(&["--seed", seed, "--scenarios", &names]));
    assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
    let score = run.json();
    let is_required = std::env::var_os("LAGTRACE_REQUIRE_ALL").is_some_and(|all| all == "1");
    let refused = score["refused"].as_array().into_iter().flatten();
    let refused = refused.filter(|one| is_required || one["is_for_want_of_a_tool"] == false);
    let name = |one: &Value| {
        eprintln!("refused: {}", one["reason"]);
        one["scenario"].as_str().unwrap().to_owned()
    };
    let refused = refused.map(name).collect();
    (score["cases"].as_array().unwrap().clone(), refused)
}

/// Every scenario still shows its fault, and does not without it; and nothing
/// healthy is accused in the recordings.
#[test]
fn a_part_of_the_scenarios_is_recorded_and_scored() {
    const TEST: &str = "a_part_of_the_scenarios_is_recorded_and_scored";
    let tools = ["nginx", "ip", "tcpdump", "tshark", "curl"];
    if !has_root(TEST) || !tools.iter().all(|tool| has_tool(TEST, tool)) {
        return;
    }
    let all = lagtrace_lab::Scenario::all().expect("the scenarios are well-formed");
    let names: Vec<_> = all.into_iter().map(|scenario| scenario.name).collect();
    // What a busy machine kept from showing, or shook, gets a second and a third chance.
    let mut doubtful = part(&names);
    for seed in ["11", "12", "13"] {
        let (cases, refused) = score_fresh(&doubtful, seed);
        doubtful = refused;
        doubtful.extend(accused(&cases, &names));
        doubtful.sort();
        doubtful.dedup();
    }
    assert!(doubtful.len() <= SHAKEN, "{doubtful:#?}");
}

/// Some witnesses are clocks, which a busy machine misleads three times running now and then.
const SHAKEN: usize = 2;

/// The healthy scenarios of which something untrue is said, more than that it is possible, and
/// that the committed score does not own up to.
fn accused(cases: &[Value], names: &[String]) -> Vec<String> {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/SCORE.json");
    let committed = std::fs::read_to_string(committed).expect("the committed score");
    let committed: Vec<Value> = serde_json::from_str(&committed).expect("a score is JSON");
    let known: Vec<_> = committed
        .iter()
        .flat_map(|case| accusations(case, names))
        .collect();
    let healthy = cases.iter().filter(|case| case["kind"] == "healthy");
    let accused = healthy.flat_map(|case| accusations(case, names));
    accused
        .filter(|(scenario, cause, is_sure)| {
            let is_known = known
                .iter()
                .any(|(other, same, _)| other == scenario && same == cause);
            eprintln!("{scenario} is accused of {cause}, surely: {is_sure}, known: {is_known}");
            *is_sure && !is_known
        })
        .map(|(scenario, ..)| scenario)
        .collect()
}

/// What is said that is not true: of which scenario, which cause, and whether it is said to be
/// more than possible.
fn accusations(case: &Value, names: &[String]) -> Vec<(String, String, bool)> {
    let recording = case["recording"].as_str().unwrap_or_default();
    let is_its = |name: &&String| {
        let rest = recording.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.starts_with('-'))
    };
    let scenario = names.iter().filter(is_its).max_by_key(|name| name.len());
    let found = case["found"].as_array().into_iter().flatten();
    let said: Vec<_> = found
        .map(|one| (&one["cause"], one["sureness"] != "possible"))
        .collect();
    let accused = case["accused"].as_array().into_iter().flatten();
    accused
        .map(|cause| {
            let is_sure = said
                .iter()
                .any(|(said, is_sure)| *said == cause && *is_sure);
            let cause = cause.as_str().unwrap_or_default().to_owned();
            (scenario.cloned().unwrap_or_default(), cause, is_sure)
        })
        .collect()
}

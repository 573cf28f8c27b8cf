//! Tests of `lagtrace watch` with real servers.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::lab::{Lab, Load, until, verdict};
use super::privileges::{NOBODY, copy_for_all};
use super::program::{findings, has_root, has_tool, lagtrace, program, run};

/// Number of connections of a load.
const CONNECTIONS: u64 = 20;

/// Starts a load on this port that leaves most of the processors' time free.
fn load(lab: &Lab, port: &str) -> Load {
    let connections = CONNECTIONS.to_string();
    Load::begin(lab, port, &["-c", &connections, "--rate", "300"])
}

/// Checks that the report contains no packet numbers, because there is no capture file. Instead,
/// each example must have its time and its connection.
fn names_no_packets(report: &Value) {
    let findings = report["findings"].as_array().unwrap();
    let shown = findings.iter().map(|finding| &finding["exemplars"]);
    let examples = shown.chain([&report["exchanges"]["slowest"]]);
    let examples: Vec<&Value> = examples.flat_map(|list| list.as_array().unwrap()).collect();
    assert!(examples.len() > 5, "{report:#}");
    for example in examples {
        assert!(example["start_ns"].as_i64().unwrap() > 0, "{example:#}");
        assert!(
            example["client"]
                .as_str()
                .unwrap()
                .starts_with("10.77.0.1:")
        );
        assert!(example["first_packet"].is_null(), "{example:#}");
        for wait in example["waits"].as_array().unwrap() {
            assert!(wait["released_by_packet"].is_null(), "{example:#}");
        }
    }
    assert!(!report.to_string().contains("frame.number"));
}

/// Each exchange is printed as a line when it closes, complete and with its waits. The report's
/// lines come after them. The watch ends when the reader of its output exits.
#[test]
fn exchanges_are_lines_as_they_close() {
    const TEST: &str = "exchanges_are_lines_as_they_close";
    verdict(TEST).run(|| {
        let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") else {
            return;
        };
        let load = load(&lab, "80");
        let server = lab.namespace("server");
        let watch = ["watch", "-p", "80", "-d", "2s", "--netns", &server];
        let run = lagtrace(watch.into_iter().chain(["--format", "ndjson"])).expect(0);
        let left = first_lines(5);
        drop(load);
        let lines: Vec<Value> = run.stdout.lines().map(parsed).collect();
        let is_exchange = |line: &&Value| line["type"] == "exchange";
        let exchanges: Vec<&Value> = lines.iter().take_while(is_exchange).collect();
        assert_eq!(lines[exchanges.len()]["type"], "report");
        assert_eq!(lines.iter().filter(is_exchange).count(), exchanges.len());
        let whole = exchanges.iter().filter(|line| line["status"] == 200);
        let whole: Vec<&&Value> = whole.collect();
        assert!(whole.len() > 400, "{} lines", exchanges.len());
        for line in &whole {
            assert_eq!(line["server"], "10.77.0.2:80");
            assert_eq!(line["capture"], "kernel");
            assert!(line["first_packet"].is_null() && line["stream"].is_null());
            let waits = line["waits"].as_array().unwrap();
            let sum: u64 = waits
                .iter()
                .map(|w| w["duration_ns"].as_u64().unwrap())
                .sum();
            assert_eq!(line["latency_ns"], sum, "{line:#}");
        }
        // The kernel passes on the first 64 bytes of a request, which contain its request line.
        let named = whole.iter().filter(|line| line["request"] == "GET /");
        assert_eq!(named.count(), whole.len());
        let watched = lines.iter().find(|line| line["type"] == "watch").unwrap();
        // At the end of the watch, the stages of the last requests may be missing.
        let timed = watched["latency_ns"]["count"].as_u64().unwrap();
        let looked_at = watched["services"][0]["turns"].as_u64().unwrap();
        // The kernel times every request, and continues after the last segment that is shown. A
        // kernel that refuses iterators does not end the last exchange of an open connection. If
        // the machine stands still for a moment, some segments are not observed.
        let whole = whole.len() as u64;
        assert!(
            whole <= timed + CONNECTIONS && whole * 4 >= looked_at * 3,
            "{whole}: {watched:#}"
        );
        assert_eq!(left.len(), 5);
        assert!(
            left.iter().all(|line| line["type"] == "exchange"),
            "{left:#?}"
        );
    });
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Returns the first lines of a watch without a time limit. The watch must end successfully after
/// its reader exits.
fn first_lines(count: usize) -> Vec<Value> {
    let mut watch = Command::new(program())
        .args(["watch", "-p", "80", "--format", "ndjson", "-q"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let list = lines
        .by_ref()
        .take(count)
        .map(|line| parsed(&line.unwrap()));
    let list = list.collect();
    drop(lines);
    let mut status = None;
    until("it ends, as nobody reads on", || {
        status = watch.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success(), "{status:?}");
    list
}

/// On a terminal, a page is shown while the watch runs, and removed before the report is printed.
/// With --quiet there is no page.
#[test]
fn a_terminal_shows_a_page_meanwhile() {
    const TEST: &str = "a_terminal_shows_a_page_meanwhile";
    if !has_tool(TEST, "script") {
        return;
    }
    verdict(TEST).run(|| {
        let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") else {
            return;
        };
        let load = load(&lab, "8080");
        let server = lab.namespace("server");
        let [page, quiet] = ["-d 3s", "-d 1s -q"].map(|options| {
            let program = program();
            let watch = format!(
                "stty rows 50 cols 120; {} watch -p 8080 --netns {server} --color never {options}",
                program.display()
            );
            let mut command = Command::new("script");
            command
                .args(["-q", "-c", &watch, "/dev/null"])
                .env("TERM", "xterm");
            run(&mut command).stdout
        });
        drop(load);
        for shown in [
            "/s now: p50",
            "latency up to",
            "held",
            "slowest",
            "→ 10.77.0.2:8080",
            "GET / 200",
            "Proven: Nagle",
        ] {
            assert!(page.contains(shown), "no {shown} in {page}");
        }
        assert!(!quiet.contains("now: p50"), "{quiet}");
        for text in [page, quiet] {
            assert!(text.contains("lagtrace watch :8080"), "{text}");
            assert!(!text.contains("· packets "), "{text}");
        }
    });
}

/// On a terminal, keys lead from the page to a request that meets a condition and to its waits, save
/// it, and end the watch.
#[test]
fn keys_open_a_request_and_save_it() {
    const TEST: &str = "keys_open_a_request_and_save_it";
    if !has_tool(TEST, "script") {
        return;
    }
    verdict(TEST).run(|| {
        let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") else {
            return;
        };
        let load = load(&lab, "8080");
        let (server, folder) = (lab.namespace("server"), tempfile::tempdir().unwrap());
        let watch = format!(
            "stty rows 30 cols 100; {} watch -p 8080 --netns {server} --color never -d 60s",
            program().display()
        );
        let keys = "sleep 5; printf '/latency>20ms\\r'; sleep 1; printf '\\033[B\\r'; sleep 1; \
                    printf s; sleep 1; printf '\\033\\033q'; sleep 1";
        let begun = Instant::now();
        let mut command = Command::new("sh");
        let typed = format!("({keys}) | script -q -c '{watch}' /dev/null");
        command.args(["-c", &typed]).env("TERM", "xterm");
        let page = run(command.current_dir(folder.path())).stdout;
        assert!(begun.elapsed().as_secs() < 40, "q ends it: {page}");
        drop(load);
        for shown in [
            "with latency>20ms, the slowest first",
            "› ",
            "another",
            "Saved 1 exchange",
        ] {
            assert!(page.contains(shown), "no {shown} in {page}");
        }
        let saved = fs::read_dir(folder.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let line = fs::read_to_string(saved.path()).unwrap();
        let exchange: Value = serde_json::from_str(&line).unwrap();
        assert!(
            exchange["latency_ns"].as_u64() > Some(20_000_000),
            "{exchange}"
        );
    });
}

/// The case, seen only by the server's kernel. With load on both services, the one that holds its
/// responses back is proven to do so, and its healthy twin is not accused.
#[test]
fn the_case_is_proven_by_watching_the_server() {
    const TEST: &str = "the_case_is_proven_by_watching_the_server";
    verdict(TEST).run(|| {
        let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") else {
            return;
        };
        let loads = ["8080", "80"].map(|port| load(&lab, port));
        // Other labs on this host have the same addresses, so the namespace must match too.
        let server = lab.namespace("server");
        let watch = ["watch", "-p", "80,8080", "-d", "2s", "--netns", &server];
        let report = lagtrace(watch.into_iter().chain(["--format", "json"]));
        drop(loads);
        let report = report.expect(1).json();
        assert_eq!(findings(&report), ["nagle-delayed-ack"], "{report:#}");
        let finding = &report["findings"][0];
        assert_eq!(finding["verdict"], "proven");
        assert_eq!(finding["service"], "10.77.0.2:8080");
        names_no_packets(&report);
        let kinds: Vec<&Value> = finding["evidence"].as_array().unwrap().iter().collect();
        let has = |kind: &str| kinds.iter().any(|piece| piece["kind"] == kind);
        assert!(has("wire") && has("kernel-trace"), "{finding:#}");
        let held = |service: &str| {
            let services = report["watch"]["services"].as_array().unwrap();
            let it = services.iter().find(|s| s["service"] == service).unwrap();
            assert!(it["turns"].as_u64().unwrap() > 300, "{it:#}");
            assert!(
                it["programs"][0].as_str().unwrap().starts_with("nginx["),
                "{it:#}"
            );
            let stage = it["stages"]
                .as_array()
                .unwrap()
                .iter()
                .find(|s| s["name"] == "held");
            stage.unwrap()["time_ns"]["p50"].as_u64().unwrap()
        };
        assert!(held("10.77.0.2:8080") > 20_000_000, "{report:#}");
        assert_eq!(held("10.77.0.2:80"), 0);
    });
}

#[test]
fn without_rights_it_says_what_it_takes() {
    const TEST: &str = "without_rights_it_says_what_it_takes";
    if !has_root(TEST) || !has_tool(TEST, "setpriv") {
        return;
    }
    let folder = copy_for_all();
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg(folder.path().join("lagtrace"));
    let run = run(command.args(["watch", "-p", "80", "-d", "1s"])).expect(2);
    assert!(run.stderr.contains("not permitted"), "{run:#?}");
    assert!(run.stderr.contains("CAP_BPF"), "{run:#?}");
}

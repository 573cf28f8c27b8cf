//! Tests of `lagtrace probe` with listeners that the tests open.

use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::time::Duration;

use lagtrace_trial::RefusingPort;

use super::lab::verdict;
use super::program::{has_root, has_tool, lagtrace, notes, program, run};
use super::server::{Manner, Server};
use super::streamed::Streamed;

#[test]
fn an_open_port_is_probed_and_summed_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    for method in ["auto", "connect"] {
        let options = ["-c", "5", "-i", "5ms", "--method", method];
        let run = lagtrace(["probe", &target].iter().chain(&options)).expect(0);
        assert_eq!(run.stdout.matches(" open ").count(), 5 + 1, "{run:#?}");
        assert!(
            run.stdout.contains("5 sent, 5 answered, 0 % lost"),
            "{run:#?}"
        );
        let json = options.iter().chain(&["--format", "json"]);
        let report = lagtrace(["probe", &target].iter().chain(json))
            .expect(0)
            .json();
        let probe = &report["probes"][0];
        assert_eq!((&probe["sent"], &probe["received"]), (&5.into(), &5.into()));
        assert_eq!(probe["stamp"], "kernel");
        assert!(probe["rtt_ns"]["min"].as_u64() > Some(0));
        assert!(probe["noticed_ns"]["min"].as_u64() >= probe["rtt_ns"]["min"].as_u64());
        assert_eq!(report["command"], "probe");
    }
}

#[test]
fn segments_with_all_flags_tell_which_filter_is_there() {
    const TEST: &str = "segments_with_all_flags_tell_which_filter_is_there";
    if !has_root(TEST) {
        return;
    }
    let open = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = open.local_addr().unwrap().to_string();
    let arguments = ["probe", &target, "--matrix", "-i", "5ms", "-W", "200ms"];
    let run = lagtrace(arguments.iter().chain(&["--format", "json"])).expect(0);
    let report = run.json();
    let rows = report["probes"][0]["steps"].as_array().unwrap();
    let answer = |flags: &str| {
        let row = rows.iter().find(|row| row["value"] == flags);
        row.unwrap_or_else(|| panic!("{flags}: {run:#?}"))["answer"]
            .as_str()
            .unwrap()
    };
    // The responses of a listening port are those of RFC 9293 §3.10.7.2.
    for (flags, expected) in [
        ("SYN", "open"),
        ("ACK", "refused"),
        ("SYN/ACK", "refused"),
        ("FIN/ACK", "refused"),
        ("FIN", "silence"),
        ("FIN/PSH/URG", "silence"),
        ("none", "silence"),
    ] {
        assert_eq!(answer(flags), expected, "{flags}: {run:#?}");
    }
    assert!(notes(&report).contains(&"probe-filter-none"), "{run:#?}");
}

#[test]
fn a_sweep_of_sizes_sums_up_each() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap().to_string();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    // An echo server that loses datagrams longer than 600 bytes.
    let echo = std::thread::spawn(move || {
        let mut bytes = [0; 2_000];
        for _ in 0..9 {
            let (len, from) = socket.recv_from(&mut bytes).unwrap();
            if len <= 600 {
                socket.send_to(&bytes[..len], from).unwrap();
            }
        }
    });
    let arguments = [
        "probe",
        &target,
        "-m",
        "udp",
        "--size",
        "200-1000/400",
        "-i",
        "5ms",
    ];
    let options = ["-W", "300ms", "--format", "json"];
    let run = lagtrace(arguments.iter().chain(&options)).expect(1);
    let report = run.json();
    let received: Vec<_> = report["probes"][0]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["value"].as_str().unwrap(),
                row["received"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(received, [("200", 3), ("600", 3), ("1000", 0)], "{run:#?}");
    assert!(
        notes(&report).contains(&"probe-size-black-hole"),
        "{run:#?}"
    );
    echo.join().unwrap();
}

#[test]
fn each_answer_is_an_object_a_line() {
    let open = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = RefusingPort::new();
    let ports = [open.local_addr().unwrap(), closed.address()];
    let ports = ports.map(|address| address.port().to_string()).join(",");
    let options = [
        "-c", "2", "-i", "5ms", "-m", "connect", "--format", "ndjson",
    ];
    let run = lagtrace(["probe", "127.0.0.1", "-p", &ports].iter().chain(&options)).expect(1);
    let lines: Vec<serde_json::Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let answers = |what: &str| {
        let is = |line: &&serde_json::Value| line["type"] == "answer" && line["answer"] == what;
        lines.iter().filter(is).count()
    };
    assert_eq!((answers("open"), answers("refused")), (2, 2), "{run:#?}");
    assert_eq!(
        lines.iter().filter(|line| line["type"] == "probe").count(),
        2
    );
}

#[test]
fn what_waits_under_load_is_placed_by_the_phases() {
    verdict("what_waits_under_load_is_placed_by_the_phases").run(probe_under_load);
}

fn probe_under_load() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (short, long) = (Duration::from_millis(3), Duration::from_millis(30));
    for (manner, is_queue) in [
        (Manner::AnswersInTurn(short, ANSWER), true),
        // This server takes as long without the load, so there is no queue.
        (Manner::AnswersAfter(long, ANSWER), false),
    ] {
        let server = Server::start(manner);
        let url = server.url();
        let arguments = ["probe", &url, "-m", "http", "--loaded", &url];
        let options = ["--connections", "20", "-c", "6", "-i", "10ms", "-W", "10s"];
        let run = lagtrace(
            arguments
                .iter()
                .chain(&options)
                .chain(&["--format", "json"]),
        );
        let report = run.expect(0).json();
        let probes = report["probes"].as_array().unwrap();
        let told: Vec<_> = probes
            .iter()
            .map(|probe| {
                (
                    probe["during"].as_str().unwrap(),
                    probe["received"].as_u64(),
                )
            })
            .collect();
        assert_eq!(told, [("idle", Some(6)), ("loaded", Some(6))], "{report:#}");
        assert!(
            report["load"]["responses"].as_u64() > Some(20),
            "{report:#}"
        );
        assert_eq!(
            notes(&report).contains(&"probe-queueing"),
            is_queue,
            "{report:#}"
        );
        if is_queue {
            let text = report["notes"].to_string();
            assert!(text.contains("wait in the target's program"), "{text}");
        }
    }
}

#[test]
fn a_full_queue_of_ones_own_is_told_from_the_way() {
    const TEST: &str = "a_full_queue_of_ones_own_is_told_from_the_way";
    let has_all = ["unshare", "tc", "nginx"]
        .iter()
        .all(|tool| has_tool(TEST, tool));
    if !has_root(TEST) || !has_all {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().display().to_string();
    std::fs::write(folder.path().join("page"), "x".repeat(200_000)).unwrap();
    let text = format!(
        "daemon off; user root; error_log stderr crit; pid {home}/pid; events {{}}
http {{ access_log off; server {{ listen 127.0.0.1:80; root {home}; }} }}\n"
    );
    std::fs::write(folder.path().join("nginx.conf"), text).unwrap();
    // The packets of both ends pass through a single queue, which belongs to this host.
    let script = "
        ip link set lo up
        tc qdisc add dev lo root tbf rate 40mbit burst 200000 limit 400000
        nginx -c $1/nginx.conf 2>/dev/null &
        while ! [ -s $1/pid ]; do sleep 0.02; done
        $2 probe 127.0.0.1:80 --loaded http://127.0.0.1/page --connections 10 \
            -c 8 -i 30ms --format json
        kill $!";
    let mut command = Command::new("unshare");
    command
        .args(["--net", "sh", "-c", script, "sh", &home])
        .arg(program());
    let run = run(&mut command);
    let report = run.json();
    let told = notes(&report);
    assert!(told.contains(&"probe-queueing-own"), "{report:#}");
    let loaded = &report["probes"][1];
    let median = |what: &str| loaded[what]["p50"].as_u64().unwrap();
    assert_eq!(loaded["during"], "loaded");
    assert!(
        median("queued_ns") > 1_000_000 && median("own_ns") > 0,
        "{report:#}"
    );
}

#[test]
fn what_it_cannot_probe_is_said() {
    for (arguments, told) in [
        (&["probe", "127.0.0.1", "-m", "connect"][..], "has no port"),
        (&["probe", "no-such-host.invalid:80"], "cannot resolve"),
        (
            &["probe", "127.0.0.1:80", "-6"],
            "no address of the requested IP version",
        ),
        (&["probe", "127.0.0.1:80", "-i", "1us"], "at least 100us"),
        (&["probe", "127.0.0.1", "-p", "80-"], "is not a port"),
        (&["probe", "127.0.0.1", "--size", "9-8"], "ends before"),
        (&["probe", "127.0.0.1", "--matrix"], "has no port"),
        (&["probe", "127.0.0.1:80", "--flags", "SX"], "is not a flag"),
        (&["probe", "127.0.0.1:80", "-I", "no-such-if"], "failed"),
        // These options would have no effect with the chosen method.
        (
            &["probe", "127.0.0.1:80", "--matrix", "-m", "connect"],
            "--matrix",
        ),
        (
            &["probe", "127.0.0.1:80", "--flags", "A", "-m", "udp"],
            "--flags",
        ),
        (
            &["probe", "127.0.0.1:80", "--flags", "S", "-m", "icmp"],
            "--flags",
        ),
        (
            &["probe", "127.0.0.1:80", "--size", "9", "-m", "connect"],
            "--size",
        ),
        (&["probe", "127.0.0.1", "-s", "7000"], "--source-port"),
        (
            &["probe", "127.0.0.1", "-m", "icmp", "-p", "80,443"],
            "--port",
        ),
        (&["probe", "127.0.0.1:80", "--head"], "--method http"),
        (
            &[
                "probe",
                "127.0.0.1:80",
                "-c",
                "0",
                "--loaded",
                "http://127.0.0.1/",
            ],
            "--loaded needs a limited number",
        ),
        (
            &["probe", "127.0.0.1:80", "-m", "tls", "--head"],
            "--method http",
        ),
        (
            &["probe", "127.0.0.1:80", "-m", "http", "--ttl", "3"],
            "the kernel makes the packets",
        ),
        // Two sweeps at the same time, whose effects could not be separated.
        (
            &["probe", "127.0.0.1:80", "--size", "8-9", "-s", "7000-7001"],
            "cannot be swept together",
        ),
        (
            &["probe", "127.0.0.1:80", "--size", "8-9", "--matrix"],
            "cannot be swept together",
        ),
    ] {
        let run = lagtrace(arguments).expect(2);
        assert!(run.stderr.contains(told), "{told}: {run:#?}");
    }
}

#[test]
fn a_target_that_is_told_twice_is_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let options = ["-c", "2", "-i", "5ms", "-m", "connect", "--format", "json"];
    let run = lagtrace(["probe", &target, &target].iter().chain(&options)).expect(0);
    let report = run.json();
    assert_eq!(report["probes"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["probes"][0]["sent"], 2, "{run:#?}");
}

#[test]
fn a_single_kind_of_segment_that_is_a_syn_counts_as_one() {
    const TEST: &str = "a_single_kind_of_segment_that_is_a_syn_counts_as_one";
    if !has_root(TEST) {
        return;
    }
    let closed = RefusingPort::new();
    let target = closed.address().to_string();
    let options = ["--flags", "S", "-c", "2", "-i", "5ms", "--format", "json"];
    let run = lagtrace(["probe", &target].iter().chain(&options)).expect(1);
    assert_eq!(run.json()["probes"][0]["method"], "tcp-syn", "{run:#?}");
}

#[test]
fn an_endless_series_ends_with_ctrl_c_and_sums_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let options = ["-c", "0", "-i", "10ms", "-m", "connect", "--format", "json"];
    let run = Streamed::start(["probe", &target].iter().chain(&options));
    for _ in 0..5 {
        listener.accept().unwrap();
    }
    run.interrupt();
    let report = run.end().expect(0).json();
    assert!(report["probes"][0]["received"].as_u64() > Some(3));
    assert_eq!(report["notes"][0]["id"], "interrupted");
}

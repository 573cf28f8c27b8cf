//! `lagtrace probe` against listeners of our own.

use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use super::program::{during, lagtrace};

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
fn each_answer_is_an_object_a_line() {
    let open = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Nobody listens there by TCP.
    let ports = [open.local_addr().unwrap(), closed.local_addr().unwrap()];
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
fn what_it_cannot_probe_is_said() {
    for (arguments, told) in [
        (
            &["probe", "127.0.0.1", "-m", "connect"][..],
            "names no port",
        ),
        (&["probe", "no-such-host.invalid:80"], "cannot resolve"),
        (
            &["probe", "127.0.0.1:80", "-6"],
            "no address of the version",
        ),
        (&["probe", "127.0.0.1:80", "-i", "1us"], "at least 100us"),
        (&["probe", "127.0.0.1", "-p", "80-"], "is no port"),
        (&["probe", "127.0.0.1:80", "-I", "no-such-if"], "failed"),
    ] {
        let run = lagtrace(arguments).expect(2);
        assert!(run.stderr.contains(told), "{told}: {run:#?}");
    }
}

#[test]
fn an_endless_series_ends_with_ctrl_c_and_sums_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let options = ["-c", "0", "-i", "10ms", "-m", "connect", "--format", "json"];
    let run = during(["probe", &target].iter().chain(&options), |process| {
        sleep(Duration::from_millis(700));
        let kill = Command::new("kill")
            .args(["-INT", &process.to_string()])
            .status();
        assert!(kill.unwrap().success());
    });
    let report = run.expect(0).json();
    assert!(report["probes"][0]["received"].as_u64() > Some(3));
    assert_eq!(report["notes"][0]["id"], "interrupted");
}

//! Tests of the rules for scenarios, and of whether every shipped file follows them.

use lagtrace_core::registry::Id;
use std::time::Duration;

use super::*;
use crate::server::{Answer, Nginx, Server, Sleep};

const MINIMAL: &str = r#"
name = "minimal"
title = "one server"
target = "one"

[[service]]
name = "one"
port = 80
server = { kind = "nginx" }
"#;

/// Parses the minimal scenario with lines before its service.
fn parse_with(lines: &str) -> Result<Scenario, Error> {
    Scenario::parse(
        "test",
        &MINIMAL.replace("[[service]]", &format!("{lines}\n[[service]]")),
    )
}

/// Returns the reason why a scenario is rejected.
fn reason(result: Result<Scenario, Error>) -> String {
    result.expect_err("it should be refused").chain()
}

#[test]
fn every_shipped_file_is_a_scenario_of_its_files_name() {
    let all = Scenario::all().expect("shipped scenarios read");
    for ((name, _), scenario) in shelf::FILES.iter().zip(&all) {
        assert_eq!(*name, scenario.name);
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab");
    let files = std::fs::read_dir(folder).expect("the scenarios' folder");
    assert_eq!(
        files.count(),
        all.len(),
        "a file in lab/ that the program does not carry"
    );
}

#[test]
fn a_scenario_survives_the_way_to_another_process() {
    for scenario in Scenario::all().expect("shipped scenarios read") {
        let scenario = scenario.with_round_trip(Duration::from_micros(8_001));
        let text = serde_json::to_string(&scenario).expect("a scenario writes");
        assert_eq!(
            serde_json::from_str::<Scenario>(&text).expect("and reads"),
            scenario
        );
    }
}

#[test]
fn the_case_is_what_the_story_says() {
    let case = Scenario::by_name("nagle-delayed-ack").expect("the case is shipped");
    assert!(!case.path.is_emulated());
    assert_eq!(case.control().map(|service| service.port), Some(80));
    let target = case.target();
    assert_eq!(target.port, 8080);
    assert_eq!(
        target.server,
        Server::Nginx(Nginx {
            tcp_nodelay: Some(false),
            ..Nginx::default()
        })
    );
    assert!(target.truth.admits(Id::NagleDelayedAck));
    assert!(!target.truth.admits(Id::ServerThink));
    assert!(
        case.with_round_trip(Duration::from_millis(8))
            .path
            .is_emulated()
    );
}

#[test]
fn sleeps_and_answers_read() {
    let think = Scenario::by_name("server-think").expect("shipped");
    let sleep = Sleep {
        time: Duration::from_millis(44),
        stamps: true,
    };
    assert_eq!(think.target().server, Server::Think(sleep));
    let error = Scenario::by_name("http-error").expect("shipped");
    let nginx = Nginx {
        answer: Answer::Return(503),
        ..Nginx::default()
    };
    assert_eq!(error.target().server, Server::Nginx(nginx));
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let hint = |name| {
        Scenario::by_name(name)
            .expect_err("no such scenario")
            .hint()
    };
    let hint = |name| hint(name).expect("a hint");
    assert!(hint("delayed-ack").contains("nagle-delayed-ack"));
    assert!(hint("nagel").contains("lab list"));
}

#[test]
fn each_direction_is_its_own() {
    let lines = "[path]\nround_trip = \"8ms\"\nto_server.delay = \"1ms\"\nto_client.loss = 0.5";
    let path = parse_with(lines).expect("a scenario").path;
    assert_eq!(
        path.delays(),
        (Duration::from_millis(1), Duration::from_millis(4))
    );
    assert!((path.to_client.loss - 0.5).abs() < f64::EPSILON);
    assert!(path.to_server.loss.abs() < f64::EPSILON);
}

#[test]
fn nonsense_is_refused_with_its_reason() {
    for (lines, wanted) in [
        ("[path]\nround_trip = \"11s\"", "longer than 10 s"),
        ("[path]\nto_client.loss = 1.5", "no share"),
        ("[path]\nto_client.queue = \"9kB\"", "no rate"),
        (
            "[path]\nto_client.rate = \"1Mbit\"\nto_client.queue = \"1kB\"",
            "one packet",
        ),
        (
            "[path]\nto_client.policer = { rate = \"1Mbit\", burst = \"10B\" }",
            "one packet",
        ),
        ("[path]\nto_client.rate = \"fast\"", "no rate"),
        ("[path]\nspeed = 3", "unknown field"),
        (
            "[path]\nloopback = true\nround_trip = \"1ms\"",
            "no round trip",
        ),
        (
            "[path]\nloopback = true\nto_client.loss = 0.1",
            "nothing to emulate",
        ),
        ("[path]\nmtu = 500", "not from 576 to 65535"),
        ("[path]\nmtu = 65536", "not from 576 to 65535"),
        (
            "[path]\nmtu = 9000\nto_client.rate = \"1Mbit\"\nto_client.queue = \"8kB\"",
            "one packet of 9000 bytes",
        ),
        (
            "[path]\nmtu = 1000\n[recording]\nipv6 = true",
            "too small for",
        ),
        (
            "[path]\nloopback = true\n[client]\nquickack = true",
            "there is one host",
        ),
        (
            "[path]\nloopback = true\n[client]\nsysctl.\"net.a\" = \"1\"\n[server]\nsysctl.\"net.a\" = \"2\"",
            "said twice",
        ),
        (
            "[client]\ncongestion_control = \"cubic; rm\"",
            "no congestion control",
        ),
        (
            "[client]\nsysctl.\"kernel.panic\" = \"1\"",
            "no `net.` setting",
        ),
        (
            "[client]\nsysctl.\"net.../../kernel.panic\" = \"1\"",
            "no `net.` setting",
        ),
        ("control = \"other\"", "no service `other`"),
        (
            "[[service]]\nname = \"one\"\nport = 81\nserver = { kind = \"fin\" }",
            "two services",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 80\nserver = { kind = \"fin\" }",
            "claim port 80",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 0\nserver = { kind = \"fin\" }",
            "port 0",
        ),
        (
            "[[service]]\nname = \"path\"\nport = 1\nserver = { kind = \"fin\" }",
            "may be called",
        ),
        (
            "[[service]]\nname = \"Two\"\nport = 1\nserver = { kind = \"fin\" }",
            "hyphens",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"think\", time = \"61s\" }",
            "60 s",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"nginx\", server_name = \"a b\" }",
            "host's name",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"nginx\", answer = { bytes = [] } }",
            "no file",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"nginx\", answer = { bytes = \"51MB\" } }",
            "more than 50MB",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"fin\" }\ncpu_quota = { quota = \"10ms\", period = \"2s\" }",
            "a period 1 ms to 1 s",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"fin\" }\nstop = { every = \"1s\", for = \"1s\" }",
            "ends before the next",
        ),
        (
            "[server]\nroute = \"initcwnd 2; rm\"",
            "no words of a route",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"nginx\", workers = 0 }",
            "without workers",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"fin\" }\nfirewall = { needless = 100001 }",
            "needless rules",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"apache\" }",
            "unknown variant",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"fin\" }\ntruth.allowed = [\"gremlins\"]",
            "`gremlins` is not the id of a known cause",
        ),
        (
            "[[service]]\nname = \"two\"\nport = 1\nserver = { kind = \"fin\" }\ntruth.allowed = [\"server-think\"]\ntruth.must_not = [\"server-think\"]",
            "both admitted and forbidden",
        ),
    ] {
        let reason = reason(parse_with(lines));
        assert!(reason.contains(wanted), "{lines}\n→ {reason}");
    }
}

#[test]
fn a_loopback_may_have_the_largest_mtu_of_all() {
    assert!(parse_with("[path]\nloopback = true\nmtu = 65536").is_ok());
    assert!(parse_with("[path]\nloopback = true\n[client]\nsysctl.\"net.a\" = \"1\"").is_ok());
}

#[test]
fn two_blocks_of_nginx_may_share_a_port() {
    let lines = "[[service]]\nname = \"two\"\nport = 80\nserver = { kind = \"nginx\", server_name = \"two.example\" }";
    assert!(parse_with(lines).is_ok());
}

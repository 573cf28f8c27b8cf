//! `lagtrace route` over the lab's emulated path, whose delays are known, and to
//! this host itself.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use super::program::{Run, has_root, has_tool, lagtrace, program, run};

/// Runs in a row in which no hop that answers may be missed.
const RUNS: usize = 5;
/// How far a hop's least round trip of all runs may be from what the path is told
/// to take. The path is a process on a machine that others use too, and late when
/// they keep it from running: `./figures route` tells how close it is when nothing
/// else runs.
const MARGIN_MS: f64 = 3.0;
/// How much sooner than the path lets them answers may seem to come.
const CLOCK_MS: f64 = 0.1;

/// A lab that is taken down again.
struct Lab(String);

impl Lab {
    fn up(scenario: &str) -> Self {
        let run = lagtrace(["lab", "up", scenario]).expect(0);
        let first = run.stdout.lines().next().unwrap();
        Self(first.split(' ').next_back().unwrap().to_owned())
    }

    fn route(&self, arguments: &[&str]) -> Run {
        let client = format!("lagtrace-{}-client", self.0);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &client]).arg(program());
        run(command
            .args(["route", "-n", "--format", "json"])
            .args(arguments))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        lagtrace(["lab", "down", &self.0]);
    }
}

fn states(report: &Value) -> Vec<&str> {
    let hops = report["hops"].as_array().unwrap();
    hops.iter()
        .map(|hop| hop["state"].as_str().unwrap())
        .collect()
}

#[test]
fn the_emulated_path_is_told_hop_by_hop() {
    let test = "the_emulated_path_is_told_hop_by_hop";
    if !has_root(test) || !has_tool(test, "nginx") || !has_tool(test, "ip") {
        return;
    }
    // One that answers, one that never does, one that answers twice a second.
    let lab = Lab::up("healthy-hops");
    let there_and_back = [Some(2.0), None, Some(12.0), Some(12.0)];
    let mut least_of_all = [f64::MAX; 4];
    for method in ["tcp", "tcp-connect", "udp", "paris", "icmp"] {
        let runs = if method == "tcp" { RUNS } else { 1 };
        for _ in 0..runs {
            let report = lab
                .route(&["10.77.0.2:80", "--method", method])
                .expect(0)
                .json();
            let hops = report["hops"].as_array().unwrap();
            assert_eq!(hops.len(), 4, "{report:#}");
            for ((hop, wanted), least) in hops.iter().zip(there_and_back).zip(&mut least_of_all) {
                let Some(wanted) = wanted else {
                    assert_eq!(hop["state"], "silent");
                    continue;
                };
                assert!(hop["received"].as_u64() > Some(0), "{report:#}");
                let rtt = hop["rtt_ns"]["min"].as_f64().unwrap() / 1e6;
                assert!(rtt > wanted - CLOCK_MS, "{method}: {rtt} ms for {wanted}");
                *least = least.min(rtt);
            }
            assert_eq!(report["route"]["method"], method);
            assert!(
                ["answers", "limited"].contains(&states(&report)[2]),
                "{report:#}"
            );
        }
    }
    for (least, wanted) in least_of_all.into_iter().zip(there_and_back) {
        let is_near = wanted.is_none_or(|wanted| least < wanted + MARGIN_MS);
        assert!(is_near, "{least} ms for {wanted:?}");
    }
    let rounds = lab
        .route(&["10.77.0.2:80", "-c", "10", "-z", "200ms"])
        .expect(0)
        .json();
    assert_eq!(states(&rounds)[1..3], ["silent", "limited"], "{rounds:#}");
    assert_eq!(rounds["hops"][3]["sent"], 10);
    assert_eq!(rounds["route"]["loss_from"], Value::Null);
}

#[test]
fn open_and_closed_ports_of_this_host_have_their_exit_codes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let open = lagtrace(["route", &address, "--format", "json"]).expect(0);
    assert_eq!(open.json()["route"]["outcome"], "open");
    let lines = lagtrace(["route", &address, "--format", "ndjson"]).expect(0);
    assert!(lines.stdout.contains(r#""type":"route""#), "{lines:#?}");
    drop(listener);
    let closed = lagtrace(["route", &address]).expect(1);
    assert!(closed.stdout.contains("is closed: RST"), "{closed:#?}");
}

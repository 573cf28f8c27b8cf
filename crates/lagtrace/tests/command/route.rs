//! Tests of `lagtrace route` over the lab's emulated path, whose delays are known, and to this host
//! itself.

use std::net::TcpListener;
use std::process::Command;

use lagtrace_trial::{RefusingPort, live};
use serde_json::Value;

use super::chain::Chain;
use super::lab::{SHARE, STANDSTILL};
use super::program::{Run, has_root, has_tool, lagtrace, lagtrace_lab, program, run};

/// The maximum excess, in milliseconds, of a hop's shortest round trip over the path's settings.
/// The emulated path is a process, so other processes on the machine can delay it. `./figures
/// route` shows the accuracy on an idle machine.
const MARGIN_MS: f64 = 3.0;
/// The maximum time, in milliseconds, by which a round trip may be shorter than the path's
/// settings.
const CLOCK_MS: f64 = 0.1;

/// The options of a short investigation that still reports its layers.
const BRIEFLY: [&str; 9] = [
    "-c", "2", "-d", "1s", "--rate", "50", "-q", "--format", "json",
];

/// A lab that is taken down on drop.
struct Lab(String);

impl Lab {
    fn up(scenario: &str) -> Self {
        let run = lagtrace_lab(["up", scenario]).expect(0);
        let first = run.stdout.lines().next().unwrap();
        Self(first.split(' ').next_back().unwrap().to_owned())
    }

    fn route(&self, arguments: &[&str]) -> Run {
        let common = ["route", "-n", "--format", "json"];
        self.on_client(&[&common, arguments].concat())
    }

    fn diagnosed(&self) -> Value {
        let what = ["diagnose", "http://10.77.0.2/"];
        self.on_client(&[&what[..], &BRIEFLY].concat()).json()
    }

    fn on_client(&self, arguments: &[&str]) -> Run {
        let client = format!("lagtrace-{}-client", self.0);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &client]).arg(program());
        run(command.args(arguments))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        lagtrace_lab(["down", &self.0]);
    }
}

fn states(report: &Value) -> Vec<&str> {
    let hops = report["hops"].as_array().unwrap();
    hops.iter()
        .map(|hop| hop["state"].as_str().unwrap())
        .collect()
}

/// The round trip to each hop of `healthy-hops`, in milliseconds. The second hop never answers, and
/// the third at most twice a second.
const THERE_AND_BACK: [Option<f64>; 4] = [Some(2.0), None, Some(12.0), Some(12.0)];

/// Brings up the lab with this path; `None` if this machine lacks what it needs.
fn with_hops(test: &str) -> Option<Lab> {
    let is_possible = has_root(test) && has_tool(test, "nginx") && has_tool(test, "ip");
    is_possible.then(|| Lab::up("healthy-hops"))
}

#[test]
fn the_emulated_path_is_told_hop_by_hop() {
    const TEST: &str = "the_emulated_path_is_told_hop_by_hop";
    // The groups run in parallel, because a trace mostly waits for the hop that does not answer.
    const GROUPS: [&[&str]; 4] = [
        &["tcp", "tcp"],
        &["tcp", "tcp-connect"],
        &["udp", "paris"],
        &["dublin", "in-connection", "icmp"],
    ];
    live(TEST).standstill(STANDSTILL).share(SHARE).run(|| {
        let least = std::thread::scope(|scope| {
            let group = |methods: &'static [&str]| scope.spawn(|| least_by(TEST, methods));
            GROUPS.map(group).map(|group| group.join().unwrap())
        });
        for (hop, wanted) in THERE_AND_BACK.into_iter().enumerate() {
            let least = least
                .iter()
                .map(|least| least[hop])
                .fold(f64::MAX, f64::min);
            let is_near = wanted.is_none_or(|wanted| least < wanted + MARGIN_MS);
            assert!(is_near, "{least} ms for {wanted:?}");
        }
    });
}

/// Returns the shortest round trip to each hop, in milliseconds, over traces by each of these
/// methods. Asserts that each trace finds all hops that answer.
fn least_by(test: &str, methods: &[&str]) -> [f64; 4] {
    let mut least_of_all = [f64::MAX; 4];
    let Some(lab) = with_hops(test) else {
        return [0.0; 4];
    };
    for method in methods {
        let report = lab.route(&["10.77.0.2:80", "--method", method]);
        let report = report.expect(0).json();
        let hops = report["hops"].as_array().unwrap();
        assert_eq!(hops.len(), 4, "{report:#}");
        for ((hop, wanted), least) in hops.iter().zip(THERE_AND_BACK).zip(&mut least_of_all) {
            let Some(wanted) = wanted else {
                assert_eq!(hop["state"], "silent");
                continue;
            };
            assert!(hop["received"].as_u64() > Some(0), "{report:#}");
            let rtt = hop["rtt_ns"]["min"].as_f64().unwrap() / 1e6;
            assert!(rtt > wanted - CLOCK_MS, "{method}: {rtt} ms for {wanted}");
            *least = least.min(rtt);
        }
        assert_eq!(report["route"]["method"], **method);
        let state = states(&report)[2];
        assert!(["answers", "limited"].contains(&state), "{report:#}");
    }
    least_of_all
}

#[test]
fn rounds_tell_a_silent_hop_from_a_limited_one() {
    let Some(lab) = with_hops("rounds_tell_a_silent_hop_from_a_limited_one") else {
        return;
    };
    let rounds = ["10.77.0.2:80", "-c", "10", "-z", "200ms"];
    let rounds = lab.route(&rounds).expect(0).json();
    assert_eq!(states(&rounds)[1..3], ["silent", "limited"], "{rounds:#}");
    assert_eq!(rounds["hops"][3]["sent"], 10);
    assert_eq!(rounds["route"]["loss_from"], Value::Null);
}

/// Owners of the hops, from a table of address ranges, and hops as CSV.
#[test]
fn hops_have_owners_and_are_lines_of_csv() {
    let Some(lab) = with_hops("hops_have_owners_and_are_lines_of_csv") else {
        return;
    };
    let table = tempfile::NamedTempFile::new().unwrap();
    let text = "10.77.1.1\t10.77.1.1\t64500\tZZ\tNEAR, \"the first\"\n\
        10.0.0.0\t10.255.255.255\t64501\tZZ\tWIDE\n";
    std::fs::write(table.path(), text).unwrap();
    let table = table.path().to_str().unwrap();
    let report = lab
        .route(&["10.77.0.2:80", "--asn", table])
        .expect(0)
        .json();
    let owner = |hop: &Value| (hop["asn"].as_u64(), hop["as_name"].clone());
    let hops = report["hops"].as_array().unwrap();
    assert_eq!(owner(&hops[0]).0, Some(64_500), "{report:#}");
    assert_eq!(owner(&hops[1]), (None, Value::Null));
    assert_eq!(owner(&hops[3]), (Some(64_501), Value::from("WIDE")));
    let csv = [
        "route",
        "10.77.0.2:80",
        "-n",
        "--format",
        "csv",
        "--asn",
        table,
    ];
    let csv = lab.on_client(&csv).expect(0).stdout;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 5, "{csv}");
    assert!(lines[0].starts_with("target,port,method,outcome,hop,address,name,asn,"));
    let first = r#"10.77.0.2,80,tcp,open,1,10.77.1.1,,64500,"NEAR, ""the first""","#;
    assert!(lines[1].starts_with(first), "{csv}");
    assert!(lines[2].contains(",2,,,,,silent,100.00,"), "{csv}");
}

/// A healthy route of several hops becomes a cleared layer of the report. The layer says at which
/// hop the delay begins, and accuses nobody.
#[test]
fn the_way_of_an_investigation_is_cleared() {
    let Some(lab) = with_hops("the_way_of_an_investigation_is_cleared") else {
        return;
    };
    let report = lab.diagnosed();
    let layers = report["layers"].as_array().unwrap();
    let path = layers.iter().find(|layer| layer["layer"] == "path");
    let path = path.unwrap_or_else(|| panic!("{layers:#?}"));
    assert_eq!(path["state"], "cleared", "{path:#}");
    let line = path["line"].as_str().unwrap();
    let between = "are between hop 1 (10.77.1.1) and hop 3 (10.77.1.3)";
    assert!(
        line.starts_with("4 hops; ") && line.ends_with(between),
        "{line}"
    );
    assert_eq!(report["hops"].as_array().unwrap().len(), 4);
    assert_eq!(report["route"]["loss_from"], Value::Null);
}

/// The route to a target one hop away is not traced, and the investigation does not wait for a
/// trace.
#[test]
fn an_investigation_of_a_near_target_traces_nothing() {
    let test = "an_investigation_of_a_near_target_traces_nothing";
    if !has_root(test) || !has_tool(test, "nginx") || !has_tool(test, "ip") {
        return;
    }
    let lab = Lab::up("nagle-delayed-ack");
    let report = lab.diagnosed();
    assert_eq!(report["hops"], serde_json::json!([]));
    assert_eq!(report["route"], Value::Null);
    let layers = report["layers"].as_array().unwrap();
    assert!(layers.iter().all(|layer| layer["layer"] != "path"));
}

/// Returns the layer of the path, from an investigation of the chain's target.
fn path_of(chain: &Chain) -> Value {
    let target = "http://10.97.4.2/";
    let report = chain
        .lagtrace(&[&["diagnose", target, "--route"][..], &BRIEFLY].concat())
        .json();
    let layers = report["layers"].as_array().unwrap();
    let path = layers.iter().find(|layer| layer["layer"] == "path");
    path.unwrap_or_else(|| panic!("{layers:#?}")).clone()
}

/// One of several routers drops a third of the short packets that it forwards. The trace names it
/// as the last hop without loss. No router limits its ICMP errors.
#[test]
fn a_router_that_loses_packets_is_named() {
    let test = "a_router_that_loses_packets_is_named";
    if !has_root(test) || !has_tool(test, "ip") || !has_tool(test, "nft") {
        return;
    }
    let chain = Chain::new(4);
    chain.serve(80);
    for router in 1..4 {
        chain.within(router, "sysctl -qw net.ipv4.icmp_ratelimit=0");
    }
    let rule = "ip daddr 10.97.4.2 meta length < 70 numgen inc mod 3 == 0 drop";
    chain.filter(2, "forward", rule);
    let path = path_of(&chain);
    assert_eq!(path["state"], "accused", "{path:#}");
    let line = path["line"].as_str().unwrap();
    assert!(line.contains("; hop 2 (10.97.2.2) loses none; "), "{line}");
    assert!(line.ends_with("echo requests are lost too"), "{line}");
}

/// Routers that limit the rate of their ICMP errors, as they do by default, and one that hardly
/// ever answers. No packet is lost, and nobody is accused.
#[test]
fn routers_that_limit_their_answers_lose_nothing() {
    let test = "routers_that_limit_their_answers_lose_nothing";
    if !has_root(test) || !has_tool(test, "ip") || !has_tool(test, "nft") {
        return;
    }
    let chain = Chain::new(4);
    chain.serve(80);
    let rule = "icmp type time-exceeded limit rate over 1/second burst 1 packets drop";
    chain.filter(2, "output", rule);
    let path = path_of(&chain);
    assert_eq!(path["state"], "cleared", "{path:#}");
    assert!(
        path["line"].as_str().unwrap().starts_with("4 hops"),
        "{path:#}"
    );
}

/// A target that itself drops some SYNs, behind routers that limit their ICMP errors.
#[test]
fn what_the_target_drops_is_not_lost_on_the_way() {
    let test = "what_the_target_drops_is_not_lost_on_the_way";
    if !has_root(test) || !has_tool(test, "ip") || !has_tool(test, "nft") {
        return;
    }
    let chain = Chain::new(4);
    chain.serve(80);
    let rule = "tcp dport 80 tcp flags syn / syn,ack numgen inc mod 2 == 0 drop";
    chain.filter(4, "input", rule);
    let path = path_of(&chain);
    assert_eq!(path["state"], "cleared", "{path:#}");
    let line = path["line"].as_str().unwrap();
    assert!(
        line.ends_with("the target or a filter drops SYNs"),
        "{line}"
    );
}

/// The reports with all options, over IPv4 and over IPv6, follow their schema.
#[test]
fn every_report_of_a_route_is_as_its_schema_describes() {
    let test = "every_report_of_a_route_is_as_its_schema_describes";
    if !has_root(test) || !has_tool(test, "ip") {
        return;
    }
    let schema = include_str!("../../../../schema/report-2.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let chain = Chain::new(2);
    chain.serve(80);
    for arguments in [
        &["10.97.2.2:80", "--paths", "4"][..],
        &["fd97:2::2", "--mtu"],
        &["[fd97:2::2]:80", "--method", "in-connection", "-c", "2"],
        &["10.97.2.2", "--method", "dublin"],
        &["10.97.2.2:80", "--method", "tcp-connect"],
        &["10.97.9.9", "-m", "1"],
    ] {
        let common = ["route", "-n", "--format", "json", "-z", "20ms"];
        let report = chain.lagtrace(&[&common[..], arguments].concat()).json();
        let errors = validator
            .iter_errors(&report)
            .map(|error| error.to_string());
        let errors: Vec<String> = errors.collect();
        assert!(errors.is_empty(), "{arguments:?}: {errors:?}");
        assert!(
            report["hops"][0]["received"].as_u64() > Some(0),
            "{report:#}"
        );
    }
}

#[test]
fn open_and_closed_ports_of_this_host_have_their_exit_codes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let open = lagtrace(["route", &address, "--format", "json"]).expect(0);
    assert_eq!(open.json()["route"]["outcome"], "open");
    let lines = lagtrace(["route", &address, "--format", "ndjson"]).expect(0);
    assert!(lines.stdout.contains(r#""type":"route""#), "{lines:#?}");
    let refusing = RefusingPort::new();
    let closed = lagtrace(["route", &refusing.address().to_string()]).expect(1);
    assert!(closed.stdout.contains("is closed: RST"), "{closed:#?}");
}

//! Bringing up and taking down: what exists while the lab is up, and that nothing is left
//! afterwards.

use std::process::{Command, Stdio};
use std::time::Duration;

use lagtrace_lab::{Family, Lab, Scenario, runs, take_down};

use crate::client::{address, connect, exchange, fetch};
use crate::{helper, remains, up, up_as, wait_until_gone};

#[test]
fn a_lab_comes_and_goes_and_nothing_is_left() {
    for round_trip_ms in [0, 8] {
        let Some(lab) = up("nagle-delayed-ack", round_trip_ms) else {
            return;
        };
        let run = lab.run().clone();
        let there = remains(&run);
        assert!(there.len() >= 6, "{there:?}");
        assert_eq!(fetch(&lab, "good", 3).len(), 3);
        lab.take_down().expect("comes down");
        assert_eq!(remains(&run), Vec::<String>::new());
    }
}

#[test]
fn dropping_takes_down_as_well() {
    let Some(lab) = up("nagle-delayed-ack", 8) else {
        return;
    };
    let run = lab.run().clone();
    drop(lab);
    assert_eq!(remains(&run), Vec::<String>::new());
}

#[test]
fn the_machines_own_network_sees_nothing_of_it() {
    // The monitor prints every change of devices, addresses and routes in the machine's own
    // network, so it shows even temporary changes.
    let monitor = Command::new("ip")
        .args(["monitor", "link", "address", "route"])
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut monitor) = monitor else {
        return crate::skip("ip");
    };
    std::thread::sleep(Duration::from_millis(200));
    for round_trip_ms in [0, 8] {
        let Some(lab) = up("nagle-delayed-ack", round_trip_ms) else {
            break;
        };
        lab.take_down().expect("comes down");
    }
    std::thread::sleep(Duration::from_millis(200));
    let _ = monitor.kill();
    let seen = monitor.wait_with_output().expect("the monitor's output");
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    for ours in ["path0", "10.77.0", "fd77:"] {
        assert!(!seen.contains(ours), "{seen}");
    }
}

#[test]
fn two_labs_run_side_by_side() {
    let (Some(one), Some(two)) = (up("nagle-delayed-ack", 0), up("nagle-delayed-ack", 8)) else {
        return;
    };
    assert_ne!(one.run().id, two.run().id);
    for lab in [&one, &two] {
        assert_eq!(fetch(lab, "good", 2)[1].status, 200);
    }
    let run = one.run().clone();
    one.take_down().expect("comes down");
    assert_eq!(remains(&run), Vec::<String>::new());
    assert_eq!(fetch(&two, "good", 2)[1].status, 200);
}

#[test]
fn both_versions_of_ip_reach_both_servers() {
    for round_trip_ms in [0, 8] {
        let Some(lab) = up("nagle-delayed-ack", round_trip_ms) else {
            return;
        };
        for (service, family) in [
            ("good", Family::V4),
            ("good", Family::V6),
            ("latency", Family::V4),
            ("latency", Family::V6),
        ] {
            let to = address(&lab, service, family);
            let (mut stream, _) =
                connect(lab.client(), to, Duration::from_secs(5)).expect("connects");
            let fetched = exchange(&mut stream, "lab").expect("a response");
            assert_eq!((fetched.status, fetched.length > 500), (200, true));
        }
    }
}

#[test]
fn a_detached_lab_stays_until_it_is_taken_down() {
    let mut scenario = Scenario::by_name("never-answers").expect("shipped");
    scenario.name = "detached-in-a-test".to_owned();
    let Some(lab) = up_as(&scenario) else { return };
    let run = lab.detach().expect("stays");
    assert!(run.is_detached);
    let known = runs()
        .expect("reads")
        .into_iter()
        .find(|known| known.id == run.id)
        .expect("is listed");
    assert_eq!(known.scenario, scenario);
    let attached = Lab::attach(known);
    let to = address(&attached, "silent", Family::V4);
    connect(attached.client(), to, Duration::from_secs(5)).expect("still runs");
    drop(attached);
    assert!(!remains(&run).is_empty());
    let taken = take_down("detached-in-a-test").expect("comes down");
    assert_eq!(taken.len(), 1);
    assert_eq!(remains(&run), Vec::<String>::new());
    assert!(take_down("detached-in-a-test").is_err());
}

#[test]
fn commands_run_on_their_host_also_without_rights() {
    let Some(lab) = up("nagle-delayed-ack", 0) else {
        return;
    };
    let words = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "cat",
        "/proc/self/net/dev",
    ];
    let output = lab
        .client()
        .command("setpriv")
        .expect("a host")
        .args(words)
        .output()
        .expect("setpriv runs");
    let devices = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(devices.contains(lab.client().interface()), "{devices}");
    let here = std::fs::read_to_string("/proc/self/net/dev").expect("reads");
    assert!(!here.contains(lab.client().interface()), "{here}");
}

#[test]
fn the_congestion_control_is_the_scenarios() {
    let Some(lab) = up("nagle-delayed-ack", 0) else {
        return;
    };
    let to = address(&lab, "latency", Family::V4);
    let (mut stream, _) = connect(lab.client(), to, Duration::from_secs(5)).expect("connects");
    exchange(&mut stream, "lab").expect("a response");
    for host in [lab.client(), lab.server()] {
        let ss = host.command("ss").expect("a host").args(["-tinH"]).output();
        let Ok(output) = ss else {
            return crate::skip("ss");
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("cubic"), "{text}");
    }
}

#[test]
fn what_cannot_be_brought_up_says_why_and_leaves_nothing() {
    let mut scenario = Scenario::by_name("nagle-delayed-ack").expect("shipped");
    scenario.name = "broken-in-a-test".to_owned();
    scenario
        .client
        .sysctl
        .insert("net.ipv4.no_such_setting".to_owned(), "1".to_owned());
    match Lab::bring_up(&scenario, &helper()) {
        Ok(_) => panic!("there is no such setting"),
        Err(lagtrace_lab::Error::NeedsRoot | lagtrace_lab::Error::MissingTool { .. }) => {
            crate::skip("root")
        }
        Err(error) => assert!(error.chain().contains("set a sysctl"), "{}", error.chain()),
    }
    let left = runs().unwrap_or_default();
    assert!(
        left.iter()
            .all(|run| run.scenario.name != "broken-in-a-test")
    );
}

#[test]
fn a_recording_holds_every_packet_of_both_ends() {
    for round_trip_ms in [0, 8] {
        let Some(lab) = up("nagle-delayed-ack", round_trip_ms) else {
            return;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let files = [
            folder.path().join("client.pcap"),
            folder.path().join("server.pcap"),
        ];
        let recording = match lab.record(
            &files[0],
            &files[1],
            &lagtrace_lab::RecordingOptions::default(),
        ) {
            Ok(recording) => recording,
            Err(error) => return crate::skip(&error.chain()),
        };
        let fetched = fetch(&lab, "latency", 10);
        let recorded = recording.stop().expect("ends well");
        assert_eq!(fetched.len(), 10);
        for (end, file) in recorded.iter().zip(&files) {
            // A handshake, and four packets for each of ten requests: request, header, body and an
            // ACK.
            assert!(end.packets >= 40, "{recorded:?}");
            assert_eq!(end.dropped, 0);
            assert!(std::fs::metadata(file).expect("a file").len() > 40 * 60);
        }
        let run = lab.run().clone();
        drop(lab);
        assert_eq!(wait_until_gone(&run), Vec::<String>::new());
    }
}

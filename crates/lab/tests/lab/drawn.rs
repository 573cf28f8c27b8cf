//! Tests that a recording with randomly drawn parameters agrees with its label.

use std::path::Path;
use std::process::Command;

use lagtrace_lab::record::{Drawn, Request, record};
use lagtrace_lab::scenario::CaptureFormat;
use lagtrace_lab::{Error, Scenario};

use crate::{helper, skip};

/// Counts the packets of a capture that match a display filter.
fn count(capture: &Path, filter: &str) -> usize {
    let output = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(capture)
        .args(["-Y", filter])
        .output()
        .expect("tshark runs");
    String::from_utf8_lossy(&output.stdout).lines().count()
}

#[test]
fn what_is_drawn_is_in_the_recording_and_in_its_label() {
    let scenario = Scenario::by_name("healthy-pcapng").expect("shipped");
    let drawn = Drawn {
        loopback: true,
        mtu: Some(4000),
        connections: Some(3),
        port: Some(23_456),
        snapshot: Some(200),
        format: Some(CaptureFormat::PcapMicro),
        begin_percent: Some(25),
        ..Drawn::default()
    };
    let request = Request {
        seed: Some(7),
        drawn: Some(drawn.clone()),
        ..Request::default()
    };
    let corpus = tempfile::tempdir().expect("a folder");
    let (folder, label) = match record(&scenario, &request, &helper(), corpus.path()) {
        Ok(made) => made,
        Err(error @ (Error::NeedsRoot | Error::MissingTool { .. })) => {
            return skip(&error.to_string());
        }
        Err(error) => panic!("{}", error.chain()),
    };
    assert!(
        folder.ends_with("healthy-pcapng-loopback-seed-7"),
        "{folder:?}"
    );
    assert_eq!((label.drawn.as_ref(), label.loopback), (Some(&drawn), true));
    assert_eq!((label.port, label.mtu), (23_456, Some(4000)));
    assert!(
        label.describe().starts_with("seed 7, loopback, MTU 4000"),
        "{}",
        label.describe()
    );
    let capture = folder.join("loopback.pcap.gz");
    let requests = count(&capture, "tcp.dstport == 23456 && tcp.len > 0");
    // 120 requests were sent. The first quarter of the packets is missing.
    assert!((75..=100).contains(&requests), "{requests}");
    assert_eq!(count(&capture, "frame.cap_len > 200"), 0);
    assert!(count(&capture, "frame.len > 200 && ip.src == 127.0.0.1") > 50);
}

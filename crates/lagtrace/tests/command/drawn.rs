//! The pages of `diagnose` and `watch`: their examples have the packets that were observed.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::files::corpus::tshark;
use super::lab::{Lab, until, verdict};
use super::paged::document;
use super::program::{has_tool, lagtrace, notes};

/// Asserts that the packets of a ladder have the numbers, times and sizes that they have in the
/// file.
fn packets_agree(ladder: &Value, file: &Path) {
    let fields = ["frame.number", "frame.time_epoch", "tcp.len"];
    let fields: Vec<&str> = fields.iter().flat_map(|field| ["-e", field]).collect();
    let filter = ladder["display_filter"].as_str().unwrap();
    let arguments = [&["-Y", filter, "-T", "fields"][..], &fields].concat();
    let told = tshark(file, &arguments);
    let start = ladder["start_ns"].as_i64().unwrap();
    let packets = ladder["packets"].as_array().unwrap();
    assert!(packets.len() >= 4, "{ladder:#}");
    for packet in packets {
        let number = packet["number"].to_string();
        let mut lines = told
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>());
        let line = lines.find(|line| line[0] == number);
        let line = line.unwrap_or_else(|| panic!("packet {number} in {told}"));
        assert_eq!(line[2], packet["bytes"].to_string(), "{line:?}");
        let (seconds, fraction) = line[1].split_once('.').unwrap();
        let at = format!("{seconds}{fraction:0<9}").parse::<i64>().unwrap();
        // The file's times are in microseconds or nanoseconds.
        let own = start + packet["at_ns"].as_i64().unwrap();
        assert!(at.abs_diff(own) < 1_000, "{at} {own}");
    }
}

/// Returns the ladder of the case. The guilty gap is as long as the client delays its ACK.
fn ladder_of_the_case(picture: &Value) -> &Value {
    let ladders = picture["ladders"].as_array().unwrap();
    let is_case = |ladder: &&Value| ladder["cause"] == "nagle-delayed-ack";
    let ladder = ladders.iter().find(is_case).expect("a ladder of the case");
    let gap = &ladder["gaps"][0];
    assert_eq!(gap["cause"], "nagle-delayed-ack", "{gap:#}");
    assert_eq!(gap["owner"], "server", "{gap:#}");
    let held = gap["duration_ns"].as_u64().unwrap();
    assert!((30_000_000..60_000_000).contains(&held), "{gap:#}");
    let connections = picture["connections"].as_array().unwrap();
    let is_case = |connection: &&Value| connection["cause"] == "nagle-delayed-ack";
    let connection = connections.iter().find(is_case).unwrap();
    assert_eq!(connection["client"], ladder["client"]);
    let sent = connection["ways"][1]["sent"].as_array().unwrap();
    assert!(sent.len() >= 2, "{connection:#}");
    ladder
}

#[test]
fn the_page_of_a_diagnosis_shows_the_guilty_gap() {
    const TEST: &str = "drawn::the_page_of_a_diagnosis_shows_the_guilty_gap";
    verdict(TEST).run(|| {
        if !has_tool(TEST, "tshark") {
            return;
        }
        let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let [page, packets] = ["page.html", "packets.pcap"].map(|name| folder.path().join(name));
        let load = ["-d", "2s", "-c", "10", "--rate", "100"];
        let files = [
            "--html",
            page.to_str().unwrap(),
            "-w",
            packets.to_str().unwrap(),
        ];
        let run = lab.diagnose("http://10.77.0.2:8080/", &[&load[..], &files].concat());
        let document = document(&fs::read_to_string(&page).unwrap());
        let (report, picture) = (&document["report"], &document["picture"]);
        assert_eq!(*report, run.json());
        assert!(!notes(report).contains(&"examples-not-kept"));
        let ladder = ladder_of_the_case(picture);
        let finding = &report["findings"][0]["exemplars"][0];
        assert_eq!(finding["start_ns"], ladder["start_ns"], "{finding:#}");
        let first = &finding["first_packet"];
        let numbers = ladder["packets"].as_array().unwrap().iter();
        assert!(
            numbers
                .map(|packet| &packet["number"])
                .any(|number| number == first)
        );
        for ladder in picture["ladders"].as_array().unwrap() {
            packets_agree(ladder, &packets);
        }
    });
}

#[test]
fn the_page_of_a_watch_shows_the_guilty_gap() {
    const TEST: &str = "drawn::the_page_of_a_watch_shows_the_guilty_gap";
    verdict(TEST).run(|| {
        let Some(lab) = Lab::up(TEST, "nagle-delayed-ack-loopback") else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        let load = ["load", "http://127.0.0.1:8080/", "-c", "10", "-d", "4s"];
        let mut load = lab.command(&[&load[..], &["--rate", "200", "-q"]].concat());
        let mut load = load.stdout(Stdio::null()).spawn().unwrap();
        until("it is asked", || lab.connections("8080") > 0);
        let server = lab.namespace("server");
        let watch = ["watch", "-p", "8080", "--netns", &server, "-d", "2s", "-q"];
        let html = ["--format", "json", "--html", page.to_str().unwrap()];
        let run = lagtrace(watch.iter().chain(&html));
        load.wait().unwrap();
        let document = document(&fs::read_to_string(&page).unwrap());
        assert_eq!(document["report"], run.json());
        let ladder = ladder_of_the_case(&document["picture"]);
        // No file has the packets, so there is nothing to filter.
        assert_eq!(ladder["display_filter"], "");
        let packets = ladder["packets"].as_array().unwrap();
        let first = packets.iter().find(|packet| packet["at_ns"] == 0);
        let first = first.expect("the request's first packet");
        assert_eq!(first["from_client"], true, "{ladder:#}");
        assert!(first["bytes"].as_u64().unwrap() > 0, "{ladder:#}");
        assert!(packets.len() >= 4, "{ladder:#}");
    });
}

//! Captures with comments on their packets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::corpus::{recording, tshark};
use crate::command::program::{has_tool, lagtrace, notes, run};

/// Annotates a capture, and returns the copy.
fn annotated(file: &Path, folder: &Path) -> PathBuf {
    let output = folder.join("annotated.pcapng");
    let arguments = ["analyze", file.to_str().unwrap(), "-q", "--annotate"];
    let run = lagtrace(arguments.iter().map(Path::new).chain([output.as_path()]));
    assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
    output
}

/// Returns all packets, bytes and times, in a format without comments.
fn packets(file: &Path, folder: &Path) -> Vec<u8> {
    let plain = folder.join("plain.pcap");
    let mut editcap = Command::new("editcap");
    run(editcap.args(["-F", "nsecpcap"]).arg(file).arg(&plain)).expect(0);
    fs::read(plain).unwrap()
}

fn comments(file: &Path) -> Vec<(u64, String)> {
    let filter = ["-Y", "frame.comment", "-T", "fields"];
    let fields = ["-e", "frame.number", "-e", "frame.comment"];
    let text = tshark(file, &[&filter[..], &fields].concat());
    text.lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(number, text)| (number.parse().unwrap(), text.to_owned()))
        .collect()
}

#[test]
fn wireshark_shows_the_comments_and_the_packets_are_the_same() {
    const TEST: &str = "wireshark_shows_the_comments_and_the_packets_are_the_same";
    if !has_tool(TEST, "tshark") || !has_tool(TEST, "editcap") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Captures with microseconds and with nanoseconds, of one interface and of all interfaces, and
    // compressed.
    for name in [
        "nagle-delayed-ack-8ms",
        "nagle-delayed-ack-microseconds-0ms",
        "nagle-delayed-ack-any-0ms",
        "packet-loss-20ms-segments",
    ] {
        let file = recording(name, "client");
        let output = annotated(&file, folder.path());
        let same = packets(&file, folder.path()) == packets(&output, folder.path());
        assert!(same, "{name}: other packets");
        let shown = comments(&output);
        let all: Vec<&str> = shown.iter().map(|(_, text)| text.as_str()).collect();
        let all = all.join("\n");
        assert!(
            shown.len() > 20 && all.contains("GET /?n=1 begins"),
            "{name}: {shown:#?}"
        );
        if name.starts_with("nagle") {
            assert!(
                all.contains("server: response held for an ACK (Nagle)"),
                "{all}"
            );
            assert!(all.contains("lagtrace: shows nagle-delayed-ack: "), "{all}");
        }
    }
}

#[test]
fn comments_and_interfaces_that_were_there_stay() {
    const TEST: &str = "comments_and_interfaces_that_were_there_stay";
    if !has_tool(TEST, "tshark") || !has_tool(TEST, "editcap") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let before = folder.path().join("before.pcapng");
    let mut editcap = Command::new("editcap");
    let client = recording("nagle-delayed-ack-8ms", "client");
    let first: u64 = comments(&annotated(&client, folder.path()))[0].0;
    let marked = format!("{first}:look here");
    run(editcap
        .args(["-F", "pcapng", "-a", &marked, "-a", "1:hello"])
        .arg(client)
        .arg(&before))
    .expect(0);
    let after = annotated(&before, folder.path());
    assert!(packets(&before, folder.path()) == packets(&after, folder.path()));
    let shown = comments(&after);
    let of = |number: u64| &shown.iter().find(|(its, _)| *its == number).unwrap().1;
    assert!(of(1).contains("hello"), "{shown:#?}");
    assert!(
        of(first).contains("look here") && of(first).contains("lagtrace: "),
        "{shown:#?}"
    );
    let interfaces = [
        "-T",
        "fields",
        "-e",
        "frame.interface_name",
        "-e",
        "frame.interface_id",
    ];
    for name in ["nagle-delayed-ack-any-0ms", "nagle-delayed-ack-8ms"] {
        let file = recording(name, "server");
        let output = annotated(&file, folder.path());
        if file.to_str().unwrap().contains("pcapng") {
            assert_eq!(tshark(&file, &interfaces), tshark(&output, &interfaces));
        }
    }
}

/// Returns the blocks of a little-endian pcapng file: type and body.
fn blocks(file: &Path) -> Vec<(u32, Vec<u8>)> {
    let bytes = fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut list, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let end = at + word(at + 4) as usize;
        list.push((word(at), bytes[at + 8..end - 4].to_vec()));
        at = end;
    }
    list
}

fn append(file: &Path, kind: u32, body: &[u8]) {
    let len = (body.len() as u32 + 12).to_le_bytes();
    let block = [&kind.to_le_bytes(), &len[..], body, &len[..]].concat();
    fs::write(file, [fs::read(file).unwrap(), block].concat()).unwrap();
}

#[test]
fn whatever_stands_between_the_packets_stays_and_secrets_are_told() {
    const TEST: &str = "whatever_stands_between_the_packets_stays_and_secrets_are_told";
    const ENHANCED_PACKET: u32 = 6;
    if !has_tool(TEST, "editcap") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let before = folder.path().join("before.pcapng");
    let keys = folder.path().join("keys");
    fs::write(
        &keys,
        format!("CLIENT_RANDOM {} {}\n", "a".repeat(64), "b".repeat(96)),
    )
    .unwrap();
    let client = recording("nagle-delayed-ack-8ms", "client");
    let stream = ["--stream", "0", "--format", "json"];
    let stream = lagtrace(
        ["analyze", client.to_str().unwrap()]
            .into_iter()
            .chain(stream),
    )
    .json();
    let hello = format!("{}:hello", stream["exchanges"][0]["first_packet"]);
    let mut editcap = Command::new("editcap");
    let secrets = format!("tls,{}", keys.display());
    run(editcap
        .args(["-F", "pcapng", "--capture-comment", "from the lab"])
        .args(["--inject-secrets", &secrets, "-a", &hello])
        .arg(&client)
        .arg(&before))
    .expect(0);
    // A name resolution block, an interface statistics block with 7 lost packets, and a custom
    // block.
    append(&before, 4, b"\x01\0\x08\0\x0a\0\0\x01one\0\0\0\0\0");
    append(
        &before,
        5,
        b"\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\x08\0\x07\0\0\0\0\0\0\0\0\0\0\0",
    );
    append(&before, 0xbad, b"\x01\0\0\0whatever");
    let after = annotated(&before, folder.path());
    let others = |file: &Path| -> Vec<(u32, Vec<u8>)> {
        let list = blocks(file).into_iter();
        list.filter(|(kind, _)| *kind != ENHANCED_PACKET).collect()
    };
    let kinds: Vec<u32> = others(&before).iter().map(|(kind, _)| *kind).collect();
    assert!(
        [4, 5, 10, 0xbad].iter().all(|kind| kinds.contains(kind)),
        "{kinds:?}"
    );
    // Only the length of the section, in the first block, may change.
    let length_left_open = |mut list: Vec<(u32, Vec<u8>)>| {
        list[0].1[8..16].fill(0xff);
        list
    };
    assert_eq!(
        length_left_open(others(&before)),
        length_left_open(others(&after))
    );
    let report = lagtrace(["analyze", after.to_str().unwrap(), "--format", "json"]).json();
    assert!(notes(&report).contains(&"decryption-secrets"), "{report:#}");
    assert_eq!(report["capture"]["dropped"], 7);
    let ladder = lagtrace(["analyze", after.to_str().unwrap(), "--stream", "0"]).expect(0);
    for said in ["# hello", "# lagtrace: GET /?n=1 begins"] {
        assert!(ladder.stdout.contains(said), "{said}: {}", ladder.stdout);
    }
}

/// The captures of the file source's own tests, which cover all capture file formats.
#[test]
fn every_container_is_copied() {
    const TEST: &str = "every_container_is_copied";
    if !has_tool(TEST, "editcap") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sources/tests/captures");
    let mut copied = 0;
    for entry in fs::read_dir(captures).unwrap() {
        let file = entry.unwrap().path();
        let is_capture = file
            .extension()
            .is_some_and(|ext| ext == "pcap" || ext == "pcapng");
        if !is_capture {
            continue;
        }
        let output = annotated(&file, folder.path());
        let plain = folder.path().join("x.pcapng");
        let mut editcap = Command::new("editcap");
        run(editcap.arg(&output).arg(&plain)).expect(0);
        let text = |file: &Path| {
            let fields = [
                "-e",
                "frame.number",
                "-e",
                "frame.time_epoch",
                "-e",
                "frame.len",
            ];
            tshark(file, &[&["-T", "fields"][..], &fields].concat())
        };
        assert_eq!(text(&file), text(&output), "{}", file.display());
        copied += 1;
    }
    assert!(copied > 2, "{copied}");
}

#[test]
fn what_cannot_be_annotated_is_said_before_anything_is_written() {
    let file = recording("nagle-delayed-ack-8ms", "client");
    let file = file.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.pcapng");
    let out = output.to_str().unwrap();
    let two = lagtrace(["analyze", file, file, "--annotate", out]).expect(2);
    assert!(two.stderr.contains("copies a single capture"), "{two:#?}");
    let pipe = lagtrace(["analyze", "-", "--annotate", out]).expect(2);
    assert!(pipe.stderr.contains("reads the capture twice"), "{pipe:#?}");
    assert!(!output.exists());
    let copy = folder.path().join("copy.pcap");
    fs::copy(file, &copy).unwrap();
    let itself = copy.to_str().unwrap();
    let over = lagtrace(["analyze", itself, "--annotate", itself]).expect(2);
    assert!(over.stderr.contains("would overwrite"), "{over:#?}");
}

//! Capture files, compared with the output of tshark.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use lagtrace_core::observed::event::{CaptureSummary, PointId};
use lagtrace_core::observed::segment::Segment;
use lagtrace_sources::capture::{CaptureError, FileCapture};

use crate::requirement;

/// Order of the columns of [`line`].
const FIELDS: [&str; 24] = [
    "frame.number",
    "frame.time_epoch",
    "ip.src",
    "ipv6.src",
    "tcp.srcport",
    "ip.dst",
    "ipv6.dst",
    "tcp.dstport",
    "ip.ttl",
    "ipv6.hlim",
    "ip.id",
    "ip.dsfield.ecn",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.window_size_value",
    "tcp.len",
    "tcp.options.mss_val",
    "tcp.options.wscale.shift",
    "tcp.options.sack_perm",
    "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
];

fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of test captures")
        .map(|entry| entry.expect("its entries").path())
        .filter(|path| path.extension().is_some_and(|end| end != "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 5);
    files
}

/// Formats a segment like tshark does with [`FIELDS`].
fn line(segment: &Segment) -> String {
    let (source, destination) = (
        segment.flow.source(segment.direction),
        segment.flow.destination(segment.direction),
    );
    let is_v4 = source.addr.is_ipv4();
    let either = |text: String| {
        if is_v4 {
            [text, String::new()]
        } else {
            [String::new(), text]
        }
    };
    let [from4, from6] = either(source.addr.to_string());
    let [to4, to6] = either(destination.addr.to_string());
    let [ttl, hop_limit] = either(segment.ip.ttl.to_string());
    let options = &segment.options;
    let number = |value: Option<u32>| value.map_or(String::new(), |value| value.to_string());
    let edges = |edge: fn(&(u32, u32)) -> u32| {
        let edges: Vec<_> = options.sack_blocks().iter().map(edge).collect();
        edges
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    let columns = [
        segment.number.to_string(),
        segment.at.to_string(),
        from4,
        from6,
        source.port.to_string(),
        to4,
        to6,
        destination.port.to_string(),
        ttl,
        hop_limit,
        segment
            .ip
            .id
            .map_or(String::new(), |id| format!("0x{id:04x}")),
        if is_v4 {
            u8::from(segment.ip.congestion_marked).to_string()
        } else {
            String::new()
        },
        segment.seq.to_string(),
        segment.ack.to_string(),
        format!("0x{:04x}", segment.flags.0),
        segment.window.to_string(),
        segment.payload_len.to_string(),
        number(options.mss.map(u32::from)),
        number(options.window_scale.map(u32::from)),
        if options.sack_permitted {
            "1".into()
        } else {
            String::new()
        },
        number(options.timestamps.map(|(value, _)| value)),
        number(options.timestamps.map(|(_, echo)| echo)),
        edges(|block| block.0),
        edges(|block| block.1),
    ];
    columns.join("\t")
}

fn lines(file: &Path) -> (String, CaptureSummary) {
    let mut text = String::new();
    let capture = FileCapture::open(file, PointId(0)).expect("a capture");
    let summary = capture.for_each(|segment, payload| {
        assert!(payload.len() <= segment.payload_len as usize);
        writeln!(text, "{}", line(segment)).expect("a string takes everything");
    });
    (text, summary)
}

fn tshark(file: &Path) -> String {
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-T",
        "fields",
        "-E",
        "occurrence=a",
        "-Y",
        "tcp && !icmp",
    ]);
    for option in ["tcp.relative_sequence_numbers:FALSE", "ip.defragment:FALSE"] {
        command.args(["-o", option]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.arg("-r").arg(file).output().expect("tshark runs");
    assert!(output.status.success(), "{}", file.display());
    let text = String::from_utf8(output.stdout).expect("tshark prints text");
    text.lines().map(in_our_words).collect()
}

/// Converts a line of tshark: the IPv4 ECN field becomes true or false (congestion marked), "SACK
/// permitted" becomes its presence because its value depends on tshark's version, and of nested
/// headers only the innermost is kept.
fn in_our_words(line: &str) -> String {
    let mut columns: Vec<_> = line.split('\t').collect();
    let sack = columns.len() - 2;
    for column in &mut columns[..sack] {
        *column = column.rsplit(',').next().unwrap_or_default();
    }
    columns[11] = match columns[11] {
        "" => "",
        "3" => "1",
        _ => "0",
    };
    if !columns[19].is_empty() {
        columns[19] = "1";
    }
    columns.join("\t") + "\n"
}

#[track_caller]
fn compare(file: &Path) {
    let (ours, summary) = lines(file);
    assert_eq!(summary.damage, None);
    let theirs = tshark(file);
    for (our, their) in ours.lines().zip(theirs.lines()) {
        assert_eq!(our, their, "{}", file.display());
    }
    assert_eq!(
        ours.lines().count(),
        theirs.lines().count(),
        "{}",
        file.display()
    );
}

#[test]
fn segments_are_those_of_tshark() {
    if requirement::is_missing_tool("tshark") {
        return;
    }
    captures().iter().for_each(|file| compare(file));
}

#[test]
fn converted_captures_are_those_of_tshark() {
    if requirement::is_missing_tool("tshark") || requirement::is_missing_tool("editcap") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ethernet = captures()
        .into_iter()
        .find(|file| file.ends_with("ethernet.pcap"))
        .expect("a capture of Ethernet frames");
    for (name, arguments) in [
        ("micros.pcap", &["-F", "pcap"][..]),
        ("nanos.pcap", &["-F", "nsecpcap"]),
        ("modified.pcap", &["-F", "modpcap"]),
        ("snoop.snoop", &["-F", "snoop"]),
        ("next.pcapng", &["-F", "pcapng"]),
        ("cut.pcapng", &["-F", "pcapng", "-s", "70"]),
        (
            "raw.pcapng",
            &["-F", "pcapng", "-C", "14", "-L", "-T", "rawip"],
        ),
    ] {
        let file = folder.path().join(name);
        let mut editcap = Command::new("editcap");
        let status = editcap.args(arguments).arg(&ethernet).arg(&file).status();
        assert!(status.expect("editcap runs").success(), "{name}");
        compare(&file);
    }
}

#[test]
fn a_cut_file_is_read_up_to_the_cut() {
    let whole = &captures()[0];
    let bytes = std::fs::read(whole).expect("a capture");
    let (all, _) = lines(whole);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("cut.pcap");
    for len in [24, 30, 100, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..len]).expect("a temporary file");
        let (read, summary) = lines(&file);
        assert!(all.starts_with(&read));
        assert_eq!(summary.damage.is_none(), len == 24, "{len}");
        assert_eq!(summary.name, file.display().to_string());
    }
}

#[test]
fn what_is_no_capture_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("some");
    for (content, expected) in [
        (&b""[..], "empty"),
        (b"\xfd7zXZ\0", "xz-compressed"),
        (b"GMBU\0\x02\x01\0", "a NetMon capture"),
        (b"hello\n", "text"),
        (b"\xff\xff", "of unknown format, beginning ff ff 00 00"),
    ] {
        std::fs::write(&file, content).expect("a temporary file");
        let error = FileCapture::open(&file, PointId(0))
            .err()
            .expect("no capture");
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(matches!(error, CaptureError::NotCapture { .. }));
    }
    for (content, expected) in [
        (
            &b"\xa1\xb2\xc3\xd4\0\x02\0\x09aaaabbbbccccdddd"[..],
            "version 2.9",
        ),
        (
            b"snoop\0\0\0\0\0\0\x02\0\0\0\x08",
            "datalink type 8, not Ethernet",
        ),
    ] {
        std::fs::write(&file, content).expect("a temporary file");
        let error = FileCapture::open(&file, PointId(0)).err().expect("strange");
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("editcap")));
    }
    let cut = folder.path().join("cut.gz");
    std::fs::write(&cut, b"\x1f\x8b\x08\0\0").expect("a temporary file");
    for path in [folder.path(), Path::new("/nonexistent/file"), &cut] {
        let error = FileCapture::open(path, PointId(0)).err().expect("no file");
        assert!(matches!(error, CaptureError::Read { .. }));
    }
}

/// Returns the contents of `file`, compressed by `tool -c`.
fn packed(tool: &str, file: &Path) -> Vec<u8> {
    let output = Command::new(tool).arg("-c").arg(file).output();
    let output = output.expect("the tool runs");
    assert!(output.status.success(), "{tool}");
    output.stdout
}

#[test]
fn what_the_tools_compressed_is_read_as_if_it_were_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The name does not say that the file is compressed.
    let file = folder.path().join("some.pcap");
    for tool in ["gzip", "zstd", "lz4"] {
        if requirement::is_missing_tool(tool) {
            continue;
        }
        for capture in captures() {
            let (plain, told) = lines(&capture);
            std::fs::write(&file, packed(tool, &capture)).expect("a temporary file");
            let (unpacked, summary) = lines(&file);
            assert!(unpacked == plain, "{tool}: {}", capture.display());
            assert_eq!(
                (summary.packets, summary.damage),
                (told.packets, told.damage)
            );
        }
    }
}

#[test]
fn a_cut_compressed_file_is_read_up_to_the_cut() {
    let capture = &captures()[0];
    let (plain, _) = lines(capture);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("cut.pcap.gz");
    if requirement::is_missing_tool("gzip") {
        return;
    }
    let packed = packed("gzip", capture);
    for part in [2, 3, 10] {
        let len = packed.len() - packed.len() / part;
        std::fs::write(&file, &packed[..len]).expect("a temporary file");
        let (unpacked, summary) = lines(&file);
        assert!(plain.starts_with(&unpacked) && unpacked.lines().count() > 5);
        let damage = summary.damage.expect("it is cut");
        assert_eq!(
            damage,
            "could not be read further: its gzip stream ends early"
        );
    }
}

#[test]
fn interfaces_are_points() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let raw = captures()
        .into_iter()
        .find(|file| file.ends_with("raw.pcapng"))
        .expect("a pcapng capture");
    let file = folder.path().join("first");
    std::fs::copy(&raw, &file).expect("a copy");
    let mut capture = FileCapture::open(&file, PointId(40)).expect("a capture");
    let (segment, _) = capture.next_segment().expect("a segment");
    assert_eq!(segment.point, PointId(40));
}

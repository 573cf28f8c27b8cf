//! Text from captures, reports, files' names and programs' names, which must not command the
//! terminal on which it is shown.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::corpus::recording;
use super::page::{analyze, hostile};
use crate::command::program::{Run, lagtrace, program, run};

/// A text that would set a terminal's title, clear the screen, begin a line, reverse text and hide
/// characters; the name of a file cannot hold more.
const ILL: &str = "\u{1b}]0;owned\u{7}\u{9b}2J\r\nerror: \u{202e}evil\u{200b}\u{7f}";

/// Asserts that a terminal would show all that was printed.
#[track_caller]
fn is_shown(run: &Run) {
    let is_bad = |&c: &char| {
        c != '\n' && c.is_control() || ['\u{202e}', '\u{200b}', '\u{2028}', '\u{feff}'].contains(&c)
    };
    for text in [&run.stdout, &run.stderr] {
        assert_eq!(text.chars().find(is_bad), None, "{run:#?}");
    }
    let is_forged = |line: &str| line.starts_with("error: ") && line.contains("evil");
    assert!(!run.stdout.lines().any(is_forged), "{run:#?}");
    let errors = run
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: "));
    assert!(errors.count() <= 1, "{run:#?}");
}

#[test]
fn captures_and_their_names_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{ILL}.pcap"));
    fs::write(&file, hostile().bytes()).unwrap();
    let views: [&[&str]; 16] = [
        &[],
        &["-v"],
        &["--full"],
        &["--brief"],
        &["--format", "json"],
        &["--format", "ndjson"],
        &["--format", "har"],
        &["--exchanges=5"],
        &["--exchanges=5", "--format", "json"],
        &["--connections"],
        &["--connections", "--format", "json"],
        &["--stream", "0"],
        &["--stream", "0", "--show", "bytes"],
        &["--stream", "0", "--format", "json"],
        &["--stream", "9"],
        &["--color", "never", "-v"],
    ];
    for view in views {
        let run = analyze(&[&file], view);
        assert!(run.stdout.len() > 100 || run.code == Some(2), "{run:#?}");
        is_shown(&run);
        if view.contains(&"json") || view.contains(&"har") {
            let shown = run.json().to_string();
            assert!(shown.contains('\u{202e}'), "JSON keeps the text: {shown}");
        }
    }
    let copy = folder.path().join(format!("{ILL}.pcapng"));
    is_shown(&analyze(
        &[&file],
        &["-q", "--annotate", copy.to_str().unwrap()],
    ));
    let viewed = lagtrace(["view".as_ref(), "--no-open".as_ref(), file.as_os_str()]);
    is_shown(&viewed);
    // The page is in the system's folder for temporary files.
    fs::remove_file(viewed.stdout.trim_end()).unwrap();
}

#[test]
fn colours_are_the_only_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{ILL}.pcap"));
    fs::write(&file, hostile().bytes()).unwrap();
    for view in [&["-v"][..], &["--exchanges=5"], &["--connections"]] {
        let colored = analyze(&[&file], &[view, &["--color", "always"]].concat());
        assert!(colored.stdout.contains("\u{1b}["), "{colored:#?}");
        let mut run = colored;
        for text in [&mut run.stdout, &mut run.stderr] {
            for color in ["0m", "1m", "2m", "31m", "32m", "33m", "36m"] {
                *text = text.replace(&format!("\u{1b}[{color}"), "");
            }
        }
        is_shown(&run);
    }
}

#[test]
fn errors_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let name = |more: &str| folder.path().join(format!("{ILL}{more}"));
    let (absent, none) = (name("absent"), name("none"));
    fs::write(&none, ILL).unwrap();
    let into = absent.join("below");
    let [absent, none, into] = [&absent, &none, &into].map(|path| path.to_str().unwrap());
    let url = "http://127.0.0.1:1/";
    let wrong: [&[&str]; 16] = [
        &["analyze", absent],
        &["analyze", none],
        &["analyze", none, none],
        &["analyze", none, "-o", into],
        &["analyze", none, "--html", none],
        &["compare", none, absent],
        &["compare", none, none],
        &["view", none],
        &["view", absent, absent],
        &["load", url, "--urls", none],
        &["load", url, "--body", absent],
        &["load", url, "--hdr", into],
        &["load", "https://127.0.0.1:1/", "--cacert", none],
        &["diagnose", ILL],
        &["diagnose", url, "--verify", none],
        &["analyze", "x.pcap", ILL, "--exchanges", ILL],
    ];
    for arguments in wrong {
        let run = lagtrace(arguments);
        assert_eq!(run.code, Some(2), "{run:#?}");
        assert!(run.stderr.starts_with("error: "), "{run:#?}");
        is_shown(&run);
    }
    // Some of its letters are words of causes.
    is_shown(&lagtrace(["explain", ILL]));
    is_shown(&lagtrace([ILL]));
    is_shown(&lagtrace(["analyze", &format!("--{ILL}")]));
}

/// Replaces all free texts of a report.
fn spoil(field: &str, value: &mut Value) {
    match value {
        Value::String(text)
            if ["subject", "request", "title", "summary", "text"].contains(&field) =>
        {
            *text = ILL.to_owned();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| spoil(field, item)),
        Value::Object(fields) => fields
            .iter_mut()
            .for_each(|(field, value)| spoil(field, value)),
        _ => {}
    }
}

#[test]
fn reports_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let capture = recording("nagle-delayed-ack-8ms", "client");
    let mut report = analyze(&[&capture], &["--format", "json"]).expect(1).json();
    spoil("", &mut report);
    let file = folder.path().join("report.json");
    fs::write(&file, report.to_string()).unwrap();
    let file = file.to_str().unwrap();
    for view in [
        &["-v"][..],
        &[],
        &["--brief"],
        &["--format", "json"],
        &["--format", "ndjson"],
    ] {
        let run = lagtrace([&["compare", file, file], view].concat());
        assert!(run.stdout.len() > 100, "{run:#?}");
        is_shown(&run);
    }
}

/// Starts the server of a page under another name, and returns its port.
fn serving(name: &Path, report: &Path) -> (std::process::Child, String) {
    let mut server = Command::new(name)
        .args(["view", "--serve=127.0.0.1:0", "--no-open", "-q"])
        .arg(report)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let mut lines = BufReader::new(server.stdout.take().unwrap());
    lines.read_line(&mut url).unwrap();
    let address = url["http://".len()..].split('/').next().unwrap();
    (server, address.rsplit(':').next().unwrap().to_owned())
}

#[test]
fn names_of_programs_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("\u{1b}]0;x\u{7}\r\n\u{202e}z");
    symlink(program(), &name).unwrap();
    let (mut server, port) = serving(&name, &recording("nagle-delayed-ack-8ms", "client"));
    let mut runs = Vec::new();
    for format in ["text", "json", "ndjson"] {
        let mut command = Command::new(program());
        command.args(["sockets", "-p", &port, "-v", "--format", format]);
        runs.push(run(&mut command));
    }
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    server.wait().unwrap();
    for run in runs {
        assert!(run.stdout.contains("]0;x"), "{run:#?}");
        is_shown(&run);
    }
}

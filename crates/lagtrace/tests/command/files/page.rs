//! The page: what is in the file, and how it is written.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::corpus::recording;
use super::frames::{Capture, Tcp};
use crate::command::paged::document;
use crate::command::program::{Run, lagtrace, lagtrace_lab, program, run};

const BEGINNING: &str = "<!doctype html>\n";

pub(super) fn analyze(files: &[&Path], more: &[&str]) -> Run {
    let files = files.iter().map(|path| path.as_os_str());
    lagtrace(
        ["analyze".as_ref()]
            .into_iter()
            .chain(files)
            .chain(more.iter().map(AsRef::as_ref)),
    )
}

/// Returns the page without its data, its script and its style sheet.
fn outside(page: &str) -> String {
    let mut text = page.to_owned();
    for (begin, end) in [("<script", "</script>"), ("<style", "</style>")] {
        while let Some(at) = text.find(begin) {
            let length = text[at..].find(end).unwrap() + end.len();
            text.replace_range(at..at + length, "");
        }
    }
    text
}

#[test]
fn a_page_is_one_file_with_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let capture = recording("nagle-delayed-ack-8ms", "client");
    let plain = analyze(&[&capture], &["--format", "json"]).expect(1);
    let made = analyze(
        &[&capture],
        &["--format", "json", "--html", file.to_str().unwrap()],
    );
    assert_eq!(made.expect(1).stdout, plain.stdout);
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.starts_with(BEGINNING));
    let told = document(&page);
    assert_eq!(told["report"], plain.json());
    assert_eq!(
        (&told["page"], &told["kind"]),
        (&Value::from(1), &Value::from("report"))
    );
    let text = outside(&page);
    for reference in [
        "src=", "href=", "url(", "@import", "style=", "http:", "https:",
    ] {
        assert!(!text.contains(reference), "{reference} in {text}");
    }
    assert_eq!(page.matches("Content-Security-Policy").count(), 1);
    assert!(page.contains("default-src &#39;none&#39;; script-src &#39;sha256-"));
    assert!(text.contains("TCP_NODELAY") && text.contains("<noscript>"));
    // A page can contain requests, which are for the user alone.
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn the_name_and_standard_output_choose_the_form() {
    let folder = tempfile::tempdir().unwrap();
    let capture = recording("nagle-delayed-ack-8ms", "server");
    let file = folder.path().join("page.html.gz");
    let path = file.to_str().unwrap();
    analyze(&[&capture], &["-q", "--html", path]).expect(1);
    let mut page = String::new();
    let compressed = fs::File::open(&file).unwrap();
    GzDecoder::new(compressed)
        .read_to_string(&mut page)
        .unwrap();
    let printed = analyze(&[&capture], &["--html", "-"]).expect(1);
    assert_eq!(printed.stdout, page);
    assert_eq!(printed.stderr, "");
    // A page that is there is replaced, through a link too; the link stays one.
    let link = folder.path().join("link.html.gz");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    analyze(&[&capture], &["--html", link.to_str().unwrap()]).expect(1);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    // The lines of exchanges go on while the page is made.
    let lines = analyze(&[&capture], &["--format", "ndjson", "--html", path]).expect(1);
    assert!(lines.stdout.lines().count() > 100);
}

#[test]
fn what_cannot_be_written_is_said_before_anything_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let capture = recording("nagle-delayed-ack-8ms", "server");
    let missing = folder.path().join("none/page.html");
    let own = folder.path().join("own.pcap");
    fs::write(&own, "not a page").unwrap();
    let inside = own.join("page.html");
    for (path, told) in [
        (missing.as_path(), "No such file or directory"),
        (folder.path(), "Is a directory"),
        (Path::new("/proc/page.html"), "No such file or directory"),
        (inside.as_path(), "Not a directory"),
        (own.as_path(), "exists and is not a page"),
    ] {
        let run = analyze(&[&capture], &["--html", path.to_str().unwrap()]).expect(2);
        assert!(
            run.stderr.contains(told) && run.stderr.contains(path.to_str().unwrap()),
            "{run:#?}"
        );
        assert_eq!(run.stdout, "");
    }
    // What shows only when the page is written does not cost the report.
    let late = analyze(&[&capture], &["--html", "/dev/full"]).expect(2);
    assert!(
        late.stdout.contains("Nagle") && late.stderr.contains("/dev/full"),
        "{late:#?}"
    );
    assert_eq!(fs::read(&own).unwrap(), b"not a page");
    let same = folder.path().join("same").display().to_string();
    let twice = analyze(&[&capture], &["-o", &same, "--html", &same]).expect(2);
    assert!(twice.stderr.contains("the same file"), "{twice:#?}");
    let refused = lagtrace(["explain", "--html", "x.html"]).expect(2);
    assert!(
        refused.stderr.contains("--html is for commands"),
        "{refused:#?}"
    );
    let one = analyze(&[&capture], &["--stream", "0", "--html", "x.html"]).expect(2);
    assert!(
        one.stderr.contains("no page of a single connection"),
        "{one:#?}"
    );
    let alone = analyze(&[&capture], &["--redact"]).expect(2);
    assert!(alone.stderr.contains("--redact is for pages"), "{alone:#?}");
}

/// Returns a capture of slow requests with a hostile path.
pub(super) fn hostile() -> Capture {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    const PUSH: u8 = 24;
    let mut capture = Capture::new();
    let (client, server) = ((0xc633_6407, 40_000), (0xcb00_7109, 80));
    let (mut asks, mut answers) = (Tcp::new(client, server), Tcp::new(server, client));
    capture.tcp(&asks.flags(SYN));
    asks.seq += 1;
    capture.tcp(&answers.flags(SYN | ACK).ack(asks.seq));
    answers.seq += 1;
    capture.tcp(&asks.flags(ACK).ack(answers.seq));
    let path = "/</script><img/src=x/onerror=alert(1)>\u{202e}\u{9b}'\"&";
    let request = format!("GET {path} HTTP/1.1\r\nHost: victim.test\r\n\r\n");
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for _ in 0..40 {
        capture.tcp(&asks.flags(PUSH).ack(answers.seq).with(request.as_bytes()));
        asks.seq += request.len() as u32;
        capture.tcp(&answers.flags(ACK).ack(asks.seq));
        capture.pause(80_000);
        capture.tcp(&answers.flags(PUSH).ack(asks.seq).with(response));
        answers.seq += response.len() as u32;
        capture.tcp(&asks.flags(ACK).ack(answers.seq));
        capture.pause(1_000);
    }
    capture
}

#[test]
fn hostile_requests_are_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("<b>evil\u{202e}.pcap");
    fs::write(&file, hostile().bytes()).unwrap();
    let page = analyze(&[&file], &["--html", "-"]).stdout;
    assert!(!page.contains("<img") && !page.contains("<b>") && !page.contains('\u{202e}'));
    assert_eq!(page.matches("</script>").count(), 2);
    let shown =
        "/&lt;/script&gt;&lt;img/src=x/onerror=alert(1)&gt;\\u{202e}\\u{9b}&#39;&quot;&amp;";
    assert!(page.contains(shown), "{page}");
    let request = document(&page)["report"]["exchanges"]["slowest"][0]["request"].clone();
    assert!(
        request.as_str().unwrap().contains("<img/src=x"),
        "{request}"
    );
}

/// Returns all addresses and request paths in a report.
fn originals(report: &Value) -> Vec<String> {
    fn walk(field: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) if ["client", "server", "service"].contains(&field) => {
                let address = text.parse::<std::net::SocketAddr>();
                found.extend(address.map(|address| address.ip().to_string()));
            }
            Value::String(text) if field == "request" => {
                let path = text.split_once(' ').map(|(_, path)| path.to_owned());
                found.extend(path.filter(|path| path.len() > 1));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(field, item, found)),
            Value::Object(fields) => {
                fields
                    .iter()
                    .for_each(|(field, value)| walk(field, value, found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk("", report, &mut found);
    found
}

#[test]
fn a_redacted_page_has_no_original() {
    for name in [
        "nagle-delayed-ack-8ms",
        "nagle-delayed-ack-ipv6-0ms-ipv6",
        "downstream-wait-proxy-2ms",
        "chatty-round-trips-40ms",
        "dns-search-list-20ms",
        "redirect-chain-20ms",
    ] {
        let capture = recording(name, "client");
        let report = analyze(&[&capture], &["--format", "json"]).json();
        let page = analyze(&[&capture], &["--html", "-", "--redact"]).stdout;
        let text = document(&page).to_string() + &outside(&page);
        let mut originals = originals(&report);
        originals.push(capture.display().to_string());
        assert!(originals.len() > 3, "{name}");
        for original in originals {
            // `/n` would also be found within `/next`, so the end of a word counts.
            let ends = |at: usize| {
                let behind = text[at + original.len()..].chars().next();
                behind.is_none_or(|c| !c.is_alphanumeric())
            };
            let at = text.match_indices(&original).find(|(at, _)| ends(*at));
            assert_eq!(at, None, "{name}: {original}");
        }
        assert!(
            text.contains("client-1") && text.contains("host-1"),
            "{name}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret.pcap");
    fs::write(&file, hostile().bytes()).unwrap();
    let page = analyze(&[&file], &["--html", "-", "--redact"]).stdout;
    let text = document(&page).to_string() + &outside(&page);
    for original in ["198.51.100.7", "203.0.113.9", "secret", "onerror", "victim"] {
        assert!(!text.contains(original), "{original}: {text}");
    }
}

#[test]
fn reports_and_comparisons_become_pages_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let [before, after, made] = ["before.json", "after.json", "page.html"].map(path);
    let capture = recording("nagle-delayed-ack-8ms", "client");
    analyze(&[&capture], &["--format", "json", "-o", &before]).expect(1);
    fs::copy(&before, &after).unwrap();
    lagtrace(["compare", &before, &after, "--html", &made]).expect(0);
    let page = document(&fs::read_to_string(&made).unwrap());
    assert_eq!(page["kind"], "comparison");
    assert!(page["before"].is_object() && page["comparison"]["latency"].is_array());
    let compared = lagtrace(["compare", &before, &after, "--format", "json"]).expect(0);
    fs::write(path("comparison.json"), &compared.stdout).unwrap();
    let viewed = lagtrace(["view", &path("comparison.json"), "--html", "-"]).expect(0);
    assert_eq!(document(&viewed.stdout)["comparison"], compared.json());
    let viewed = lagtrace(["view", &before, "--html", "-"]).expect(0);
    let report: Value = serde_json::from_slice(&fs::read(&before).unwrap()).unwrap();
    assert_eq!(document(&viewed.stdout)["report"], report);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/nagle-delayed-ack-8ms");
    let score = lagtrace_lab(["score", corpus.to_str().unwrap(), "--html", "-"]).expect(0);
    let told = document(&score.stdout);
    assert_eq!(told["score"]["cases"].as_array().unwrap().len(), 2);
    assert!(outside(&score.stdout).contains("Nothing is wrong"));
}

/// A pipe cannot be read a second time; its page shows the packets of its examples too.
#[test]
fn the_page_of_a_pipe_has_the_packets_of_its_file() {
    let capture = recording("nagle-delayed-ack-8ms", "client");
    let mut command = Command::new(program());
    command.args(["analyze", "-", "-q", "--html", "-"]);
    command.stdin(fs::File::open(&capture).unwrap());
    let piped = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let filed = analyze(&[&capture], &["--html", "-"]).stdout;
    let [piped, filed] = [piped, filed].map(|page| document(&page)["picture"].clone());
    assert!(!filed["ladders"].as_array().unwrap().is_empty());
    assert_eq!(piped["ladders"], filed["ladders"]);
    // A file is only read until all examples were seen.
    let [piped, filed] = [&piped, &filed].map(|it| it["connections"].as_array().unwrap());
    let read = |it: &Value| it["packets"].as_u64().unwrap();
    assert_eq!(piped.len(), filed.len());
    assert!(
        piped
            .iter()
            .zip(filed)
            .all(|(all, part)| read(all) >= read(part))
    );
}

#[test]
fn a_score_becomes_a_page_in_each_of_its_forms() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("score.json");
    let file = file.to_str().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let recording = corpus.join("nagle-delayed-ack-8ms");
    let score = ["score", recording.to_str().unwrap(), "--format", "json"];
    let score = lagtrace_lab(score.iter().chain(&["-o", file])).expect(0);
    assert_eq!(score.stdout, "");
    let kept = corpus.join("SCORE.json");
    let kept = kept.to_str().unwrap();
    let sums: Vec<Value> = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
    let known = sums.last().unwrap()["known"].as_u64().unwrap();
    for (file, diagnoses) in [(file, 2), (kept, known)] {
        let viewed = lagtrace(["view", file, "--html", "-"]).expect(0);
        let page = document(&viewed.stdout);
        let score: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        assert_eq!((&page["kind"], &page["score"]), (&"score".into(), &score));
        let text = outside(&viewed.stdout);
        let told = format!("right cause first in {diagnoses} of {diagnoses}");
        assert!(text.contains(&told), "{told} in {text}");
    }
    for damaged in [
        r#"[{"type": "case"}, {"type": "confusion"}]"#,
        r#"{"confusion": [], "together": 1}"#,
        "[1]",
    ] {
        fs::write(file, damaged).unwrap();
        let refused = lagtrace(["view", file, "--html", "-"]).expect(2);
        assert!(
            refused.stderr.contains("not a report of lagtrace"),
            "{refused:#?}"
        );
    }
}

/// Runs `view` with these arguments, and with `folder` as the only place for temporary files.
fn view(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = Command::new(program());
    command.arg("view").args(arguments).env_clear();
    command.env("TMPDIR", folder).env("PATH", "/usr/bin:/bin");
    run(command.envs(variables.iter().copied()))
}

#[test]
fn a_page_to_view_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let capture = recording("nagle-delayed-ack-8ms", "client");
    let capture = capture.to_str().unwrap();
    let made = view(folder.path(), &[capture, "--no-open"], &[]).expect(0);
    let page = Path::new(made.stdout.trim_end());
    assert_eq!(page.parent(), Some(folder.path()));
    assert_eq!(
        fs::metadata(page).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(fs::read_to_string(page).unwrap().starts_with(BEGINNING));
    let again = view(folder.path(), &[capture, "--no-open"], &[]).expect(0);
    assert_ne!(made.stdout, again.stdout);
}

#[test]
fn damaged_reports_are_refused_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let report = analyze(
        &[&recording("nagle-delayed-ack-8ms", "client")],
        &["--format", "json"],
    );
    let whole = report.expect(1).stdout;
    let half = &whole[..whole.len() / 2];
    let foreign = "{\"schema\": 2, \"command\": \"x\"}";
    let newer = whole.replacen("\"schema\": 2", "\"schema\": 99", 1);
    let broken = whole.replacen("\"command\":", "\"command\"", 1);
    for (text, told, hint) in [
        (half, "is cut off", "copy it again"),
        (
            foreign,
            "missing field `subject` at line 1 column",
            "make reports with",
        ),
        (&newer, "schema 99", "make it again"),
        (&broken, "at line 3 column", "make reports with"),
        (
            "{\"type\": \"overview\"}\n{}",
            "at line 2 column",
            "not ndjson",
        ),
    ] {
        let path = folder.path().join("report.json");
        fs::write(&path, text).unwrap();
        let refused = view(folder.path(), &[path.to_str().unwrap()], &[]).expect(2);
        let said = &refused.stderr;
        assert!(said.contains(told) && said.contains(hint), "{said}");
        assert!(said.contains("line ") || told == "schema 99", "{said}");
    }
    let left = fs::read_dir(folder.path()).unwrap();
    assert_eq!(left.count(), 1, "a page of a report that could not be read");
}

/// Returns a program that writes its arguments, one per line, into a file beside it.
fn browser(folder: &Path) -> (PathBuf, PathBuf) {
    let (program, told) = (folder.join("browser"), folder.join("told"));
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >'{}'\n", told.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program, told)
}

/// The user `nobody`.
const NOBODY: u32 = 65_534;

#[test]
fn a_browser_gets_the_path_as_one_word_and_never_runs_as_root() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (browser, told) = browser(folder.path());
    let capture = folder.path().join("slow.pcap.gz");
    fs::copy(recording("nagle-delayed-ack-8ms", "client"), &capture).unwrap();
    let named = format!("false:{} --new %s;id", browser.display());
    let own = format!("false:{} --new %s", browser.display());
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let view = |browser: &str, variables: &[(&str, &str)], as_root: bool| {
        // The program under test may be in a folder that only root can enter.
        let copy = folder.path().join("lagtrace");
        // A file that this process writes would be busy while another test starts a program.
        let copied = Command::new("cp").arg(program()).arg(&copy).status();
        assert!(copied.unwrap().success());
        let mut command = Command::new(copy);
        command.arg("view").arg(&capture).env_clear();
        command
            .env("TMPDIR", folder.path())
            .env("PATH", "/usr/bin:/bin");
        command.env("DISPLAY", ":0").env("BROWSER", browser);
        if is_root && !as_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        run(command.envs(variables.iter().copied())).expect(0)
    };
    for (browser, words) in [(&own, "--new\nPAGE\n"), (&named, "--new\n%s;id\nPAGE\n")] {
        let made = view(browser, &[], false);
        let words = words.replace("PAGE", made.stdout.trim_end());
        assert_eq!(fs::read_to_string(&told).unwrap(), words, "{made:#?}");
        fs::remove_file(&told).unwrap();
    }
    if !is_root {
        return;
    }
    let user = NOBODY.to_string();
    for variables in [&[][..], &[("SUDO_UID", user.as_str()), ("SUDO_GID", &user)]] {
        let made = view(&own, variables, true);
        assert!(
            made.stderr.contains("no browser is started as root"),
            "{made:#?}"
        );
        assert!(!told.exists());
        let owner = fs::metadata(made.stdout.trim_end()).unwrap().uid();
        assert_eq!(owner, if variables.is_empty() { 0 } else { NOBODY });
    }
}

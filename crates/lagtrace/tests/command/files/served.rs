//! The server of a page: what it answers, and to whom.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::corpus::recording;
use super::frames::long;
use super::page::analyze;
use crate::command::paged::{ask, document};
use crate::command::program::{lagtrace, program};

/// A served page.
struct Served {
    server: Child,
    address: String,
    /// The path of the page, without the slash before it.
    path: String,
}

impl Served {
    fn start(file: &Path, more: &[&str]) -> Self {
        let mut server = Command::new(program())
            .args(["view", "--serve", "--no-open", "-q"])
            .arg(file)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let mut lines = BufReader::new(server.stdout.take().unwrap());
        lines.read_line(&mut url).unwrap();
        let (address, path) = url.trim_end()["http://".len()..].split_once('/').unwrap();
        Self {
            server,
            address: address.to_owned(),
            path: path.to_owned(),
        }
    }

    /// Returns the answer to a request for something below the page, and its status.
    fn get(&self, asked: &str) -> (String, u16) {
        let Self { address, path, .. } = self;
        let request = format!("GET /{path}{asked} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        ask(address, &request)
    }

    /// Returns an answer that is JSON.
    #[track_caller]
    fn json(&self, asked: &str) -> Value {
        let (answer, status) = self.get(asked);
        assert_eq!(status, 200, "{asked}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("\r\nContent-Type: application/json;"),
            "{head}"
        );
        serde_json::from_str(body).unwrap()
    }

    /// Ends the server as Ctrl-C does.
    fn end(mut self) {
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.server),
            rustix::process::Signal::INT,
        )
        .unwrap();
        assert!(self.server.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Only a test that failed has not ended it.
        self.server.kill().ok();
    }
}

/// Any exchange of the page can be opened down to its packets.
fn packets_are_served(served: &Served) {
    for number in ["0", "57", "119"] {
        let picture = served.json(&format!("packets/{number}"));
        let packets = picture["ladders"][0]["packets"].as_array().unwrap();
        assert!(packets.len() > 3, "{picture:#}");
        assert_eq!(picture["connections"].as_array().unwrap().len(), 1);
    }
    for number in ["120", "-1", "", "x"] {
        assert_eq!(served.get(&format!("packets/{number}")).1, 404, "{number}");
    }
}

#[test]
fn a_served_page_is_for_those_who_know_its_url() {
    let capture = recording("nagle-delayed-ack-8ms", "client");
    let served = Served::start(&capture, &[]);
    let Served { address, path, .. } = &served;
    assert!(
        address.starts_with("127.0.0.1:") && path.len() == 33,
        "{address} {path}"
    );
    // A browser opens connections before it needs them.
    let _unused = TcpStream::connect(address).unwrap();
    let (answer, status) = served.get("");
    assert_eq!(status, 200);
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("\r\nContent-Security-Policy: default-src 'none';"),
        "{head}"
    );
    // Only what concerns the place differs from the page in a file.
    let filed = page
        .replace("connect-src &#39;self&#39;", "connect-src &#39;none&#39;")
        .replace("<body data-served=\"\">", "<body>");
    assert_eq!(filed, analyze(&[&capture], &["--html", "-"]).stdout);
    packets_are_served(&served);
    for (request, status) in [
        (
            format!("GET /{path} HTTP/1.1\r\nHost: evil.test\r\n\r\n"),
            421,
        ),
        (format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"), 404),
        (
            format!("PUT /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n"),
            405,
        ),
        (format!("GET /{} HTTP/1.1\r\n", "x".repeat(9_216)), 431),
    ] {
        assert_eq!(ask(address, &request).1, status, "{request}");
    }
    served.end();
    let both = lagtrace(["view", "x.pcap", "--serve", "--html", "x.html"]).expect(2);
    assert!(both.stderr.contains("not both"), "{both:#?}");
}

/// More connections than the server has places for, of those who do not know the path.
#[test]
fn strangers_keep_no_reader_from_a_served_page() {
    let served = Served::start(&recording("nagle-delayed-ack-8ms", "client"), &[]);
    let Served { address, .. } = &served;
    let mut strangers = Vec::new();
    for number in 0..150 {
        let mut stranger = TcpStream::connect(address).unwrap();
        match number % 3 {
            0 => {}
            1 => stranger.write_all(b"GET /").unwrap(),
            _ => {
                let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n");
                stranger.write_all(request.as_bytes()).unwrap();
            }
        }
        strangers.push(stranger);
    }
    // With 16 places and 10 s for each request, all would take a minute and a half.
    let begun = Instant::now();
    assert_eq!(served.get("").1, 200);
    assert!(begun.elapsed() < Duration::from_secs(8), "{begun:?}");
    drop(strangers);
    served.end();
}

/// Returns the end of a query for a part of the picture, which contains the bounds below `to` and
/// `high` only.
fn part(begun: [u64; 2], latency: [u64; 2]) -> String {
    let ([from, to], [low, high]) = (begun, latency);
    format!("exchanges?from_ns={from}&to_ns={to}&low_ns={low}&high_ns={high}")
}

/// Returns the facts by which an exchange is found again, as a query.
fn key(exchange: &Value) -> String {
    let text = |field: &str| exchange[field].as_str().unwrap();
    let (client, server) = (text("client"), text("server"));
    let (first, ordinal) = (&exchange["first_packet"], &exchange["ordinal"]);
    format!("client={client}&server={server}&first_packet={first}&ordinal={ordinal}")
}

/// Returns the exchanges of a capture whose latency counts, as `analyze` prints them.
fn analyzed(capture: &Path) -> Vec<Value> {
    let lines = analyze(&[capture], &["-q", "--format", "ndjson"]).stdout;
    let records = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let counts = |record: &Value| {
        let outcome = record["outcome"].as_str().unwrap_or_default();
        let is_cut = ["reset", "closed early", "cut by the capture"].contains(&outcome);
        record["type"] == "exchange" && !is_cut
    };
    records.filter(counts).collect()
}

/// Asserts that four parts of the picture, side by side, contain each exchange once, and that each
/// can be opened.
fn every_exchange_opens(capture: &Path) {
    let expected = analyzed(capture);
    assert!(expected.len() > 10, "{}", expected.len());
    let served = Served::start(capture, &[]);
    let page = document(&served.get("").0);
    let start = page["picture"]["raster"]["start_ns"].as_i64().unwrap();
    let middle = &expected[expected.len() / 2];
    let begun = middle["start_ns"].as_i64().unwrap().abs_diff(start);
    let latency = middle["latency_ns"].as_u64().unwrap();
    let mut found = Vec::new();
    for begun in [[0, begun], [begun, u64::MAX]] {
        for latency in [[0, latency], [latency, u64::MAX]] {
            let listed = served.json(&part(begun, latency));
            let exchanges = listed["exchanges"].as_array().unwrap();
            assert_eq!(listed["total"], exchanges.len());
            found.extend(exchanges.iter().cloned());
        }
    }
    let keys = |list: &[Value]| list.iter().map(key).collect::<BTreeSet<String>>();
    assert_eq!(found.len(), expected.len());
    assert_eq!(keys(&found), keys(&expected));
    for exchange in &expected {
        let key = key(exchange);
        let listed = found.iter().find(|one| self::key(one) == key).unwrap();
        for fact in ["latency_ns", "start_ns", "waits", "request", "capture"] {
            assert_eq!(listed[fact], exchange[fact], "{fact} of {key}");
        }
        let picture = served.json(&format!("packets?{key}"));
        let ladder = &picture["ladders"][0];
        assert_eq!(ladder["latency_ns"], exchange["latency_ns"], "{key}");
        let packets = ladder["packets"].as_array().unwrap();
        for end in ["first_packet", "last_packet"] {
            let is_end = |packet: &Value| packet["number"] == exchange[end];
            assert!(packets.iter().any(is_end), "{end} of {key}: {ladder:#}");
        }
        assert_eq!(picture["connections"].as_array().unwrap().len(), 1);
    }
    served.end();
}

#[test]
fn every_exchange_of_a_capture_can_be_listed_and_opened() {
    for name in [
        "server-think-redis-2ms",
        "tls-revocation-fetch-40ms",
        "nagle-delayed-ack-ipv6-0ms-ipv6",
    ] {
        every_exchange_opens(&recording(name, "client"));
    }
}

#[test]
fn what_a_reader_cannot_have_selected_is_refused() {
    let capture = recording("server-think-redis-2ms", "client");
    let served = Served::start(&capture, &[]);
    let all = part([0, u64::MAX], [0, u64::MAX]);
    let total = |more: &str| served.json(&format!("{all}{more}"))["total"].clone();
    let exchanges = analyzed(&capture).len();
    assert_eq!(total(""), exchanges);
    assert_eq!(total("&service=0"), exchanges);
    let owners = ["client", "server", "path", "resolver", "proxy", "unknown"];
    let each = owners.map(|owner| total(&format!("&owner={owner}")).as_u64().unwrap());
    assert_eq!(each.iter().sum::<u64>(), exchanges as u64);
    assert!(each[1] > 0, "{each:?}");
    let key = key(&analyzed(&capture)[0]);
    for (asked, status) in [
        (format!("{all}&service=1"), 400),
        (format!("{all}&owner=nobody"), 400),
        (format!("{all}&more=1"), 400),
        (part([5, 5], [0, 9]), 400),
        ("exchanges?".to_owned(), 400),
        ("exchanges".to_owned(), 404),
        ("packets?".to_owned(), 400),
        (format!("packets?{key}7"), 404),
        (format!("packets?{key}&x=1"), 400),
        (format!("packets/0?{key}"), 404),
    ] {
        assert_eq!(served.get(&asked).1, status, "{asked}");
    }
    served.end();
    // Pages of reports and redacted pages show nothing of a capture, and offer nothing.
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let made = analyze(&[&capture], &["--format", "json"]).stdout;
    fs::write(&report, made).unwrap();
    for (file, more) in [(&report, &[][..]), (&capture, &["--redact"])] {
        let served = Served::start(file, more);
        assert!(!served.get("").0.contains("data-served"));
        assert_eq!(served.get(&all).1, 404);
        assert_eq!(served.get("packets/0").1, 404);
        served.end();
    }
}

/// Of two captures of the same connections, the page and the list are about the clients' one,
/// whichever is named first.
#[test]
fn two_captures_of_the_same_connections_are_listed_once() {
    let [client, server] = ["client", "server"].map(|end| recording("nagle-delayed-ack-8ms", end));
    let served = Served::start(&server, &[client.to_str().unwrap()]);
    let listed = served.json(&part([0, u64::MAX], [0, u64::MAX]));
    assert_eq!(listed["total"], analyzed(&client).len());
    let one = &listed["exchanges"][0];
    assert_eq!(one["capture"], client.to_str().unwrap());
    let picture = served.json(&format!("packets?{}", key(one)));
    assert_eq!(picture["ladders"][0]["latency_ns"], one["latency_ns"]);
    served.end();
}

/// The list has the slowest of a selection, also those that the page only counts, and of readers
/// who ask at the same time each gets its answer.
#[test]
fn exchanges_that_the_page_only_counts_can_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.pcap");
    fs::write(&file, long().bytes()).unwrap();
    let served = Served::start(&file, &[]);
    let page = document(&served.get("").0);
    let shown: BTreeSet<u64> = page["picture"]["exchanges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|exchange| exchange["first_packet"].as_u64().unwrap())
        .collect();
    // The first thousand, whose latencies are all below 2,010 µs: 10 µs pass between packets.
    let first = part([0, u64::MAX], [0, 2_010_000]);
    let listed = served.json(&first);
    let exchanges = listed["exchanges"].as_array().unwrap();
    assert_eq!(
        (&listed["total"], exchanges.len()),
        (&Value::from(1_000), 200)
    );
    assert!(exchanges.is_sorted_by_key(|one| std::cmp::Reverse(one["latency_ns"].as_u64())));
    let is_new = |one: &&Value| !shown.contains(&one["first_packet"].as_u64().unwrap());
    let new = exchanges
        .iter()
        .find(is_new)
        .expect("one that is only counted");
    std::thread::scope(|scope| {
        let open = || served.json(&format!("packets?{}", key(new)));
        let again = scope.spawn(|| served.json(&first));
        let opened: Vec<Value> = [scope.spawn(open), scope.spawn(open)]
            .map(|reader| reader.join().unwrap())
            .into();
        assert_eq!(opened[0]["ladders"][0]["latency_ns"], new["latency_ns"]);
        assert_eq!(opened[0], opened[1]);
        assert_eq!(again.join().unwrap(), listed);
    });
    served.end();
}

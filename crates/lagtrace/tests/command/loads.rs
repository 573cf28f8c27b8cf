//! Tests of `lagtrace load` with servers that the tests start. No privilege is needed.

use std::fs;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use lagtrace_trial::RefusingPort;

use super::program::{Run, lagtrace, notes, program};
use super::server::{Manner, OK, Server};
use super::streamed::Streamed;

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Runs `lagtrace load` for 100 requests, with a report in JSON.
fn load(url: &str, options: &[&str]) -> Run {
    let common = ["load", url, "-n", "100", "--format", "json"];
    lagtrace(common.iter().chain(options))
}

/// Runs `lagtrace load` for one second, with a report in JSON.
fn load_for_a_second(url: &str, options: &[&str]) -> Run {
    let common = ["load", url, "-d", "1s", "--format", "json"];
    lagtrace(common.iter().chain(options))
}

#[test]
fn closed_loop_and_rate_are_told_apart() {
    let server = Server::start(OK);
    let closed = load(&server.url(), &["-c", "4"]).expect(0).json();
    let run = &closed["load"];
    assert_eq!(run["responses"], 100, "{run:#}");
    assert_eq!(run["offered_rate"], serde_json::Value::Null);
    assert_eq!(run["latency_ns"], run["service_ns"]);
    assert_eq!(run["failed"], 0);
    let open = load_for_a_second(&server.url(), &["-c", "4", "--rate", "100"])
        .expect(0)
        .json();
    let run = &open["load"];
    assert_eq!(run["offered_rate"], 100.0);
    let responses = run["responses"].as_u64().unwrap();
    assert!((50..=110).contains(&responses), "{run:#}");
    assert!(run["latency_ns"]["min"].as_u64() >= run["service_ns"]["min"].as_u64());
}

#[test]
fn a_service_that_falls_behind_shows_in_what_users_wait() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let server = Server::start(Manner::AnswersAfter(Duration::from_millis(20), answer));
    // On one connection, the server answers at most 50 requests per second, and 200 are due.
    let run = lagtrace([
        "load",
        &server.url(),
        "-c",
        "1",
        "-d",
        "1s",
        "--rate",
        "200",
    ]);
    let run = run.expect(1);
    assert!(run.stdout.contains("did not keep up"), "{run:#?}");
    assert!(
        run.stdout.contains("latency begins when a request was due"),
        "{run:#?}"
    );
    assert!(!run.stdout.contains("Aborted"), "{run:#?}");
}

#[test]
fn http2_asked_of_a_server_without_it_is_said_so() {
    let server = Server::start(OK);
    let report = load(&server.url(), &["-c", "1", "--http2"])
        .expect(1)
        .json();
    assert!(notes(&report).contains(&"not-http2"), "{report:#}");
    assert!(report["notes"].to_string().contains("Leave out --http2"));
    let report = load(&server.url(), &["-c", "1"]).expect(0).json();
    assert!(!notes(&report).contains(&"not-http2"), "{report:#}");
}

#[test]
fn what_went_wrong_in_tls_hides_no_other_note() {
    let server = Server::start(OK);
    let url = server.url().replace("http://", "https://");
    let report = load_for_a_second(&url, &["-c", "2", "-k"]).expect(1).json();
    let notes = notes(&report);
    for note in ["tls-failed", "nothing-connected"] {
        assert!(notes.contains(&note), "{report:#}");
    }
}

#[test]
fn a_number_of_requests_at_a_rate_that_is_kept_is_kept_up_with() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let server = Server::start(Manner::AnswersAfter(Duration::from_millis(150), answer));
    let counted = ["load", &server.url(), "-n", "20", "--rate", "50"];
    let run = lagtrace(counted.iter().chain(&["-c", "20"])).expect(0);
    assert!(!run.stdout.contains("did not keep up"), "{run:#?}");
    // On one connection, the server answers at most 7 requests per second.
    let run = lagtrace(counted.iter().chain(&["-c", "1"])).expect(0);
    assert!(run.stdout.contains("did not keep up"), "{run:#?}");
}

#[test]
fn errors_and_refusals_are_found() {
    let busy = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let server = Server::start(Manner::Answers(busy));
    let report = load(&server.url(), &["-c", "2"]).expect(1).json();
    assert_eq!(report["load"]["outcomes"][0]["status"], "503");
    let refusing = RefusingPort::new();
    let url = format!("http://{}/", refusing.address());
    let report = load_for_a_second(&url, &["-c", "2"]).expect(1).json();
    assert_eq!(report["load"]["responses"], 0);
    assert!(notes(&report).contains(&"nothing-connected"), "{report:#}");
}

#[test]
fn a_run_that_is_broken_off_is_told_as_failures_and_not_as_interrupted() {
    let server = Server::start(Manner::ClosesAtOnce);
    for warm_up in ["0s", "1500ms"] {
        let options = ["-c", "100", "-d", "5s", "--warm-up", warm_up];
        let arguments = ["load", &server.url(), "--format", "json"];
        let report = lagtrace(arguments.iter().chain(&options)).expect(1).json();
        assert!(report["load"]["failed"].as_u64() > Some(0), "{report:#}");
        let notes = notes(&report);
        assert!(notes.contains(&"load-broken-off"), "{report:#}");
        assert!(!notes.contains(&"interrupted"), "{report:#}");
    }
}

#[test]
fn a_single_refused_connection_has_a_headline_and_its_reason() {
    let refusing = RefusingPort::new();
    let url = format!("http://{}/", refusing.address());
    let run = lagtrace(["load", &url, "-c", "1", "-d", "1s"]).expect(1);
    assert!(
        run.stdout.starts_with("No response on 1 connection"),
        "{run:#?}"
    );
    assert!(run.stdout.contains("refused ×"), "{run:#?}");
    assert!(run.stdout.contains("succeeded (refused)"), "{run:#?}");
}

#[test]
fn connections_that_were_never_established_are_told_apart_from_silent_ones() {
    let told = |url: &str| {
        lagtrace(["load", url, "-c", "2", "-d", "1s"])
            .expect(1)
            .stdout
    };
    // The accept queue is full, and the kernel drops the SYNs that come.
    let full = TcpListener::bind("127.0.0.1:0").expect("a port");
    rustix::net::listen(&full, 0).expect("a short queue");
    let address = full.local_addr().expect("an address");
    let patience = Duration::from_millis(200);
    let filling: Vec<_> = (0..3)
        .map(|_| TcpStream::connect_timeout(&address, patience))
        .collect();
    assert!(filling.iter().any(Result::is_err), "the queue has room");
    let never = told(&format!("http://{address}/"));
    assert!(never.contains("none of which was established"), "{never}");
    let silent = Server::start(Manner::NeverAnswers);
    let silent = told(&silent.url());
    assert!(silent.starts_with("No response on 2"), "{silent}");
    assert!(!silent.contains("established"), "{silent}");
}

#[test]
fn steps_are_a_table_with_a_knee_or_a_reason_why_not() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let server = Server::start(Manner::AnswersAfter(Duration::from_millis(10), answer));
    let steps = ["--sweep", "1..8", "--steps", "4", "-d", "4s"];
    let report = lagtrace(
        ["load", &server.url(), "--format", "json"]
            .iter()
            .chain(&steps),
    );
    let report = report.expect(0).json();
    let sweep = &report["sweep"];
    let connections = sweep["steps"].as_array().unwrap().iter();
    let connections = connections.map(|step| step["connections"].as_u64().unwrap());
    assert_eq!(connections.collect::<Vec<_>>(), [1, 2, 4, 8]);
    assert!(
        sweep["knee"].is_u64() || sweep["remark"].is_string(),
        "{sweep:#}"
    );
    let text = lagtrace([
        "load",
        &server.url(),
        "--ramp",
        "20..60",
        "--steps",
        "2",
        "-d",
        "2s",
    ]);
    let text = text.expect(0).stdout;
    assert!(
        text.contains("offered/s") && text.contains("too few steps"),
        "{text}"
    );
    let short = lagtrace(["load", &server.url(), "--ramp", "1..9", "-d", "1s"]).expect(2);
    assert!(
        short.stderr.contains("half a second for each step"),
        "{short:#?}"
    );
}

#[test]
fn a_log_of_histograms_is_written() {
    let server = Server::start(OK);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("latencies.hlog");
    let path = path.to_str().unwrap();
    load(&server.url(), &["-c", "2", "--hdr", path]).expect(0);
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("#[StartTime: "), "{text}");
    let lines = text.lines().filter(|line| line.contains(",HISTFAAA"));
    assert!(lines.count() >= 1, "{text}");
}

/// Reads one request; returns its head and body.
fn request(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    next_request(&mut BufReader::new(stream))
}

/// Reads one request, from a reader that may contain further requests; returns its head and body.
fn next_request(reader: &mut impl std::io::BufRead) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

#[test]
fn method_fields_and_body_arrive_as_they_were_given() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/order?n=1", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let first = request(&stream);
        while {
            let ok = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(ok).is_ok() && request(&stream).is_some()
        } {}
        first
    });
    let directory = tempfile::tempdir().unwrap();
    let body = directory.path().join("order.json");
    fs::write(&body, "{\"n\": 1}").unwrap();
    let options = [
        "-c",
        "1",
        "-X",
        "PUT",
        "--yes",
        "-H",
        "Content-Type: application/json",
    ];
    let options = options
        .iter()
        .copied()
        .chain(["--body", body.to_str().unwrap()]);
    let options: Vec<&str> = options.collect();
    let report = load(&url, &options).expect(0).json();
    assert_eq!(report["load"]["outcomes"][0]["status"], "201");
    let (head, body) = server.join().unwrap().expect("a request");
    assert!(head.starts_with("PUT /order?n=1 HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("\r\nContent-Type: application/json\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\nUser-Agent: lagtrace/"), "{head}");
    assert_eq!(body, b"{\"n\": 1}");
}

#[test]
fn stamps_say_where_the_time_went() {
    let server = Server::start(Manner::AnswersAfter(Duration::from_millis(20), HELLO));
    let url = server.url();
    let report = load_for_a_second(&url, &["-c", "2", "--stamps"])
        .expect(0)
        .json();
    let stages = &report["load"]["stages"];
    assert_eq!(stages["largest"], "server", "{stages:#}");
    assert!(stages["requests"].as_u64() > Some(20), "{stages:#}");
    let arguments = ["load", &url, "-d", "1s", "-c", "2", "--stamps"];
    let text = lagtrace(arguments).expect(0).stdout;
    assert!(text.contains("Most of the time went to: server"), "{text}");
    let secured = url.replace("http://", "https://");
    let run = lagtrace(["load", &secured, "-k", "-d", "1s", "--stamps"]).expect(2);
    assert!(run.stderr.contains("clear text"), "{run:#?}");
}

#[test]
fn several_urls_are_asked_by_weight_and_told_apart() {
    // The status depends on the path, and is 403 without the cookie.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            thread::spawn(move || {
                while let Some((head, _)) = next_request(&mut reader) {
                    let status = match head.split(' ').nth(1) {
                        _ if !head.contains("\r\nCookie: a=1; b=2\r\n") => "403 No",
                        Some("/slow") => {
                            sleep(Duration::from_millis(40));
                            "200 OK"
                        }
                        Some("/none") => "404 None",
                        _ => "200 OK",
                    };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("urls");
    fs::write(&file, "# the rest\n2@/slow\n\n/none\n").unwrap();
    let first = format!("7@http://{address}/");
    let arguments = [
        "load",
        &first,
        "--urls",
        file.to_str().unwrap(),
        "-n",
        "100",
    ];
    let more = ["-c", "2", "-t", "1", "-b", "a=1; b=2", "--format", "json"];
    let single = lagtrace(arguments.iter().chain(&more)).expect(1).json();
    let piped = ["--pipeline", "3"];
    let piped = lagtrace(arguments.iter().chain(&more).chain(&piped))
        .expect(1)
        .json();
    for report in [single, piped] {
        let run = &report["load"];
        assert_eq!(
            (&run["responses"], &run["failed"]),
            (&100.into(), &0.into())
        );
        let urls = run["urls"].as_array().unwrap();
        let seen: Vec<_> = urls
            .iter()
            .map(|url| (url["weight"].as_u64(), url["responses"].as_u64()))
            .collect();
        assert_eq!(
            seen,
            [
                (Some(7), Some(70)),
                (Some(2), Some(20)),
                (Some(1), Some(10))
            ]
        );
        assert_eq!(urls[2]["outcomes"][0]["status"], "404");
        assert_eq!(urls[1]["url"], format!("http://{address}/slow"));
        let slow = urls[1]["latency_ns"]["p50"].as_u64();
        assert!(slow >= Some(40_000_000), "{run:#}");
    }
    let other = ["load", &first, "http://127.0.0.2:9/", "-d", "1s"];
    let run = lagtrace(other).expect(2);
    assert!(
        run.stderr.contains("another scheme, host or port"),
        "{run:#?}"
    );
    let text = lagtrace(arguments.iter().chain(&["-b", "a=1; b=2"]))
        .expect(1)
        .stdout;
    assert!(text.contains("URLs") && text.contains("/slow"), "{text}");
}

#[test]
fn each_connection_keeps_the_cookies_that_it_is_given() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let numbers: &'static AtomicU64 = Box::leak(Box::default());
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            thread::spawn(move || {
                // A connection's first request has only the cookie of `-b`, and the response sets
                // another one.
                let number = numbers.fetch_add(1, Ordering::SeqCst);
                let mut expected = "\r\nCookie: seen=0\r\n".to_owned();
                for count in 0.. {
                    let Some((head, _)) = next_request(&mut reader) else {
                        return;
                    };
                    let status = if head.contains(&expected) {
                        "200 OK"
                    } else {
                        "403 No"
                    };
                    let field = format!("seen={count}.{number}");
                    expected = format!("\r\nCookie: {field}\r\n");
                    let answer = format!(
                        "HTTP/1.1 {status}\r\nset-cookie: {field}; Path=/; HttpOnly\r\n\
                         Content-Length: 0\r\n\r\n"
                    );
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let arguments = ["load", &url, "-n", "60", "-c", "3", "-b", "seen=0"];
    let json = ["--format", "json"];
    let kept = ["--cookies"];
    let run = lagtrace(arguments.iter().chain(&json).chain(&kept)).expect(0);
    let report = run.json();
    assert_eq!(report["load"]["outcomes"][0]["status"], "200");
    assert_eq!(report["load"]["responses"], 60);
    // Without `--cookies`, all requests but the first of each connection have the wrong cookie.
    let report = lagtrace(arguments.iter().chain(&json)).expect(1).json();
    assert_eq!(report["load"]["outcomes"][1]["status"], "403");
}

#[test]
fn a_number_of_requests_ends_it_and_the_report_says_how_it_was_made() {
    let server = Server::start(OK);
    let options = [
        "load",
        &server.url(),
        "-c",
        "8",
        "-n",
        "50",
        "--format",
        "json",
    ];
    let more = ["--rcvbuf", "8192", "--source", "127.0.0.1"];
    let report = lagtrace(options.iter().chain(&more)).expect(0).json();
    let run = &report["load"];
    assert_eq!((&run["responses"], &run["failed"]), (&50.into(), &0.into()));
    let transport = &run["transport"];
    assert_eq!(transport["protocol"], "HTTP/1.1");
    assert_eq!(transport["sources"][0], "127.0.0.1");
    let options = transport["options"].to_string();
    assert!(options.contains("SO_RCVBUF 8192"), "{options}");
    let run = lagtrace([
        "load",
        "http://127.0.0.1:9/",
        "--unix-socket",
        "no/such.sock",
    ]);
    assert!(run.expect(2).stderr.contains("no/such.sock"));
    let run = lagtrace(["load", "http://127.0.0.1:9/", "--streams", "4"]);
    assert!(run.expect(2).stderr.contains("--http2"));
}

#[test]
fn a_fresh_connection_for_each_request() {
    let server = Server::start(OK);
    let report = load(&server.url(), &["-c", "2", "--fresh"])
        .expect(0)
        .json();
    let run = &report["load"];
    assert!(
        run["connects"].as_u64() >= run["responses"].as_u64(),
        "{run:#}"
    );
}

#[test]
fn what_would_be_too_much_has_to_be_asked_for() {
    for (options, told) in [
        (&["-c", "3000"][..], "3,000 connections are more than 2,000"),
        (
            &["--rate", "30000"],
            "30,000 requests per second are more than",
        ),
        (&["-X", "B REW"], "not a method that lagtrace can send"),
        (&["-H", "no field"], "header field 1 has no colon"),
        (&["--body", "no/such/file"], "read no/such/file"),
        (&["-d", "1s", "--warm-up", "1s"], "the whole duration"),
        (
            &["-c", "30", "--http2", "--streams", "100"],
            "3,000 concurrent requests",
        ),
        (
            &["-c", "1001", "--pipeline", "2"],
            "2,002 concurrent requests",
        ),
        (
            &["--sweep", "1..256", "--pipeline", "10"],
            "2,560 concurrent requests",
        ),
        (
            &["--hdr", "no/such/folder/l.hlog", "-d", "1h"],
            "write no/such/folder",
        ),
    ] {
        let arguments = ["load", "http://127.0.0.1:9/"];
        let run = lagtrace(arguments.iter().chain(options)).expect(2);
        assert!(run.stderr.contains(told), "{told}: {run:#?}");
    }
    for options in [["-c", "2001"], ["--rate", "20001"]] {
        let arguments = ["diagnose", "http://127.0.0.1:9/"];
        let run = lagtrace(arguments.iter().chain(&options)).expect(2);
        assert!(run.stderr.contains("add --heavy"), "{run:#?}");
    }
}

#[test]
fn a_limit_of_open_files_is_named() {
    let script = "ulimit -n 40 && exec \"$0\" load http://127.0.0.1:9/ -c 30";
    let mut command = Command::new("bash");
    let run = command.args(["-c", script]).arg(program()).output();
    let run = run.expect("bash runs");
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{told}");
    assert!(told.contains("30 connections need 94 open files"), "{told}");
    assert!(
        told.contains("may have 40") && told.contains("ulimit"),
        "{told}"
    );
}

#[test]
fn ctrl_c_ends_it_with_what_was_measured() {
    let server = Server::start(OK);
    let url = server.url();
    let arguments = ["load", &url, "-c", "2", "-d", "60s", "--warm-up", "0s"];
    let run = Streamed::start(arguments.iter().chain(&["--format", "json"]));
    server.answers(50);
    run.interrupt();
    let run = run.end();
    // The interrupt may cut off requests in flight, which then fail.
    assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
    let report = run.json();
    assert!(report["load"]["responses"].as_u64() > Some(0));
    assert!(notes(&report).contains(&"interrupted"), "{report:#}");
}

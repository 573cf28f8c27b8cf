//! What services carry, and the load that the investigation puts on them.

use std::cell::Cell;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lagtrace_trial::live;
use serde_json::Value;

use super::program::{findings, has_root, has_tool, lagtrace, notes};
use super::server::{Manner, Server};
use super::started::Started;

/// The longest stall of the machine that the levels of load tolerate.
const STALL: Duration = Duration::from_millis(20);
/// The share of the time for which the machine may stall.
const SHARE: f64 = 0.02;
/// The duration from which on an investigation of 2 s has no time for an experiment of 0.8 s: it may
/// take 5 s more than its load.
const LATE: Duration = Duration::from_millis(6_200);
/// A server that takes 25 ms for each request, one at a time. It is a process of its own: what other
/// tests start belongs to the process of the tests.
const IN_TURN: &str = r#"
import http.server, sys, threading, time
TURN = threading.Lock()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        with TURN:
            time.sleep(0.025)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    def log_message(self, *_):
        pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn diagnose(server: &Server, load: [&str; 4]) -> Value {
    let url = server.url();
    let command = ["diagnose", &url, "-q", "--format", "json"];
    lagtrace(command.into_iter().chain(load)).json()
}

#[test]
fn a_service_that_answers_one_at_a_time_is_judged_with_few_connections() {
    const TEST: &str = "a_service_that_answers_one_at_a_time_is_judged_with_few_connections";
    if !has_root(TEST) || !has_tool(TEST, "python3") {
        return;
    }
    live(TEST).alone().standstill(STALL).share(SHARE).run(|| {
        let server = Started::python(IN_TURN, &[]);
        let report = server.diagnose(&["-q", "-c", "100", "-d", "4s"]);
        let capacity = &report["capacity"];
        assert_eq!(capacity["is_saturated"], true, "{capacity:#}");
        assert_eq!(capacity["limit"], "workers", "{capacity:#}");
        // The pause alone allows 40 per second; a busy machine makes it longer.
        let rate = capacity["rate"].as_f64().unwrap();
        assert!((15.0..46.0).contains(&rate), "{capacity:#}");
        let at_once = capacity["served_at_once"].as_f64().unwrap();
        assert!((0.5..1.5).contains(&at_once), "{capacity:#}");
        let judged = capacity["judged_connections"].as_u64().unwrap();
        assert!((2..50).contains(&judged), "{capacity:#}");
        assert_eq!(report["load"]["connections"], judged);
        assert_eq!(report["exchanges"]["timeouts"], 0);
        assert_eq!(findings(&report)[0], "worker-saturation", "{report:#}");
        assert!(!notes(&report).contains(&"not-worked-off"), "{report:#}");
    });
}

#[test]
fn a_service_that_carries_the_load_is_judged_with_it() {
    const TEST: &str = "a_service_that_carries_the_load_is_judged_with_it";
    if !has_root(TEST) {
        return;
    }
    live(TEST).alone().standstill(STALL).share(SHARE).run(|| {
        let server = Server::start(Manner::AnswersAfter(Duration::from_millis(20), ANSWER));
        let report = diagnose(&server, ["-c", "12", "-d", "2s"]);
        let capacity = &report["capacity"];
        assert_eq!(capacity["is_saturated"], false, "{capacity:#}");
        assert_eq!(capacity["judged_connections"], 12, "{capacity:#}");
        assert_eq!(capacity["limit"], Value::Null);
        assert!(capacity["levels"].as_array().unwrap().len() >= 3);
    });
}

/// Ninety requests whose clients have given up keep the server busy for 2.25 s, longer than the time
/// that a request is allowed.
#[test]
fn a_service_that_works_off_earlier_requests_is_waited_for() {
    const TEST: &str = "a_service_that_works_off_earlier_requests_is_waited_for";
    if !has_root(TEST) {
        return;
    }
    live(TEST).alone().standstill(STALL).share(SHARE).run(|| {
        let server = Server::start(Manner::AnswersInTurn(Duration::from_millis(25), ANSWER));
        for _ in 0..90 {
            let mut client = TcpStream::connect(server.address()).unwrap();
            client
                .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap();
        }
        let report = diagnose(&server, ["-c", "20", "-d", "2s"]);
        assert!(notes(&report).contains(&"settled-late"), "{report:#}");
        assert!(!findings(&report).contains(&"no-response"), "{report:#}");
        assert_eq!(report["exchanges"]["timeouts"], 0);
        let rate = report["capacity"]["rate"].as_f64().unwrap();
        assert!((15.0..46.0).contains(&rate), "{report:#}");
    });
}

#[test]
fn experiments_send_no_more_than_the_service_carried() {
    const TEST: &str = "experiments_send_no_more_than_the_service_carried";
    if !has_root(TEST) {
        return;
    }
    // A slow machine needs all the time that experiments may take for what comes before them.
    let is_late = Cell::new(false);
    let reason = || is_late.get().then(|| "no time was left".to_owned());
    let trial = live(TEST).alone().standstill(STALL).share(SHARE);
    trial.void_if(&reason).run(|| {
        let parts: [&[u8]; 2] = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"hello"];
        let server = Server::start(Manner::AnswersApart(Duration::ZERO, parts));
        let begun = Instant::now();
        let report = diagnose(&server, ["-c", "3", "-d", "2s"]);
        let (sent, load) = (&report["sent"], &report["load"]);
        let in_experiments = sent["in_experiments"].as_f64().unwrap();
        is_late.set(in_experiments == 0.0 && begun.elapsed() >= LATE);
        assert!(in_experiments > 0.0, "{sent:#}");
        let experiments = report["experiments"].as_array().unwrap();
        let turns: f64 = experiments
            .iter()
            .map(|one| one["alternations"].as_f64().unwrap())
            .sum();
        // A turn takes at most 0.34 s, with as many requests as in the load.
        let most = turns * 2.0 * 0.34 * load["rate"].as_f64().unwrap();
        assert!(in_experiments <= most * 1.2 + 20.0, "{sent:#} {most}");
        assert!(sent["all"].as_f64().unwrap() > in_experiments);
    });
}

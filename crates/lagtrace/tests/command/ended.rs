//! Watched processes that end during the watch, and others that live.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use lagtrace_trial::{free_port, seed};

use super::draw::Draw;
use super::program::{Run, has_root, has_tool};
use super::streamed::Streamed;

/// The id of the note on a process that has ended.
const NOTE: &str = "watched-process-ended";

/// A server in a process of its own, which is ended on drop.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    fn start() -> Self {
        let port = free_port();
        let mut python = Command::new("python3");
        python.args([
            "-m",
            "http.server",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
        ]);
        let child = python.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let served = Self {
            child: child.unwrap(),
            port,
        };
        while served.ask().is_err() {
            sleep(Duration::from_millis(20));
        }
        served
    }

    fn ask(&self) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        stream.read_to_end(&mut Vec::new()).map(|_| ())
    }

    /// Starts to watch what these arguments name, and returns when a request was seen.
    fn watched(&self, arguments: &[&str]) -> Streamed {
        let mut watching = Streamed::start([&["watch", "--format", "ndjson"], arguments].concat());
        watching.provoke(|| self.ask().unwrap(), |line| line.contains("latency_ns"));
        watching
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}

fn may_run(test: &str) -> bool {
    has_root(test) && has_tool(test, "python3")
}

/// Returns the lines of the report that tell of an end.
fn told(run: &Run) -> Vec<&str> {
    run.stdout
        .lines()
        .filter(|line| line.contains(NOTE))
        .collect()
}

#[test]
fn the_end_of_a_watched_process_is_told() {
    const TEST: &str = "the_end_of_a_watched_process_is_told";
    if !may_run(TEST) {
        return;
    }
    let mut draw = Draw::new(seed(), TEST);
    for is_by_number in [true, false] {
        let mut served = Served::start();
        let [pid, port] = [served.child.id(), served.port.into()].map(|it| it.to_string());
        let mut watching = served.watched(&if is_by_number {
            ["--pid", &pid]
        } else {
            ["-p", &port]
        });
        sleep(Duration::from_millis(draw.from(0, 500).unsigned_abs()));
        served.end();
        let who = format!("rocess {pid} (python3)");
        watching.until(|line| line.contains(&who) && line.contains("ended at"));
        watching.interrupt();
        let run = watching.end().expect(0);
        let told = told(&run);
        assert_eq!(told.len(), 1, "{run:#?}");
        assert!(
            told[0].contains(&who) && told[0].contains("after the watch began"),
            "{told:?}"
        );
        let hint = if is_by_number {
            "(-p)"
        } else {
            "if others listen there"
        };
        assert!(told[0].contains(hint), "{told:?}");
    }
}

#[test]
fn a_watched_process_that_lives_is_not_told_of() {
    const TEST: &str = "a_watched_process_that_lives_is_not_told_of";
    if !may_run(TEST) {
        return;
    }
    let served = Served::start();
    let [pid, port] = [served.child.id(), served.port.into()].map(|it| it.to_string());
    for watched in [["--pid", &pid], ["-p", &port]] {
        let watching = served.watched(&watched);
        // Another process that ends is nobody's concern.
        drop(Served::start());
        watching.interrupt();
        let run = watching.end().expect(0);
        assert!(run.stdout.contains("latency_ns"), "{run:#?}");
        assert_eq!(told(&run), Vec::<&str>::new());
        assert!(!run.stderr.contains("ended at"), "{run:#?}");
    }
}

//! Diagnoses of real servers whose options and calls name the line to change: Python's own server
//! with and without TCP_NODELAY, gunicorn with its workers on the command line, and haproxy with
//! another root directory than that of its configuration.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lagtrace_trial::{free_port, live, watch_server};
use serde_json::Value;

use super::lab::until;
use super::program::{findings, has_root, has_tool, lagtrace};

/// The longest stall of the machine that a count of requests in service tolerates.
const STALL: Duration = Duration::from_millis(20);
/// The share of the time for which the machine may stall.
const SHARE: f64 = 0.02;
/// A server that writes head and body apart, with or without TCP_NODELAY.
const APART: &str = r#"
import http.server, sys, time
IS_PROMPT = sys.argv[2] == "nodelay"
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = IS_PROMPT
    def do_GET(self):
        body = b"x" * 569
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if IS_PROMPT:
            time.sleep(0.044)
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// An application that takes 50 ms, all of it asleep.
const SLOW: &str = "
import time
def app(environ, start):
    time.sleep(0.05)
    start('200 OK', [('Content-Length', '2')])
    return [b'ok']
";

/// The causes of busy workers: the second if the kernel saw the requests wait unread.
const BUSY: [&str; 2] = ["worker-saturation", "socket-queue-dwell"];

/// A server that ends when it is dropped.
pub(super) struct Started {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Started {
    /// Starts the command that `command` returns for a folder and a port.
    fn new(command: impl FnOnce(&Path, u16) -> Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut command = command(folder.path(), port);
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        until("the server listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        watch_server(child.id());
        Self {
            child,
            port,
            folder,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Starts a script of Python with its port and these arguments.
    pub(super) fn python(script: &str, arguments: &[&str]) -> Self {
        Self::new(|folder, port| {
            let file = folder.join("server.py");
            fs::write(&file, script).unwrap();
            let mut command = Command::new("python3");
            command.arg(file).arg(port.to_string()).args(arguments);
            command
        })
    }

    fn gunicorn(arguments: &[&str], file: &str) -> Self {
        Self::new(|folder, port| {
            fs::write(folder.join("slow.py"), SLOW).unwrap();
            fs::write(folder.join("gunicorn.conf.py"), file).unwrap();
            let mut command = Command::new("gunicorn");
            command.current_dir(folder).args(arguments);
            command.arg("-b").arg(format!("127.0.0.1:{port}"));
            command.arg("slow:app");
            command
        })
    }

    /// A haproxy as Debian's service starts it: a master, and a worker that has changed its root
    /// directory and its user.
    fn haproxy() -> Self {
        Self::new(|folder, port| {
            let inside = folder.join("inside");
            fs::create_dir(&inside).unwrap();
            let text = format!(
                "global\n  chroot {}\n  user nobody\ndefaults\n  mode http\n  option httpclose\n  \
                 timeout connect 5s\n  timeout client 5s\n  timeout server 5s\nfrontend all\n  \
                 bind 127.0.0.1:{port}\n  http-request return status 200\n",
                inside.display()
            );
            fs::write(folder.join("haproxy.cfg"), text).unwrap();
            let mut command = Command::new("haproxy");
            command.current_dir(folder).stdout(Stdio::null());
            command.args(["-W", "-f", "haproxy.cfg"]);
            command
        })
    }

    pub(super) fn diagnose(&self, options: &[&str]) -> Value {
        let url = format!("http://127.0.0.1:{}/", self.port);
        let arguments = ["diagnose", &url, "--format", "json"];
        lagtrace(arguments.iter().chain(options)).json()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // SIGTERM lets gunicorn end its workers.
        let process = self.child.id().to_string();
        Command::new("kill").arg(process).status().ok();
        self.child.wait().ok();
    }
}

/// Returns the first finding with one of these causes.
fn found<'a>(report: &'a Value, causes: &[&str]) -> &'a Value {
    let mut all = report["findings"].as_array().unwrap().iter();
    let found = all.find(|finding| causes.iter().any(|cause| finding["cause"] == *cause));
    found.unwrap_or_else(|| panic!("none of {causes:?}: {report:#}"))
}

/// Returns the texts of a finding's evidence of one kind.
fn evidence<'a>(finding: &'a Value, kind: &str) -> Vec<&'a str> {
    let all = finding["evidence"].as_array().unwrap();
    let of = all.iter().filter(|piece| piece["kind"] == kind);
    of.map(|piece| piece["text"].as_str().unwrap()).collect()
}

#[test]
fn a_server_that_never_sets_tcp_nodelay_is_named_with_its_process() {
    const TEST: &str = "a_server_that_never_sets_tcp_nodelay_is_named_with_its_process";
    if !has_root(TEST) || !has_tool(TEST, "python3") {
        return;
    }
    let server = Started::python(APART, &["nagle"]);
    let report = server.diagnose(&["-c", "4", "-d", "2s"]);
    let finding = found(&report, &["nagle-delayed-ack"]);
    assert_eq!(finding["verdict"], "proven", "{finding:#}");
    let told = evidence(finding, "foreign-socket").join("\n");
    let program = format!("python3[{}] accepted", server.child.id());
    assert!(
        told.contains(&program) && told.contains("TCP_NODELAY on none of them"),
        "{finding:#}"
    );
}

#[test]
fn a_pause_of_a_server_with_tcp_nodelay_is_no_delayed_ack() {
    const TEST: &str = "a_pause_of_a_server_with_tcp_nodelay_is_no_delayed_ack";
    if !has_root(TEST) || !has_tool(TEST, "python3") {
        return;
    }
    let server = Started::python(APART, &["nodelay"]);
    let report = server.diagnose(&["-c", "4", "-d", "2s"]);
    assert!(
        !findings(&report).contains(&"nagle-delayed-ack"),
        "{report:#}"
    );
}

#[test]
fn workers_are_named_by_the_command_line_or_the_file_that_sets_them() {
    const TEST: &str = "workers_are_named_by_the_command_line_or_the_file_that_sets_them";
    if !has_root(TEST) || !has_tool(TEST, "gunicorn") {
        return;
    }
    live(TEST).alone().standstill(STALL).share(SHARE).run(|| {
        // The levels of load take a part of the time, and the rest must show how many are in service.
        let options = ["-c", "8", "-d", "10s"];
        let threads = ["-k", "gthread", "--threads", "2"];
        let server = Started::gunicorn(&threads, "");
        let report = server.diagnose(&options);
        let finding = found(&report, &BUSY);
        let pid = server.child.id();
        let place = format!("command line of pid {pid}");
        assert!(
            evidence(finding, "configuration")
                .iter()
                .any(|text| text.contains("gunicorn has `--threads 2`")),
            "{finding:#}"
        );
        let mut fixes = finding["fix"].as_array().unwrap().iter();
        assert!(fixes.any(|fix| fix["where"] == place), "{finding:#}");
        drop(server);
        let server = Started::gunicorn(&threads[..2], "threads = 2\n");
        let report = server.diagnose(&options);
        let finding = found(&report, &BUSY);
        let file = server.folder.path().join("gunicorn.conf.py");
        let place = format!("{}:1", file.display());
        let mut fixes = finding["fix"].as_array().unwrap().iter();
        assert!(fixes.any(|fix| fix["where"] == place), "{finding:#}");
    });
}

#[test]
fn workers_that_are_not_the_limit_are_not_accused() {
    const TEST: &str = "workers_that_are_not_the_limit_are_not_accused";
    if !has_root(TEST) || !has_tool(TEST, "gunicorn") {
        return;
    }
    let server = Started::gunicorn(&["-k", "gthread", "--threads", "16"], "");
    let report = server.diagnose(&["-c", "4", "-d", "2s"]);
    let all = report["findings"].as_array().unwrap();
    for finding in all {
        assert!(evidence(finding, "configuration").is_empty(), "{finding:#}");
    }
}

#[test]
fn a_configuration_outside_the_root_of_its_server_is_read() {
    const TEST: &str = "a_configuration_outside_the_root_of_its_server_is_read";
    if !has_root(TEST) || !has_tool(TEST, "haproxy") {
        return;
    }
    let server = Started::haproxy();
    let report = server.diagnose(&["-c", "2", "-d", "1s"]);
    let all = report["configuration"].as_array().unwrap();
    let closes = |line: &&Value| line["directive"] == "option httpclose";
    let line = all.iter().find(closes);
    let line = line.unwrap_or_else(|| panic!("{report:#}"));
    let file = server.folder.path().join("haproxy.cfg");
    assert_eq!(line["set_at"], format!("{}:6", file.display()), "{line:#}");
    assert_eq!(line["value"], "on", "{line:#}");
}

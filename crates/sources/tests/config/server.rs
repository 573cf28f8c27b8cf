//! A real nginx for tests. It has its own prefix, uses only loopback addresses, and is ended by its
//! PID.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Maximum time for nginx to start or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns true if nginx is installed. Otherwise prints a message, or fails if no test may be
/// skipped.
pub(crate) fn is_available() -> bool {
    program().is_some() || skip("nginx")
}

/// Returns the path of nginx. It also searches directories that are often missing in a user's
/// `PATH`.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|directory| directory.join("nginx"))
        .find(|program| program.is_file())
}

/// Prints that a test needs `what`, or fails if no test may be skipped. Always returns `false`.
pub(crate) fn skip(what: &str) -> bool {
    assert!(
        std::env::var_os("LAGTRACE_REQUIRE_ALL").is_none(),
        "needs {what}"
    );
    println!("skipped: needs {what}");
    false
}

/// Returns true if this host has an IPv6 loopback address.
pub(crate) fn has_ipv6() -> bool {
    TcpListener::bind(("::1", 0)).is_ok()
}

/// Creates a directory for an nginx, with subdirectories and without configuration.
pub(crate) fn directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["temp", "html/dir"] {
        fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    for name in ["html/index.html", "html/dir/index.html", "html/page.php"] {
        fs::write(directory.path().join(name), "a page\n").unwrap();
    }
    directory
}

/// Returns the main file with these contents of `http`.
pub(crate) fn main_file(directory: &Path, http: &str) -> String {
    let path = directory.display();
    format!(
        "worker_processes 1;\npid {path}/nginx.pid;\nevents {{ worker_connections 64; }}\nhttp {{\n\
         client_body_temp_path {path}/temp/a; proxy_temp_path {path}/temp/b;\n\
         fastcgi_temp_path {path}/temp/c; uwsgi_temp_path {path}/temp/d;\n\
         scgi_temp_path {path}/temp/e;\naccess_log off; root {path}/html;\n{http}\n}}\n"
    )
}

/// A running nginx. Dropping it ends it.
pub(crate) struct Nginx {
    child: Child,
}

impl Nginx {
    /// Starts nginx in the foreground and waits until it is ready: it writes its PID file after
    /// binding its sockets.
    pub(crate) fn start(mut command: Command, directory: &Path) -> Self {
        let log = directory.join("error.log");
        let pid = directory.join("nginx.pid");
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.join("stderr.log")).unwrap())
            .spawn()
            .unwrap();
        let mut nginx = Self { child };
        let deadline = Instant::now() + PATIENCE;
        while fs::read_to_string(&pid).map_or(true, |pid| pid.is_empty()) {
            let ended = nginx.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "nginx did not start: {}{}",
                fs::read_to_string(&log).unwrap_or_default(),
                fs::read_to_string(directory.join("stderr.log")).unwrap_or_default(),
            );
            sleep(Duration::from_millis(10));
        }
        nginx
    }

    /// Starts nginx with this main file and `directory` as its prefix.
    pub(crate) fn on(directory: &Path, conf: &Path) -> Self {
        Self::start(command(directory, conf), directory)
    }

    /// Returns the PID of the master.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the master.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            sleep(Duration::from_millis(5));
        }
    }
}

/// Returns the command that runs nginx in the foreground with this main file.
pub(crate) fn command(directory: &Path, conf: &Path) -> Command {
    let mut command = Command::new(program().unwrap());
    command
        .current_dir(directory)
        .arg("-p")
        .arg(directory)
        .arg("-c")
        .arg(conf)
        .arg("-e")
        .arg(directory.join("error.log"))
        .args(["-g", "daemon off;"]);
    command
}

/// The head of a response.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Status; 0 if the connection ended without a response.
    pub(crate) status: u16,
    /// Value of the last `X-Mark` field.
    pub(crate) mark: Option<String>,
    /// Value of `timeout` in the `Keep-Alive` field, in seconds.
    pub(crate) keep_alive: Option<String>,
}

/// Requests a URI, and reads the head of the response. Without a host, the request uses HTTP/1.0,
/// because later versions require the `Host` field.
pub(crate) fn ask(address: SocketAddr, host: &str, uri: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = match host {
        "" => format!("GET {uri} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        _ => format!("GET {uri} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    };
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    let mut block = [0; 4096];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut block) {
            Ok(0) | Err(_) => break,
            Ok(length) => head.extend_from_slice(&block[..length]),
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let header = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_string())
    };
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    Answer {
        status: status.unwrap_or(0),
        mark: header("X-Mark"),
        keep_alive: header("Keep-Alive").map(|value| value.replace("timeout=", "")),
    }
}

/// Returns the socket address with this IP address and port.
pub(crate) fn address(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse::<IpAddr>().unwrap(), port)
}

/// Writes a file and returns its path.
pub(crate) fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path
}

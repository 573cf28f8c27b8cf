//! A real nginx with its own folder and configuration.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lagtrace_trial::free_port;

/// Length of the served page in bytes, similar to that of nginx's own welcome page.
const PAGE_LEN: usize = 615;

/// A running nginx. Dropping this value ends it.
pub(crate) struct Nginx {
    child: Child,
    pub(crate) port: u16,
    /// A free port for another server in `http_lines`, where it replaces `{other_port}`.
    pub(crate) other_port: u16,
    folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts nginx on 127.0.0.1 and ::1, with `http_lines` in its `http` block. In these lines,
    /// `{folder}` and `{other_port}` are replaced. `{certificate}` is replaced by directives with a
    /// self-signed certificate for localhost. If nginx is missing, prints a message and returns
    /// `None`.
    pub(crate) fn start(http_lines: &str) -> Option<Self> {
        // Another program may have taken a free port before nginx did.
        for _ in 0..5 {
            let mut nginx = Self::spawn(http_lines)?;
            if nginx.wait_until_it_answers() {
                return Some(nginx);
            }
        }
        panic!("nginx does not answer");
    }

    /// Returns the path of the certificate.
    pub(crate) fn certificate(&self) -> std::path::PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// Returns the path of a file in nginx's folder.
    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn spawn(http_lines: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder for nginx");
        let (port, other_port) = (free_port(), free_port());
        let mut lines = http_lines
            .replace("{folder}", &folder.path().display().to_string())
            .replace("{other_port}", &other_port.to_string());
        if lines.contains("{certificate}") {
            lines = lines.replace("{certificate}", &make_certificate(folder.path())?);
        }
        let http_lines = lines.as_str();
        std::fs::write(folder.path().join("page.html"), "x".repeat(PAGE_LEN)).expect("page");
        let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
        let text = configuration(folder.path(), port, has_ipv6, http_lines);
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, text).expect("configuration");
        let child = Command::new("nginx")
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            skip("nginx");
            return None;
        };
        Some(Self {
            child,
            port,
            other_port,
            folder,
        })
    }

    /// Waits until this nginx answers. Returns false if it has ended.
    fn wait_until_it_answers(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if self.child.try_wait().expect("nginx can be asked").is_some() {
                return false;
            }
            if self.answers() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Returns true if a request for the PID file is answered with the PID of this nginx, and not
    /// by another server that has taken the port.
    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return false;
        };
        let request = b"GET /nginx.pid HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        let asked = stream.write_all(request);
        let read = asked.and_then(|()| stream.read_to_string(&mut answer));
        let last = answer.trim_end().rsplit('\n').next();
        read.is_ok() && last == Some(&self.child.id().to_string())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM makes the master end its workers. The PID is valid, because the child has not
        // been reaped.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn configuration(folder: &std::path::Path, port: u16, has_ipv6: bool, http_lines: &str) -> String {
    let folder = folder.display();
    let user = if rustix::process::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    let ipv6 = if has_ipv6 {
        format!("listen [::1]:{port};")
    } else {
        String::new()
    };
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {folder}/{name};"))
        .join("\n");
    format!(
        "{user}
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    {temporary}
    {http_lines}
    server {{
        listen 127.0.0.1:{port};
        {ipv6}
        root {folder};
        index page.html;
    }}
}}
"
    )
}

/// Creates a key and a certificate. Returns the directives that use them.
fn make_certificate(folder: &std::path::Path) -> Option<String> {
    let made = Command::new("openssl")
        .current_dir(folder)
        .args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=test"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        skip("openssl");
        return None;
    }
    let folder = folder.display();
    Some(format!(
        "ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/key.pem;"
    ))
}

/// Prints that a test is skipped; fails if no test may be skipped.
#[allow(clippy::print_stdout)]
pub(crate) fn skip(what: &str) {
    assert!(
        std::env::var_os("LAGTRACE_REQUIRE_ALL").is_none(),
        "needs {what}"
    );
    println!("skipped: needs {what}");
}

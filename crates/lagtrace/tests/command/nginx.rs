//! A real nginx with files of its own.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lagtrace_trial::watch_server;

use super::lab::{children, until};

/// An nginx that ends when it is dropped.
pub(super) struct Nginx {
    child: Child,
    folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts nginx in a folder, with so many workers and with these directives in its `http` block,
    /// which begin in line 4 of its configuration. Waits until it listens.
    pub(super) fn start(folder: tempfile::TempDir, workers: u32, http: &str) -> Self {
        let home = folder.path().display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {home}/{name};"))
            .join(" ");
        let text = format!(
            "user root; daemon off; worker_processes {workers}; pid {home}/pid; error_log {home}/log;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 1000000; {temporary}
{http} }}\n"
        );
        fs::write(folder.path().join("nginx.conf"), text).unwrap();
        let child = Command::new("nginx")
            .arg("-p")
            .arg(folder.path())
            .args(["-c", "nginx.conf"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // nginx writes its PID after it listens.
        let pid = child.id().to_string();
        until("nginx listens", || {
            fs::read_to_string(folder.path().join("pid")).is_ok_and(|text| text.trim() == pid)
        });
        for worker in children(&pid) {
            watch_server(worker.parse().unwrap());
        }
        Self { child, folder }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM makes the master process end its workers.
        let process = self.child.id().to_string();
        Command::new("kill").arg(process).status().ok();
        self.child.wait().ok();
    }
}

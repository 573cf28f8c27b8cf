//! A Redis for a service: its arguments. Redis stores nothing on disk; its log is its standard
//! output.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::program::Program;
use super::service_port::ServicePort;
use crate::error::Error;
use crate::machine::tool;

/// Maximum time from listening on the port to accepting connections on the Unix socket.
const PATIENCE: Duration = Duration::from_secs(5);

/// A Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Redis {
    /// The settings as on the command line, `name value`.
    pub settings: Vec<String>,
    /// The commands that are sent before any client connects, such as `DEBUG POPULATE 1000`.
    pub prepare: Vec<String>,
}

/// Creates the folder of a Redis and returns the program.
pub(super) fn lay(
    folder: &Path,
    service: ServicePort<'_>,
    redis: &Redis,
) -> Result<Program, Error> {
    let home = folder.join(service.name);
    fs::create_dir(&home).map_err(Error::file("create", &home))?;
    let own = [
        format!("port {}", service.port),
        "bind * -::*".to_owned(),
        "protected-mode no".to_owned(),
        format!("unixsocket {}", socket(folder, service).display()),
        format!("dir {}", home.display()),
        "save \"\"".to_owned(),
        "appendonly no".to_owned(),
        "daemonize no".to_owned(),
        "databases 1".to_owned(),
        "enable-debug-command yes".to_owned(),
    ];
    let file = home.join("redis.conf");
    let lines: Vec<String> = own.into_iter().chain(redis.settings.clone()).collect();
    fs::write(&file, lines.join("\n") + "\n").map_err(Error::file("write", &file))?;
    Ok(Program {
        tool: "redis-server",
        arguments: vec![file.display().to_string()],
        user: None,
        ends_by: Signal::KILL,
    })
}

/// Sends a listening Redis its first commands, over its Unix socket and not the network.
pub(super) fn prepare(folder: &Path, service: ServicePort<'_>, redis: &Redis) -> Result<(), Error> {
    if !redis.prepare.is_empty() {
        await_socket(&socket(folder, service));
    }
    for line in &redis.prepare {
        let mut command = tool::command("redis-cli");
        command.arg("-e").arg("-s").arg(socket(folder, service));
        command.args(line.split_whitespace());
        tool::run_with_input(command, "")?;
    }
    Ok(())
}

/// Waits until Redis accepts connections on its Unix socket: it listens on its port first. After
/// [`PATIENCE`], the next command says what is wrong.
fn await_socket(socket: &Path) {
    let begun = Instant::now();
    while UnixStream::connect(socket).is_err() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
}

fn socket(folder: &Path, service: ServicePort<'_>) -> PathBuf {
    folder.join(service.name).join("redis.sock")
}

//! A haproxy for a service: its configuration. Its log is its standard output.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::program::Program;
use super::service_port::ServicePort;
use crate::error::Error;

/// A haproxy with a frontend on the service's port. Lines are haproxy's own configuration,
/// with `{folder}` for the run's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Haproxy {
    /// Lines of the section `defaults`, after `mode http` and timeouts of 30 s.
    pub defaults: Vec<String>,
    /// Lines of the section `frontend`, after its `bind`.
    pub frontend: Vec<String>,
    /// Lines of the section `backend`.
    pub backend: Vec<String>,
}

/// Writes the configuration and returns the program.
pub(super) fn lay(
    folder: &Path,
    service: ServicePort<'_>,
    haproxy: &Haproxy,
) -> Result<Program, Error> {
    let file = folder.join(format!("{}.haproxy.cfg", service.name));
    fs::write(&file, configure(folder, service, haproxy)).map_err(Error::file("write", &file))?;
    Ok(Program {
        tool: "haproxy",
        arguments: vec![
            "-db".to_owned(),
            "-f".to_owned(),
            file.display().to_string(),
        ],
        user: None,
        ends_by: Signal::TERM,
    })
}

fn configure(folder: &Path, service: ServicePort<'_>, haproxy: &Haproxy) -> String {
    let mut text = String::from(
        "global\n    log stdout format raw local0 info\n    maxconn 4096\n    nbthread 2\n\
         defaults\n    mode http\n    log global\n    option httplog\n\
         \x20   timeout connect 30s\n    timeout client 30s\n    timeout server 30s\n",
    );
    let port = service.port;
    let folder = folder.display().to_string();
    for (head, lines) in [
        (String::new(), &haproxy.defaults),
        (
            format!(
                "frontend {}\n    bind :::{port} v4v6\n    default_backend lab\n",
                service.name
            ),
            &haproxy.frontend,
        ),
        ("backend lab\n".to_owned(), &haproxy.backend),
    ] {
        text.push_str(&head);
        for line in lines {
            let _ = writeln!(text, "    {}", line.replace("{folder}", &folder));
        }
    }
    text
}

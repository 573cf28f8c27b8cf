//! Command lines, environments and files of programs from anyone.

use std::path::Path;

use super::{Launch, Server, assigned, environment};

/// Resolves a program's settings. The bytes are its command line, environment and file, separated
/// by two zero bytes each; words are separated by one.
pub fn launch(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, "\0\0");
    let arguments = parts.next().unwrap_or_default();
    let variables = parts.next().unwrap_or_default();
    let file = parts.next().unwrap_or_default();
    let launch = Launch {
        pid: 1,
        arguments: arguments.split('\0').map(str::to_owned).collect(),
        environment: environment(variables.as_bytes()),
        assignments: assigned::assignments(file, Path::new("/app/gunicorn.conf.py"), true),
        doubt: None,
    };
    let known = [
        Server::of(&launch.arguments),
        Server::titled(&launch.arguments),
    ];
    for server in known.into_iter().flatten().chain([Server::Go]) {
        let _ = server.file(&launch.arguments);
        let _ = server.settings(&launch);
    }
}

//! Tests of the configurations in `cases/*.conf`. Each file contains the text of the `http` block,
//! and requests in comments.
//!
//! A case file may contain:
//! - `mark NAME;` at the beginning of a block. It names the block by its first line, and becomes a
//!   response header with which nginx itself reports the block that answered.
//! - `#@ NAME` at the end of a line, which names the line. `MAIN3` is line 3 of the main file.
//! - `PORT1` and `PORT2`, which are replaced by free ports.
//! - Requests in comments:
//!
//! `#? IP PORTn HOST URI => SERVER[/LOCATION] [directive=value@NAME|default]… [doubt=REAL]`
//!
//! `-` means that the host or the server is missing. Without `doubt`, the resolver must be certain,
//! and nginx must agree. With `doubt`, the resolver must not be certain, and `REAL` is the block
//! that answers. In values, `_` stands for a space.

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lagtrace_sources::config::Certainty;
use lagtrace_sources::config::nginx::{Configuration, Master, Request, Resolved};
use lagtrace_trial::free_ports;

use super::server;

/// A case file with its ports filled in, and its names and requests.
struct Case {
    name: String,
    text: String,
    /// Line numbers of the names.
    marks: HashMap<String, u32>,
    requests: Vec<String>,
}

impl Case {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let ports = free_ports(2);
        let mut marks = HashMap::new();
        let mut lines = Vec::new();
        let mut requests = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let mut line = line
                .replace("PORT1", &ports[0].to_string())
                .replace("PORT2", &ports[1].to_string());
            requests.extend(line.trim_start().strip_prefix("#? ").map(String::from));
            if let Some((before, rest)) = line.split_once("mark ") {
                let (name, after) = rest.split_once(';').expect("mark NAME;");
                marks.insert(name.to_string(), number);
                line = format!("{before}add_header X-Mark {name} always;{after}");
            }
            if let Some((_, label)) = line.split_once("#@ ") {
                marks.insert(label.trim().to_string(), number);
            }
            lines.push(line);
        }
        Self {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            text: lines.join("\n"),
            marks,
            requests,
        }
    }

    fn line_of(&self, mark: &str) -> u32 {
        let in_main = mark.strip_prefix("MAIN").and_then(|line| line.parse().ok());
        let marked = self.marks.get(mark).copied();
        let line = in_main.or(marked);
        line.unwrap_or_else(|| panic!("{}: no mark {mark}", self.name))
    }
}

/// Returns all case files.
fn all() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/cases");
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "conf"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths.iter().map(|path| Case::read(path)).collect()
}

/// Checks the resolver's result against the words after `=>`.
fn check(case: &Case, request: &str, resolved: &Resolved) {
    let context = format!("{}: {request}\n{resolved:#?}", case.name);
    let (_, expected) = request.split_once(" => ").expect("=>");
    let mut words = expected.split_whitespace();
    let blocks = words.next().expect("blocks");
    let (server, location) = blocks.split_once('/').unwrap_or((blocks, ""));
    let found = resolved.server.as_ref().map(|server| server.at.line);
    let wanted = (server != "-").then(|| case.line_of(server));
    assert_eq!(found, wanted, "server, {context}");
    let found = resolved.location.as_ref().map(|location| location.at.line);
    let wanted = (!location.is_empty()).then(|| case.line_of(location));
    assert_eq!(found, wanted, "location, {context}");
    let mut is_sure = true;
    for word in words {
        if word.starts_with("doubt=") {
            is_sure = false;
            continue;
        }
        let (directive, rest) = word.split_once('=').expect("directive=value@place");
        let (value, place) = rest.rsplit_once('@').expect("directive=value@place");
        let matching = resolved.settings.iter().filter(|setting| {
            let line = setting.set_at.as_ref().map(|at| at.line);
            setting.directive.replace(' ', "_") == directive
                && setting.value.replace(' ', "_") == value
                && line == (place != "default").then(|| case.line_of(place))
        });
        assert_eq!(matching.count(), 1, "{word}, {context}");
    }
    let sure = resolved.certainty == Certainty::Exact;
    assert_eq!(sure, is_sure, "certainty, {context}");
}

/// Returns the address, the host and the URI of a request.
fn parts(request: &str) -> (SocketAddr, &str, &str) {
    let mut words = request.split_whitespace();
    let ip = words.next().expect("address");
    let port = words.next().expect("port").parse().unwrap();
    let host = words.next().expect("host");
    let uri = words.next().expect("URI");
    let host = if host == "-" { "" } else { host };
    (server::address(ip, port), host, uri)
}

fn resolve(configuration: &Configuration, request: &str) -> Resolved {
    let (address, host, uri) = parts(request);
    configuration.resolve(&Request {
        local_addr: Some(address.ip()),
        port: address.port(),
        host,
        uri,
    })
}

#[test]
fn the_tables_hold_without_nginx() {
    for case in all() {
        let directory = server::directory();
        server::write(directory.path(), "case.conf", &case.text);
        let main = server::main_file(directory.path(), "include case.conf;");
        let main = server::write(directory.path(), "nginx.conf", &main);
        let configuration = Configuration::from_file(&main).unwrap();
        for request in &case.requests {
            check(&case, request, &resolve(&configuration, request));
        }
    }
}

#[test]
fn nginx_itself_answers_as_the_tables_say() {
    if !server::is_available() {
        return;
    }
    for case in all() {
        let has_ipv6 = case.text.contains("[::");
        if has_ipv6 && !server::has_ipv6() {
            server::skip("an IPv6 loopback");
            continue;
        }
        let directory = server::directory();
        server::write(directory.path(), "case.conf", &case.text);
        let main = server::main_file(directory.path(), "include case.conf;");
        let main = server::write(directory.path(), "nginx.conf", &main);
        let nginx = server::Nginx::on(directory.path(), &main);
        let configuration = Configuration::read(&Master::find(nginx.pid()).unwrap()).unwrap();
        for request in &case.requests {
            let resolved = resolve(&configuration, request);
            check(&case, request, &resolved);
            compare(&case, request, &resolved);
        }
    }
}

/// Sends a request to nginx, and checks which block answers.
fn compare(case: &Case, request: &str, resolved: &Resolved) {
    let (address, host, uri) = parts(request);
    let (_, expected) = request.split_once(" => ").expect("=>");
    if expected.starts_with('-') {
        return;
    }
    let answer = server::ask(address, host, uri);
    let context = format!("{}: {request}: {answer:?}", case.name);
    let real = expected
        .split_whitespace()
        .find_map(|word| word.strip_prefix("doubt="));
    let blocks = expected.split_whitespace().next().expect("blocks");
    let named = real.unwrap_or_else(|| blocks.rsplit('/').next().expect("one"));
    assert_eq!(answer.mark.as_deref(), Some(named), "{context}");
    if real.is_none() && answer.status != 400 {
        let timeout = resolved.setting("keepalive_timeout").unwrap();
        let header = timeout.value.split(' ').nth(1);
        assert_eq!(answer.keep_alive.as_deref(), header, "{context}");
    }
}

//! The server's own configuration, as its program resolves it for the URL.

use lagtrace_core::observed::event::{ConfigurationLine, Event, EventBody, Note, Phase, TargetId};
use lagtrace_core::observed::time::Timestamp;
use lagtrace_sources::config::launch;
use lagtrace_sources::config::nginx::{self, Master, Request, Resolved};
use lagtrace_sources::config::program::{self, Program};
use lagtrace_sources::config::{self};
use lagtrace_sources::load::Target;
use lagtrace_sources::socket::foreign::{Server, ServerProcess};

use super::Investigation;
use crate::clock;
use crate::failure::{Failure, Result};

/// The step's name.
const STEP: &str = "configuration";
/// Maximum number of settings in the outcome line.
const SHOWN: usize = 4;

impl Investigation<'_> {
    /// Reads the configuration of each target whose program runs on this host.
    pub(super) fn configuration(&mut self) -> Result<()> {
        for index in 0..self.sites.len() {
            let site = &self.sites[index];
            let id = site.target.id;
            match site
                .server
                .as_ref()
                .map(|server| read(server, &site.target))
            {
                None if id == TargetId::Subject => self.not_measured(STEP, elsewhere()),
                None => {}
                Some(Ok((line, events))) => {
                    self.say(STEP, id, &line);
                    self.feed.observe_all(events);
                }
                Some(Err(failure)) => {
                    let text = format!(
                        "Not measured: the server's configuration, which would name the file and line to change: {failure}."
                    );
                    self.not_measured(STEP, note(text));
                }
            }
        }
        Ok(())
    }
}

/// Returns a line on the configuration of a server, and its settings as events.
fn read(server: &Server, target: &Target) -> Result<(String, Vec<Event>)> {
    let Some(process) = server.processes().first() else {
        return Err(Failure::new("the server's process is not accessible"));
    };
    let (now, id) = (clock::now(), target.id);
    if let Some(served_by) = Program::of(&process.name) {
        let port = server.endpoint().port;
        let lines = program::settings(served_by, process.pid, port, id)?;
        let told = told(served_by.name(), lines.iter().filter_map(written));
        let events = lines.into_iter().map(|line| event(now, line));
        return Ok((told, events.collect()));
    }
    if process.name != "nginx"
        && let Some((started, lines)) = launch::settings(process.pid, id)?
    {
        let told = told(started.name(), lines.iter().filter_map(written));
        let events = lines.into_iter().map(|line| event(now, line));
        return Ok((told, events.collect()));
    }
    let resolved = resolve(process, server, target)?;
    Ok((
        describe(&resolved),
        resolved.events(now, Phase::Baseline, id),
    ))
}

fn event(at: Timestamp, line: ConfigurationLine) -> Event {
    Event::here(at, Phase::Baseline, EventBody::Configuration(line))
}

fn written(line: &ConfigurationLine) -> Option<String> {
    let at = line.set_at.as_ref()?;
    let place = match at.line {
        0 => at.file.clone(),
        number => format!("{}:{number}", at.file),
    };
    Some(format!("{} {} ({place})", line.directive, line.value))
}

fn resolve(process: &ServerProcess, server: &Server, target: &Target) -> Result<Resolved> {
    let master = match Master::find(process.pid) {
        Err(config::Error::NotNginx { .. }) => {
            let told = format!(
                "{}[{}] is no program whose configuration lagtrace reads",
                process.name, process.pid
            );
            return Err(Failure::new(told));
        }
        found => found?,
    };
    let endpoint = server.endpoint();
    let host = target.url.authority();
    let request = Request {
        // A listener on all addresses accepts at the address of the target.
        local_addr: Some(if endpoint.addr.is_unspecified() {
            target.endpoint().addr
        } else {
            endpoint.addr
        }),
        port: endpoint.port,
        host: &host,
        uri: target.url.path(),
    };
    Ok(nginx::resolve(&master, &request)?)
}

fn describe(resolved: &Resolved) -> String {
    let block = match &resolved.server {
        Some(server) => format!("nginx, server at {}:{}", server.at.file, server.at.line),
        None => "nginx".to_owned(),
    };
    let set = resolved.settings.iter().filter_map(|setting| {
        let at = setting.set_at.as_ref()?;
        Some(format!(
            "{} {} (line {})",
            setting.directive, setting.value, at.line
        ))
    });
    told(&block, set)
}

/// Returns a line on the settings that are not defaults, the first few of them in full.
fn told(block: &str, set: impl Iterator<Item = String>) -> String {
    let set: Vec<String> = set.collect();
    let (shown, rest) = set.split_at(set.len().min(SHOWN));
    match (shown, rest.len()) {
        ([], _) => format!("{block}: sets nothing that matters here"),
        (_, 0) => format!("{block}: {}", shown.join(", ")),
        (_, more) => format!("{block}: {} and {more} more", shown.join(", ")),
    }
}

fn elsewhere() -> Note {
    note(
        "Not measured: the server's configuration, which would name the file and line to change. \
         Its program was not found on this host: run lagtrace there, as root or as the server's user."
            .to_owned(),
    )
}

fn note(text: String) -> Note {
    let id = format!("not-measured-{STEP}");
    Note { id, text }
}

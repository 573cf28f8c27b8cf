//! The server's own configuration, as its program resolves it for the URL.

use lagtrace_core::observed::event::{Note, Phase, TargetId};
use lagtrace_sources::config::nginx::{self, Master, Request, Resolved};
use lagtrace_sources::config::{self};
use lagtrace_sources::load::Target;
use lagtrace_sources::socket::foreign::Server;

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
                .map(|server| resolve(server, &site.target))
            {
                None if id == TargetId::Subject => self.not_measured(STEP, elsewhere()),
                None => {}
                Some(Ok(resolved)) => {
                    self.say(STEP, id, &describe(&resolved));
                    let now = clock::now();
                    self.feed
                        .observe_all(resolved.events(now, Phase::Baseline, id));
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

fn resolve(server: &Server, target: &Target) -> Result<Resolved> {
    let Some(process) = server.processes().first() else {
        return Err(Failure::new("the server's process is not accessible"));
    };
    let master = match Master::find(process.pid) {
        Err(config::Error::NotNginx { .. }) => {
            let told = format!(
                "{}[{}] is not nginx, and other configurations are not read",
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
    let set: Vec<_> = resolved
        .settings
        .iter()
        .filter_map(|setting| {
            let at = setting.set_at.as_ref()?;
            Some(format!(
                "{} {} (line {})",
                setting.directive, setting.value, at.line
            ))
        })
        .collect();
    let more = match set.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = set
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if shown.is_empty() {
        format!("{block}: all defaults")
    } else {
        format!("{block}: {shown}{more}")
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

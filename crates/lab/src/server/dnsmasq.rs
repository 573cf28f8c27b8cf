//! A dnsmasq for a service: a real resolver with a cache, its own records and its own log.

use std::path::Path;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::program::Program;
use super::service_port::ServicePort;
use crate::host::files::fill_in;
use crate::path::PathSpec;

/// Maximum number of arguments of a dnsmasq.
const MOST_ARGUMENTS: usize = 256;

/// A dnsmasq on the service's port, over UDP and TCP. It logs every query. It does not read the
/// machine's configuration, `/etc/hosts` or `/etc/resolv.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dnsmasq {
    /// The records and all other arguments, such as `--host-record=www.lab.test,{server}`.
    /// `{server}`, `{server6}`, `{client}` and `{client6}` are replaced by addresses.
    pub arguments: Vec<String>,
}

impl Dnsmasq {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.arguments.len() > MOST_ARGUMENTS {
            return Err(format!("dnsmasq has more than {MOST_ARGUMENTS} arguments"));
        }
        let is_option = |word: &&String| word.starts_with("--") && !word.contains('\0');
        match self.arguments.iter().find(|word| !is_option(word)) {
            Some(word) => Err(format!("`{word}` is no argument of dnsmasq")),
            None => Ok(()),
        }
    }
}

/// Returns the program that runs dnsmasq in the foreground.
pub(super) fn lay(
    folder: &Path,
    service: ServicePort<'_>,
    dnsmasq: &Dnsmasq,
    hosts: &PathSpec,
) -> Program {
    let pid_file = folder.join(format!("{}.pid", service.name));
    let own = [
        "--keep-in-foreground".to_owned(),
        "--conf-file=/dev/null".to_owned(),
        "--no-resolv".to_owned(),
        "--no-hosts".to_owned(),
        "--user=root".to_owned(),
        "--log-queries=extra".to_owned(),
        "--log-facility=-".to_owned(),
        format!("--pid-file={}", pid_file.display()),
        format!("--port={}", service.port),
    ];
    let particular = dnsmasq.arguments.iter().map(|word| fill_in(word, hosts));
    Program {
        tool: "dnsmasq",
        arguments: own.into_iter().chain(particular).collect(),
        user: None,
        ends_by: Signal::TERM,
    }
}

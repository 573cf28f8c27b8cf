//! dnsmasq as a service: a real resolver with a cache, its own records and its own log.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::host_files::fill_in;
use crate::tool;

/// No dnsmasq is given more arguments.
const MOST_ARGUMENTS: usize = 256;

/// dnsmasq on the service's port, over UDP and TCP. It logs every query and reads neither the
/// machine's configuration nor its `/etc/hosts` nor its `/etc/resolv.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dnsmasq {
    /// Its records and all that is particular to it, as `--host-record=www.lab.test,{server}`.
    /// `{server}`, `{server6}`, `{client}` and `{client6}` stand for addresses.
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

    /// The command that serves, in the foreground.
    pub(crate) fn command(&self, folder: &Path, service: &str, port: u16) -> Command {
        let pid_file = folder.join(format!("{service}.pid"));
        let mut command = tool::command("dnsmasq");
        command
            .args([
                "--keep-in-foreground",
                "--conf-file=/dev/null",
                "--no-resolv",
                "--no-hosts",
                "--user=root",
                "--log-queries=extra",
                "--log-facility=-",
            ])
            .arg(format!("--pid-file={}", pid_file.display()))
            .arg(format!("--port={port}"))
            .args(self.arguments.iter().map(|word| fill_in(word)));
        command
    }
}

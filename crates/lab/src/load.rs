//! The clients that generate load on a service while it is recorded. They are real clients, each of
//! which reports the times of its own requests. This module describes the clients; `run` runs them.

pub(crate) mod requests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::OwnClient;
use crate::quantity::optional_duration;

/// Maximum number of clients of a load that run in parallel, so that no machine is overloaded.
const MOST_CLIENTS: u32 = 64;

/// Maximum number of requests of a client.
const MOST_REQUESTS: u32 = 100_000;

/// The clients of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// curl.
    Curl(Curl),
    /// Any other program.
    Command(Program),
    /// A built-in client, for behaviour that no real client has.
    Own(Own),
}

/// A built-in client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    /// The client's settings.
    pub client: Box<OwnClient>,
}

/// Several curl processes in parallel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Curl {
    /// The number of curl processes in parallel, each with its own connection.
    pub connections: u32,
    /// The number of requests of each process, one after the other.
    pub requests: u32,
    /// The time from the start of one request to the start of the next; zero if absent.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
    /// True to start a process for each request, so that no connection is reused.
    pub fresh: bool,
    /// The path of the URL.
    pub path: String,
    /// The host name of the URL, in place of the server's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Further arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Files that the arguments refer to as `{folder}/NAME`: name and content.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

/// A program that sends requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program's name.
    pub program: String,
    /// The Debian package that contains the program.
    pub package: String,
    /// The arguments, in which `{address}`, `{port}`, `{url}` and `{folder}` are replaced.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The number of processes in parallel.
    #[serde(default = "one")]
    pub processes: u32,
    /// The number of runs of each process, one after the other.
    #[serde(default = "one")]
    pub times: u32,
    /// A pattern whose first group matches the time of a request, in milliseconds, in the program's
    /// output. Without a pattern, each run counts as one request with its wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// The number of requests that each matched time stands for, if the program prints a median of
    /// many requests.
    #[serde(default = "one")]
    pub each: u32,
    /// Files that the arguments refer to as `{folder}/NAME`: name and content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

const fn one() -> u32 {
    1
}

impl Default for Load {
    fn default() -> Self {
        Self::Curl(Curl::default())
    }
}

impl Default for Curl {
    fn default() -> Self {
        Self {
            connections: 6,
            requests: 20,
            every: None,
            fresh: false,
            path: "/".to_owned(),
            host: None,
            arguments: Vec::new(),
            files: BTreeMap::new(),
        }
    }
}

impl Load {
    /// Describes the load in words.
    pub fn describe(&self) -> String {
        match self {
            Self::Curl(curl) => format!(
                "curl, {} side by side, {} requests each{}",
                curl.connections,
                curl.requests,
                if curl.fresh {
                    ", a connection for each"
                } else {
                    ", kept alive"
                }
            ),
            Self::Command(program) => format!(
                "{}, {} side by side, {} times each",
                program.program, program.processes, program.times
            ),
            Self::Own(own) => format!(
                "a client of the lab's own, {} connections, {} requests each",
                own.client.connections, own.client.requests
            ),
        }
    }

    /// Returns true if any client that requests a page from a web server would see the fault,
    /// because the fault does not depend on the content or form of the requests. The number, the
    /// rate and the timeouts of requests still depend on the load.
    pub fn is_plain(&self) -> bool {
        match self {
            Self::Curl(curl) => {
                let is_patience = curl
                    .arguments
                    .first()
                    .is_some_and(|word| word == "--max-time");
                curl.path == "/"
                    && curl.host.is_none()
                    && (curl.arguments.is_empty() || (is_patience && curl.arguments.len() == 2))
            }
            Self::Own(own) => {
                let usual = OwnClient {
                    connections: own.client.connections,
                    requests: own.client.requests,
                    ..OwnClient::default()
                };
                *own.client == usual
            }
            Self::Command(_) => false,
        }
    }

    /// Returns true if every request is for `/`.
    pub(crate) fn is_for_root(&self) -> bool {
        match self {
            Self::Curl(curl) => curl.path == "/",
            Self::Command(_) => false,
            Self::Own(_) => true,
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let (clients, requests, files) = match self {
            Self::Curl(curl) => (curl.connections, curl.requests, &curl.files),
            Self::Command(program) => {
                let most = program.times.max(program.each);
                (program.processes, most, &program.files)
            }
            Self::Own(own) => return own.client.check(),
        };
        if !(1..=MOST_CLIENTS).contains(&clients) || !(1..=MOST_REQUESTS).contains(&requests) {
            return Err(format!(
                "its load has 1 to {MOST_CLIENTS} clients with 1 to {MOST_REQUESTS} requests each"
            ));
        }
        if let Self::Command(Program {
            latency: Some(pattern),
            ..
        }) = self
        {
            regex_lite::Regex::new(pattern)
                .map_err(|error| format!("its load's pattern `{pattern}`: {error}"))?;
        }
        match files
            .keys()
            .find(|name| name.is_empty() || name.contains('/') || name.starts_with('.'))
        {
            Some(name) => Err(format!("`{name}` is no plain file name")),
            None => Ok(()),
        }
    }
}

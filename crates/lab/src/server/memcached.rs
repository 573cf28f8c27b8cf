//! A memcached for a service. It keeps nothing but memory.

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::program::Program;
use crate::scenario::Service;

/// A memcached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Memcached {
    /// Further arguments of its command line.
    pub arguments: Vec<String>,
}

/// How it is started. It becomes another user by itself.
pub(super) fn lay(service: &Service, memcached: &Memcached) -> Program {
    let own = [
        "-p",
        &service.port.to_string(),
        "-U",
        "0",
        "-u",
        "nobody",
        "-vv",
    ];
    let own = own.map(str::to_owned).into_iter();
    Program {
        tool: "memcached",
        arguments: own.chain(memcached.arguments.clone()).collect(),
        user: None,
        ends_by: Signal::TERM,
    }
}

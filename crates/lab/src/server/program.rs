//! Real servers with a process of their own: how such a process is started, made ready and
//! ended. What each kind is told stands in its own module.

use std::fs;

use rustix::process::{Gid, Signal, Uid};

use super::{Nginx, Server};

/// A server that is laid and may be started.
pub(crate) struct Program {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Vec<String>,
    /// Whom it runs as; root where nobody is named.
    pub(crate) user: Option<User>,
    /// What makes it end at once, and what it started too.
    pub(crate) ends_by: Signal,
}

/// A user of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

impl User {
    /// The user of this name, if the machine has one.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        let mut lines = passwd.lines().map(|line| line.split(':'));
        lines.find_map(|mut fields| {
            (fields.next()? == name).then_some(())?;
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            Some(Self {
                uid: Uid::from_raw(uid),
                gid: Gid::from_raw(gid),
            })
        })
    }
}

/// What a real server needs to be installed: programs and the Debian package of each.
pub(crate) fn requirements(server: &Server) -> &'static [(&'static str, &'static str)] {
    match server {
        Server::Nginx(Nginx { tls: Some(_), .. }) => {
            &[("nginx", "nginx-light"), ("openssl", "openssl")]
        }
        Server::Nginx(_) => &[("nginx", "nginx-light")],
        Server::Ocsp(_) => &[("openssl", "openssl")],
        Server::Dnsmasq(_) => &[("dnsmasq", "dnsmasq-base")],
        Server::Haproxy(_) => &[("haproxy", "haproxy")],
        Server::Redis(_) => &[
            ("redis-server", "redis-server"),
            ("redis-cli", "redis-tools"),
        ],
        Server::Postgres(_) => &[
            ("postgres", "postgresql"),
            ("initdb", "postgresql"),
            ("psql", "postgresql-client"),
        ],
        _ => &[],
    }
}

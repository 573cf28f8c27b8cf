//! Real servers with their own process: starting the process, preparing it and ending it. The
//! configuration of each kind of server is in its own module.

use rustix::process::Signal;

use super::{Nginx, Server};
use crate::machine::user::User;

/// A server whose files are written and that can be started.
pub(crate) struct Program {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Vec<String>,
    /// The user under which the program runs; root if absent.
    pub(crate) user: Option<User>,
    /// The signal that ends the program, and the processes that it started, immediately.
    pub(crate) ends_by: Signal,
}

/// Returns the programs that must be installed for a real server, and the Debian package of each.
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

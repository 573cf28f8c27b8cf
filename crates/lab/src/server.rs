//! Servers on a service's port: real nginx, haproxy, Redis, PostgreSQL and dnsmasq, and small
//! built-in servers for behaviour that no real server has. This module describes them.

pub(crate) mod accept;
mod answer;
pub(crate) mod control;
pub(crate) mod dns;
pub(crate) mod dnsmasq;
mod haproxy;
pub(crate) mod listening;
pub(crate) mod mail;
pub(crate) mod nginx;
mod ocsp;
pub(crate) mod own;
mod postgres;
pub(crate) mod program;
mod redis;
mod request;
mod service_port;
pub mod stamp;
pub(crate) mod tls;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::control::{CpuQuota, Stop};
pub use self::dns::SlowDns;
pub use self::dnsmasq::Dnsmasq;
pub use self::mail::Mail;
pub use self::ocsp::Ocsp;
pub use self::own::options::{
    Accepting, Framing, Hold, OwnServer, Reading, Response, SocketOptions, Stops, Thinking,
};
pub use self::tls::{Key, Tls};
pub use answer::{Answer, Sizes};
pub use haproxy::Haproxy;
pub use postgres::Postgres;
pub use redis::Redis;

use crate::error::Error;
use crate::path::PathSpec;
use crate::quantity::duration;
use program::Program;
pub(crate) use service_port::ServicePort;

/// A kind of server, with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Server {
    /// A `server` block of the scenario's one nginx.
    Nginx(Nginx),
    /// A haproxy.
    Haproxy(Haproxy),
    /// A Redis.
    Redis(Redis),
    /// A PostgreSQL.
    Postgres(Postgres),
    /// A server other than nginx with the same fault as the original case: Nagle's algorithm on,
    /// header and body in separate writes.
    WriteWriteRead,
    /// A server with `TCP_NODELAY` that sleeps, then answers in one write.
    Think(Sleep),
    /// A server with `TCP_NODELAY` that writes the header, sleeps, and writes the body.
    Pause(Sleep),
    /// A server with Nagle's algorithm on that writes header and body separately, then closes the
    /// connection: the FIN carries the data that Nagle's algorithm would hold.
    Fin,
    /// A server that accepts and closes.
    ClosesAtOnce,
    /// A server that accepts, reads, and never answers.
    NeverAnswers,
    /// A server that answers a request with bytes that are not HTTP.
    Garbage,
    /// A server that answers a request like a TLS server that receives plain text: with an alert
    /// (RFC 8446 §6.2, `unexpected_message`).
    TlsAlert,
    /// dnsmasq.
    Dnsmasq(Dnsmasq),
    /// A DNS server that answers late.
    SlowDns(SlowDns),
    /// openssl's OCSP responder for a certificate.
    Ocsp(Ocsp),
    /// A mail server, which sends data first.
    Mail(Mail),
    /// A built-in server, with its options.
    Own(Box<OwnServer>),
    /// No server: no program listens on the port.
    Nobody,
}

/// A `server` block of nginx. Absent settings have nginx's own default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Nginx {
    /// The directive `tcp_nodelay`, on by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_nodelay: Option<bool>,
    /// The directive `tcp_nopush`, off by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_nopush: Option<bool>,
    /// The directive `server_name`, which distinguishes two blocks on one port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The settings of TLS, if the block uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The responses.
    pub answer: Answer,
    /// True to keep an access log with nginx's own timestamps: see [`stamp::AccessLine`].
    pub access_log: bool,
    /// Further words of the block's `listen` directives: `backlog=1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Further directives of the block, with `{folder}` for nginx's folder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub directives: Vec<String>,
    /// Directives of the level above, `http`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<String>,
    /// The number of workers of the scenario's nginx, which is the maximum over its blocks; 2 if no
    /// block sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u8>,
}

/// A server that sleeps while a request waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// The time for which it sleeps.
    #[serde(with = "duration")]
    pub time: Duration,
    /// True to keep a log of the server's own timestamps: see [`stamp::Stamp`].
    #[serde(default)]
    pub stamps: bool,
}

/// Maximum time for which a server of the lab sleeps during one request.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

impl Server {
    /// Returns true if both servers may be on one port, as two blocks of nginx with different names
    /// may.
    pub(crate) fn shares_port_with(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Nginx(one), Self::Nginx(two)) if one.server_name != two.server_name)
    }

    /// Returns true for built-in servers.
    pub(crate) fn is_own(&self) -> bool {
        !matches!(
            self,
            Self::Nginx(_)
                | Self::Haproxy(_)
                | Self::Redis(_)
                | Self::Postgres(_)
                | Self::Dnsmasq(_)
                | Self::Ocsp(_)
                | Self::Nobody
        )
    }

    /// Returns true if a client may request a page from the server, even if the request fails. This
    /// excludes databases and resolvers, which only other servers or the client's own library
    /// query.
    pub(crate) fn is_for_pages(&self) -> bool {
        !matches!(
            self,
            Self::Redis(_)
                | Self::Postgres(_)
                | Self::Dnsmasq(_)
                | Self::SlowDns(_)
                | Self::Ocsp(_)
                | Self::Mail(_)
        )
    }

    /// Returns true if anything will listen on the port.
    pub(crate) fn listens(&self) -> bool {
        *self != Self::Nobody
    }

    /// Writes the files that a real server with its own process needs on a host of this path;
    /// returns `None` for all other servers.
    pub(crate) fn lay(
        &self,
        folder: &Path,
        service: ServicePort<'_>,
        hosts: &PathSpec,
    ) -> Result<Option<Program>, Error> {
        Ok(Some(match self {
            Self::Haproxy(haproxy) => haproxy::lay(folder, service, haproxy)?,
            Self::Redis(redis) => redis::lay(folder, service, redis)?,
            Self::Postgres(postgres) => postgres::lay(folder, service, postgres)?,
            Self::Dnsmasq(dnsmasq) => dnsmasq::lay(folder, service, dnsmasq, hosts),
            Self::Ocsp(ocsp) => ocsp::lay(folder, service, ocsp),
            _ => return Ok(None),
        }))
    }

    /// Prepares a server that is listening for its clients.
    pub(crate) fn prepare(&self, folder: &Path, service: ServicePort<'_>) -> Result<(), Error> {
        match self {
            Self::Redis(redis) => redis::prepare(folder, service, redis),
            Self::Postgres(postgres) => postgres::prepare(folder, service, postgres),
            _ => Ok(()),
        }
    }

    /// Returns the options of this server, if it is a built-in one that speaks HTTP.
    pub(crate) fn as_own(&self) -> Option<OwnServer> {
        let apart =
            |nagle, between, framing| Some(OwnServer::that_writes_apart(nagle, between, framing));
        match self {
            Self::Own(own) => Some((**own).clone()),
            Self::WriteWriteRead => apart(true, Duration::ZERO, Framing::Length),
            Self::Fin => apart(true, Duration::ZERO, Framing::LengthThenClose),
            Self::Pause(sleep) => apart(false, sleep.time, Framing::Length),
            Self::Think(sleep) => Some(OwnServer::that_thinks(sleep.time)),
            _ => None,
        }
    }

    /// Returns true if the server keeps a log of its own timestamps.
    pub(crate) fn keeps_stamps(&self) -> bool {
        match self {
            Self::Think(sleep) | Self::Pause(sleep) => sleep.stamps,
            Self::Own(own) => own.stamps,
            _ => false,
        }
    }

    /// Returns the scheme of the server's URL.
    pub(crate) fn scheme(&self) -> &'static str {
        match self {
            Self::Nginx(Nginx { tls: Some(_), .. }) => "https",
            _ => "http",
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if let Self::Nginx(Nginx { tls: Some(tls), .. }) = self {
            tls.check()?;
        }
        match self {
            Self::Dnsmasq(dnsmasq) => dnsmasq.check(),
            Self::SlowDns(dns) => dns.check(),
            Self::Mail(mail) => mail.check(),
            Self::Nginx(Nginx {
                workers: Some(0), ..
            }) => Err("an nginx without workers".to_owned()),
            Self::Nginx(Nginx {
                answer: Answer::Return(status),
                ..
            }) if !(200..600).contains(status) => Err(format!("no response has status {status}")),
            Self::Nginx(Nginx {
                server_name: Some(name),
                ..
            }) if !is_host_name(name) => Err(format!("`{name}` is no host's name")),
            Self::Nginx(Nginx {
                answer: Answer::Bytes(sizes),
                ..
            }) => sizes.check(),
            Self::Think(sleep) | Self::Pause(sleep) if sleep.time > LONGEST_SLEEP => {
                Err("it sleeps for more than 60 s".to_owned())
            }
            Self::Own(own) => own.check(),
            _ => Ok(()),
        }
    }
}

fn is_host_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
}

/// The page that every server sends, which is as long as the welcome page of common servers.
pub(crate) const PAGE: &str = "<!DOCTYPE html>\n\
<html lang=\"en\">\n\
<head><meta charset=\"utf-8\"><title>The lab's page</title></head>\n\
<body>\n\
<h1>The lab's page</h1>\n\
<p>Every server of the lab answers with this page. It is as long as the page with which a\n\
freshly installed web server greets its visitors: far below one segment, so that header and\n\
body fit into one, and do not leave in one when the server writes them apart.</p>\n\
<p>Two writes of this size are what Nagle's algorithm (RFC 896) waits on, and what a delayed\n\
acknowledgement (RFC 1122, section 4.2.3.2) makes it wait for.</p>\n\
</body>\n\
</html>\n";

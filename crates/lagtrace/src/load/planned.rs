//! The plan of a load, created from the options.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use lagtrace_core::observed::event::{Event, Phase, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_sources::files;
use lagtrace_sources::load::{Lane, Pace, Plan, SocketOptions, Target};
use lagtrace_sources::tls::Carried;

use super::options::{Connection, Options, Request};
use super::warm_up;
use crate::console::Console;
use crate::diagnose::DURATION;
use crate::failure::{Failure, Result};
use crate::lookup::{self, Family};
use crate::words;

/// Maximum number of requests in parallel without `--heavy`.
const USUAL_AT_ONCE: u32 = 2_000;
/// Maximum rate without `--heavy`, in requests per second.
const USUAL_RATE: f64 = 20_000.0;
/// Maximum duration of a run that ends after a number of requests.
const LONGEST_COUNTED: Duration = Duration::from_secs(3600);
/// Maximum size of a request body read from a file, in bytes.
const MAX_BODY: u64 = 64 * 1024 * 1024;

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        if self.heavy {
            return Ok(());
        }
        let hint = "add --heavy if you may put such a load on the service";
        let (connections, rate) = self.steps.heaviest();
        let connections = connections.unwrap_or(self.load.connections);
        let at_once = u64::from(connections) * u64::from(self.connection.at_once());
        if at_once > USUAL_AT_ONCE.into() {
            let what = match self.connection.at_once() {
                1 => "connections",
                _ => "concurrent requests (connections times streams or pipeline depth)",
            };
            let told = format!(
                "{} {what} are more than {}",
                words::count(at_once),
                words::count(USUAL_AT_ONCE.into())
            );
            return Err(Failure::new(told).hint(hint));
        }
        match rate.or(self.load.rate) {
            Some(rate) if rate > USUAL_RATE => {
                let told = format!(
                    "{} requests per second are more than {}",
                    words::rate(rate),
                    words::rate(USUAL_RATE)
                );
                Err(Failure::new(told).hint(hint))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn plan(&self, console: &Console, events: &mut Vec<Event>) -> Result<Plan> {
        let urls = self.urls.all()?;
        let Some(url) = urls.first().map(|first| first.url.clone()) else {
            return Err(Failure::new("there is no URL to request"));
        };
        let carried = if self.connection.http2 {
            Carried::Http2
        } else {
            Carried::Http1
        };
        let tls = self.tls.client([&url], carried)?;
        let unix = self.connection.unix_socket.as_ref();
        let address = match self.connection.address {
            Some(address) => address,
            None if unix.is_some() => Ipv4Addr::LOCALHOST.into(),
            None => {
                let family = Family {
                    ipv4: self.connection.ipv4,
                    ipv6: self.connection.ipv6,
                };
                lookup::address(url.host(), family, events)?
            }
        };
        console.detail(&match unix {
            Some(path) => format!("connecting to {}", path.display()),
            None => format!("connecting to {address}, port {}", url.port()),
        });
        let body = self.body()?;
        if body.len() as u64 * urls.len() as u64 > MAX_BODY {
            let told = "the body is longer than 64 MiB for all URLs together";
            return Err(Failure::new(told).hint("give fewer URLs"));
        }
        let mut plan = Plan::new(vec![Lane {
            target: Target {
                id: TargetId::Subject,
                address: SocketAddr::new(address, url.port()),
                url,
                method: self.request.method,
                fields: self.request.fields(),
                body,
            },
            phase: Phase::Baseline,
            experiment: self.connection.manner(),
            connections: self.connections(),
        }]);
        if urls.len() > 1 {
            plan.urls = urls;
        }
        plan.pace = self.load.rate.map_or(Pace::ClosedLoop, Pace::Rate);
        plan.timeout = self.load.timeout;
        plan.threads = self.load.threads.into();
        plan.nodelay = !self.connection.nagle;
        plan.protocol.tls = tls;
        plan.protocol.http2 = self.connection.http2;
        plan.protocol.at_once = self.connection.at_once();
        plan.sockets = self.connection.sockets();
        plan.requests = self.requests;
        plan.reporting.stamps = self.stamps;
        plan.protocol.keeps_cookies = self.request.cookies;
        let whole = match (self.requests, self.load.duration) {
            (Some(_), None) => LONGEST_COUNTED,
            (_, duration) => duration.unwrap_or(DURATION),
        };
        plan.warm_up = self.warm_up.unwrap_or(match self.requests {
            Some(_) => Duration::ZERO,
            None => warm_up(whole),
        });
        plan.duration = whole
            .checked_sub(plan.warm_up)
            .filter(|left| !left.is_zero())
            .ok_or_else(|| {
                Failure::new("the warm-up takes the whole duration").hint("use a longer -d")
            })?;
        Ok(plan)
    }

    /// Returns the number of connections, at most the number of requests.
    fn connections(&self) -> u32 {
        let most = u32::try_from(self.requests.unwrap_or(u64::MAX)).unwrap_or(u32::MAX);
        self.load.connections.min(most)
    }

    fn body(&self) -> Result<Vec<u8>> {
        let Some(path) = &self.request.body else {
            return Ok(Vec::new());
        };
        let name = path.display();
        let body = files::read(path, MAX_BODY).with_context(|| format!("cannot read {name}"))?;
        body.ok_or_else(|| Failure::new(format!("{name} is longer than 64 MiB")))
    }
}

impl Request {
    /// Returns the header fields that were specified, including cookies.
    fn fields(&self) -> Vec<String> {
        let mut fields = self.headers.clone();
        if !self.cookie.is_empty() {
            fields.push(format!("Cookie: {}", self.cookie.join("; ")));
        }
        fields
    }
}

impl Connection {
    fn sockets(&self) -> SocketOptions {
        let bytes = |bytes: Option<u32>| bytes.map(|bytes| bytes as usize);
        SocketOptions {
            unix: self.unix_socket.clone(),
            sources: self.source.clone(),
            receive_buffer: bytes(self.rcvbuf),
            send_buffer: bytes(self.sndbuf),
        }
    }

    /// Returns the maximum number of requests in flight on each connection.
    fn at_once(&self) -> u32 {
        if self.http2 {
            self.streams
        } else {
            self.pipeline
        }
    }

    /// Returns the experiment that corresponds to the settings of the connections, if they are not
    /// the default ones.
    fn manner(&self) -> Option<Experiment> {
        match (self.fresh, self.think, self.quickack) {
            (true, ..) => Some(Experiment::FreshConnection),
            (_, Some(pause), _) => Some(Experiment::ThinkTime { pause }),
            (.., true) => Some(Experiment::QuickAck),
            _ => None,
        }
    }
}

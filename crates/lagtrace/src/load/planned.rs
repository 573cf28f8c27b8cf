//! The plan of a load, created from the options.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use lagtrace_core::observed::event::{Event, Phase, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_sources::load::{Lane, Pace, Plan, SocketOptions, Target, WeightedUrl};
use lagtrace_sources::request::Request;

use super::options::{Connection, Options};
use super::warm_up;
use crate::console::Console;
use crate::diagnose::DURATION;
use crate::failure::{Failure, Result};
use crate::lookup::{self, Family};
use crate::request::USUAL_COUNT;
use crate::request::redirect::Follow;
use crate::words;

/// Maximum duration of a run that ends after a number of requests.
const LONGEST_COUNTED: Duration = Duration::from_secs(3600);
/// Maximum size of the bodies for all URLs together, in bytes.
const MAX_BODY: u64 = 64 * 1024 * 1024;

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        if self.connection.streams > 1 && !self.request.is_http2() {
            let told = "--streams are those of HTTP/2";
            return Err(Failure::new(told).hint("add --http2, or use --pipeline"));
        }
        let (connections, rate) = self.steps.heaviest();
        let connections = connections.unwrap_or(self.load.connections());
        let each = self.connection.at_once();
        let what = match each {
            1 => "connections",
            _ => "concurrent requests (connections times streams or pipeline depth)",
        };
        let at_once = u64::from(connections) * u64::from(each);
        self.load.check(at_once, what, rate.or(self.load.rate))
    }

    pub(super) fn plan(&self, console: &Console, events: &mut Vec<Event>) -> Result<Plan> {
        let settled = self.request.settle(self.load.timeout)?;
        let mut urls = self.urls.all()?;
        for WeightedUrl { url, .. } in &mut urls {
            *url = settled.url(url.clone())?;
        }
        let Some(first) = urls.first_mut() else {
            return Err(Failure::new("there is no URL to request"));
        };
        let request = self.follow(first, settled.request, console)?;
        let url = first.url.clone();
        let tls = self.tls.client([&url], self.request.carried())?;
        let place = self.request.way.place(&url)?;
        let unix = self.request.way.unix_socket.as_ref();
        let address = match self.connection.address {
            Some(address) => address,
            None if unix.is_some() => Ipv4Addr::LOCALHOST.into(),
            None => lookup::address(&place.host, self.family(), events)?,
        };
        console.detail(&match unix {
            Some(path) => format!("connecting to {}", path.display()),
            None => format!("connecting to {address}, port {}", place.port),
        });
        let body_len = request.body.as_ref().map_or(0, Vec::len);
        if body_len as u64 * urls.len() as u64 > MAX_BODY {
            let told = "the body is longer than 64 MiB for all URLs together";
            return Err(Failure::new(told).hint("give fewer URLs"));
        }
        let mut plan = Plan::new(vec![Lane {
            target: Target {
                id: TargetId::Subject,
                address: SocketAddr::new(address, place.port),
                url,
                request,
            },
            phase: Phase::Baseline,
            experiment: self.connection.manner(),
            connections: self.load.connections(),
        }]);
        if urls.len() > 1 {
            plan.urls = urls;
        }
        plan.pace = self.load.rate.map_or(Pace::ClosedLoop, Pace::Rate);
        plan.timeout = self.load.timeout;
        plan.threads = self.load.threads.into();
        plan.nodelay = !self.connection.nagle;
        plan.protocol.tls = tls;
        plan.protocol.http2 = self.request.is_http2();
        plan.protocol.at_once = self.connection.at_once();
        plan.sockets = self.connection.sockets();
        plan.sockets.unix.clone_from(&self.request.way.unix_socket);
        plan.requests = self.count(plan.lanes.first().map(|lane| &lane.target.request));
        plan.reporting.stamps = self.stamps;
        plan.protocol.keeps_cookies = self.connection.cookies;
        let whole = match (plan.requests, self.load.duration) {
            (Some(_), None) => LONGEST_COUNTED,
            (_, duration) => duration.unwrap_or(DURATION),
        };
        plan.warm_up = self.warm_up.unwrap_or(match plan.requests {
            Some(_) => Duration::ZERO,
            None => warm_up(whole),
        });
        plan.duration = whole
            .checked_sub(plan.warm_up)
            .filter(|left| !left.is_zero())
            .ok_or_else(|| {
                Failure::new("the warm-up takes the whole duration").hint("use a longer -d")
            })?;
        self.agree(&mut plan, console)?;
        Ok(plan)
    }

    /// Follows redirects from the first URL on, if that is asked for; returns the request for the
    /// last place.
    fn follow(
        &self,
        first: &mut WeightedUrl,
        request: Request,
        console: &Console,
    ) -> Result<Request> {
        let follow = Follow {
            options: &self.request,
            tls: &self.tls,
            family: self.family(),
            timeout: self.load.timeout,
        };
        self.request.consent().check_once(&request, &first.url)?;
        let followed = follow.from(first.url.clone(), request)?;
        if let Some(text) = followed.text() {
            console.note(&text);
        }
        first.url = followed.url;
        Ok(followed.request)
    }

    fn family(&self) -> Family {
        Family {
            ipv4: self.connection.ipv4,
            ipv6: self.connection.ipv6,
        }
    }

    /// Returns the number of requests, if it is limited: a request that may change something is
    /// sent a fixed number of times, unless the user gives a duration or a rate.
    fn count(&self, request: Option<&Request>) -> Option<u64> {
        let is_safe = request.is_none_or(|request| request.method.is_safe());
        let is_told = self.load.duration.is_some() || self.load.rate.is_some();
        let usual = (!is_safe && !is_told).then_some(USUAL_COUNT);
        self.requests.or(usual)
    }

    /// Limits the connections to the number of requests, and checks that the user agrees to repeat
    /// them.
    fn agree(&self, plan: &mut Plan, console: &Console) -> Result<()> {
        let most = u32::try_from(plan.requests.unwrap_or(u64::MAX)).unwrap_or(u32::MAX);
        let how_often = match (plan.requests, plan.pace) {
            (Some(count), _) => format!("{} times", words::count(count)),
            (None, Pace::Rate(rate)) => {
                let sent = rate * (plan.warm_up + plan.duration).as_secs_f64();
                format!("about {} times", words::count(sent as u64))
            }
            (None, Pace::ClosedLoop) => {
                let time = words::time(plan.warm_up + plan.duration);
                format!("as often as it answers in {time}")
            }
        };
        let consent = self.request.consent();
        for lane in &mut plan.lanes {
            lane.connections = lane.connections.min(most);
            let target = &lane.target;
            consent.check(&target.request, &target.url, &how_often, console)?;
        }
        Ok(())
    }
}

impl Connection {
    fn sockets(&self) -> SocketOptions {
        let bytes = |bytes: Option<u32>| bytes.map(|bytes| bytes as usize);
        SocketOptions {
            unix: None,
            sources: self.source.clone(),
            receive_buffer: bytes(self.rcvbuf),
            send_buffer: bytes(self.sndbuf),
        }
    }

    /// Returns the maximum number of requests in flight on each connection: as streams of HTTP/2, or
    /// pipelined.
    fn at_once(&self) -> u32 {
        self.streams.max(self.pipeline)
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

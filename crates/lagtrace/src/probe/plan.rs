//! The plans of the probes and of the load, made from the options.

use std::net::SocketAddr;
use std::time::Duration;

use lagtrace_core::observed::event::{Event, Phase, TargetId};
use lagtrace_sources::load;
use lagtrace_sources::probe::{
    Ask, Asked, PacketPlan, ProbePlan, RequestPlan, Sizes, SteadyMethod, SteadyPlan, Turn,
};
use lagtrace_sources::request::Request;
use lagtrace_sources::tls::{Carried, TlsClient};
use lagtrace_sources::url::Url;

use super::loaded::LONGEST;
use super::options::{Method, Options};
use super::targets::Target;
use crate::failure::{Failure, Result};
use crate::lookup::{self, Family};

/// The default number of probes of a series, and of each value of a sweep.
const USUAL_COUNT: u32 = 10;
const EACH_STEP: u32 = 3;
/// The payload of an echo request in bytes, the same as in `ping`.
const ECHO_SIZE: u16 = 56;

/// A series of probes.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Probes at a constant rate.
    Steady(SteadyPlan),
    /// Handshakes or requests, one after the other.
    Request(Box<RequestPlan>),
}

impl Options {
    /// Returns the plan of the target's probes.
    pub(super) fn plan(&self, target: &Target, tls: Option<&TlsClient>) -> Result<Plan> {
        if let Some(url) = &target.url {
            let plan = self.request_plan(target, url, tls)?;
            return Ok(Plan::Request(Box::new(plan)));
        }
        self.check_request()?;
        let method = self.method_for(target);
        self.check(method)?;
        let plan = self.plan_by(method, target);
        let swept = [
            (plan.packet.flags.len() > 1, "--flags or --matrix"),
            (plan.packet.sizes.count() > 1, "--size"),
            (
                plan.ports.count().is_some_and(|count| count > 1),
                "--source-port",
            ),
        ];
        let swept: Vec<&str> = swept.iter().filter(|(is, _)| *is).map(|s| s.1).collect();
        if swept.len() > 1 {
            let told = format!("{} cannot be swept together", swept.join(" and "));
            return Err(Failure::new(told).hint("give several values to only one of them"));
        }
        Ok(Plan::Steady(plan))
    }

    fn request_plan(
        &self,
        target: &Target,
        url: &Url,
        tls: Option<&TlsClient>,
    ) -> Result<RequestPlan> {
        if !self.packet.is_usual() {
            let told = "with `--method tls` and `--method http` the kernel makes the packets";
            return Err(Failure::new(told).hint("leave out the packet options"));
        }
        let ask = match self.method {
            Method::Tls => {
                self.check_request()?;
                Ask::Handshake
            }
            _ => Ask::Request,
        };
        let peer = tls.filter(|_| url.is_tls()).map(|tls| tls.to(url.host()));
        Ok(RequestPlan {
            probe: ProbePlan {
                count: self.requests(),
                interval: self.interval,
                timeout: self.timeout,
                silences: u32::MAX,
                ..ProbePlan::new(TargetId::Subject, target.address)
            },
            asked: Asked {
                url: url.clone(),
                request: target.request.clone().unwrap_or_default(),
                peer: peer.transpose()?,
                is_http2: self.request.is_http2(),
                unix: self.request.way.unix_socket.clone(),
            },
            ask,
            resolved: target.resolved,
        })
    }

    /// Returns the number of handshakes or requests.
    pub(super) fn requests(&self) -> u32 {
        match self.count.unwrap_or(USUAL_COUNT) {
            0 => u32::MAX,
            count => count,
        }
    }

    /// Returns an error if options are given that only requests use.
    fn check_request(&self) -> Result<()> {
        if self.request.is_given() || self.path.path != "/" {
            Err(
                Failure::new("the options of requests are for `--method http` only")
                    .hint("add `--method http`, or leave them out"),
            )
        } else {
            Ok(())
        }
    }

    fn method_for(&self, target: &Target) -> SteadyMethod {
        match (self.method, target.has_port) {
            (Method::Auto, _) if self.packet.has_flags() => SteadyMethod::Syn,
            (Method::Auto, false) | (Method::Icmp, _) => SteadyMethod::Icmp,
            (Method::Auto, true) | (Method::Syn, _) => SteadyMethod::Syn,
            (Method::Connect, _) => SteadyMethod::Connect,
            (Method::Udp, _) => SteadyMethod::Udp,
            // Not reached: the targets of these methods have URLs, for which `plan` returns first.
            (Method::Tls | Method::Http, _) => SteadyMethod::Connect,
        }
    }

    /// Returns an error if options are given that the method would silently ignore.
    fn check(&self, method: SteadyMethod) -> Result<()> {
        let packet = &self.packet;
        let told = match method {
            _ if packet.has_flags() && method != SteadyMethod::Syn => {
                "--flags and --matrix need `--method syn`"
            }
            SteadyMethod::Connect if packet.size.is_some() => {
                "--size cannot be used with `--method connect`: the kernel's SYN carries no payload"
            }
            SteadyMethod::Icmp if packet.source_port.is_some() => {
                "--source-port cannot be used for ICMP echo: ICMP has no ports"
            }
            SteadyMethod::Icmp if self.port.is_some() => {
                "--port cannot be used with `--method icmp`: ICMP has no ports"
            }
            _ => return Ok(()),
        };
        Err(Failure::new(told).hint("leave one of them out, or use another method"))
    }

    /// Returns true if another method may replace the best one when the best one is not permitted.
    /// A replacement must do all that the user requested.
    pub(super) fn may_stand_in(&self, plan: &SteadyPlan) -> bool {
        let is_told = self.packet.has_flags() || self.packet.size.is_some();
        self.method == Method::Auto && (plan.method == SteadyMethod::Icmp || !is_told)
    }

    fn plan_by(&self, method: SteadyMethod, target: &Target) -> SteadyPlan {
        let sizes = match method {
            SteadyMethod::Icmp => self.packet.size.unwrap_or(Sizes::one(ECHO_SIZE)),
            _ => self.packet.size.unwrap_or_default(),
        };
        let mut plan = SteadyPlan {
            target: TargetId::Subject,
            address: target.address,
            method,
            turn: Turn::ByTheClock,
            count: None,
            interval: self.interval,
            timeout: self.timeout,
            ports: self.packet.source_port.unwrap_or_default(),
            packet: PacketPlan {
                ttl: self.packet.ttl,
                tos: self.packet.tos,
                dont_fragment: self.packet.dont_fragment || sizes.count() > 1,
                sizes,
                flags: self.packet.flags(),
                mss: self.packet.mss,
                interface: self.packet.interface.clone(),
            },
        };
        let usual = plan
            .steps()
            .map_or(USUAL_COUNT, |steps| steps.saturating_mul(EACH_STEP));
        plan.count = Some(self.count.unwrap_or(usual)).filter(|count| *count > 0);
        plan
    }

    /// Returns the load that the user requested.
    pub(super) fn load(&self, events: &mut Vec<Event>) -> Result<Option<load::Plan>> {
        let Some(text) = &self.queueing.loaded else {
            return Ok(None);
        };
        if self.count == Some(0) {
            let told = "--loaded needs a limited number of probes, and `--count 0` has no limit";
            return Err(Failure::new(told).hint("name a count"));
        }
        let url: Url = text
            .parse()
            .map_err(|error| Failure::from(error).hint("give it as http[s]://HOST[:PORT]/PATH"))?;
        let family = Family {
            ipv4: self.ipv4,
            ipv6: self.ipv6,
        };
        let address = lookup::address(url.host(), family, events)?;
        let tls = self.tls.client([&url], Carried::Http1)?;
        let mut plan = load::Plan::new(vec![load::Lane {
            target: load::Target {
                id: TargetId::Subject,
                address: SocketAddr::new(address, url.port()),
                url,
                request: Request::default(),
            },
            phase: Phase::Baseline,
            experiment: None,
            connections: self.queueing.connections,
        }]);
        plan.protocol.tls = tls;
        plan.timeout = self.timeout;
        plan.warm_up = Duration::from_millis(200);
        plan.duration = LONGEST;
        Ok(Some(plan))
    }
}

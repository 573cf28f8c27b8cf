//! The options of `lagtrace probe`.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use lagtrace_core::observed::event::TargetId;
use lagtrace_sources::probe::{
    Ask, LEAST_INTERVAL, PacketPlan, ProbePlan, RequestPlan, Sizes, SteadyMethod, SteadyPlan, Turn,
};

use lagtrace_sources::tls::TlsClient;
use lagtrace_sources::url::{Host, Url};

use super::loaded::Loaded;
use super::packet::{Packet, Request};
use super::targets::{self, Ports, Target};
use crate::duration;
use crate::failure::{Failure, Result};
use crate::tls::Tls;

/// The default number of probes of a series, and of each value of a sweep.
const USUAL_COUNT: u32 = 10;
const EACH_STEP: u32 = 3;
/// The payload of an echo request in bytes, the same as in `ping`.
const ECHO_SIZE: u16 = 56;

/// What to probe, and how.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A SYN from a raw socket (CAP_NET_RAW) is the most precise probe: the kernel
timestamps the SYN and its answer, so the time is right even if this host is
busy. Without CAP_NET_RAW, lagtrace uses connect(2), whose round trip the
kernel measures too. A target without a port is probed with ICMP echo.

An answer that comes after --timeout counts as late, not as lost. Handshakes
and requests are sequential, --interval apart, and end at the timeout.

Examples:
  lagtrace probe shop.example:443
  lagtrace probe shop.example -p 80,443,8000-8010 -c 3
  lagtrace probe 10.0.0.5 -c 0 -i 1s                     like ping
  sudo lagtrace probe 10.0.0.5:80 -s 40000-40015 -c 160  every link of a path
  sudo lagtrace probe 10.0.0.5:80 --matrix               is there a filter?
  lagtrace probe 10.0.0.5 --size 1200-1472/8             which sizes get through
  lagtrace probe [2001:db8::7]:53 --method udp --size 12
  lagtrace probe shop.example -m tls                     handshakes, full and resumed
  lagtrace probe https://shop.example/cart -m http       where the time of a request goes
  lagtrace probe 10.0.0.5:80 --loaded http://10.0.0.5/   where queues are
  lagtrace probe 10.0.0.5:80 --format ndjson | jq .rtt_ns

Coming from hping3 and ping:
  hping3 -S -p 80 HOST     probe HOST:80            -i u10000     -i 10ms
  hping3 -2 -p 53 HOST     probe HOST:53 -m udp     -s 5000 -k    -s 5000
  hping3 -1 HOST, ping     probe HOST               -d, -s (ping) --size
  hping3 -F -P -U -p 80    probe HOST:80 --flags FPU  -y, -M do   --dont-fragment
  nping --tcp-connect      probe HOST:80 -m connect -c, -t, -o    -c, --ttl, --tos")]
pub(crate) struct Options {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(help = "Hosts, HOST[:PORT], [IPV6]:PORT or a URL")]
    #[arg(required = true, value_name = "TARGET")]
    pub(super) targets: Vec<String>,
    /// Ports for targets without one: 80,443,8000-8010
    #[arg(short, long, value_name = "PORTS", value_parser = targets::parse_ports)]
    pub(super) port: Option<Ports>,
    /// Kind of probe
    #[arg(short, long, value_enum, default_value_t, value_name = "METHOD")]
    pub(super) method: Method,
    /// Probes per target and port; default: 10, or 3 for each value of a sweep; 0: until Ctrl-C
    #[arg(short, long, value_name = "N")]
    pub(super) count: Option<u32>,
    /// Time from one probe to the next, whether answered or not
    #[arg(short, long, default_value = "200ms", value_name = "TIME")]
    #[arg(value_parser = interval)]
    pub(super) interval: Duration,
    /// Time after which an answer counts as late
    #[arg(short = 'W', long, default_value = "2s", value_name = "TIME")]
    #[arg(value_parser = duration::parse_positive)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    pub(super) packet: Packet,
    #[command(flatten)]
    pub(super) request: Request,
    #[command(flatten)]
    pub(super) queueing: Loaded,
    #[command(flatten)]
    pub(super) tls: Tls,
    /// Use IPv4 only
    #[arg(short = '4', action = ArgAction::SetTrue, conflicts_with = "ipv6")]
    pub(super) ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', action = ArgAction::SetTrue)]
    pub(super) ipv6: bool,
}

/// The kinds of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// SYN if allowed, otherwise connect; ICMP without a port
    #[default]
    Auto,
    /// A SYN from a raw socket; needs CAP_NET_RAW
    Syn,
    /// connect(2); needs no privilege
    Connect,
    /// ICMP echo
    Icmp,
    /// A UDP datagram; the answer is a datagram or ICMP "port unreachable"
    Udp,
    /// A TLS handshake on a new connection; every second one may resume the session
    Tls,
    /// An HTTP request on a new connection, over TLS for https URLs
    Http,
}

/// A series of probes.
#[derive(Clone, Debug)]
pub(super) enum Plan {
    /// Probes at a constant rate.
    Steady(SteadyPlan),
    /// Handshakes or requests, one after the other.
    Request(RequestPlan),
}

impl Options {
    /// Returns the plan of the target's probes.
    pub(super) fn plan(&self, target: &Target, tls: Option<&TlsClient>) -> Result<Plan> {
        if let Some(url) = &target.url {
            return self.request_plan(target, url, tls).map(Plan::Request);
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
        let ask = match (self.method, self.request.head) {
            (Method::Tls, _) => {
                self.check_request()?;
                Ask::Handshake
            }
            (_, true) => Ask::Head,
            (_, false) => Ask::Get,
        };
        let count = self.count.unwrap_or(USUAL_COUNT);
        let peer = tls.filter(|_| url.is_tls()).map(|tls| tls.to(url.host()));
        Ok(RequestPlan {
            probe: ProbePlan {
                count: if count == 0 { u32::MAX } else { count },
                interval: self.interval,
                timeout: self.timeout,
                silences: u32::MAX,
                ..ProbePlan::new(TargetId::Subject, target.address)
            },
            url: url.clone(),
            peer: peer.transpose()?,
            ask,
            resolved: target.resolved,
        })
    }

    /// Returns an error if options are given that only requests use.
    fn check_request(&self) -> Result<()> {
        let request = &self.request;
        if request.head || request.path != "/" {
            Err(
                Failure::new("--head and --path are for `--method http` only")
                    .hint("add `--method http`, or leave them out"),
            )
        } else {
            Ok(())
        }
    }

    /// Returns the target's URL, if the target is probed with a request or a handshake.
    pub(super) fn url(&self, text: &str, host: &Host, port: Option<u16>) -> Result<Option<Url>> {
        let is_url = text.contains("://");
        let (scheme, path) = match self.method {
            Method::Http if is_url => return Ok(Some(text.parse()?)),
            Method::Http => ("http", self.request.path.as_str()),
            Method::Tls => ("https", "/"),
            _ => return Ok(None),
        };
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        Ok(Some(format!("{scheme}://{host}{port}{path}").parse()?))
    }

    fn method_for(&self, target: &Target) -> SteadyMethod {
        match (self.method, target.has_port) {
            (Method::Auto, _) if self.packet.has_flags() => SteadyMethod::Syn,
            (Method::Auto, false) | (Method::Icmp, _) => SteadyMethod::Icmp,
            (Method::Auto, true) | (Method::Syn, _) => SteadyMethod::Syn,
            (Method::Connect, _) => SteadyMethod::Connect,
            (Method::Udp, _) => SteadyMethod::Udp,
            // Their targets have URLs.
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

    /// Returns true if another method may replace the best one when it is not permitted. This is
    /// not the case if the replacement would not do what the user requested.
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
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    match duration::parse(text)? {
        short if short < LEAST_INTERVAL => Err("must be at least 100us".to_owned()),
        interval => Ok(interval),
    }
}

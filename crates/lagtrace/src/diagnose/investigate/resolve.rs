//! Resolution of URLs to addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lagtrace_core::observed::event::{
    Event, EventBody, Note, OtherAddress, Phase, ProbeAnswer, TargetId,
};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_sources::load::Target;
use lagtrace_sources::probe::{self, ProbePlan};
use lagtrace_sources::request::Request;
use lagtrace_sources::resolve::resolve;
use lagtrace_sources::url::{Host, Url};

use super::Site;
use crate::clock;
use crate::console::Console;
use crate::diagnose::Options;
use crate::failure::{Failure, Result};
use crate::interrupt::{CHECKED_EVERY, Interrupt};
use crate::lookup::Family;
use crate::request::Place;
use crate::request::redirect::Follow;
use crate::words;

/// The step's name.
const STEP: &str = "resolve";
/// The timeout for the system's resolver.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum time for one of several addresses to answer before the next one is tried.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of attempts at an address that seems silent.
const ATTEMPTS: u32 = 5;
/// Maximum number of a name's addresses that are tried.
const MOST_ADDRESSES: usize = 8;

/// Returns the targets in the options, and the events of their resolution; `None` if the user
/// stopped it.
pub(super) fn run(
    options: &Options,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Option<(Vec<Site>, Vec<Event>)>> {
    let mut texts = vec![(TargetId::Subject, options.subject())];
    texts.extend(
        options
            .control
            .as_deref()
            .map(|text| (TargetId::Twin, text)),
    );
    let mut search = Search {
        options,
        console,
        interrupt,
        events: Vec::new(),
    };
    let mut sites = Vec::new();
    // All URLs are parsed before any name is resolved.
    let settled = options.request.settle(options.load.timeout)?;
    let urls: Vec<(TargetId, Url)> = texts
        .into_iter()
        .map(|(id, text)| Ok((id, settled.url(parse(text)?)?)))
        .collect::<Result<_>>()?;
    let is_local = options.request.way.unix_socket.is_some();
    for (id, url) in urls {
        let (url, request) = search.follow(url, settled.request.clone())?;
        let place = options.request.way.place(&url)?;
        let address = if is_local {
            Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), place.port))
        } else {
            search.address(id, &url, &place)?
        };
        let Some(address) = address else {
            return Ok(None);
        };
        sites.push(Site {
            target: Target {
                id,
                address,
                url,
                request,
            },
            route: None,
            server: None,
            upstreams: Vec::new(),
            // A Unix socket is tried by the first request.
            is_open: is_local,
        });
    }
    Ok(Some((sites, search.events)))
}

fn parse(text: &str) -> Result<Url> {
    let failure = |error| Failure::from(error).hint("give it as http[s]://HOST[:PORT]/PATH");
    text.parse().map_err(failure)
}

struct Search<'a> {
    options: &'a Options,
    console: &'a Console,
    interrupt: &'a Interrupt,
    events: Vec<Event>,
}

impl Search<'_> {
    /// Returns the address to use for the URL; `None` if the user stopped the search.
    fn address(&mut self, id: TargetId, url: &Url, place: &Place) -> Result<Option<SocketAddr>> {
        if let Some(address) = self.given(url) {
            let text = format!("{address} is taken for {}", url.host());
            self.console.outcome(STEP, &text);
            return Ok(Some(SocketAddr::new(address, place.port)));
        }
        let Some(event) = self.look_up(&place.host)? else {
            return Ok(None);
        };
        let EventBody::Resolution(resolution) = &event.body else {
            return Err(Failure::new("the resolver returned no result"));
        };
        if let Some(why) = &resolution.failure {
            let told = format!("cannot resolve `{}`: {why}", resolution.name);
            let hint = "check the name's spelling, and the resolver with `getent ahosts NAME`";
            return Err(Failure::new(told).hint(hint));
        }
        let addresses = self.of_family(&resolution.addresses);
        let name = resolution.name.clone();
        let took = words::time(resolution.took);
        self.events.push(event);
        let chosen = self.choose(id, &addresses, place.port).ok_or_else(|| {
            let told = format!("`{name}` has no address of the requested IP version");
            Failure::new(told).hint("leave out -4 and -6")
        })?;
        let text = if place.host.to_string() == chosen.to_string() || name.starts_with('[') {
            format!("{name} is an address")
        } else {
            format!("{name} is {}, in {took}", list(&addresses, chosen))
        };
        self.console.outcome(STEP, &text);
        Ok(Some(SocketAddr::new(chosen, place.port)))
    }

    /// Follows redirects, if that is asked for; returns the last place and its request.
    fn follow(&mut self, url: Url, request: Request) -> Result<(Url, Request)> {
        let options = self.options;
        let follow = Follow {
            options: &options.request,
            tls: &options.tls,
            family: Family {
                ipv4: options.network.ipv4,
                ipv6: options.network.ipv6,
            },
            timeout: options.load.timeout,
        };
        options.request.consent().check_once(&request, &url)?;
        let followed = follow.from(url, request)?;
        if let Some(text) = followed.text() {
            self.console.outcome("redirect", &text);
            let note = EventBody::Note(Note {
                id: "redirects-followed".to_owned(),
                text,
            });
            self.events
                .push(Event::here(clock::now(), Phase::Baseline, note));
        }
        Ok((followed.url, followed.request))
    }

    /// Returns the address that the user specified for the subject's host.
    fn given(&self, url: &Url) -> Option<IpAddr> {
        let subject: Url = self.options.subject().parse().ok()?;
        let address = self.options.network.address?;
        (subject.host() == url.host()).then_some(address)
    }

    /// Calls the system's resolver, which cannot be interrupted. After Ctrl-C its answer is not
    /// awaited.
    fn look_up(&self, host: &Host) -> Result<Option<Event>> {
        let (sender, answer) = channel();
        let host = host.clone();
        thread::spawn(move || {
            resolve(&host, TIMEOUT, |event| {
                // After Ctrl-C the receiver is gone, so the error is ignored.
                let _ = sender.send(event);
            });
        });
        loop {
            match answer.recv_timeout(CHECKED_EVERY) {
                Ok(event) => return Ok(Some(event)),
                Err(RecvTimeoutError::Timeout) if self.interrupt.is_requested() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new("the resolver ended without an answer"));
                }
            }
        }
    }

    fn of_family(&self, addresses: &[IpAddr]) -> Vec<IpAddr> {
        let network = &self.options.network;
        let is_wanted = |address: &&IpAddr| match address {
            IpAddr::V4(_) => !network.ipv6,
            IpAddr::V6(_) => !network.ipv4,
        };
        addresses.iter().filter(is_wanted).copied().collect()
    }

    /// Returns the first address that answers; if none does, the first address. The others are tried
    /// until one is silent: other clients prefer them, and pay for it.
    fn choose(&mut self, id: TargetId, addresses: &[IpAddr], port: u16) -> Option<IpAddr> {
        let (&first, others) = addresses.split_first()?;
        if others.is_empty() {
            return Some(first);
        }
        let (mut chosen, mut has_silent) = (None, false);
        for &address in addresses.iter().take(MOST_ADDRESSES) {
            if self.interrupt.is_requested() || (chosen.is_some() && has_silent) {
                break;
            }
            let address = SocketAddr::new(address, port);
            match attempt(address, self.interrupt) {
                Some(ProbeAnswer::Open) => chosen = chosen.or(Some(address.ip())),
                answer => {
                    let may_be_silent = !has_silent && answer == Some(ProbeAnswer::Silence);
                    let is_silent = may_be_silent && self.stays_silent(address);
                    has_silent |= is_silent;
                    self.pass_over(id, address, chosen, is_silent);
                }
            }
        }
        Some(chosen.unwrap_or(first))
    }

    /// Records that an address did not accept a connection.
    fn pass_over(
        &mut self,
        target: TargetId,
        address: SocketAddr,
        chosen: Option<IpAddr>,
        is_silent: bool,
    ) {
        let told = match (is_silent, chosen) {
            (true, Some(_)) => "does not answer; clients that try it first wait for it",
            (_, None) => "did not accept a connection, so the next address was tried",
            (false, Some(_)) => return,
        };
        let note = EventBody::Note(Note {
            id: "address-passed-over".to_owned(),
            text: format!("{} {told}.", address.ip()),
        });
        let other = is_silent.then(|| {
            EventBody::OtherAddress(OtherAddress {
                target,
                endpoint: Endpoint::from(address),
                attempts: ATTEMPTS,
                answer: ProbeAnswer::Silence,
                waited: ADDRESS_TIMEOUT,
            })
        });
        let now = clock::now();
        let bodies = [note].into_iter().chain(other);
        let events = bodies.map(|body| Event::here(now, Phase::Baseline, body));
        self.events.extend(events);
    }

    /// Returns true if the remaining attempts at a silent address, all at a time, meet silence too: a
    /// single SYN may have been lost.
    fn stays_silent(&self, address: SocketAddr) -> bool {
        let interrupt = self.interrupt;
        thread::scope(|scope| {
            let attempts: Vec<_> = (1..ATTEMPTS)
                .map(|_| scope.spawn(move || attempt(address, interrupt)))
                .collect();
            attempts.into_iter().all(|attempt| {
                attempt
                    .join()
                    .is_ok_and(|it| it == Some(ProbeAnswer::Silence))
            })
        })
    }
}

/// Returns what a connection attempt at an address meets.
fn attempt(address: SocketAddr, interrupt: &Interrupt) -> Option<ProbeAnswer> {
    let plan = ProbePlan {
        count: 1,
        timeout: ADDRESS_TIMEOUT,
        ..ProbePlan::new(TargetId::Subject, address)
    };
    let samples = probe::connect(&plan, interrupt.flag(), |_| {}).ok()?;
    samples.first().map(|sample| sample.answer)
}

/// Lists the addresses, the chosen one first.
fn list(addresses: &[IpAddr], chosen: IpAddr) -> String {
    let others: Vec<_> = addresses
        .iter()
        .filter(|&&address| address != chosen)
        .map(IpAddr::to_string)
        .collect();
    match others.len() {
        0 => chosen.to_string(),
        _ => format!("{chosen} (also {})", others.join(", ")),
    }
}

//! A session of probes: one thread for each series, whose answers are printed as lines.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::observed::event::{Event, EventBody};
use lagtrace_sources::load;
use lagtrace_sources::probe::{ProbeError, SteadyMethod, SteadyPlan, request, steady};

use super::options::Options;
use super::plan::Plan;
use super::{line, loaded};
use crate::conclusion;
use crate::console::Console;
use crate::delivery::{self, Lines, writing};
use crate::failure::{Failure, Result};
use crate::interrupt::{CHECKED_EVERY, Interrupt};
use crate::output::Format;
use crate::words;

/// The number of ICMP errors that Linux sends to one host in a burst; after the burst it sends one
/// per `net.ipv4.icmp_ratelimit` (`XRLIM_BURST_FACTOR` in `net/ipv4/route.c`).
const ICMP_BURST: u32 = 6;
const ICMP_PACE: Duration = Duration::from_secs(1);

/// The messages from the threads of the series.
enum Told {
    Event(Box<Event>),
    Ended(std::result::Result<(), ProbeError>),
}

/// A session that is running.
pub(super) struct Session<'a> {
    options: &'a Options,
    console: &'a Console,
    pub(super) analyzer: Analyzer,
    pub(super) lines: Lines,
    pub(super) has_measured: bool,
    /// True if the lines belong to several series.
    is_crowd: bool,
    /// True while the load is running.
    is_loaded: bool,
}

impl<'a> Session<'a> {
    pub(super) fn begin(options: &'a Options, console: &'a Console) -> Result<Self> {
        Ok(Self {
            options,
            console,
            analyzer: Analyzer::new(conclusion::options(Vec::new())),
            lines: delivery::open(console, true)?,
            has_measured: false,
            is_crowd: false,
            is_loaded: false,
        })
    }

    pub(super) fn measure(&mut self, plans: &[Plan], interrupt: &Interrupt) -> Result<()> {
        self.is_crowd = plans.len() > 1;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (sender, told) = channel();
            self.begin_all(scope, plans, &stop, &sender);
            drop(sender);
            let outcome = self.listen(&told, interrupt, &stop);
            stop.store(true, Ordering::Relaxed);
            outcome
        })
    }

    /// Measures like [`measure`](Self::measure) during the load. The load stops when the probes
    /// have ended, and the probes stop if the load ends first.
    pub(super) fn measure_under(
        &mut self,
        load: &load::Plan,
        plans: &[Plan],
        interrupt: &Interrupt,
    ) -> Result<()> {
        let told = format!(
            "{} to the load",
            words::plural(load.connections().into(), "connection")
        );
        self.console.outcome("loaded", &told);
        self.is_loaded = true;
        let (stop, stop_load) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let (sender, told) = channel();
            let (loading, stops) = (sender.clone(), [&stop, &stop_load]);
            let loads = scope.spawn(move || {
                let [stop, stop_load] = stops;
                let outcome = loaded::run(load, stop_load, |event| {
                    let _ = loading.send(Told::Event(Box::new(event)));
                });
                stop.store(true, Ordering::Relaxed);
                outcome
            });
            self.warm_up(interrupt, &stop);
            let (probes, answers) = channel();
            self.begin_all(scope, plans, &stop, &probes);
            drop((sender, probes));
            // The load's events are processed first: they mark the targets of the probes as under
            // load.
            let forwarded = told.try_iter().try_for_each(|told| self.hear(told));
            let outcome = forwarded.and_then(|()| self.listen(&answers, interrupt, &stop));
            stop.store(true, Ordering::Relaxed);
            stop_load.store(true, Ordering::Relaxed);
            let rest = told.iter().try_for_each(|told| self.hear(told));
            let loads = loads.join();
            outcome.and(rest)?;
            loads.unwrap_or(Ok(()))
        })
    }

    /// Waits until the load has reached its full level.
    fn warm_up(&self, interrupt: &Interrupt, stop: &AtomicBool) {
        let begun = Instant::now();
        while begun.elapsed() < loaded::WARM_UP
            && !interrupt.is_requested()
            && !stop.load(Ordering::Relaxed)
        {
            thread::sleep(CHECKED_EVERY);
        }
    }

    /// Starts a thread for each series.
    fn begin_all<'scope>(
        &self,
        scope: &'scope thread::Scope<'scope, '_>,
        plans: &'scope [Plan],
        stop: &'scope AtomicBool,
        sender: &Sender<Told>,
    ) {
        for plan in plans {
            let sender = sender.clone();
            let may_stand_in = match plan {
                Plan::Steady(plan) => self.options.may_stand_in(plan),
                Plan::Request(_) => false,
            };
            scope.spawn(move || series(plan, may_stand_in, stop, &sender));
        }
    }

    fn listen(
        &mut self,
        told: &Receiver<Told>,
        interrupt: &Interrupt,
        stop: &AtomicBool,
    ) -> Result<()> {
        loop {
            if interrupt.is_requested() {
                stop.store(true, Ordering::Relaxed);
            }
            match told.recv_timeout(CHECKED_EVERY) {
                Ok(told) => self.hear(told)?,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn hear(&mut self, told: Told) -> Result<()> {
        match told {
            Told::Event(event) => self.take(*event),
            Told::Ended(outcome) => outcome.map_err(|error| self.failure(error)),
        }
    }

    fn failure(&self, error: ProbeError) -> Failure {
        let ProbeError::NotPermitted { needs, .. } = &error else {
            return error.into();
        };
        let packet = &self.options.packet;
        let otherwise = if packet.has_flags() || packet.size.is_some() {
            ""
        } else {
            ", or use `--method connect`"
        };
        let hint = format!(
            "run it as root, or allow it with `sudo setcap {}+ep $(command -v lagtrace)`{otherwise}",
            needs.to_lowercase()
        );
        Failure::from(error).hint(hint)
    }

    fn take(&mut self, event: Event) -> Result<()> {
        let output = self.console.output();
        if let EventBody::Probe(sample) = &event.body {
            self.has_measured = true;
            let line = match output.format {
                Format::Text if output.quiet => None,
                Format::Text => Some(line::text(sample, self.is_crowd)),
                Format::Ndjson => Some(line::json(sample, event.at, self.is_loaded)),
                Format::Json => None,
            };
            if let Some(line) = line {
                writeln!(self.lines, "{line}")
                    .and_then(|()| self.lines.flush())
                    .with_context(|| writing(self.console))?;
            }
        }
        self.analyzer.observe(event);
        Ok(())
    }
}

/// Runs the series of one target on a separate thread.
fn series(plan: &Plan, may_stand_in: bool, stop: &AtomicBool, sender: &Sender<Told>) {
    // After a failure the receiver is gone, so the error is ignored.
    let send = |event| {
        let _ = sender.send(Told::Event(Box::new(event)));
    };
    let plan = match plan {
        Plan::Steady(plan) => plan,
        Plan::Request(plan) => {
            let _ = sender.send(Told::Ended(request(plan, stop, send)));
            return;
        }
    };
    let mut outcome = steady(plan, stop, send);
    if let (Err(ProbeError::NotPermitted { needs, .. }), true) = (&outcome, may_stand_in) {
        let (plan, text) = without_privilege(plan, needs);
        send(conclusion::note("probe-without-privilege", text));
        outcome = steady(&plan, stop, send);
    }
    let _ = sender.send(Told::Ended(outcome));
}

/// Returns true if the probes may exceed a host's rate limit for ICMP errors. This host's own
/// loopback has no such limit.
fn is_limited(plan: &SteadyPlan) -> bool {
    !plan.address.ip().is_loopback() && plan.count.is_none_or(|count| count > ICMP_BURST)
}

/// Returns the plan to use if the best plan needs a privilege that is missing, and a remark about
/// it.
fn without_privilege(plan: &SteadyPlan, needs: &str) -> (SteadyPlan, String) {
    let mut plan = plan.clone();
    let text = if plan.method == SteadyMethod::Icmp {
        plan.method = SteadyMethod::Udp;
        let paced = if is_limited(&plan) {
            plan.interval = plan.interval.max(ICMP_PACE);
            " Probes are one second apart, because most hosts send no more ICMP errors."
        } else {
            ""
        };
        format!(
            "Probed by UDP to port {}: a host answers with ICMP if no program listens there. ICMP \
             echo needs {needs}, or this group in net.ipv4.ping_group_range.{paced}",
            plan.address.port()
        )
    } else {
        plan.method = SteadyMethod::Connect;
        format!(
            "Probed by connect(2): raw SYNs, which are more precise, need {needs}. The round trips \
             are the kernel's own measurement of the handshake."
        )
    };
    (plan, text)
}

#[cfg(test)]
mod tests {
    use lagtrace_core::observed::event::TargetId;
    use lagtrace_sources::probe::{PacketPlan, SourcePorts, Turn};

    use super::*;

    #[test]
    fn errors_of_a_host_are_asked_for_no_faster_than_it_sends_them() {
        let pace = |address: &str, count| {
            let plan = SteadyPlan {
                target: TargetId::Subject,
                address: address.parse().expect("an address"),
                method: SteadyMethod::Icmp,
                count,
                turn: Turn::ByTheClock,
                interval: Duration::from_millis(200),
                timeout: Duration::from_secs(2),
                ports: SourcePorts::Fresh,
                packet: PacketPlan::default(),
            };
            let (plan, text) = without_privilege(&plan, "CAP_NET_RAW");
            assert_eq!(plan.method, SteadyMethod::Udp);
            assert_eq!(
                text.contains("one second apart"),
                plan.interval == ICMP_PACE
            );
            plan.interval.as_millis()
        };
        for (address, count, expected) in [
            ("192.0.2.7:33434", Some(10), 1000),
            ("192.0.2.7:33434", None, 1000),
            ("192.0.2.7:33434", Some(6), 200),
            ("127.0.0.1:33434", Some(10), 200),
        ] {
            assert_eq!(pace(address, count), expected, "{address} {count:?}");
        }
    }
}

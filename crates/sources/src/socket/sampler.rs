//! Samples a load's sockets at a steady period while the load runs: once it is
//! over, the server's sockets are gone.
//!
//! Two bounded, unbiased samples come out, one of our own sockets and one of
//! their far ends where the server runs on this host, together at most
//! [`SamplerPlan::most_samples`], in order of time. Options are read only of
//! the sockets that are kept. A look that takes long is followed by a longer
//! pause, so that looking takes at most a tenth of one processor.

use std::collections::HashSet;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lagtrace_core::observed::event::{Event, EventBody, Phase, TargetId};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::time::Timestamp;

use super::foreign::Server;
use super::reservoir::Reservoir;
use super::watch::{OwnWatch, PeerWatch};
use crate::privilege::HostError;

/// A sampler that nobody stops ends by itself.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The pause is at least this many times what a look takes.
const PAUSE_PER_LOOK: u32 = 9;

/// What to sample, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerPlan {
    /// Which target the samples are about.
    pub target: TargetId,
    /// The target's addresses as our connections see them.
    pub remotes: Vec<Endpoint>,
    /// Time from one look to the next.
    pub period: Duration,
    /// The most samples that come out, half of them for each side.
    pub most_samples: usize,
    /// The phase at the start.
    pub phase: Phase,
}

impl SamplerPlan {
    /// Every 100 ms, at most 2,000 samples.
    pub fn new(target: TargetId, remote: Endpoint, phase: Phase) -> Self {
        Self {
            target,
            remotes: vec![remote],
            period: Duration::from_millis(100),
            most_samples: 2_000,
            phase,
        }
    }
}

/// A running sampler. Dropping it stops it and loses the samples.
#[derive(Debug)]
pub struct Sampler {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<Vec<Event>>>,
}

/// What a running sampler is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Enter(Phase),
    Stop,
}

impl Sampler {
    /// Begins sampling our sockets to the plan's remotes and, with `server`,
    /// their far ends.
    ///
    /// # Errors
    /// `sock_diag` is missing, `CAP_SYS_ADMIN` for the server's namespace is, or
    /// no thread can be started.
    pub fn start(plan: SamplerPlan, server: Option<&Server>) -> Result<Self, HostError> {
        let own = OwnWatch::open(plan.remotes.clone())?;
        let peer = server.map(PeerWatch::open).transpose()?;
        let (orders, inbox) = mpsc::channel();
        let mut looks = Looks::new(plan, own, peer);
        let thread = thread::Builder::new()
            .name("socket-sampler".to_owned())
            .spawn(move || {
                looks.run(&inbox);
                looks.into_events()
            })
            .map_err(|e| HostError::failed("starting the socket sampler", e))?;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    /// What is seen from now on belongs to `phase`.
    pub fn enter(&self, phase: Phase) {
        self.order(Order::Enter(phase));
    }

    /// Takes a last look and ends: the samples, the listeners when their
    /// queues were longest, and remarks, in order of time.
    pub fn stop(mut self) -> Vec<Event> {
        self.order(Order::Stop);
        let thread = self.thread.take();
        thread.and_then(|t| t.join().ok()).unwrap_or_default()
    }

    /// A sampler that ended has nobody to tell.
    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            orders.send(order).unwrap_or_default();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            thread.join().map(drop).unwrap_or_default();
        }
    }
}

/// The sampler's thread.
#[derive(Debug)]
struct Looks {
    plan: SamplerPlan,
    phase: Phase,
    own: OwnWatch,
    peer: Option<PeerWatch>,
    own_samples: Reservoir<Event>,
    peer_samples: Reservoir<Event>,
    failure: Option<HostError>,
}

impl Looks {
    fn new(plan: SamplerPlan, own: OwnWatch, peer: Option<PeerWatch>) -> Self {
        let each = plan.most_samples / if peer.is_some() { 2 } else { 1 };
        Self {
            phase: plan.phase,
            own,
            peer,
            own_samples: Reservoir::new(each),
            peer_samples: Reservoir::new(each),
            failure: None,
            plan,
        }
    }

    fn run(&mut self, inbox: &Receiver<Order>) {
        let end = Instant::now() + LONGEST;
        let mut due = Instant::now();
        while due < end {
            match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Order::Enter(phase)) => self.phase = phase,
                Ok(Order::Stop) => {
                    self.look();
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let begin = Instant::now();
                    self.look();
                    let took = begin.elapsed();
                    due = (begin + self.plan.period).max(begin + took * (PAUSE_PER_LOOK + 1));
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// One look at both sides. A side that fails is left out from then on.
    fn look(&mut self) {
        if self.failure.is_some() {
            return;
        }
        if let Err(e) = self.look_at_both() {
            self.failure = Some(e);
        }
    }

    fn look_at_both(&mut self) -> Result<(), HostError> {
        let (target, phase) = (self.plan.target, self.phase);
        let ours = self.own.look()?;
        let at = now();
        for record in &ours {
            let own = &mut self.own;
            self.own_samples
                .offer(|| Event::here(at, phase, EventBody::Socket(own.sample(record, target))));
        }
        if let Some(peer) = &mut self.peer {
            let locals: HashSet<Endpoint> = ours.iter().map(|record| record.local).collect();
            let theirs = peer.look(&locals, at)?;
            let at = now();
            for record in &theirs {
                self.peer_samples.offer(|| {
                    Event::here(at, phase, EventBody::Socket(peer.sample(record, target)))
                });
            }
        }
        Ok(())
    }

    fn into_events(mut self) -> Vec<Event> {
        let notes = self.notes();
        let listeners = self.peer.into_iter().flat_map(PeerWatch::into_fullest);
        let listener = |(at, l)| Event::here(at, self.plan.phase, EventBody::Listener(l));
        let mut events = self.own_samples.into_items();
        events.extend(self.peer_samples.into_items());
        events.extend(listeners.map(listener));
        events.extend(notes);
        events.sort_by_key(|event| event.at);
        events
    }

    /// What was refused, and what it would have shown.
    fn notes(&mut self) -> Vec<Event> {
        let own = self.own.take_refusal();
        let peer = self.peer.as_mut().and_then(PeerWatch::take_refusal);
        let at = now();
        let note = |refusal: Option<HostError>, id, unseen| {
            let note = refusal?.note(id, unseen);
            Some(Event::here(at, self.phase, EventBody::Note(note)))
        };
        let notes = [
            note(
                own,
                "not-measured-own-options",
                "the options of our own sockets",
            ),
            note(
                peer,
                "not-measured-peer-options",
                "TCP_NODELAY, TCP_QUICKACK and TCP_CORK of the server's sockets",
            ),
            note(
                self.failure.take(),
                "not-measured-sockets",
                "sockets from some point of the load on",
            ),
        ];
        notes.into_iter().flatten().collect()
    }
}

/// This host's `CLOCK_REALTIME`.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from_nanos(0) + since.unwrap_or_default()
}

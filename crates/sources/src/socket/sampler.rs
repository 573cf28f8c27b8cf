//! Periodic sampling of the sockets of load connections. The server's sockets have to be sampled
//! while the load runs, because they no longer exist afterwards.
//!
//! The result is two sets of samples, which are selected evenly and limited in size. One set is of
//! this process's sockets. The other one is of the sockets at the server's end, if the server runs
//! on this host. Together they have at most [`SamplerPlan::most_samples`] entries, in order of
//! time. Options are read only for selected sockets. A slow poll is followed by a longer pause, so
//! that polling uses at most a tenth of one processor.

use std::collections::HashSet;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lagtrace_core::observed::event::{Event, EventBody, Phase, TargetId};
use lagtrace_core::observed::flow::Endpoint;

use super::foreign::Server;
use super::reservoir::Reservoir;
use super::watch::{OwnWatch, PeerWatch};
use crate::clock::Clock;
use crate::privilege::HostError;

/// Maximum run time of a sampler.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Minimum pause after a poll, as a multiple of the poll's duration.
const PAUSE_PER_LOOK: u32 = 9;

/// The settings of a sampler: sockets, period and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerPlan {
    /// Role of the target: the server under investigation or its twin.
    pub target: TargetId,
    /// Addresses of the target to which this process connects.
    pub remotes: Vec<Endpoint>,
    /// Interval between polls.
    pub period: Duration,
    /// Maximum number of samples returned. If the server runs on this host, half of them are for
    /// its sockets.
    pub most_samples: usize,
    /// Phase at the beginning.
    pub phase: Phase,
}

impl SamplerPlan {
    /// Creates settings with a poll every 100 ms and at most 2,000 samples.
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

/// A running sampler. Dropping it stops the sampler and discards the samples.
#[derive(Debug)]
pub struct Sampler {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<Vec<Event>>>,
}

/// A command to a running sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Enter(Phase),
    Stop,
}

impl Sampler {
    /// Starts to sample this process's sockets to the plan's remotes and, with `server`, their
    /// remote ends.
    ///
    /// # Errors
    /// Returns an error if the kernel has no `sock_diag`, if `CAP_SYS_ADMIN` is missing for the
    /// server's namespace, or if no thread can be started.
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

    /// Assigns all later samples to `phase`.
    pub fn enter(&self, phase: Phase) {
        self.order(Order::Enter(phase));
    }

    /// Polls one last time and stops. Returns in order of time: the samples, each listener with its
    /// longest queue, and the notes.
    pub fn stop(mut self) -> Vec<Event> {
        self.order(Order::Stop);
        let thread = self.thread.take();
        thread.and_then(|t| t.join().ok()).unwrap_or_default()
    }

    /// Sends a command. A sampler that has ended ignores it.
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

/// The state of the sampler's thread.
#[derive(Debug)]
struct Looks {
    plan: SamplerPlan,
    /// Samples are compared by their times, which must not jump.
    clock: Clock,
    phase: Phase,
    own: OwnWatch,
    peer: Option<PeerWatch>,
    own_samples: Reservoir<Event>,
    peer_samples: Reservoir<Event>,
    own_failure: Option<HostError>,
    peer_failure: Option<HostError>,
}

impl Looks {
    fn new(plan: SamplerPlan, own: OwnWatch, peer: Option<PeerWatch>) -> Self {
        let each = plan.most_samples / if peer.is_some() { 2 } else { 1 };
        Self {
            clock: Clock::new(),
            phase: plan.phase,
            own,
            peer,
            own_samples: Reservoir::new(each),
            peer_samples: Reservoir::new(each),
            own_failure: None,
            peer_failure: None,
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

    /// Polls both ends once. An end whose poll has failed is not polled again. The remote ends are
    /// found through the local ones, so they are not polled after a failure of the local ends.
    fn look(&mut self) {
        if self.own_failure.is_some() {
            return;
        }
        match self.look_at_ours() {
            Ok(locals) if self.peer_failure.is_none() => {
                self.peer_failure = self.look_at_theirs(&locals).err();
            }
            Ok(_) => {}
            Err(e) => self.own_failure = Some(e),
        }
    }

    /// Polls the sockets of this process. Returns their local addresses.
    fn look_at_ours(&mut self) -> Result<HashSet<Endpoint>, HostError> {
        let (target, phase) = (self.plan.target, self.phase);
        let ours = self.own.look()?;
        let at = self.clock.now();
        for record in &ours {
            let own = &mut self.own;
            self.own_samples
                .offer(|| Event::here(at, phase, EventBody::Socket(own.sample(record, target))));
        }
        Ok(ours.iter().map(|record| record.local).collect())
    }

    /// Polls the remote ends of the sockets with these local addresses.
    fn look_at_theirs(&mut self, locals: &HashSet<Endpoint>) -> Result<(), HostError> {
        let (target, phase) = (self.plan.target, self.phase);
        let Some(peer) = &mut self.peer else {
            return Ok(());
        };
        let theirs = peer.look(locals, self.clock.now())?;
        let at = self.clock.now();
        for record in &theirs {
            self.peer_samples
                .offer(|| Event::here(at, phase, EventBody::Socket(peer.sample(record, target))));
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

    /// Returns notes on refused operations and on the measurements that are missing because of
    /// them.
    fn notes(&mut self) -> Vec<Event> {
        let own = self.own.take_refusal();
        let peer = self.peer.as_mut().and_then(PeerWatch::take_refusal);
        let at = self.clock.now();
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
                self.own_failure.take(),
                "not-measured-sockets",
                "sockets from some point of the load on",
            ),
            note(
                self.peer_failure.take(),
                "not-measured-peer-sockets",
                "the server's sockets from some point of the load on",
            ),
        ];
        notes.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_side_that_fails_leaves_the_other_one_polled() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound");
        let _client = TcpStream::connect(server).expect("it listens");
        let plan = SamplerPlan::new(TargetId::Subject, server.into(), Phase::Baseline);
        let own = OwnWatch::open(plan.remotes.clone()).expect("the kernel has sock_diag");
        let mut looks = Looks::new(plan, own, None);
        let failed = || HostError::failed("asking for sockets", io::Error::other("gone"));
        looks.peer_failure = Some(failed());
        looks.look();
        looks.look();
        let events = looks.into_events();
        let is_socket = |event: &&Event| matches!(event.body, EventBody::Socket(_));
        assert_eq!(events.iter().filter(is_socket).count(), 2);
        let notes = events.iter().filter_map(|event| match &event.body {
            EventBody::Note(note) => Some(note.id.as_str()),
            _ => None,
        });
        assert_eq!(notes.collect::<Vec<_>>(), ["not-measured-peer-sockets"]);
    }
}

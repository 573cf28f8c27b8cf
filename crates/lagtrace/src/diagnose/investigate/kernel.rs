//! Watching of the server's kernel during the observed load, which reveals the stages of each
//! request at the server, and the options that programs set on its connections.
//!
//! The watch also reports segments. They are ignored, because the capture already contains them.
//! Only its turns are used: the times of a request and its response at the server. For HTTP/2 these
//! are the passages of their bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Note, Phase};
use lagtrace_core::observed::flow::{Endpoint, FlowKey, Transport};
use lagtrace_core::observed::kernel_span::{RequestSpan, WatchTally};
use lagtrace_core::observed::passage::BytePassage;
use lagtrace_core::observed::syscall::SocketCall;
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_sources::kernel::{KernelError, Sighting, Standing, Watch, WatchOptions};
use lagtrace_sources::privilege::namespace_id;
use lagtrace_sources::socket::survey::Choice;

use super::{Investigation, Site};
use crate::call_trace::{CallTrace, TAKEN_EVERY, Traced};
use crate::failure::Failure;
use crate::words;

/// The step's name.
const STEP: &str = "watching";
/// Maximum number of turns kept until they are analysed, which take about 40 MB.
const MOST_TURNS: usize = 1 << 17;
/// Maximum number of passages kept until they are analysed, which take about 60 MB.
const MOST_PASSAGES: usize = 1 << 19;
/// Time by which a passage is passed on before its own time, so that it comes before the packet of
/// the same bytes.
const EARLIER: Duration = Duration::from_millis(5);
/// Maximum number of readers whose namespace is remembered.
const MOST_READERS: usize = 1 << 12;

/// A watch that is running.
pub(super) struct Watching {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// A server as its kernel sees it (`namespace`, `local`), and its address on the client's
/// connections (`target`). With NAT, the two addresses differ.
#[derive(Clone, Copy, Debug)]
struct Place {
    namespace: u64,
    local: Endpoint,
    target: Endpoint,
}

/// The turns observed by a watch.
#[derive(Default)]
struct Seen {
    places: Vec<Place>,
    /// The network namespaces of the programs that read requests.
    readers: BTreeMap<u32, Option<u64>>,
    /// The servers' turns (a request and its answer), selected by address and network namespace. A
    /// turn whose namespace is unknown is included.
    turns: Vec<RequestSpan>,
    /// The passages on connections to the servers.
    passages: Vec<BytePassage>,
    /// The number of these turns that were skipped for lack of memory.
    skipped: u64,
    standing: Standing,
    /// System calls on sockets of the servers.
    traced: Traced,
}

impl Watching {
    /// Starts watching the servers that run on this host, if this is requested and permitted.
    pub(super) fn begin(investigation: &mut Investigation<'_>) -> Option<Self> {
        if investigation.options.host.no_watch {
            return None;
        }
        let places: Vec<Place> = investigation.open_sites().filter_map(place).collect();
        if places.is_empty() {
            return None;
        }
        match Self::start(places) {
            Ok((watching, missing)) => {
                for missing in missing {
                    let text = format!("This kernel does not offer {missing}.");
                    investigation.note("watch-missing", text);
                }
                Some(watching)
            }
            Err(why) => {
                let text = format!(
                    "Not measured: the requests in the server's kernel, which would show the \
                     stages of its time (unread, in the program, held back): {why}."
                );
                let id = "not-measured-watch".to_owned();
                investigation.not_measured(STEP, Note { id, text });
                None
            }
        }
    }

    /// Starts the watching thread. The BPF programs stay with this thread, because it loads them.
    fn start(places: Vec<Place>) -> Result<(Self, Vec<String>), String> {
        let stop = Arc::new(AtomicBool::new(false));
        let (begun, has_begun) = channel();
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("watching".to_owned())
            .spawn(move || watch(places, &begun, &stopped))
            .map_err(|error| error.to_string())?;
        match has_begun.recv() {
            Ok(Ok(missing)) => Ok((Self { stop, thread }, missing)),
            Ok(Err(error)) => Err(describe(error)),
            Err(_) => Err("its thread ended".to_owned()),
        }
    }

    /// Ends the watch and keeps the turns of the client's own connections.
    pub(super) fn end(self, investigation: &mut Investigation<'_>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut seen = self.thread.join().unwrap_or_default();
        seen.tell_calls(investigation);
        let flows = own_flows(investigation.feed.waiting());
        let all = seen.turns.len() as u64;
        let passages = seen.tell_passages(investigation, &flows);
        let (mut used, mut turns) = (BTreeSet::new(), 0);
        for turn in seen
            .turns
            .into_iter()
            .filter_map(|turn| known(turn, &seen.places))
        {
            let flow = flow_of(&turn);
            if !flows.contains(&flow) {
                continue;
            }
            used.insert(flow);
            turns += 1;
            // The turn is passed on before the packets of the same time, because an exchange is
            // joined with its turn when it closes.
            let at = turn.arrived;
            let body = EventBody::Turn(Box::new(turn));
            investigation
                .feed
                .observe(Event::here(at, Phase::Baseline, body));
        }
        investigation
            .feed
            .observe_now(EventBody::Watched(WatchTally {
                // Only the client's own requests count, and their latencies are observed one by
                // one.
                latency: Distribution::default(),
                // The kernel counts drops per port over all namespaces, so they may concern other
                // programs.
                drops: Vec::new(),
                connections: u64::try_from(used.len()).unwrap_or(u64::MAX),
                ..seen.standing.tally
            }));
        tell(investigation, (turns, passages), all, seen.skipped);
    }
}

fn place(site: &Site) -> Option<Place> {
    let server = site.server.as_ref()?;
    Some(Place {
        namespace: server.namespace().id(),
        local: server.endpoint(),
        target: site.target.endpoint(),
    })
}

fn describe(error: KernelError) -> String {
    let hint = error.hint();
    let hint = hint.map_or(String::new(), |hint| format!(" ({hint})"));
    format!("{}{hint}", Failure::from(error))
}

/// Returns the network namespace of all servers; `None` if they are in several, which are then
/// watched together with all others.
fn shared_namespace(places: &[Place]) -> Option<u64> {
    let first = places.first()?.namespace;
    let is_shared = places.iter().all(|place| place.namespace == first);
    is_shared.then_some(first)
}

/// Watches until the thread is stopped.
fn watch(
    places: Vec<Place>,
    begun: &Sender<Result<Vec<String>, KernelError>>,
    stop: &AtomicBool,
) -> Seen {
    let options = WatchOptions {
        ports: places.iter().map(|place| place.local.port).collect(),
        namespace: shared_namespace(&places),
        ..WatchOptions::default()
    };
    let mut seen = Seen {
        places,
        ..Seen::default()
    };
    // Attaching takes a while, in which nobody would read what the watch records.
    let mut calls = CallTrace::start(Choice {
        ports: options.ports.clone(),
        ..Choice::default()
    });
    let mut watch = match Watch::start(&options) {
        Ok(watch) => watch,
        Err(error) => {
            let _ = begun.send(Err(error));
            return seen;
        }
    };
    if begun.send(Ok(watch.missing().to_vec())).is_err() {
        return seen;
    }
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(TAKEN_EVERY);
        watch.take(|sighting| seen.take(&sighting));
        calls.take();
    }
    seen.standing = watch.finish(|sighting| seen.take(&sighting));
    seen.traced = calls.finish();
    seen
}

impl Seen {
    fn take(&mut self, sighting: &Sighting<'_>) {
        let turn = match sighting {
            Sighting::Turn(turn) => turn,
            Sighting::Passage(passage) => return self.take_passage(passage),
            Sighting::Packet(_) => return,
        };
        let reader = turn
            .program
            .as_ref()
            .and_then(|program| self.namespace_of(program.pid));
        // If the network namespace of a turn's reader is not known, the turn may belong to any
        // place.
        let is_there = |place: &Place| {
            place.local == turn.local && reader.is_none_or(|reader| reader == place.namespace)
        };
        if !self.places.iter().any(is_there) {
            return;
        }
        if self.turns.len() < MOST_TURNS {
            self.turns.push((*turn).clone())
        } else {
            self.skipped += 1
        }
    }

    fn take_passage(&mut self, passage: &BytePassage) {
        let is_there = |place: &Place| place.local == passage.local;
        if !self.places.iter().any(is_there) {
            return;
        }
        if self.passages.len() < MOST_PASSAGES {
            self.passages.push(passage.clone());
        } else {
            self.skipped += 1;
        }
    }

    /// Passes on the passages on our connections, with the addresses that these have. Returns their
    /// number.
    fn tell_passages(
        &mut self,
        investigation: &mut Investigation<'_>,
        flows: &BTreeSet<FlowKey>,
    ) -> u64 {
        let mut count = 0;
        for mut passage in std::mem::take(&mut self.passages) {
            let is_there = |place: &&Place| place.local == passage.local;
            let Some(place) = self.places.iter().find(is_there) else {
                continue;
            };
            passage.local = place.target;
            let (flow, _) = FlowKey::new(Transport::Tcp, passage.remote, passage.local);
            if flows.contains(&flow) {
                count += 1;
                let at = passage.at - EARLIER;
                let body = EventBody::Passage(Box::new(passage));
                let event = Event::here(at, Phase::Baseline, body);
                investigation.feed.observe(event);
            }
        }
        count
    }

    /// Passes on the calls on the servers' sockets, with the addresses that our connections have.
    fn tell_calls(&mut self, investigation: &mut Investigation<'_>) {
        let mut traced = std::mem::take(&mut self.traced);
        if let Some(refusal) = traced.refusal.take() {
            let text = format!(
                "Not measured: the system calls on the server's sockets, which would show who set \
                 TCP_NODELAY, TCP_CORK or a buffer's size: {refusal}."
            );
            investigation.note("not-measured-calls", text);
        }
        let own = namespace_id(std::process::id()).ok();
        let calls = std::mem::take(&mut traced.calls).into_iter();
        traced.calls = calls
            .filter_map(|call| at_target(call, &self.places, own))
            .collect();
        investigation.feed.observe_all(traced.events());
    }

    /// Returns the network namespace of a process; `None` if it is not known.
    fn namespace_of(&mut self, pid: u32) -> Option<u64> {
        if let Some(known) = self.readers.get(&pid) {
            return *known;
        }
        let namespace = namespace_id(pid).ok();
        if self.readers.len() < MOST_READERS {
            self.readers.insert(pid, namespace);
        }
        namespace
    }
}

/// Returns the turn with the server's address as the client's connections have it. The address at
/// the server may differ because of NAT.
fn known(turn: RequestSpan, places: &[Place]) -> Option<RequestSpan> {
    let place = places.iter().find(|place| place.local == turn.local)?;
    Some(RequestSpan {
        local: place.target,
        ..turn
    })
}

/// Returns the call with the address that the client's connections have; `None` for a call on
/// another server's socket. `own` is our network namespace.
fn at_target(call: SocketCall, places: &[Place], own: Option<u64>) -> Option<SocketCall> {
    let mut call = call;
    let socket = call.socket.as_mut()?;
    let (local, namespace) = (socket.local?, socket.namespace.or(own));
    let place = places.iter().find(|place| {
        let is_bound = place.local == local || local.addr.is_unspecified();
        is_bound && place.local.port == local.port && Some(place.namespace) == namespace
    })?;
    socket.local = Some(place.target);
    Some(call)
}

fn flow_of(turn: &RequestSpan) -> FlowKey {
    FlowKey::new(Transport::Tcp, turn.remote, turn.local).0
}

fn own_flows(events: &[Event]) -> BTreeSet<FlowKey> {
    let flows = events.iter().filter_map(|event| match event.body {
        EventBody::FlowPhase(flow) => Some(flow),
        _ => None,
    });
    flows.collect()
}

fn tell(
    investigation: &mut Investigation<'_>,
    (turns, passages): (u64, u64),
    all: u64,
    skipped: u64,
) {
    if skipped > 0 {
        let text = format!(
            "{} that the server's kernel timed did not fit into memory and were left out.",
            words::plural(skipped, "request")
        );
        investigation.note("watch-memory-full", text);
    }
    if turns == 0 && passages == 0 && all > 0 {
        let text = format!(
            "The server's kernel timed {}, but none of them could be joined to a connection of \
             ours, as behind NAT or a proxy, or if connections end before they are answered.",
            words::plural(all, "request")
        );
        let id = "watch-unmatched".to_owned();
        return investigation.not_measured(STEP, Note { id, text });
    }
    let text = match turns {
        0 if passages > 0 => "the requests' bytes timed by the server's kernel".to_owned(),
        0 => "no request was seen at the server".to_owned(),
        _ => format!(
            "{} timed by the server's kernel",
            words::plural(turns, "request")
        ),
    };
    investigation.console.outcome(STEP, &text);
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use lagtrace_core::observed::kernel_span::{KernelHold, Program};
    use lagtrace_core::observed::time::Timestamp;

    use super::*;

    fn end(port: u16) -> Endpoint {
        Endpoint::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
    }

    /// Returns a turn at port 80 that was read by this process, or by an unknown process.
    fn turn(pid: Option<u32>) -> RequestSpan {
        let at = Timestamp::from_nanos(0);
        RequestSpan {
            local: end(80),
            remote: end(40_000),
            program: pid.map(|pid| Program {
                pid,
                tid: pid,
                name: "server".to_owned(),
            }),
            arrived: at,
            entered: None,
            delivered: at,
            delivered_last: at,
            read: None,
            written: None,
            written_last: None,
            sent: at,
            sent_last: at,
            departure: None,
            refused: None,
            writes: 0,
            held: KernelHold::default(),
            thread: None,
            asked: None,
        }
    }

    fn kept(namespace: u64, local: Endpoint, turn: &RequestSpan) -> usize {
        let place = Place {
            namespace,
            local,
            target: end(8080),
        };
        let mut seen = Seen {
            places: vec![place],
            ..Seen::default()
        };
        seen.take(&Sighting::Turn(turn));
        seen.turns.len()
    }

    #[test]
    fn only_the_servers_own_namespace_counts() {
        let own = std::process::id();
        let namespace = namespace_id(own).expect("our own");
        let ours = turn(Some(own));
        assert_eq!(kept(namespace, end(80), &ours), 1);
        assert_eq!(kept(namespace + 1, end(80), &ours), 0, "equal addresses");
        assert_eq!(kept(namespace, end(81), &ours), 0, "another service");
        assert_eq!(kept(namespace, end(80), &turn(None)), 1, "nobody read");
    }

    #[test]
    fn servers_in_several_namespaces_are_watched_in_all() {
        let place = |namespace| Place {
            namespace,
            local: end(80),
            target: end(80),
        };
        assert_eq!(shared_namespace(&[place(7), place(7)]), Some(7));
        assert_eq!(shared_namespace(&[place(7), place(8)]), None);
        assert_eq!(shared_namespace(&[]), None);
    }

    #[test]
    fn a_translated_address_is_the_one_that_we_ask() {
        let place = Place {
            namespace: 0,
            local: end(80),
            target: end(8080),
        };
        let known = known(turn(None), &[place]).expect("there");
        assert_eq!((known.local, known.remote), (end(8080), end(40_000)));
    }
}

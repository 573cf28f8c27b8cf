//! The ends of processes that are watched: that of `--pid`, and those that listen at the watched
//! ports when the watch begins. What is seen afterwards is less, or that of another process.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lagtrace_core::observed::event::Event;
use lagtrace_core::observed::sockets::LiveSocket;
use lagtrace_sources::privilege::ProcessHandle;
use lagtrace_sources::socket::process_name;

use super::Options;
use super::listeners::port;
use crate::clock;
use crate::conclusion;
use crate::console::Console;
use crate::words;

/// Maximum number of processes that are followed. A server may have many.
const MOST: usize = 32;
/// Maximum number of ends that are told one by one.
const MOST_TOLD: usize = 5;
/// Interval at which the processes are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// The processes that are watched.
#[derive(Debug)]
pub(super) struct ProcessEnds {
    running: Vec<Process>,
    /// The ends, in the order in which they were seen.
    told: Vec<String>,
    began: Instant,
    looked: Instant,
    /// Advice for when all have ended.
    consequence: &'static str,
}

#[derive(Debug)]
struct Process {
    handle: ProcessHandle,
    /// The process in words: number, name and port.
    words: String,
}

impl ProcessEnds {
    /// Begins to follow the watched processes. `listeners` are the listening sockets of this host.
    pub(super) fn new(options: &Options, listeners: &[LiveSocket]) -> Self {
        let now = Instant::now();
        let (wanted, consequence) = match options.pid {
            Some(pid) => (
                BTreeMap::from([(pid, of_number(pid))]),
                "Nothing is seen from then on, even if another process takes its place: watch that \
                 one, or its port (-p)",
            ),
            None => (
                holders(&options.wanted().ports, listeners),
                "Requests are seen again if others listen there",
            ),
        };
        let follow = |(pid, words)| {
            let handle = ProcessHandle::open(pid).ok()?;
            Some(Process { handle, words })
        };
        Self {
            running: wanted.into_iter().take(MOST).filter_map(follow).collect(),
            told: Vec::new(),
            began: now,
            looked: now,
            consequence,
        }
    }

    /// Looks whether processes have ended, and says so at once.
    pub(super) fn look(&mut self, console: &Console) {
        if self.looked.elapsed() >= INTERVAL {
            self.look_now(|text| console.note(text));
        }
    }

    fn look_now(&mut self, mut tell: impl FnMut(&str)) {
        self.looked = Instant::now();
        let (after, at) = (words::time(self.began.elapsed()), clock::now());
        let ended = self.running.extract_if(.., |it| it.handle.has_ended());
        for Process { words, .. } in ended {
            let at = clock::moment(at.as_nanos());
            let text = format!("{words} ended at {at}, {after} after the watch began");
            if self.told.len() < MOST_TOLD {
                tell(&text);
            }
            self.told.push(text);
        }
    }

    /// Returns the notes for the report.
    pub(super) fn notes(mut self) -> Vec<Event> {
        self.look_now(|_| ());
        let more = self.told.len().saturating_sub(MOST_TOLD);
        let mut texts: Vec<String> = self.told.iter().take(MOST_TOLD).cloned().collect();
        if more > 0 {
            texts.push(format!("So did {more} more of those that were watched"));
        }
        if let Some(last) = texts.last_mut()
            && self.running.is_empty()
        {
            last.push_str(&format!(". {}", self.consequence));
        }
        let note = |text| conclusion::note("watched-process-ended", format!("{text}."));
        texts.into_iter().map(note).collect()
    }
}

fn of_number(pid: u32) -> String {
    match process_name(pid).as_str() {
        "" => format!("The watched process {pid}"),
        name => format!("The watched process {pid} ({name})"),
    }
}

/// Returns the processes that listen at these ports, with their words. If nobody may look into
/// them, there are none.
fn holders(ports: &[u16], listeners: &[LiveSocket]) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for socket in listeners {
        let Some(port) = port(socket).filter(|port| ports.contains(port)) else {
            continue;
        };
        for holder in &socket.owner.holders {
            let words = || {
                let (pid, name) = (holder.pid, &holder.name);
                format!("Process {pid} ({name}), which listened at port {port},")
            };
            found.entry(holder.pid).or_insert_with(words);
        }
    }
    found
}

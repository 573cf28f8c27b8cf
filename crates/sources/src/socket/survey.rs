//! A look at the TCP sockets of this host: in all network namespaces that we
//! may enter, with who holds them, their options and their state.
//!
//! Nothing is stopped or traced: the kernel tells of the sockets, `/proc` of
//! who holds them, and options are read from a duplicate of the descriptor
//! that is dropped at once.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use lagtrace_core::event::Note;
use lagtrace_core::flow::Endpoint;
use lagtrace_core::live::{Holder, LiveOptions, LiveSocket, Timer};

use super::cgroup::Membership;
pub use super::choice::{Choice, End};
use super::diag::{DiagSocket, Selection};
use super::namespaces::Namespaces;
use super::options;
use super::process;
use super::record::SocketRecord;
use crate::privilege::{HostError, ProcessHandle};

/// At most this many sockets are looked at.
const MOST_SOCKETS: usize = 65_536;
/// Options are read of at most this many at one look.
const MOST_OPTIONS: usize = 8192;
/// Who holds a socket is looked up again after this long: a process may have
/// handed it on.
const HOLDERS_LAST: Duration = Duration::from_secs(1);
/// Options are read again after this long: the state of a socket costs one
/// request for all of them, its options several calls each.
const OPTIONS_LAST: Duration = Duration::from_millis(100);
/// The pause between two searches for holders is at least this many times what
/// one takes: where connections come and go, each look has some to search for.
const PAUSE_PER_SEARCH: u32 = 9;

/// Looks at sockets, as often as it is asked to.
#[derive(Debug)]
pub struct Survey {
    choice: Choice,
    places: Vec<(Option<u64>, DiagSocket)>,
    entering: Option<HostError>,
    reading: Option<HostError>,
    /// Whether that left a socket without its options.
    lacks: bool,
    /// Holders by inode, as they were found at an instant.
    holders: HashMap<u32, Vec<Holder>>,
    /// When the last search for them ended, and what it took.
    searched: Option<(Instant, Duration)>,
    /// Options by cookie, and when they were read.
    options: HashMap<u64, (Instant, LiveOptions)>,
}

/// A socket and where it was found.
struct Found {
    namespace: Option<u64>,
    record: SocketRecord,
    is_chosen: bool,
}

impl Survey {
    /// Finds the namespaces to look into.
    ///
    /// # Errors
    /// The kernel has no `sock_diag`.
    pub fn open(choice: Choice) -> Result<Self, HostError> {
        let mut places = vec![(None, DiagSocket::open()?)];
        let mut namespaces = Namespaces::new();
        let mut entering = None;
        for namespace in namespaces.by_ref().filter(|namespace| !namespace.is_own()) {
            match DiagSocket::open_in(&namespace) {
                Ok(socket) => places.push((Some(namespace.id()), socket)),
                Err(refusal) => entering = entering.or(Some(refusal)),
            }
        }
        Ok(Self {
            choice,
            places,
            entering: entering.or(namespaces.refusal),
            reading: None,
            lacks: false,
            holders: HashMap::new(),
            searched: None,
            options: HashMap::new(),
        })
    }

    /// The sockets as they are now.
    ///
    /// # Errors
    /// The kernel gave no whole answer.
    pub fn look(&mut self) -> Result<Vec<LiveSocket>, HostError> {
        let mut found = self.dump()?;
        let mut processes = Processes::default();
        self.find_holders(&found, &mut processes);
        for each in &mut found {
            let holders = self.holders_of(&each.record);
            each.is_chosen &= self.choice.is_held_by_meant(each.record.cgroup, holders);
        }
        let wanted: HashSet<(Endpoint, Endpoint)> = found
            .iter()
            .filter(|each| each.is_chosen)
            .map(|each| (each.record.remote, each.record.local))
            .collect();
        found.retain(|each| {
            each.is_chosen || wanted.contains(&(each.record.local, each.record.remote))
        });
        let last = core::mem::take(&mut self.options);
        let mut sockets = Vec::with_capacity(found.len());
        for each in found {
            let holders = self.holders_of(&each.record).to_vec();
            let options = match each.is_chosen && self.options.len() < MOST_OPTIONS {
                true => self.options(&last, &mut processes, &each.record, &holders),
                false => None,
            };
            self.lacks |= each.is_chosen && each.record.inode != 0 && options.is_none();
            let group = holders.first().map(|holder| processes.group(holder.pid));
            sockets.push(live(each, holders, group.cloned(), options));
        }
        Ok(sockets)
    }

    /// Looks for who holds the sockets, where that is not known or long ago.
    fn find_holders(&mut self, found: &[Found], processes: &mut Processes) {
        let inodes = found.iter().map(|each| each.record.inode);
        let inodes: HashSet<u32> = inodes.filter(|&inode| inode != 0).collect();
        let is_known = inodes.iter().all(|inode| self.holders.contains_key(inode));
        let is_settled = self.searched.is_some_and(|(at, took)| {
            let pause = took * PAUSE_PER_SEARCH;
            at.elapsed()
                < if is_known {
                    HOLDERS_LAST.max(pause)
                } else {
                    pause
                }
        });
        if is_settled {
            return;
        }
        let begun = Instant::now();
        if let Some(groups) = &mut self.choice.groups {
            groups.refresh();
        }
        let held = process::holders(&process::pids(), Some(&inodes));
        self.reading = self.reading.take().or(held.refusal);
        let named = held.by_inode.into_iter().map(|(inode, list)| {
            let name = |(pid, fd)| Holder {
                pid,
                name: processes.name(pid),
                fd,
            };
            (inode, list.into_iter().map(name).collect())
        });
        self.holders = named.collect();
        // Those that nobody holds as far as we may know are not looked for
        // again at once either.
        for inode in inodes {
            self.holders.entry(inode).or_default();
        }
        self.searched = Some((Instant::now(), begun.elapsed()));
    }

    fn holders_of(&self, record: &SocketRecord) -> &[Holder] {
        let holders = self.holders.get(&record.inode);
        holders.map(Vec::as_slice).unwrap_or_default()
    }

    /// What could not be looked into.
    pub fn notes(&self) -> Vec<Note> {
        let entering = self.entering.as_ref().map(|refusal| {
            refusal.note(
                "not-measured-namespaces",
                "sockets in other network namespaces of this host",
            )
        });
        let reading = self.reading.as_ref().filter(|_| self.lacks);
        let reading = reading.map(|refusal| {
            refusal.note(
                "not-measured-holders",
                "who holds some of the sockets, and their options",
            )
        });
        entering.into_iter().chain(reading).collect()
    }

    /// All sockets that may be meant, and those that may be their other ends.
    fn dump(&mut self) -> Result<Vec<Found>, HostError> {
        let selection = Selection {
            states: self.choice.states(),
            local_port: None,
            remote_port: None,
        };
        let (mut found, choice) = (Vec::new(), &self.choice);
        for (namespace, socket) in &mut self.places {
            socket.dump(&selection, |record| {
                found.push(Found {
                    namespace: *namespace,
                    is_chosen: choice.is_meant(&record),
                    record,
                });
                match found.len() < MOST_SOCKETS {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
        }
        Ok(found)
    }

    fn options(
        &mut self,
        last: &HashMap<u64, (Instant, LiveOptions)>,
        processes: &mut Processes,
        record: &SocketRecord,
        holders: &[Holder],
    ) -> Option<LiveOptions> {
        let known = last.get(&record.cookie);
        if let Some(&known) = known.filter(|(at, _)| at.elapsed() < OPTIONS_LAST) {
            self.options.insert(record.cookie, known);
            return Some(known.1);
        }
        match processes.duplicate(holders.first()?) {
            Ok(socket) => {
                let options = options::read(&socket, record.cookie)?;
                self.options
                    .insert(record.cookie, (Instant::now(), options));
                Some(options)
            }
            Err(HostError::Gone { .. }) => None,
            Err(refusal) => {
                self.reading.get_or_insert(refusal);
                None
            }
        }
    }
}

/// Processes met at one look.
#[derive(Default)]
struct Processes {
    names: HashMap<u32, String>,
    groups: HashMap<u32, Membership>,
    /// The last one that was held: sockets of one process come together often.
    held: Option<ProcessHandle>,
}

impl Processes {
    fn name(&mut self, pid: u32) -> String {
        let name = self.names.entry(pid).or_insert_with(|| process::name(pid));
        name.clone()
    }

    fn group(&mut self, pid: u32) -> &Membership {
        let group = self.groups.entry(pid);
        group.or_insert_with(|| Membership::of(pid))
    }

    fn duplicate(&mut self, holder: &Holder) -> Result<OwnedFd, HostError> {
        if self
            .held
            .as_ref()
            .is_none_or(|held| held.pid() != holder.pid)
        {
            self.held = Some(ProcessHandle::open(holder.pid)?);
        }
        match &self.held {
            Some(held) => held.duplicate(holder.fd),
            None => Err(HostError::Gone {
                what: format!("process {}", holder.pid),
            }),
        }
    }
}

fn live(
    found: Found,
    holders: Vec<Holder>,
    group: Option<Membership>,
    options: Option<LiveOptions>,
) -> LiveSocket {
    let Found {
        namespace,
        record,
        is_chosen,
    } = found;
    let (timer, expires) = record.timer;
    LiveSocket {
        namespace,
        cookie: record.cookie,
        state: record.state.name(),
        local: record.local,
        remote: record.remote,
        holders,
        cgroup: group.as_ref().and_then(Membership::path),
        container: group.as_ref().and_then(Membership::container),
        uid: record.uid,
        receive_queue: record.receive_queue,
        send_queue: record.send_queue,
        timer: timer.name().map(|name| Timer {
            name: name.to_owned(),
            expires_ns: u64::try_from(expires.as_nanos()).unwrap_or(u64::MAX),
        }),
        buffers: record.memory,
        congestion: record.congestion,
        tcp: record.info,
        options,
        is_chosen,
    }
}

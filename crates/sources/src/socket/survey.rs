//! Surveys of this host's sockets with their holders, options and state. They include all network
//! namespaces that lagtrace may enter.
//!
//! No process is stopped or traced. The sockets are read from the kernel, and their holders from
//! `/proc`. The options are read through a duplicate of the socket's descriptor, which is closed
//! immediately.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use lagtrace_core::observed::event::Note;
use lagtrace_core::observed::sockets::{Holder, LiveOptions, LiveSocket, Protocol, SocketIdentity};

use super::cgroup::Membership;
pub use super::choice::{Choice, End, Protocols};
use super::diag::{DiagSocket, Selection};
use super::found::Found;
use super::namespaces::Namespaces;
use super::options;
use super::process;
use crate::privilege::HostError;
use crate::privilege::message::HeldSocket;

/// Maximum number of sockets that are examined in one survey.
const MOST_SOCKETS: usize = 65_536;
/// Maximum number of sockets whose options are read in one survey.
const MOST_OPTIONS: usize = 8192;
/// Time after which the holders of a socket are searched again, because a process may have passed
/// the socket to another one.
const HOLDERS_LAST: Duration = Duration::from_secs(1);
/// Time after which options are read again. One request returns the state of all sockets, but the
/// options of each socket cost several system calls.
const OPTIONS_LAST: Duration = Duration::from_millis(100);
/// Minimum pause between two searches for holders, as a multiple of a search's duration. If
/// connections are opened all the time, each survey has new sockets, and would search again without
/// a pause.
const PAUSE_PER_SEARCH: u32 = 9;

/// Repeated surveys of sockets.
#[derive(Debug)]
pub struct Survey {
    choice: Choice,
    places: Vec<(Option<u64>, DiagSocket)>,
    entering: Option<HostError>,
    reading: Option<HostError>,
    /// True if the options of a socket could not be read.
    lacks: bool,
    /// True if the kernel cannot report UDP sockets (or, in the next field, Unix sockets).
    has_no_udp: bool,
    has_no_unix: bool,
    /// Holders by the socket's inode number, from the last search.
    holders: HashMap<u32, Vec<Holder>>,
    /// End and duration of the last search for holders.
    searched: Option<(Instant, Duration)>,
    /// True if the last survey found a socket that is newer than the last search for holders.
    is_behind: bool,
    /// Options by socket cookie, with the time at which they were read.
    options: HashMap<u64, (Instant, LiveOptions)>,
}

impl Survey {
    /// Opens the namespaces to be searched.
    ///
    /// # Errors
    /// Returns an error if the kernel has no `sock_diag`.
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
            has_no_udp: false,
            has_no_unix: false,
            holders: HashMap::new(),
            searched: None,
            is_behind: false,
            options: HashMap::new(),
        })
    }

    /// Returns the current sockets.
    ///
    /// # Errors
    /// Returns an error if the kernel's reply is not complete.
    pub fn look(&mut self) -> Result<Vec<LiveSocket>, HostError> {
        let mut found = self.dump()?;
        let mut processes = Processes::default();
        self.find_holders(&found, &mut processes);
        self.choose(&mut found);
        let chosen = found.iter().map(|each| &each.socket);
        let wanted: HashSet<SocketIdentity> = chosen
            .filter(|socket| socket.is_chosen)
            .filter_map(LiveSocket::peer_place)
            .collect();
        found.retain(|each| each.socket.is_chosen || wanted.contains(&each.socket.place()));
        let with_holders = |mut each: Found| {
            each.socket.owner.holders = self.holders_of(each.inode).to_vec();
            each
        };
        let mut found: Vec<Found> = found.into_iter().map(with_holders).collect();
        self.read_options(&mut found);
        let mut sockets = Vec::with_capacity(found.len());
        for Found {
            mut socket, inode, ..
        } in found
        {
            self.lacks |= socket.is_chosen && inode != 0 && socket.options.is_none();
            if let Some(holder) = socket.owner.holders.first() {
                let group = processes.group(holder.pid);
                (socket.owner.cgroup, socket.owner.container) = (group.path(), group.container());
            }
            sockets.push(socket);
        }
        Ok(sockets)
    }

    /// Returns the current sockets once more if some in the last survey had no holders, because
    /// these had been searched for shortly before. To be called at the end.
    ///
    /// # Errors
    /// Returns an error if the kernel's reply is not complete.
    pub fn look_at_last(&mut self) -> Result<Option<Vec<LiveSocket>>, HostError> {
        if !self.is_behind {
            return Ok(None);
        }
        self.searched = None;
        self.look().map(Some)
    }

    /// Marks the chosen sockets.
    fn choose(&self, found: &mut [Found]) {
        let at_paths: HashSet<u32> = found
            .iter()
            .filter(|each| self.choice.has_path(&each.socket))
            .map(|each| each.inode)
            .collect();
        for each in found {
            let holders = self.holders_of(each.inode);
            each.socket.is_chosen = self.choice.is_meant(&each.socket, &at_paths)
                && self.choice.is_held_by_meant(each.cgroup, holders);
        }
    }

    /// Searches for the holders of sockets, unless all are known and recent.
    fn find_holders(&mut self, found: &[Found], processes: &mut Processes) {
        let inodes = found.iter().map(|each| each.inode);
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
        self.is_behind = is_settled && !is_known;
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
        // Sockets whose holder is not visible get an empty entry, so that they do not cause a new
        // search immediately.
        for inode in inodes {
            self.holders.entry(inode).or_default();
        }
        self.searched = Some((Instant::now(), begun.elapsed()));
    }

    fn holders_of(&self, inode: u32) -> &[Holder] {
        let holders = self.holders.get(&inode);
        holders.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns notes on parts that could not be examined.
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
        let lacking = [
            (self.has_no_udp, "udp", "UDP"),
            (self.has_no_unix, "unix", "Unix"),
        ];
        let lacking = lacking.into_iter().filter(|(is_lacking, ..)| *is_lacking);
        let lacking = lacking.map(|(_, module, name)| Note {
            id: format!("not-measured-{module}"),
            text: format!(
                "Not measured: {name} sockets. The kernel has no {module}_diag; `modprobe {module}_diag` may load it."
            ),
        });
        entering.into_iter().chain(reading).chain(lacking).collect()
    }

    /// Returns all sockets that may be chosen, and those that may be their remote ends.
    fn dump(&mut self) -> Result<Vec<Found>, HostError> {
        let (mut found, choice) = (Vec::new(), &self.choice);
        let mut add = |each: Found| {
            found.push(each);
            if found.len() < MOST_SOCKETS {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        for (namespace, socket) in &mut self.places {
            let of = |states| Selection {
                states,
                local_port: None,
                remote_port: None,
            };
            if choice.protocols.tcp {
                let ip = |record| Found::ip(*namespace, Protocol::Tcp, record);
                socket.dump(&of(choice.states()), |record| add(ip(record)))?;
            }
            if choice.protocols.udp {
                let ip = |record| Found::ip(*namespace, Protocol::Udp, record);
                let selection = of(choice.udp_states());
                self.has_no_udp |= !socket.dump_udp(&selection, |record| add(ip(record)))?;
            }
            if choice.protocols.unix {
                let unix = |record| Found::unix(*namespace, record);
                let states = choice.unix_states();
                self.has_no_unix |= !socket.dump_unix(states, |record| add(unix(record)))?;
            }
        }
        Ok(found)
    }

    /// Reads the options of the chosen sockets, unless they were read a moment ago.
    fn read_options(&mut self, found: &mut [Found]) {
        let last = core::mem::take(&mut self.options);
        let (mut unread, mut wanted) = (Vec::new(), Vec::new());
        let chosen = found.iter_mut().filter(|each| each.socket.is_chosen);
        for Found { socket, .. } in chosen.take(MOST_OPTIONS) {
            let known = last.get(&socket.cookie);
            if let Some(&known) = known.filter(|(at, _)| at.elapsed() < OPTIONS_LAST) {
                self.options.insert(socket.cookie, known);
                socket.options = Some(known.1);
            } else if let Some(held) = self.held(socket) {
                wanted.push(held);
                unread.push(socket);
            }
        }
        for (socket, outcome) in unread.into_iter().zip(options::of_all(&wanted)) {
            match outcome {
                Ok(options) => {
                    let read = options.map(|options| (Instant::now(), options));
                    self.options.extend(read.map(|read| (socket.cookie, read)));
                    socket.options = options;
                }
                Err(HostError::Gone { .. }) => {}
                Err(refusal) => {
                    self.reading.get_or_insert(refusal);
                }
            }
        }
    }

    /// Returns the way to a socket: through one of the chosen processes, if there are any. The
    /// keeper reads no options through others.
    fn held(&self, socket: &LiveSocket) -> Option<HeldSocket> {
        let chosen = &self.choice.pids;
        let is_chosen = |holder: &&Holder| chosen.is_empty() || chosen.contains(&holder.pid);
        let holder = socket.owner.holders.iter().find(is_chosen)?;
        Some(HeldSocket {
            pid: holder.pid,
            fd: holder.fd,
            cookie: socket.cookie,
        })
    }
}

/// The processes that occur in one survey.
#[derive(Default)]
struct Processes {
    names: HashMap<u32, String>,
    groups: HashMap<u32, Membership>,
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_was_opened_after_the_last_search_gets_its_holders_at_last() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let choice = Choice {
            ports: vec![address.port()],
            ..Choice::default()
        };
        let mut survey = Survey::open(choice).expect("sock_diag");
        survey.look().expect("an answer");
        // As after a search on a host with many processes.
        survey.searched = Some((Instant::now(), Duration::from_secs(60)));
        let _client = TcpStream::connect(address).expect("connects");
        let _server = listener.accept().expect("a connection");
        let are_held = |sockets: &[LiveSocket]| {
            let ends = sockets.iter().filter(|socket| socket.state == "ESTAB");
            let ends: Vec<_> = ends.map(|end| !end.owner.holders.is_empty()).collect();
            assert_eq!(ends.len(), 2, "{sockets:?}");
            ends.into_iter().filter(|is_held| *is_held).count()
        };
        assert_eq!(are_held(&survey.look().expect("an answer")), 0);
        let last = survey.look_at_last().expect("an answer");
        assert_eq!(are_held(&last.expect("some had no holders")), 2);
        assert_eq!(survey.look_at_last().expect("an answer"), None);
    }
}

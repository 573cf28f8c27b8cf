//! The operations that the command line allows a run to ask its keeper for.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::thread::CapabilitySet;
use tempfile::NamedTempFile;

use super::observed::Observed;
use crate::netlink::NetlinkProtocol;
use crate::privilege::message::{KernelFile, Purpose, Request};

/// The capabilities with which root reads and writes files of others.
pub(super) const OF_FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::CHOWN);
/// The beginning and the end of the names of files that the user saves while a command runs. A
/// number is between.
const SAVED: (&str, &str) = ("lagtrace-watch-", ".ndjson");
/// Maximum number of digits in such a name.
const MOST_DIGITS: usize = 20;

/// The privileged operations that a run may need. All others are refused, whatever the worker asks.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Capture packets.
    pub packets: bool,
    /// Send and receive raw IP packets.
    pub raw: bool,
    /// Examine this host's processes.
    pub processes: Processes,
    /// Read the rules of packet filters.
    pub filters: bool,
    /// Load eBPF programs that observe this.
    pub observed: Observed,
    /// Switch a socket option of the server, at the far end of lagtrace's own connections.
    pub what_if: bool,
    /// Files that the command line names to be read.
    pub inputs: Vec<PathBuf>,
    /// Files that the command line names to be written.
    pub outputs: Vec<PathBuf>,
    /// The Unix socket that the command line names.
    pub unix_socket: Option<PathBuf>,
    /// The folder into which the user may save new files while the command runs, named
    /// `lagtrace-watch-NUMBER.ndjson`.
    pub saves_in: Option<PathBuf>,
    /// The way to show a page; `None` if the command shows none.
    pub desktop: Option<Desktop>,
    /// The address at which the command serves a page.
    pub serves_at: Option<SocketAddr>,
    /// The network namespace that the command line names.
    pub namespace: Option<String>,
}

/// The processes of this host that a run may examine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Processes {
    /// None.
    #[default]
    None,
    /// The network namespace of this process may be opened.
    NamespaceOf(u32),
    /// The sockets and network namespaces of all processes may be listed. Options may be read of
    /// the sockets that these processes hold; an empty list stands for all processes.
    Sockets(Vec<u32>),
    /// The sockets and network namespaces of all processes may be listed, in order to find the
    /// programs that serve these ports. Of them alone, the options of the sockets on these ports,
    /// the program and the configuration may be read.
    Servers(Vec<u16>),
}

impl Processes {
    /// Returns true if sockets and namespaces of all processes may be listed.
    fn are_listed(&self) -> bool {
        matches!(self, Self::Sockets(_) | Self::Servers(_))
    }

    /// Returns the ports whose servers may be examined.
    pub(super) fn served_ports(&self) -> &[u16] {
        match self {
            Self::Servers(ports) => ports,
            Self::None | Self::NamespaceOf(_) | Self::Sockets(_) => &[],
        }
    }
}

/// Functions with which a command shows a page. They run in the keeper.
#[derive(Clone, Copy, Debug)]
pub struct Desktop {
    /// Creates the private file of a page; it is removed when it is dropped.
    pub page: fn() -> io::Result<NamedTempFile>,
    /// Opens a file or a URL in the user's browser, or says why not.
    pub open: fn(Page<'_>) -> Result<(), String>,
}

/// A page that a browser shows.
#[derive(Clone, Copy, Debug)]
pub enum Page<'a> {
    /// A file.
    File(&'a Path),
    /// The URL of a server on this host.
    Url(&'a str),
}

impl Scope {
    /// Returns the capabilities that these operations need.
    pub(super) fn capabilities(&self) -> CapabilitySet {
        // Files are opened for the user who started the run.
        let mut needed = OF_FILES;
        if self.packets || self.raw {
            needed |= CapabilitySet::NET_RAW;
        }
        // A namespace may be named by a path such as /proc/PID/ns/net.
        if self.processes != Processes::None || self.namespace.is_some() {
            needed |= CapabilitySet::SYS_PTRACE | CapabilitySet::SYS_ADMIN;
        }
        if self.filters {
            needed |= CapabilitySet::NET_ADMIN;
        }
        if self.observed != Observed::Nothing {
            needed |= CapabilitySet::BPF
                | CapabilitySet::PERFMON
                | CapabilitySet::SYS_ADMIN
                | CapabilitySet::SYS_RESOURCE;
        }
        needed
    }

    /// Returns true if the command line names one network namespace, which the keeper opens for the
    /// worker.
    pub(super) fn names_namespace(&self) -> bool {
        self.namespace.is_some() || matches!(self.processes, Processes::NamespaceOf(_))
    }

    /// Returns true if the command line names the path to be read.
    fn names_input(&self, path: &Path) -> bool {
        is_among(&self.inputs, path)
    }

    /// Returns true if the command line names the path to be written.
    pub(super) fn names_output(&self, path: &Path) -> bool {
        is_among(&self.outputs, path)
    }

    /// Returns true if the path is one of those under which the user may save.
    fn saves(&self, path: &Path) -> bool {
        let Some(folder) = &self.saves_in else {
            return false;
        };
        // Compared as text: equal paths can be written in several ways.
        let name = path.as_os_str().to_str().zip(folder.to_str());
        let name = name.and_then(|(path, folder)| path.strip_prefix(folder)?.strip_prefix('/'));
        let number = name.and_then(|name| name.strip_prefix(SAVED.0)?.strip_suffix(SAVED.1));
        number.is_some_and(|number| {
            (1..=MOST_DIGITS).contains(&number.len())
                && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    }

    /// Returns true if the command line allows the request.
    pub(super) fn allows(&self, request: &Request) -> bool {
        match request {
            Request::Answer => self.packets || self.raw,
            Request::NamespaceOf(pid) => {
                self.processes.are_listed() || self.processes == Processes::NamespaceOf(*pid)
            }
            Request::NamespaceId(_) | Request::Sockets { .. } => self.processes.are_listed(),
            // The keeper itself reads the rules of packet filters.
            Request::Netlink { protocol, .. } => {
                self.processes.are_listed() && *protocol != NetlinkProtocol::Netfilter
            }
            Request::Options(sockets) => match &self.processes {
                Processes::Sockets(pids) => {
                    pids.is_empty() || sockets.iter().all(|socket| pids.contains(&socket.pid))
                }
                // The service compares the socket's port.
                Processes::Servers(ports) => !ports.is_empty(),
                Processes::None | Processes::NamespaceOf(_) => false,
            },
            // The service compares the process with those that serve.
            Request::Serving(_)
            | Request::Link(..)
            | Request::ProcFile(..)
            | Request::Program(_)
            | Request::Root(_)
            | Request::File { .. } => !self.processes.served_ports().is_empty(),
            Request::KernelFile { file, .. } => match file {
                KernelFile::TableNames(_) => self.filters,
                KernelFile::Setting(path) => self.processes.are_listed() && is_of_network(path),
            },
            Request::NamespaceAt(place) => self.namespace.as_ref() == Some(place),
            Request::FilterObjects { .. } | Request::FilterTable { .. } => self.filters,
            // The service proves that the worker holds the connection.
            Request::SwitchOn(far) => {
                self.what_if
                    && self
                        .processes
                        .served_ports()
                        .contains(&far.flow.remote.port)
            }
            // The service compares the URL.
            Request::Page | Request::Show(_) => self.desktop.is_some(),
            Request::Listen => self.serves_at.is_some(),
            // These name what an allowed request has made.
            Request::KeepPage => true,
            Request::IsOn(_)
            | Request::Restore(_)
            | Request::BeginOutput(_)
            | Request::CommitOutput(_)
            | Request::DropOutput(_) => true,
            Request::Input(path) => self.names_input(path),
            Request::Kind(path) => self.names_input(path) || self.names_output(path),
            // No confined command makes files that everybody may read.
            Request::Output(_, Purpose::Public) | Request::CheckOutput(_, Purpose::Public) => false,
            Request::Output(path, _) => self.names_output(path) || self.saves(path),
            Request::CheckOutput(path, _) => self.names_output(path),
            Request::ConnectUnix => self.unix_socket.is_some(),
            // The service compares what is asked for.
            Request::Kernel(_) => self.observed != Observed::Nothing,
        }
    }
}

/// Returns true if a path is in a list, as it was written there.
fn is_among(named: &[PathBuf], path: &Path) -> bool {
    named
        .iter()
        .any(|named| named.as_os_str() == path.as_os_str())
}

/// Returns true for settings of the network: paths below `/proc/sys/net/`.
fn is_of_network(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some("net") && parts.all(is_plain)
}

/// Returns true for names that lead nowhere else.
fn is_plain(name: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privilege::{FilterObject, FilterTable, TableFamily};

    fn everything() -> Scope {
        Scope {
            packets: true,
            raw: true,
            processes: Processes::Servers(vec![80]),
            filters: true,
            observed: Observed::Servers,
            what_if: true,
            inputs: Vec::new(),
            outputs: Vec::new(),
            unix_socket: None,
            saves_in: None,
            desktop: None,
            serves_at: None,
            namespace: Some("blue".to_owned()),
        }
    }

    #[test]
    fn a_run_that_named_nothing_may_ask_for_nothing() {
        let none = Scope::default();
        let file = Request::File {
            pid: 1,
            path: PathBuf::from("/etc/shadow"),
            is_folder: false,
        };
        for request in [
            Request::Answer,
            Request::NamespaceOf(1),
            Request::ConnectUnix,
            Request::Kernel(vec![]),
            file,
        ] {
            assert!(!none.allows(&request), "{request:?}");
        }
    }

    #[test]
    fn files_of_the_kernel_are_those_of_the_network() {
        let ask = |file| everything().allows(&Request::KernelFile { namespace: 1, file });
        let setting = |path: &str| ask(KernelFile::Setting(path.to_owned()));
        assert!(setting("net/ipv4/tcp_rto_min_us"));
        for path in [
            "kernel/core_pattern",
            "net/../kernel/hostname",
            "/net/a",
            "net//a",
            "net/",
        ] {
            assert!(!setting(path), "{path}");
        }
    }

    #[test]
    fn packet_filters_are_read_for_the_commands_that_need_them() {
        let without = Scope {
            filters: false,
            ..everything()
        };
        let (namespace, family) = (1, TableFamily::Ipv4);
        let names = KernelFile::TableNames(family);
        for request in [
            Request::KernelFile {
                namespace,
                file: names,
            },
            Request::FilterObjects {
                namespace,
                kind: FilterObject::Rule,
            },
            Request::FilterTable {
                namespace,
                family,
                table: FilterTable::Nat,
            },
        ] {
            assert!(everything().allows(&request), "{request:?}");
            assert!(!without.allows(&request), "{request:?}");
        }
        let netlink = |protocol| Request::Netlink {
            namespace,
            protocol,
        };
        assert!(everything().allows(&netlink(NetlinkProtocol::Route)));
        assert!(!everything().allows(&netlink(NetlinkProtocol::Netfilter)));
    }

    #[test]
    fn what_the_user_saves_has_a_fixed_name() {
        let saves = |path: &str| {
            let scope = Scope {
                saves_in: Some(".".into()),
                ..Scope::default()
            };
            let asked = scope.allows(&Request::Output(path.into(), Purpose::Result));
            let read = Request::Input(path.into());
            let checked = Request::CheckOutput(path.into(), Purpose::Result);
            assert!(!scope.allows(&read) && !scope.allows(&checked), "{path}");
            asked
        };
        assert!(saves("./lagtrace-watch-1764170000123456789.ndjson"));
        for path in [
            "./lagtrace-evil.sh",
            "./lagtrace-watch-.ndjson",
            "./lagtrace-watch-123456789012345678901.ndjson",
            "./lagtrace-watch-1.ndjson.sh",
            "./lagtrace-watch-1.ndjson/",
            "./lagtrace-watch-1/../../x-1.ndjson",
            ".//lagtrace-watch-1.ndjson",
            "lagtrace-watch-1.ndjson",
            "/etc/lagtrace-watch-1.ndjson",
        ] {
            assert!(!saves(path), "{path}");
        }
    }

    #[test]
    fn a_named_namespace_needs_the_capabilities_to_open_and_enter_it() {
        let scope = Scope {
            namespace: Some("/proc/4711/ns/net".to_owned()),
            ..Scope::default()
        };
        let needed = CapabilitySet::SYS_PTRACE | CapabilitySet::SYS_ADMIN;
        assert!(scope.capabilities().contains(needed));
        assert!(!Scope::default().capabilities().intersects(needed));
    }

    #[test]
    fn only_the_named_namespace_is_opened_by_name() {
        assert!(everything().allows(&Request::NamespaceAt("blue".to_owned())));
        assert!(!everything().allows(&Request::NamespaceAt("/run/netns/red".to_owned())));
    }
}

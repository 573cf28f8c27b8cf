//! The operations that the command line allows a run to ask its keeper for.

use std::ffi::OsStr;
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
/// The beginning of the names of files that the user saves while a command runs.
const SAVED: &[u8] = b"lagtrace-";

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
    /// Files and folders that the command line names.
    pub files: Vec<PathBuf>,
    /// The Unix socket that the command line names.
    pub unix_socket: Option<PathBuf>,
    /// The folder into which the user may save while the command runs, under names that begin with
    /// `lagtrace-`.
    pub saves_in: Option<PathBuf>,
    /// The way to show a page; `None` if the command shows none.
    pub desktop: Option<Desktop>,
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
    /// The address that the worker's server listens at, if it has one.
    pub served: Option<SocketAddr>,
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

    /// Returns true if the command line names the path.
    fn names(&self, path: &Path) -> bool {
        self.files.iter().any(|named| named == path)
    }

    /// Returns true for the URL of the worker's own server: the named address, at any port if the
    /// command line names none.
    fn serves(&self, url: &str) -> bool {
        let Some(served) = self.desktop.and_then(|desktop| desktop.served) else {
            return false;
        };
        let place = url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'));
        let address = place.and_then(|(address, _)| address.parse::<SocketAddr>().ok());
        url.bytes().all(|byte| byte.is_ascii_graphic())
            && address.is_some_and(|address| {
                address.ip() == served.ip() && [0, address.port()].contains(&served.port())
            })
    }

    /// Returns true if the path is one of those under which the user may save.
    fn saves(&self, path: &Path) -> bool {
        let is_ours = |name: &OsStr| name.as_encoded_bytes().starts_with(SAVED);
        let folder = path.parent();
        folder.is_some()
            && folder == self.saves_in.as_deref()
            && path.file_name().is_some_and(is_ours)
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
            Request::Page | Request::Show(None) => self.desktop.is_some(),
            Request::Show(Some(url)) => self.serves(url),
            // These name what an allowed request has made.
            Request::KeepPage => true,
            Request::IsOn(_)
            | Request::Restore(_)
            | Request::BeginOutput(_)
            | Request::CommitOutput(_)
            | Request::DropOutput(_) => true,
            Request::Input(path) | Request::Kind(path) => self.names(path),
            Request::AreSame(one, other) => self.names(one) && self.names(other),
            // No confined command makes files that everybody may read.
            Request::Output(_, Purpose::Public) | Request::CheckOutput(_, Purpose::Public) => false,
            Request::Output(path, _) | Request::CheckOutput(path, _) => {
                self.names(path) || self.saves(path)
            }
            Request::ConnectUnix => self.unix_socket.is_some(),
            // The service compares what is asked for.
            Request::Kernel(_) => self.observed != Observed::Nothing,
        }
    }
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
            files: Vec::new(),
            unix_socket: None,
            saves_in: None,
            desktop: None,
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
    fn only_the_page_that_is_served_is_shown() {
        let scope = |served: &str| Scope {
            desktop: Some(Desktop {
                page: NamedTempFile::new,
                open: |_| Ok(()),
                served: served.parse().ok(),
            }),
            ..Scope::default()
        };
        let shows = |served, url: &str| scope(served).allows(&Request::Show(Some(url.to_owned())));
        assert!(shows("127.0.0.1:0", "http://127.0.0.1:4711/0123abc/"));
        assert!(shows("[::1]:80", "http://[::1]:80/0123abc/"));
        assert!(!shows("127.0.0.1:80", "http://127.0.0.1:81/0123abc/"));
        assert!(!shows("127.0.0.1:0", "http://127.0.0.2:80/"));
        assert!(!shows("127.0.0.1:0", "file:///etc/passwd"));
        assert!(!shows("127.0.0.1:0", "http://127.0.0.1:80/ --version"));
        assert!(!shows("", "http://127.0.0.1:80/"));
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

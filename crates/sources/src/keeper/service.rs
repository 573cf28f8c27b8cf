//! The operations of the keeper.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use lagtrace_core::observed::event::Note;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{capabilities, set_capabilities};
use tempfile::NamedTempFile;

use super::raw_sockets::Listener;
use super::scope::{OF_FILES, Page, Processes, Scope};
use super::servers::Servers;
use crate::config;
use crate::files::{self, Output, Purpose};
use crate::kernel::{self, Programs};
use crate::load;
use crate::privilege::channel::Channel;
use crate::privilege::message::{FarEnd, HeldSocket, ProcFile, Refusal, Reply, Request, Served};
use crate::privilege::{self, HostError, NetworkNamespace};
use crate::socket::foreign::{Server, ServerProcess};
use crate::socket::option::ForeignOption;
use crate::socket::{options, process};

/// Maximum number of namespaces that are kept open.
const MOST_NAMESPACES: usize = 1024;
/// Maximum number of options that are switched at the same time.
const MOST_SWITCHED: usize = 16;
/// Maximum number of outputs that are open at the same time.
const MOST_OUTPUTS: usize = 64;
/// Maximum number of bytes of a file below `/proc/PID`.
const MOST_PROC_BYTES: u64 = 4 << 20;

/// An answer with the descriptors that go with it.
pub(super) type Answer = Result<(Reply, Vec<OwnedFd>), HostError>;

/// The state of a keeper.
pub(super) struct Service {
    scope: Scope,
    channel: Channel,
    worker: u32,
    /// Answers the worker's requests for raw sockets, once the worker has asked for this.
    listener: Option<Listener>,
    /// The namespaces that the worker knows, by inode number.
    namespaces: BTreeMap<u64, NetworkNamespace>,
    /// The outputs that the worker has opened. Those that are not whole are removed when they are
    /// dropped.
    outputs: BTreeMap<u32, Output>,
    programs: Programs,
    servers: Servers,
    /// The file of the page; it is removed when it is dropped.
    page: Option<NamedTempFile>,
    /// The path of a page that is whole.
    kept_page: Option<PathBuf>,
    /// The options that are switched at present. They are restored when they are dropped.
    switched: BTreeMap<u32, ForeignOption>,
    log: (Sender<Note>, Receiver<Note>),
}

impl Service {
    pub(super) fn new(scope: Scope, channel: Channel, worker: Pid) -> Self {
        Self {
            scope,
            channel,
            worker: worker.as_raw_nonzero().get().unsigned_abs(),
            listener: None,
            namespaces: BTreeMap::new(),
            outputs: BTreeMap::new(),
            programs: Programs::default(),
            servers: Servers::default(),
            page: None,
            kept_page: None,
            switched: BTreeMap::new(),
            log: self::channel(),
        }
    }

    /// Answers until the worker ends. Afterwards nothing is switched any more.
    pub(super) fn run(mut self) {
        loop {
            let (is_asked, is_listening) = self.wait();
            if is_listening && let Some(listener) = &self.listener {
                listener.answer(&self.scope);
            }
            if is_asked && !self.answer() {
                return;
            }
        }
    }

    /// Waits for a request, and for a raw socket that the worker opens.
    fn wait(&self) -> (bool, bool) {
        let mut fds = vec![PollFd::new(&self.channel, PollFlags::IN)];
        fds.extend(
            self.listener
                .as_ref()
                .map(|it| PollFd::new(it, PollFlags::IN)),
        );
        match poll(&mut fds, None) {
            Ok(_) => {
                let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
                (is_ready(0), is_ready(1))
            }
            Err(Errno::INTR) => (false, false),
            // Without poll, only the worker's requests can be waited for.
            Err(_) => (true, false),
        }
    }

    /// Answers one request; false if there will be no more.
    fn answer(&mut self) -> bool {
        let Ok(Some((request, descriptors))) = self.channel.receive::<Request>() else {
            return false;
        };
        let answer = self.decide(request, descriptors);
        let (reply, descriptors) = answer.unwrap_or_else(|error| {
            let refusal = Refusal::from(error);
            (Reply::Refused(refusal), Vec::new())
        });
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(|fd| fd.as_fd()).collect();
        self.channel.send(&reply, &descriptors).is_ok()
    }

    /// Performs a request if the command line allows it.
    pub(super) fn decide(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> Answer {
        if !self.scope.allows(&request) {
            Err(outside_scope(&request))
        } else if request.is_of_users_files() {
            as_user(|| self.perform(request, descriptors))
        } else {
            self.perform(request, descriptors)
        }
    }

    fn perform(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> Answer {
        match request {
            Request::Answer => {
                self.listener = descriptors
                    .into_iter()
                    .next()
                    .map(|fd| Listener::new(fd, self.worker));
                done(None)
            }
            Request::NamespaceOf(pid) => self.remember(NetworkNamespace::of(pid)?),
            Request::NamespaceAt(place) => self.remember(NetworkNamespace::at(&place)?),
            Request::NamespaceId(pid) => number(privilege::namespace_id(pid)?),
            Request::Netlink {
                namespace,
                protocol,
            } => done(Some(
                self.namespace(namespace)?.netlink_descriptor(protocol)?,
            )),
            Request::KernelFile { namespace, file } => {
                done(Some(self.namespace(namespace)?.open_file(&file)?))
            }
            Request::FilterTable {
                namespace,
                family,
                table,
            } => {
                let (info, entries) = self.namespace(namespace)?.filter_table(family, table)?;
                Ok((Reply::Pieces(vec![info, entries]), Vec::new()))
            }
            Request::FilterObjects { namespace, kind } => {
                let objects = self.namespace(namespace)?.filter_objects(kind)?;
                Ok((Reply::Pieces(objects), Vec::new()))
            }
            Request::Sockets { pid, most } => Ok((
                Reply::Sockets(privilege::sockets_of(pid, most)?),
                Vec::new(),
            )),
            Request::Options(sockets) => Ok((self.options(&sockets), Vec::new())),
            Request::Serving(served) => self.serving(&served),
            Request::SwitchOn(far) => self.switch_on(*far),
            Request::IsOn(place) => {
                let switched = self
                    .switched
                    .get(&place)
                    .ok_or_else(|| gone("the switched option"))?;
                number(u64::from(switched.is_on()?))
            }
            Request::Restore(place) => {
                drop(self.switched.remove(&place));
                Ok((Reply::Notes(self.log.1.try_iter().collect()), Vec::new()))
            }
            Request::Kernel(bytes) => self.observe(bytes),
            Request::Output(path, purpose) => self.open_output(&path, purpose),
            Request::BeginOutput(place) => self.output(place, Output::begin),
            Request::CommitOutput(place) => {
                let output = self
                    .outputs
                    .remove(&place)
                    .ok_or_else(|| gone("the output"))?;
                named(output.commit())
            }
            Request::DropOutput(place) => {
                drop(self.outputs.remove(&place));
                done(None)
            }
            Request::Input(_)
            | Request::Kind(_)
            | Request::AreSame(..)
            | Request::CheckOutput(..) => named_file(&request),
            Request::ConnectUnix => self.connect_unix(),
            Request::Page => self.create_page(),
            Request::KeepPage => self.keep_page(),
            Request::Show(url) => self.show(url.as_deref()),
            of_process => self.file_of(of_process),
        }
    }

    /// Connects to the Unix socket, without waiting for room in its backlog.
    fn connect_unix(&self) -> Answer {
        let path = self.scope.unix_socket.as_ref();
        let connected = load::connect_unix(path.ok_or_else(|| gone("a Unix socket"))?);
        done(Some(connected.map_err(|error| {
            HostError::failed("connecting to a Unix socket", error)
        })?))
    }

    /// Performs an operation on eBPF programs, if these may observe what it says.
    fn observe(&mut self, bytes: Vec<u8>) -> Answer {
        let failed = |error| HostError::failed("a request for programs", error);
        let request = kernel::decode(&bytes).map_err(failed)?;
        let is_open = |id| self.namespaces.contains_key(&id);
        let names_one = self.scope.names_namespace();
        let place = move |asked: Option<u32>| match asked {
            Some(id) => names_one && is_open(u64::from(id)),
            None => !names_one,
        };
        if !self.scope.observed.allows(&request, &self.servers, place) {
            return Err(outside_scope(&Request::Kernel(bytes)));
        }
        let (reply, descriptors) = kernel::serve(&mut self.programs, request).map_err(failed)?;
        Ok((Reply::Bytes(reply), descriptors))
    }

    fn create_page(&mut self) -> Answer {
        let desktop = self.scope.desktop.ok_or_else(|| gone("a desktop"))?;
        let created = (desktop.page)().and_then(|page| {
            let copy = page.as_file().try_clone()?;
            Ok((page, copy))
        });
        let (page, copy) = created.map_err(|error| HostError::failed("creating a page", error))?;
        let path = page.path().as_os_str().to_owned().into_vec();
        self.page = Some(page);
        Ok((Reply::Bytes(path), vec![copy.into()]))
    }

    fn keep_page(&mut self) -> Answer {
        let page = self.page.take().ok_or_else(|| gone("the page"))?;
        let kept = page.into_temp_path().keep();
        let kept = kept.map_err(|error| HostError::failed("keeping the page", error.error))?;
        self.kept_page = Some(kept);
        done(None)
    }

    /// Shows the page. The answer has the reason if it is not shown.
    fn show(&self, url: Option<&str>) -> Answer {
        let desktop = self.scope.desktop.ok_or_else(|| gone("a desktop"))?;
        let page = match (url, &self.kept_page) {
            (Some(url), _) => Page::Url(url),
            (None, Some(path)) => Page::File(path),
            (None, None) => return Err(gone("the page")),
        };
        let reason = (desktop.open)(page).err().unwrap_or_default();
        Ok((Reply::Bytes(reason.into_bytes()), Vec::new()))
    }

    /// Keeps a namespace for later requests and passes it to the worker.
    fn remember(&mut self, namespace: NetworkNamespace) -> Answer {
        let copy = namespace.as_file().try_clone();
        let copy = copy.map_err(|e| HostError::failed("passing a namespace", e))?;
        if self.namespaces.len() < MOST_NAMESPACES {
            self.namespaces.insert(namespace.id(), namespace);
        }
        done(Some(copy))
    }

    /// Returns a namespace that the worker has opened before, or the keeper's own.
    fn namespace(&mut self, id: u64) -> Result<&NetworkNamespace, HostError> {
        if !self.namespaces.contains_key(&id) {
            let own = NetworkNamespace::own()?;
            self.namespaces.insert(own.id(), own);
        }
        self.namespaces
            .get(&id)
            .ok_or_else(|| gone("the namespace"))
    }

    fn open_output(&mut self, path: &Path, purpose: Purpose) -> Answer {
        if self.outputs.len() >= MOST_OUTPUTS {
            return Err(gone("room for another output"));
        }
        let opened = Output::create(path, purpose).and_then(|output| {
            let copy = output.as_fd().try_clone_to_owned()?;
            Ok((output, copy))
        });
        let (output, copy) = opened.map_err(|error| HostError::failed("opening a file", error))?;
        let place = self.outputs.keys().next_back().map_or(0, |last| last + 1);
        let reply = Reply::Output(place, output.is_announced());
        self.outputs.insert(place, output);
        Ok((reply, vec![copy]))
    }

    fn output(&mut self, place: u32, act: impl Fn(&mut Output) -> std::io::Result<()>) -> Answer {
        let output = self
            .outputs
            .get_mut(&place)
            .ok_or_else(|| gone("the output"))?;
        named(act(output))
    }

    /// Reads the options of sockets. Where only servers may be examined, each socket must be on one
    /// of their ports.
    fn options(&self, sockets: &[HeldSocket]) -> Reply {
        let is_of_servers = matches!(self.scope.processes, Processes::Servers(_));
        let may_read = |socket: BorrowedFd<'_>| !is_of_servers || self.servers.have(&socket);
        let each = options::of_all_here(sockets, may_read);
        Reply::Options(
            each.into_iter()
                .map(|each| each.map_err(Refusal::from))
                .collect(),
        )
    }

    /// Performs a request that concerns the files of a process, if it serves the target.
    fn file_of(&self, request: Request) -> Answer {
        match request {
            Request::Link(pid, _)
            | Request::ProcFile(pid, _)
            | Request::Program(pid)
            | Request::Root(pid)
            | Request::File { pid, .. }
                if !self.servers.include(pid) =>
            {
                Err(outside_scope(&request))
            }
            Request::Link(pid, link) => {
                let path = privilege::link(pid, link)?.into_os_string().into_vec();
                Ok((Reply::Bytes(path), Vec::new()))
            }
            Request::ProcFile(pid, file) => {
                let bytes = privilege::proc_file(pid, file, MOST_PROC_BYTES)?;
                let shown = match file {
                    ProcFile::Stat => bytes,
                    ProcFile::Environ => config::launch::without_secrets(&bytes),
                };
                Ok((Reply::Bytes(shown), Vec::new()))
            }
            Request::Program(pid) => program(pid),
            Request::Root(pid) => {
                let root = config::files::Root::of(pid)
                    .map_err(|error| failed("opening a root", error))?;
                number(u64::from(root.is_assumed))
            }
            Request::File {
                pid,
                path,
                is_folder,
            } => done(Some(open(pid, &path, is_folder)?)),
            _ => Err(gone("the operation")),
        }
    }

    /// Finds the processes that serve the target.
    fn serving(&mut self, served: &Served) -> Answer {
        let namespace = self.namespace(served.namespace)?.as_file().try_clone();
        let namespace = namespace.map_err(|e| HostError::failed("opening a namespace", e))?;
        let namespace = NetworkNamespace::of_file(namespace)?;
        let ports = self.scope.processes.served_ports();
        let found = self.servers.find(ports, self.worker, &namespace, served)?;
        let found =
            found.ok_or_else(|| outside_scope(&Request::Serving(Box::new(served.clone()))))?;
        let named = |process: ServerProcess| (process.pid, process.name);
        let found = found.into_iter().map(named).collect();
        Ok((Reply::Processes(found), Vec::new()))
    }

    fn switch_on(&mut self, far: FarEnd) -> Answer {
        if self.switched.len() >= MOST_SWITCHED {
            return Err(outside_scope(&Request::IsOn(0)));
        }
        let file = self.namespace(far.namespace)?.as_file().try_clone();
        let file = file.map_err(|e| HostError::failed("opening a namespace", e))?;
        let named = |pid| ServerProcess {
            pid,
            name: process::name(pid),
        };
        let server = Server::found(
            NetworkNamespace::of_file(file)?,
            far.endpoint,
            far.pids.into_iter().map(named).collect(),
        );
        let option = ForeignOption::set_for(self.worker, &server, far.flow, self.log.0.clone())?;
        let place = self.switched.keys().next_back().map_or(0, |last| last + 1);
        let was_on = option.was_on();
        self.switched.insert(place, option);
        let notes = self.log.1.try_iter().collect();
        Ok((Reply::Switched(place, was_on, notes), Vec::new()))
    }
}

/// Runs an operation on files that the user has named, with the user's own rights: whoever got
/// capabilities from the file of the program may not use them to read or write files.
fn as_user<T>(act: impl FnOnce() -> T) -> T {
    let held = capabilities(None).ok();
    let held = held.filter(|_| !rustix::process::getuid().is_root());
    if let Some(mut sets) = held {
        sets.effective &= !OF_FILES;
        set_capabilities(None, sets).unwrap_or_default();
    }
    let result = act();
    if let Some(sets) = held {
        set_capabilities(None, sets).unwrap_or_default();
    }
    result
}

/// Performs a request that concerns files of the command line.
fn named_file(request: &Request) -> Answer {
    match request {
        Request::Input(path) => {
            let file = files::open_once(path);
            done(Some(file.map_err(|error| {
                HostError::failed("opening a file", error)
            })?))
        }
        Request::Kind(path) => number(files::kind(path).number()),
        Request::AreSame(one, other) => number(files::are_same(one, other).into()),
        Request::CheckOutput(path, purpose) => named(Output::check(path, *purpose)),
        _ => Err(gone("the operation")),
    }
}

/// Returns the answer to an operation on a file that the user has named.
fn named(outcome: std::io::Result<()>) -> Answer {
    outcome.map_err(|error| HostError::failed("writing a file", error))?;
    done(None)
}

/// Opens a process's program, if everybody may read it.
fn program(pid: u32) -> Answer {
    let program: OwnedFd = privilege::program(pid)?.into();
    if is_for_everybody(&program) {
        return done(Some(program));
    }
    let operation = format!("opening the program of process {pid}");
    Err(denied(operation))
}

/// Opens a file or a folder below a process's root. The worker may see what everybody may read, and
/// a file with the name of a configuration, however it is linked; it may not see a file of keys or
/// passwords.
fn open(pid: u32, path: &Path, is_folder: bool) -> Result<OwnedFd, HostError> {
    let operation = || format!("opening {} of process {pid}", path.display());
    let root = config::files::Root::of(pid).map_err(|error| failed("opening a root", error))?;
    let failed = |error| HostError::failed(operation(), error);
    let found = root.find(path, is_folder).map_err(failed)?;
    let resolved = found.resolved().map_err(failed)?;
    if found.is_for_everybody() || !is_folder && is_configuration(&resolved) {
        return found.open().map_err(failed);
    }
    Err(denied(operation()))
}

fn denied(operation: String) -> HostError {
    HostError::failed(
        operation,
        std::io::Error::from(std::io::ErrorKind::PermissionDenied),
    )
}

fn is_for_everybody(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_mode & 0o004 != 0)
}

fn is_configuration(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str());
    matches!(
        end,
        Some("conf" | "cfg" | "lua" | "py" | "ini" | "toml" | "yaml" | "yml")
    )
}

fn done(descriptor: Option<OwnedFd>) -> Answer {
    Ok((Reply::Done, descriptor.into_iter().collect()))
}

fn number(number: u64) -> Answer {
    Ok((Reply::Number(number), Vec::new()))
}

fn gone(what: &str) -> HostError {
    HostError::Gone {
        what: what.to_owned(),
    }
}

fn failed(operation: &str, error: config::Error) -> HostError {
    HostError::failed(operation, std::io::Error::other(error))
}

/// Returns the error for an operation that the command line does not allow.
fn outside_scope(request: &Request) -> HostError {
    let request = format!("{request:?}");
    let kind = request.split([' ', '(', '{']).next().unwrap_or_default();
    HostError::failed(
        format!("{kind}, which this command does not need"),
        std::io::Error::from_raw_os_error(libc::EPERM),
    )
}

//! The operations of the keeper.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use lagtrace_core::observed::event::Note;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::thread::{capabilities, set_capabilities};

use super::answer::{Answer, done, gone, number};
use super::configuration;
use super::named::Named;
use super::page::ShownPage;
use super::raw_sockets::Listener;
use super::scope::{OF_FILES, Processes, Scope};
use super::servers::Servers;
use super::undo::Undo;
use super::worker::Worker;
use crate::config;
use crate::files::{self, Output, Purpose};
use crate::kernel::{self, Programs};
use crate::privilege::channel::Channel;
use crate::privilege::message::{FarEnd, HeldSocket, ProcFile, Refusal, Reply, Request, Served};
use crate::privilege::{self, HostError, NetworkNamespace};
use crate::socket::foreign::{Server, ServerProcess};
use crate::socket::option::ForeignOption;
use crate::socket::{options, process};
use crate::unix;

/// Maximum number of namespaces that are kept open.
const MOST_NAMESPACES: usize = 1024;
/// Maximum number of options that are switched at the same time.
const MOST_SWITCHED: usize = 16;
/// Maximum number of outputs that are open at the same time.
const MOST_OUTPUTS: usize = 64;
/// Maximum number of files that the user saves while the command runs.
const MOST_SAVED: usize = 100;
/// Maximum number of bytes of a file below `/proc/PID`.
const MOST_PROC_BYTES: u64 = 4 << 20;

/// The state of a keeper.
pub(super) struct Service {
    scope: Scope,
    channel: Channel,
    worker: Worker,
    named: Named,
    /// Answers the worker's requests for raw sockets, once the worker has asked for this.
    listener: Option<Listener>,
    /// The namespaces that the worker knows, by inode number.
    namespaces: BTreeMap<u64, NetworkNamespace>,
    /// Outputs that are not whole, the page, and switched options: they must not remain.
    undo: Undo,
    /// The number of files that the user has saved.
    saved: usize,
    programs: Programs,
    servers: Servers,
    page: ShownPage,
    log: (Sender<Note>, Receiver<Note>),
}

impl Service {
    /// Returns the state in which nothing was asked yet.
    pub(super) fn new(scope: Scope, channel: Channel, worker: Worker, undo: Undo) -> Self {
        Self {
            named: Named::of(&scope.processes),
            scope,
            channel,
            worker,
            listener: None,
            namespaces: BTreeMap::new(),
            undo,
            saved: 0,
            programs: Programs::default(),
            servers: Servers::default(),
            page: ShownPage::default(),
            log: self::channel(),
        }
    }

    /// Answers until the worker ends. Afterwards nothing is switched any more.
    pub(super) fn run(mut self) {
        loop {
            let ready = self.wait();
            // Before another process can get such a number.
            for pid in self.named.take_ended() {
                self.programs.forget(pid);
            }
            if ready.has_ended {
                break;
            }
            if ready.is_listening
                && let Some(listener) = &self.listener
            {
                listener.answer(&self.scope);
            }
            if ready.is_asked && !self.answer() {
                break;
            }
        }
        self.undo.all();
    }

    /// Waits for the worker's end, for a request, for a raw socket that the worker opens, and for the
    /// end of a process that the command line names.
    fn wait(&self) -> Ready {
        let channel = Some(self.channel.as_fd());
        let listener = self.listener.as_ref().map(|it| it.as_fd());
        let all = [self.worker.end(), channel, listener];
        let ends: Vec<BorrowedFd<'_>> = self.named.ends().collect();
        let asked = all.iter().flatten().chain(&ends);
        let mut fds: Vec<PollFd<'_>> = asked.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut fds, None) {
            Ok(_) => {
                let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
                let mut next =
                    |fd: Option<BorrowedFd<'_>>| fd.is_some() && ready.next() == Some(true);
                Ready {
                    has_ended: next(all[0]),
                    is_asked: next(all[1]),
                    is_listening: next(all[2]),
                }
            }
            Err(Errno::INTR) => Ready::default(),
            // Without poll, only the worker's requests can be waited for.
            Err(_) => Ready {
                is_asked: true,
                ..Ready::default()
            },
        }
    }

    /// Answers one request; false if there will be no more.
    fn answer(&mut self) -> bool {
        let Ok(Some((request, descriptor))) = self.channel.receive_request::<Request>() else {
            return false;
        };
        let answer = self.decide(request, descriptor);
        let (reply, descriptors) = answer.unwrap_or_else(|error| {
            let refusal = Refusal::from(error);
            (Reply::Refused(refusal), Vec::new())
        });
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(|fd| fd.as_fd()).collect();
        self.channel.send(&reply, &descriptors).is_ok()
    }

    /// Performs a request if the command line allows it. A descriptor goes with `Answer` alone.
    pub(super) fn decide(&mut self, request: Request, descriptor: Option<OwnedFd>) -> Answer {
        if !request.is_within_limits() || !self.scope.allows(&request) {
            return Err(outside_scope(&request));
        }
        match (&request, descriptor) {
            (Request::Answer, Some(listener)) => self.listen_to(listener),
            (Request::Answer, None) | (_, Some(_)) => Err(outside_scope(&request)),
            _ if request.is_of_users_files() => as_user(|| self.perform(request)),
            _ => self.perform(request),
        }
    }

    /// Answers the calls of which a listener tells, from now on.
    fn listen_to(&mut self, listener: OwnedFd) -> Answer {
        if self.listener.is_some() || !Listener::is_one(&listener) {
            return Err(outside_scope(&Request::Answer));
        }
        self.listener = Some(Listener::new(listener, self.worker.pid()));
        done(None)
    }

    fn perform(&mut self, request: Request) -> Answer {
        match request {
            Request::NamespaceOf(pid) => self.remember(self.namespace_of(pid)?),
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
                let switched = self.undo.switched();
                let option = switched.get(&place);
                let option = option.ok_or_else(|| gone("the switched option"))?;
                number(u64::from(option.is_on()?))
            }
            Request::Restore(place) => {
                let switched = self.undo.switched().remove(&place);
                drop(switched);
                Ok((Reply::Notes(self.log.1.try_iter().collect()), Vec::new()))
            }
            Request::Kernel(bytes) => self.observe(bytes),
            Request::Output(path, purpose) => self.open_output(&path, purpose),
            Request::BeginOutput(place) => self.output(place, Output::begin),
            Request::CommitOutput(place) => {
                let output = self.undo.outputs().remove(&place);
                named(output.ok_or_else(|| gone("the output"))?.commit())
            }
            Request::DropOutput(place) => {
                let output = self.undo.outputs().remove(&place);
                drop(output);
                done(None)
            }
            Request::Input(_) | Request::Kind(_) | Request::CheckOutput(..) => named_file(&request),
            Request::ConnectUnix => self.connect_unix(),
            Request::Page => self.page.create(&self.scope, &self.undo),
            Request::KeepPage => self.page.keep(&self.undo),
            Request::Listen => self.page.listen(&self.scope),
            Request::Show(url) => self.page.show(&self.scope, url.as_deref()),
            of_process => self.file_of_server(of_process),
        }
    }

    /// Connects to the Unix socket, without waiting for room in its backlog.
    fn connect_unix(&self) -> Answer {
        let path = self.scope.unix_socket.as_ref();
        let connected = unix::connect_unix(path.ok_or_else(|| gone("a Unix socket"))?);
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

    /// Keeps a namespace for later requests and passes it to the worker.
    fn remember(&mut self, namespace: NetworkNamespace) -> Answer {
        let copy = namespace.as_file().try_clone();
        let copy = copy.map_err(|e| HostError::failed("passing a namespace", e))?;
        if self.namespaces.len() < MOST_NAMESPACES {
            self.namespaces.insert(namespace.id(), namespace);
        }
        done(Some(copy))
    }

    /// Opens the namespace of a process. One that the command line names must still be the same.
    fn namespace_of(&self, pid: u32) -> Result<NetworkNamespace, HostError> {
        let namespace = NetworkNamespace::of(pid)?;
        let is_named = matches!(self.scope.processes, Processes::NamespaceOf(_));
        if is_named && !self.named.include(pid) {
            return Err(gone("the process"));
        }
        Ok(namespace)
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
        let is_saved = !self.scope.names_output(path);
        let is_full = self.undo.outputs().len() >= MOST_OUTPUTS;
        if is_full || is_saved && self.saved >= MOST_SAVED {
            return Err(gone("room for another output"));
        }
        let opened = if is_saved {
            self.saved += 1;
            Output::create_new(path)
        } else {
            Output::create(path, purpose)
        };
        let opened = opened.and_then(|output| {
            let copy = output.as_fd().try_clone_to_owned()?;
            Ok((output, copy))
        });
        let (output, copy) = opened.map_err(|error| HostError::failed("opening a file", error))?;
        let mut outputs = self.undo.outputs();
        let place = next_place(&outputs);
        let reply = Reply::Output(place, output.is_announced());
        outputs.insert(place, output);
        Ok((reply, vec![copy]))
    }

    fn output(&mut self, place: u32, act: impl Fn(&mut Output) -> std::io::Result<()>) -> Answer {
        let mut outputs = self.undo.outputs();
        let output = outputs.get_mut(&place);
        named(act(output.ok_or_else(|| gone("the output"))?))
    }

    /// Reads the options of sockets. Where only servers may be examined, each socket must be on one
    /// of their ports.
    fn options(&self, sockets: &[HeldSocket]) -> Reply {
        let is_of_servers = matches!(self.scope.processes, Processes::Servers(_));
        let may_read = |socket: BorrowedFd<'_>| !is_of_servers || self.servers.have(&socket);
        let each = options::of_all_here(sockets, may_read);
        let of_same = sockets.iter().zip(each).map(|(socket, each)| {
            let is_same = self.named.include(socket.pid);
            each.and_then(|options| {
                is_same
                    .then_some(options)
                    .ok_or_else(|| gone("the process"))
            })
            .map_err(Refusal::from)
        });
        Reply::Options(of_same.collect())
    }

    /// Performs a request that concerns the files of a process, which must serve the target until
    /// the end: if it had ended meanwhile, another one could have its number.
    fn file_of_server(&self, request: Request) -> Answer {
        let (Request::Link(pid, _)
        | Request::ProcFile(pid, _)
        | Request::Program(pid)
        | Request::Root(pid)
        | Request::File { pid, .. }) = request
        else {
            return Err(gone("the operation"));
        };
        let answer = self.file_of(request)?;
        if self.servers.include(pid) {
            Ok(answer)
        } else {
            Err(gone("the process"))
        }
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
        let found = self
            .servers
            .find(ports, self.worker.pid(), &namespace, served)?;
        let found = found.ok_or_else(|| refused("Serving"))?;
        let named = |process: ServerProcess| (process.pid, process.name);
        let found = found.into_iter().map(named).collect();
        Ok((Reply::Processes(found), Vec::new()))
    }

    fn switch_on(&mut self, far: FarEnd) -> Answer {
        if self.undo.switched().len() >= MOST_SWITCHED {
            return Err(refused("SwitchOn"));
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
        let worker = self.worker.pid();
        let option = ForeignOption::set_for(worker, &server, far.flow, self.log.0.clone())?;
        let was_on = option.was_on();
        let place = {
            let mut switched = self.undo.switched();
            let place = next_place(&switched);
            switched.insert(place, option);
            place
        };
        let notes = self.log.1.try_iter().collect();
        Ok((Reply::Switched(place, was_on, notes), Vec::new()))
    }
}

/// Events for which the keeper waits.
#[derive(Default)]
struct Ready {
    has_ended: bool,
    is_asked: bool,
    is_listening: bool,
}

/// Returns a number that no element has.
fn next_place<T>(list: &BTreeMap<u32, T>) -> u32 {
    list.keys().next_back().map_or(0, |last| last + 1)
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
        Request::CheckOutput(path, purpose) => named(Output::check(path, *purpose)),
        _ => Err(gone("the operation")),
    }
}

/// Returns the answer to an operation on a file that the user has named.
fn named(outcome: std::io::Result<()>) -> Answer {
    outcome.map_err(|error| HostError::failed("writing a file", error))?;
    done(None)
}

/// Opens a process's program, if its mode lets everybody read it, wherever it is.
fn program(pid: u32) -> Answer {
    let program: OwnedFd = privilege::program(pid)?.into();
    let stat = rustix::fs::fstat(&program);
    if stat.is_ok_and(|stat| stat.st_mode & 0o004 != 0) {
        return done(Some(program));
    }
    let operation = format!("opening the program of process {pid}");
    Err(denied(operation))
}

/// Opens a file or a folder below a process's root. The worker may see what everybody may read, and
/// the server's own configurations; it may not see a file of keys or passwords.
fn open(pid: u32, path: &Path, is_folder: bool) -> Result<OwnedFd, HostError> {
    let operation = || format!("opening {} of process {pid}", path.display());
    let root = config::files::Root::of(pid).map_err(|error| failed("opening a root", error))?;
    let failed = |error| HostError::failed(operation(), error);
    let found = root.find(path, is_folder).map_err(failed)?;
    let resolved = found.resolved().map_err(failed)?;
    if found.is_for_everybody() || configuration::is_of(pid, &root, &resolved, is_folder) {
        return found.open().map_err(failed);
    }
    Err(denied(operation()))
}

/// Returns the error for a file that is not for the worker. With its `errno`, the worker takes it for
/// what it is.
fn denied(operation: String) -> HostError {
    HostError::failed(operation, Errno::ACCESS)
}

fn failed(operation: &str, error: config::Error) -> HostError {
    HostError::failed(operation, std::io::Error::other(error))
}

/// Returns the error for an operation that the command line does not allow.
fn outside_scope(request: &Request) -> HostError {
    refused(request.name())
}

fn refused(operation: &str) -> HostError {
    HostError::failed(
        format!("{operation}, which this command does not need"),
        std::io::Error::from_raw_os_error(libc::EPERM),
    )
}

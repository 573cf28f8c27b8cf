//! A keeper in a thread, asked as a worker would, and as a worker that an attacker controls.

mod ends;
mod requests;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::{self, JoinHandle};

use lagtrace_core::observed::flow::Endpoint;
use proptest::prelude::*;
use rustix::process::getpid;

use super::scope::{Processes, Scope};
use super::service::Service;
use super::undo::Undo;
use super::worker::Worker;
use crate::privilege::NetworkNamespace;
use crate::privilege::channel::Channel;
use crate::privilege::message::{
    HeldSocket, KernelFile, ProcFile, ProcessLink, Purpose, Refusal, Reply, Request, Served,
};
use crate::socket::foreign::OwnFlow;

mod files;
mod impostor;
mod programs;
mod starters;
mod unix_socket;

/// A keeper, and the worker's end of its channel.
struct Asked {
    channel: Channel,
    keeper: JoinHandle<()>,
}

impl Asked {
    fn new(scope: Scope) -> Self {
        let (channel, theirs) = Channel::pair().expect("a pair");
        let worker = Worker::new(getpid());
        let service = Service::new(scope, theirs, worker, Undo::default());
        let keeper = thread::spawn(move || service.run());
        Self { channel, keeper }
    }

    fn of_files(files: &[&Path]) -> Self {
        Self::new(Scope {
            inputs: files.iter().map(PathBuf::from).collect(),
            outputs: files.iter().map(PathBuf::from).collect(),
            ..Scope::default()
        })
    }

    fn ask(&self, request: &Request) -> (Reply, Vec<OwnedFd>) {
        self.channel.send(request, &[]).expect("the keeper lives");
        self.channel
            .receive()
            .expect("well-formed")
            .expect("an answer")
    }

    #[track_caller]
    fn is_refused(&self, request: &Request) {
        let (reply, descriptors) = self.ask(request);
        assert!(matches!(reply, Reply::Refused(_)), "{request:?}: {reply:?}");
        assert!(descriptors.is_empty(), "{request:?}");
    }

    /// Ends the worker, as any death of it does.
    fn end(self) {
        drop(self.channel);
        self.keeper.join().expect("the keeper ends without a panic");
    }
}

/// Returns true for root. Otherwise prints that a test needs it, or fails if no test may be skipped.
fn has_root() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    writeln!(io::stderr(), "skipped: needs root").expect("stderr takes a line");
    let may_skip = std::env::var_os("LAGTRACE_REQUIRE_ALL").is_none_or(|all| all != "1");
    assert!(may_skip, "nothing may be skipped");
    false
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    entries
        .map(|entry| name(entry).into_string().expect("text"))
        .collect()
}

#[test]
fn only_named_files_are_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let (named, other) = (folder.path().join("named"), folder.path().join("other"));
    fs::write(&named, "content").expect("written");
    fs::write(&other, "secret").expect("written");
    let asked = Asked::of_files(&[&named]);
    let (_, mut descriptors) = asked.ask(&Request::Input(named.clone()));
    let mut text = String::new();
    let mut file = File::from(descriptors.pop().expect("a descriptor"));
    file.read_to_string(&mut text).expect("readable");
    assert_eq!(text, "content");
    let dots = folder.path().join("named/../other");
    for path in [other, dots, "/etc/hostname".into(), "".into()] {
        asked.is_refused(&Request::Input(path.clone()));
        asked.is_refused(&Request::Kind(path.clone()));
        asked.is_refused(&Request::Output(path.clone(), Purpose::Result));
        asked.is_refused(&Request::CheckOutput(path, Purpose::Stream));
    }
    asked.end();
}

#[test]
fn outputs_of_a_worker_that_dies_leave_the_old_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    fs::write(&old, "the old report").expect("written");
    let asked = Asked::of_files(&[&old, &new]);
    for path in [&old, &new] {
        let (reply, mut descriptors) = asked.ask(&Request::Output(path.clone(), Purpose::Result));
        assert!(matches!(reply, Reply::Output(..)), "{reply:?}");
        let mut file = File::from(descriptors.pop().expect("a descriptor"));
        file.write_all(b"half a rep").expect("writable");
    }
    asked.end();
    assert_eq!(names(folder.path()), ["old"]);
    assert_eq!(
        fs::read_to_string(&old).expect("readable"),
        "the old report"
    );
}

#[test]
fn what_was_recorded_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("capture");
    let asked = Asked::of_files(&[&path]);
    let (reply, mut descriptors) = asked.ask(&Request::Output(path.clone(), Purpose::Stream));
    let Reply::Output(number, true) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(asked.ask(&Request::BeginOutput(number)).0, Reply::Done);
    let mut file = File::from(descriptors.pop().expect("a descriptor"));
    file.write_all(b"packets").expect("writable");
    asked.end();
    assert_eq!(fs::read(&path).expect("readable"), b"packets");
}

/// Returns a listener, and a request for the processes that serve there.
fn listener() -> (TcpListener, u16, Request) {
    listener_at(Ipv4Addr::LOCALHOST.into())
}

fn listener_at(address: IpAddr) -> (TcpListener, u16, Request) {
    let listener = TcpListener::bind((address, 0)).expect("a free port");
    let endpoint = Endpoint::from(listener.local_addr().expect("it is bound"));
    (listener, endpoint.port, serving(endpoint, None))
}

/// Returns an address of this host: not a loopback address, if there is another one. NAT is looked
/// for only behind those.
fn own_address() -> IpAddr {
    // To connect a UDP socket sends nothing. The address is one for documentation (RFC 5737).
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
    let connected = socket.connect("192.0.2.1:9");
    let own = connected.and_then(|()| socket.local_addr());
    own.map_or(Ipv4Addr::LOCALHOST.into(), |own| own.ip())
}

/// Returns a request for the processes that serve at an address in this process's namespace.
fn serving(endpoint: Endpoint, flow: Option<OwnFlow>) -> Request {
    let namespace = NetworkNamespace::own().expect("our own").id();
    Request::Serving(Box::new(Served {
        namespace,
        endpoint,
        flow,
    }))
}

fn of_servers(ports: &[u16]) -> Asked {
    Asked::new(Scope {
        processes: Processes::Servers(ports.to_vec()),
        ..Scope::default()
    })
}

fn held(pid: u32, fd: i32, socket: &TcpListener) -> HeldSocket {
    HeldSocket {
        pid,
        fd: u32::try_from(fd).expect("a descriptor"),
        cookie: rustix::net::sockopt::socket_cookie(socket).expect("a cookie"),
    }
}

/// Starts a process that does nothing but hold this socket, with these variables.
fn holder(socket: OwnedFd, variables: &[(&str, &str)]) -> Child {
    holder_by("sleep".as_ref(), &["60".as_ref()], socket, variables)
}

/// Like [`holder`], with this program, which does nothing else with these arguments.
fn holder_by(
    program: &Path,
    arguments: &[&OsStr],
    socket: OwnedFd,
    variables: &[(&str, &str)],
) -> Child {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .env("PATH", path)
        .stdin(socket)
        .spawn()
        .expect("a process")
}

fn end(mut process: Child) {
    process.kill().expect("ours");
    process.wait().expect("ended");
}

#[test]
fn secrets_in_an_environment_stay_with_it() {
    let (socket, port, find) = listener();
    let server = holder(socket.into(), &[("PASSWORD", "hunter2"), ("GOGC", "50")]);
    let asked = of_servers(&[port]);
    // The environment is empty until the program has started.
    let mut shown = Vec::new();
    for _ in 0..200 {
        asked.ask(&find);
        let environment = Request::ProcFile(server.id(), ProcFile::Environ);
        if let (Reply::Bytes(bytes), _) = asked.ask(&environment) {
            shown = bytes;
        }
        if shown.starts_with(b"GOGC") {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
    end(server);
    assert_eq!(shown, b"GOGC=50\0");
    asked.end();
}

/// Returns all requests that concern the files of a process.
fn about(pid: u32) -> [Request; 5] {
    [
        Request::Link(pid, ProcessLink::Exe),
        Request::ProcFile(pid, ProcFile::Stat),
        Request::Program(pid),
        Request::Root(pid),
        Request::File {
            pid,
            path: "/etc/hostname".into(),
            is_folder: false,
        },
    ]
}

#[test]
fn only_processes_that_serve_the_named_port_are_examined() {
    let (socket, port, find) = listener();
    let (other_socket, _, find_other) = listener();
    let (server, other) = (holder(socket.into(), &[]), holder(other_socket.into(), &[]));
    let asked = of_servers(&[port]);
    // No server has been found yet.
    for request in about(server.id()) {
        asked.is_refused(&request);
    }
    let (Reply::Processes(found), _) = asked.ask(&find) else {
        panic!("the server was not found");
    };
    let pids: Vec<u32> = found.into_iter().map(|(pid, _)| pid).collect();
    assert_eq!(pids, [server.id()]);
    asked.is_refused(&find_other);
    let (named, others) = (about(server.id()), about(other.id()));
    for (allowed, refused) in named.iter().zip(&others) {
        let (reply, _) = asked.ask(allowed);
        assert!(
            !matches!(reply, Reply::Refused(_)),
            "{allowed:?}: {reply:?}"
        );
        asked.is_refused(refused);
    }
    // A later process could get its number. Until the ended one is waited for, its file is there.
    let mut server = server;
    server.kill().expect("ours");
    let is_refused = |request| matches!(asked.ask(request).0, Reply::Refused(_));
    let stat = Request::ProcFile(server.id(), ProcFile::Stat);
    let refused = (0..200).any(|_| {
        thread::sleep(std::time::Duration::from_millis(5));
        is_refused(&stat)
    });
    assert!(refused && fs::read(format!("/proc/{}/stat", server.id())).is_ok());
    server.wait().expect("ended");
    assert!(named.iter().all(is_refused));
    end(other);
    asked.end();
}

#[test]
fn only_sockets_on_the_named_port_show_their_options() {
    let (socket, port, find) = listener();
    let (other_socket, ..) = listener();
    let asked = of_servers(&[port]);
    let held = |socket: &TcpListener| held(std::process::id(), socket.as_raw_fd(), socket);
    let request = Request::Options(vec![held(&other_socket), held(&socket)]);
    let shown = || match asked.ask(&request).0 {
        Reply::Options(each) => each.iter().map(Result::is_ok).collect::<Vec<_>>(),
        reply => panic!("{reply:?}"),
    };
    assert_eq!(shown(), [false, false]);
    asked.ask(&find);
    assert_eq!(shown(), [false, true]);
    asked.end();
}

#[test]
fn the_worker_itself_is_never_a_server() {
    let (socket, port, find) = listener();
    let asked = of_servers(&[port]);
    assert_eq!(asked.ask(&find).0, Reply::Processes(Vec::new()));
    for request in about(std::process::id()) {
        asked.is_refused(&request);
    }
    drop(socket);
    asked.end();
}

#[test]
fn no_output_is_made_for_everybody() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report");
    let asked = Asked::of_files(&[&path]);
    asked.is_refused(&Request::Output(path.clone(), Purpose::Public));
    asked.is_refused(&Request::CheckOutput(path, Purpose::Public));
    asked.end();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn another_address_is_a_target_only_at_the_end_of_an_own_connection() {
    let (socket, port, _) = listener_at(own_address());
    let (other_socket, ..) = listener_at(own_address());
    let end = |socket: &TcpListener| Endpoint::from(socket.local_addr().expect("it is bound"));
    let stream = TcpStream::connect(socket.local_addr().expect("it is bound")).expect("connects");
    let flow = OwnFlow::of(&stream).expect("connected");
    let to_other = TcpStream::connect(other_socket.local_addr().expect("bound")).expect("connects");
    let flow_to_other = OwnFlow::of(&to_other).expect("connected");
    let forged = OwnFlow {
        remote: flow.remote,
        ..flow_to_other
    };
    let asked = of_servers(&[port]);
    for flow in [flow, flow_to_other, forged] {
        asked.is_refused(&serving(end(&other_socket), Some(flow)));
    }
    let (reply, _) = asked.ask(&serving(end(&socket), Some(flow)));
    assert!(matches!(reply, Reply::Processes(_)), "{reply:?}");
    asked.end();
}

#[test]
fn only_processes_that_are_named_show_their_sockets() {
    let (socket, ..) = listener();
    let server = holder(socket.try_clone().expect("a copy").into(), &[]);
    let asked = Asked::new(Scope {
        processes: Processes::Sockets(vec![server.id()]),
        ..Scope::default()
    });
    let named = held(server.id(), 0, &socket);
    let own = held(std::process::id(), socket.as_raw_fd(), &socket);
    let (reply, _) = asked.ask(&Request::Options(vec![named]));
    assert!(
        matches!(&reply, Reply::Options(each) if matches!(each[..], [Ok(Some(_))])),
        "{reply:?}"
    );
    asked.is_refused(&Request::Options(vec![own]));
    asked.is_refused(&Request::Options(vec![named, own]));
    for request in about(server.id()) {
        asked.is_refused(&request);
    }
    end(server);
    asked.end();
}

#[test]
fn settings_for_root_alone_stay_with_the_kernel() {
    let asked = of_servers(&[80]);
    let namespace = NetworkNamespace::own().expect("our own").id();
    let setting = |path: &str| Request::KernelFile {
        namespace,
        file: KernelFile::Setting(path.to_owned()),
    };
    let (reply, _) = asked.ask(&setting("net/core/somaxconn"));
    assert_eq!(reply, Reply::Done);
    // The key of TCP Fast Open. Root could read it, and nobody else can.
    asked.is_refused(&setting("net/ipv4/tcp_fastopen_key"));
    asked.end();
}

#[test]
fn a_malformed_message_ends_the_keeper() {
    let asked = Asked::new(Scope::default());
    asked.channel.send(&u64::MAX, &[]).expect("sent");
    asked.keeper.join().expect("no panic");
    assert!(asked.channel.receive::<Reply>().expect("the end").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A worker that may ask for nothing gets nothing, whatever its requests look like.
    #[test]
    fn no_bytes_open_anything(messages in prop::collection::vec(any::<Vec<u8>>(), 1..20)) {
        let scope = Scope::default();
        for message in messages {
            let Ok(request) = postcard::from_bytes::<Request>(&message) else { continue };
            // These concern only what an allowed request has made before.
            let is_of_earlier = matches!(
                request,
                Request::IsOn(_)
                    | Request::Restore(_)
                    | Request::BeginOutput(_)
                    | Request::CommitOutput(_)
                    | Request::DropOutput(_)
                    | Request::KeepPage
            );
            prop_assert_eq!(scope.allows(&request), is_of_earlier);
            if is_of_earlier {
                let asked = Asked::new(scope.clone());
                let (reply, descriptors) = asked.ask(&request);
                prop_assert!(descriptors.is_empty());
                let is_harmless = matches!(reply, Reply::Refused(Refusal::Gone(_)) | Reply::Done)
                    || reply == Reply::Notes(Vec::new());
                prop_assert!(is_harmless, "{reply:?}");
                asked.end();
            }
        }
    }
}

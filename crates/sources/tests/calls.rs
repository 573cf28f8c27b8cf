//! Socket calls that the kernel's tracepoints report, compared with the output of `strace` for the
//! same run. Needs root.
#![cfg(feature = "live")]
#![allow(clippy::unwrap_used, clippy::print_stderr, unsafe_code)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lagtrace_core::observed::syscall::{Accepted, CallTally, Request, SocketCall, SocketKind};
use lagtrace_sources::kernel::{CallOptions, Calls, KernelError};
use lagtrace_sources::socket::cgroup::{Group, Groups};
use lagtrace_sources::socket::survey::{Choice, End};

/// Environment variable that makes a copy of this program perform a role.
const ROLE: &str = "LAGTRACE_TEST_ROLE";
/// A number of calls that does not fit into the ring.
const VERY_MANY: u64 = 100_000;

/// Returns true if this process may trace. If it may not and `LAGTRACE_REQUIRE_ALL` is set, the
/// test fails.
fn may_trace(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(
            std::env::var_os("LAGTRACE_REQUIRE_ALL").is_none(),
            "{test} needs root"
        );
        eprintln!("skipped: {test} needs root");
    }
    is_root
}

fn set(fd: RawFd, level: i32, option: i32, value: &[u8]) {
    let len = libc::socklen_t::try_from(value.len()).unwrap();
    // SAFETY: the kernel reads the `len` bytes of `value`.
    unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), len) };
}

fn set_int(fd: RawFd, level: i32, option: i32, value: i32) {
    set(fd, level, option, &value.to_ne_bytes());
}

/// Sets an option with an address that need not be valid.
fn set_at(fd: RawFd, level: i32, option: i32, pointer: usize, len: u32) {
    // SAFETY: the kernel checks the address before it reads, and writes nothing.
    unsafe { libc::setsockopt(fd, level, option, pointer as *const libc::c_void, len) };
}

/// Makes the calls that are traced.
fn make_calls() {
    const TCP: i32 = libc::SOL_TCP;
    const SOCKET: i32 = libc::SOL_SOCKET;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    for fd in [client.as_raw_fd(), accepted.as_raw_fd()] {
        set_int(fd, TCP, libc::TCP_NODELAY, 1);
        for is_on in [1, 0, 1, 0] {
            set_int(fd, TCP, libc::TCP_CORK, is_on);
        }
        set_int(fd, TCP, libc::TCP_QUICKACK, 1);
        set_int(fd, SOCKET, libc::SO_SNDBUF, 1 << 30);
        set_int(fd, SOCKET, libc::SO_RCVBUF, 100_000);
    }
    let fd = client.as_raw_fd();
    let pair = |one: i32, two: i32| [one.to_ne_bytes(), two.to_ne_bytes()].concat();
    set(fd, SOCKET, libc::SO_LINGER, &pair(1, 5));
    set_int(fd, SOCKET, libc::SO_LINGER, 1);
    set(
        fd,
        SOCKET,
        libc::SO_RCVTIMEO,
        &[1i64, 500_000].map(i64::to_ne_bytes).concat(),
    );
    set(fd, TCP, libc::TCP_CONGESTION, b"reno\0");
    set(
        fd,
        TCP,
        libc::TCP_CONGESTION,
        b"no such thing, \"\\\x01\x029",
    );
    for option in 0..50 {
        set_int(fd, TCP, option, 77);
        set_int(fd, SOCKET, option, 77);
        set_int(fd, libc::SOL_IP, option, 77);
        set_int(fd, 99, option, 77);
    }
    set(fd, TCP, 77, &[b'x'; 100]);
    set(fd, TCP, libc::TCP_NODELAY, &[]);
    set(fd, TCP, libc::TCP_NODELAY, &[1, 0]);
    // Invalid addresses and lengths.
    for pointer in [0, 8] {
        set_at(fd, TCP, libc::TCP_NODELAY, pointer, 4);
        set_at(fd, TCP, libc::TCP_CORK, pointer, u32::MAX);
    }
    let file = File::open("/dev/null").unwrap();
    for fd in [-1, 9999, file.as_raw_fd()] {
        set_int(fd, TCP, libc::TCP_NODELAY, 1);
    }
    let six = TcpListener::bind("[::1]:0").unwrap();
    set_int(six.as_raw_fd(), libc::SOL_IPV6, libc::IPV6_V6ONLY, 1);
    let far = TcpStream::connect(six.local_addr().unwrap()).unwrap();
    set_int(far.as_raw_fd(), TCP, libc::TCP_NODELAY, 1);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    set_int(udp.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, 1000);
    for how in [Shutdown::Read, Shutdown::Write, Shutdown::Both] {
        let _ = far.shutdown(how);
    }
    // SAFETY: the arguments are plain numbers.
    unsafe {
        libc::listen(listener.as_raw_fd(), 1 << 20);
        libc::listen(listener.as_raw_fd(), -1);
        libc::listen(9999, 1);
        libc::shutdown(fd, 7);
    }
}

/// Makes very many calls on one thread.
fn make_many() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..VERY_MANY {
        set_int(udp.as_raw_fd(), libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
    }
}

/// Performs the role of a copy of this program; does nothing in the test run itself. The parent
/// also starts a child that makes the same calls.
#[test]
fn role() {
    match std::env::var(ROLE).as_deref() {
        Ok("parent") => {
            make_calls();
            let mut child = myself("child");
            assert!(child.status().unwrap().success());
            // The other thread uses the same descriptors.
            thread::spawn(make_calls).join().unwrap();
        }
        Ok("child") => make_calls(),
        Ok("many") => make_many(),
        _ => {}
    }
}

fn myself(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "role", "--test-threads=1"]);
    command.env(ROLE, role);
    // Hides the output of the copy's test harness.
    command.stdout(Stdio::null());
    command
}

/// Returns the calls of all processes that are traced while `work` runs.
fn traced(options: CallOptions, work: impl FnOnce()) -> (Vec<SocketCall>, CallTally) {
    // Each trace includes all processes of this host, so only one test traces at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut calls = Calls::start(options).unwrap();
    let mut seen = Vec::new();
    work();
    calls.take(|call| seen.push(call));
    let tally = calls.finish(|call| seen.push(call));
    (seen, tally)
}

fn everything() -> CallOptions {
    CallOptions {
        is_any_kind: true,
        ..CallOptions::default()
    }
}

fn of_choice(choice: Choice) -> CallOptions {
    CallOptions {
        choice,
        is_any_kind: true,
        has_accepts: false,
    }
}

/// Returns `strace`'s calls by thread, in order. Names that lagtrace writes differently are
/// replaced.
fn straced(path: &Path) -> BTreeMap<u32, Vec<String>> {
    let mut by_thread: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        let (tid, rest) = line.split_once(' ').unwrap();
        let rest = rest.trim_start();
        if rest.starts_with(['+', '-']) {
            continue;
        }
        // `strace` pads short calls with spaces.
        let (call, result) = rest.rsplit_once(" = ").unwrap();
        let text = format!("{} = {result}", call.trim_end());
        let text = text.replace("TIMEO_OLD", "TIMEO").replace("_OLD,", ",");
        by_thread
            .entry(tid.parse().unwrap())
            .or_default()
            .push(text);
    }
    by_thread
}

/// Returns true for calls that may differ from `strace`'s text: with options that the installed
/// `strace` does not know, with structures that only `strace` decodes, and with values that
/// `strace` prints as bytes.
fn is_written_otherwise(ours: &str, theirs: &str) -> bool {
    let is_unknown = |text: &str| text.contains("_??? */");
    let is_decoded = [
        "SO_RCVTIMEO, {tv_sec",
        "TCP_CONGESTION",
        "SO_BINDTODEVICE",
        "TCP_ULP",
        "SO_ATTACH",
        "MEMBERSHIP",
        "MCAST_",
        "/* a key */",
    ]
    .iter()
    .any(|word| ours.contains(word));
    let result = |text: &str| text.rsplit_once(" = ").map(|(_, result)| result.to_owned());
    (is_unknown(theirs) && !is_unknown(ours) || is_decoded) && result(ours) == result(theirs)
}

#[test]
fn each_call_is_seen_and_written_as_strace_writes_it() {
    const TEST: &str = "each_call_is_seen_and_written_as_strace_writes_it";
    if !may_trace(TEST) {
        return;
    }
    if !Path::new("/usr/bin/strace").exists() {
        assert!(
            std::env::var_os("LAGTRACE_REQUIRE_ALL").is_none(),
            "{TEST} needs strace"
        );
        return eprintln!("skipped: {TEST} needs strace");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("strace");
    let (seen, tally) = traced(everything(), || {
        let copy = myself("parent");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(&path);
        command.args([
            "-e",
            "trace=setsockopt,listen,shutdown,bind,connect",
            "-e",
            "signal=none",
        ]);
        command
            .arg(copy.get_program())
            .args(copy.get_args())
            .env(ROLE, "parent")
            .stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    });
    assert_eq!(tally.lost, 0);
    let theirs = straced(&path);
    assert!(theirs.len() >= 3, "two threads and a child: {theirs:#?}");
    let (mut compared, mut otherwise, mut wrong) = (0, 0, Vec::new());
    for (tid, theirs) in &theirs {
        let ours: Vec<&SocketCall> = seen.iter().filter(|call| call.caller.tid == *tid).collect();
        assert_eq!(ours.len(), theirs.len(), "{tid}: {ours:#?} {theirs:#?}");
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let ours = ours.syntax();
            if ours != *theirs {
                if is_written_otherwise(&ours, theirs) {
                    otherwise += 1
                } else {
                    wrong.push(format!(
                        "{ours}
{theirs}"
                    ))
                }
            }
            compared += 1;
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "ours and strace's");
    assert!(
        compared > 700 && otherwise * 5 < compared,
        "{otherwise} of {compared}"
    );
}

#[test]
fn the_connection_the_values_around_it_and_the_caller_are_told() {
    if !may_trace("the_connection_the_values_around_it_and_the_caller_are_told") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut closed = None;
    let options = of_choice(Choice {
        pids: vec![std::process::id()],
        ports: vec![listener.local_addr().unwrap().port()],
        ..Choice::default()
    });
    let begun = Instant::now();
    let (seen, _) = traced(options, || {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_nodelay(true).unwrap();
        set_int(
            client.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            1 << 30,
        );
        closed = Some(client.local_addr().unwrap());
    });
    let elapsed = begun.elapsed();
    // The connection is known even though its descriptor has been closed.
    let options: Vec<&SocketCall> = seen
        .iter()
        .filter(|call| call.name() == "setsockopt")
        .collect();
    assert_eq!(options.len(), 3, "{seen:#?}");
    for call in &options {
        let socket = call.socket.as_ref().unwrap();
        assert_eq!(
            (socket.kind, socket.state.as_str()),
            (SocketKind::Tcp, "ESTAB")
        );
        assert_eq!(socket.namespace, None);
        let ends = [socket.local, socket.remote]
            .map(|end| end.map(|end| SocketAddr::new(end.addr, end.port)));
        assert_eq!(ends, [closed, listener.local_addr().ok()]);
        assert_eq!(call.caller.pid, std::process::id());
        assert!(call.took > Duration::ZERO && call.took < elapsed);
    }
    let around: Vec<_> = options
        .iter()
        .map(|call| (call.before, call.after))
        .collect();
    assert_eq!(around[..2], [(Some(0), Some(1)), (Some(1), Some(1))]);
    let most = fs::read_to_string("/proc/sys/net/core/wmem_max").unwrap();
    let most: i64 = most.trim().parse().unwrap();
    assert_eq!(around[2].1, Some(most * 2));
}

/// An accepted connection has options of its listener without any call on it; what was sent before
/// a call shows whether an option was set in time.
#[test]
fn accepted_connections_are_told_with_what_they_inherit() {
    if !may_trace("accepted_connections_are_told_with_what_they_inherit") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let options = CallOptions {
        has_accepts: true,
        ..of_choice(Choice {
            ports: vec![address.port()],
            ..Choice::default()
        })
    };
    let (seen, _) = traced(options, || {
        let plain = TcpStream::connect(address).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(b"early").unwrap();
        accepted.set_nodelay(true).unwrap();
        let fd = listener.as_raw_fd();
        set_int(fd, libc::SOL_TCP, libc::TCP_NODELAY, 1);
        set_int(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 20_000);
        set_int(fd, libc::SOL_TCP, libc::TCP_DEFER_ACCEPT, 5);
        // SAFETY: plain numbers.
        unsafe { libc::listen(fd, 7) };
        let mut second = TcpStream::connect(address).unwrap();
        second.write_all(b"x").unwrap();
        listener.accept().unwrap();
        drop((plain, second));
    });
    let accepts: Vec<(Accepted, &SocketCall)> = seen
        .iter()
        .filter_map(|call| match call.request {
            Request::Accept(accepted) => Some((accepted, call)),
            _ => None,
        })
        .collect();
    let [(first, call), (second, _)] = accepts[..] else {
        panic!("two connections: {seen:#?}");
    };
    assert_eq!(call.caller.pid, std::process::id());
    let socket = call.socket.as_ref().unwrap();
    assert_eq!(socket.state, "ESTAB");
    assert_eq!(socket.local.map(|end| end.port), Some(address.port()));
    assert!(!first.nodelay && !first.send_buffer && !first.is_deferred);
    assert_eq!(first.backlog, 128, "what the standard library asks for");
    assert!(second.nodelay && second.send_buffer && second.is_deferred);
    assert!(!second.cork && !second.receive_buffer);
    assert_eq!(second.backlog, 7);
    let own = |call: &&SocketCall| {
        let of = call.socket.as_ref().unwrap();
        call.subject() == "TCP_NODELAY" && of.inode == socket.inode
    };
    let set = seen.iter().find(own).unwrap();
    assert_eq!(set.sent, 5, "{set:#?}");
}

#[test]
fn calls_before_a_port_is_known_are_told_with_it() {
    if !may_trace("calls_before_a_port_is_known_are_told_with_it") {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let work = || {
        for target in [address, other.local_addr().unwrap()] {
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_tcp_nodelay(true).unwrap();
            socket.connect(&target.into()).unwrap();
        }
    };
    let names = |seen: &[SocketCall]| seen.iter().map(SocketCall::subject).collect::<Vec<_>>();
    let ports = of_choice(Choice {
        ports: vec![address.port()],
        ..Choice::default()
    });
    let (seen, _) = traced(ports, work);
    assert_eq!(names(&seen), ["TCP_NODELAY", "connect"], "{seen:#?}");
    let ends = of_choice(Choice {
        ends: vec![End {
            address: address.ip(),
            port: Some(address.port()),
        }],
        ..Choice::default()
    });
    let (seen, _) = traced(ends, work);
    assert_eq!(names(&seen), ["TCP_NODELAY", "connect"], "{seen:#?}");
}

#[test]
fn only_the_processes_asked_for_are_traced() {
    if !may_trace("only_the_processes_asked_for_are_traced") {
        return;
    }
    let run = || assert!(myself("child").status().unwrap().success());
    let own = of_choice(Choice {
        pids: vec![std::process::id()],
        ..Choice::default()
    });
    let (seen, _) = traced(own, run);
    assert!(
        seen.iter()
            .all(|call| call.caller.pid == std::process::id()),
        "{seen:#?}"
    );
    let (_, tally) = traced(
        of_choice(Choice {
            pids: vec![1],
            ..Choice::default()
        }),
        run,
    );
    assert_eq!(tally.calls, 0, "the kernel leaves the others out");
    let named = |name: &str| {
        of_choice(Choice {
            names: vec![name.to_owned()],
            ..Choice::default()
        })
    };
    let comm = fs::read_to_string("/proc/self/comm").unwrap();
    let (seen, _) = traced(named(comm.trim()), run);
    assert!(!seen.is_empty());
    let (seen, _) = traced(named("no such program"), run);
    assert!(seen.is_empty(), "{seen:#?}");
}

#[test]
fn a_control_group_is_traced_and_those_made_below_it() {
    if !may_trace("a_control_group_is_traced_and_those_made_below_it") {
        return;
    }
    let Some(mount) = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .into_iter()
        .find(|mount| Path::new(mount).join("cgroup.procs").exists())
    else {
        return eprintln!("skipped: no control groups of version 2 are mounted");
    };
    let name = format!("lagtrace-calls-{}", std::process::id());
    let outer = Path::new(mount).join(&name);
    let inner = outer.join("inner");
    fs::create_dir(&outer).unwrap();
    let groups = Groups::find(&[Group::Cgroup(format!("/{name}"))]).unwrap();
    let options = of_choice(Choice {
        groups: Some(groups),
        ..Choice::default()
    });
    let (seen, _) = traced(options, || {
        fs::create_dir(&inner).unwrap();
        assert!(myself("child").status().unwrap().success());
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", inner.display());
        let copy = myself("child");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(copy.get_program());
        command.args(copy.get_args()).env(ROLE, "child");
        command.stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    });
    fs::remove_dir(&inner).unwrap();
    fs::remove_dir(&outer).unwrap();
    let pids: std::collections::BTreeSet<u32> = seen.iter().map(|call| call.caller.pid).collect();
    assert_eq!(pids.len(), 1, "the one in the group alone");
}

#[test]
fn what_finds_no_room_is_counted() {
    if !may_trace("what_finds_no_room_is_counted") {
        return;
    }
    let (seen, tally) = traced(everything(), || {
        assert!(myself("many").status().unwrap().success());
    });
    assert!(tally.lost > 0, "{tally:?}");
    assert!(tally.calls >= VERY_MANY);
    assert_eq!(seen.len() as u64 + tally.lost, tally.calls);
}

/// Reads a value in a page that is not in memory. eBPF programs cannot wait for a page, but the
/// system call itself loads it.
#[test]
fn a_value_whose_page_is_not_there_yet_is_read_all_the_same() {
    if !may_trace("a_value_whose_page_is_not_there_yet_is_read_all_the_same") {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), 1i32.to_ne_bytes()).unwrap();
    let own = of_choice(Choice {
        pids: vec![std::process::id()],
        ..Choice::default()
    });
    let (seen, _) = traced(own, || {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: a new mapping of a file that is not truncated. Only the kernel reads it.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(page, libc::MAP_FAILED);
        set_at(
            socket.as_raw_fd(),
            libc::SOL_TCP,
            libc::TCP_NODELAY,
            page as usize,
            4,
        );
    });
    let set = seen
        .iter()
        .find(|call| call.subject() == "TCP_NODELAY")
        .unwrap();
    assert!(set.syntax().contains("[1], 4) = 0"), "{set:#?}");
    let Request::SetOption { value, .. } = &set.request else {
        panic!("{set:#?}");
    };
    assert!(value.is_late, "{set:#?}");
}

#[test]
fn keys_stay_where_they_are() {
    if !may_trace("keys_stay_where_they_are") {
        return;
    }
    let own = of_choice(Choice {
        pids: vec![std::process::id()],
        ..Choice::default()
    });
    let (seen, _) = traced(own, || {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        // TCP_MD5SIG, the option that sets the key of kTLS, and SCTP_AUTH_KEY. The kernel refuses
        // the last one here, but reports the attempt.
        set(socket.as_raw_fd(), libc::SOL_TCP, 14, &[b'K'; 216]);
        set(socket.as_raw_fd(), 282, 1, &[b'K'; 40]);
        set(socket.as_raw_fd(), 132, 23, &[b'K'; 40]);
    });
    let secret = |call: &&SocketCall| match &call.request {
        Request::SetOption { value, .. } => value.is_secret && value.bytes.is_empty(),
        _ => false,
    };
    assert_eq!(seen.iter().filter(secret).count(), 3, "{seen:#?}");
    assert!(!format!("{seen:?}").contains("75, 75"), "{seen:#?}");
}

#[test]
fn what_is_asked_for_wrongly_is_refused_with_a_hint() {
    if !may_trace("what_is_asked_for_wrongly_is_refused_with_a_hint") {
        return;
    }
    let refused = |choice| Calls::start(of_choice(choice)).unwrap_err();
    let gone = refused(Choice {
        pids: vec![u32::MAX],
        ..Choice::default()
    });
    assert!(matches!(gone, KernelError::NoProcess(u32::MAX)));
    let many = refused(Choice {
        ports: (1..=17).collect(),
        ..Choice::default()
    });
    assert!(matches!(many, KernelError::TooManyPorts(17)));
    assert!(many.hint().is_some());
}

//! Each restriction on a thread of this process, which then tries what it must not and what it must
//! be able to do.

#![allow(unsafe_code)]

use std::net::ToSocketAddrs as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::Command;
use std::thread;

use super::{Rules, Step, calls, paths};

/// The `errno` of a call that a filter refuses. The arguments would give another one.
const REFUSED: i32 = libc::EPERM;
/// `include/uapi/asm-generic/fcntl.h`.
const F_SETSIG: i32 = 10;

/// Returns what `act` returns in a thread whose system calls are restricted.
fn filtered<T: Send>(rules: &Rules, act: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let restricted = || {
            calls::restrict(rules).expect("a filter");
            act()
        };
        scope.spawn(restricted).join().expect("no panic")
    })
}

fn network() -> Rules {
    Rules {
        network: true,
        ..Rules::default()
    }
}

/// Makes a system call; returns its result, or the `errno`.
fn call(number: libc::c_long, arguments: [libc::c_long; 4]) -> Result<i32, i32> {
    let [one, two, three, four] = arguments;
    // SAFETY: the tests pass numbers, null pointers, and no pointers that the kernel writes to.
    let result = unsafe { libc::syscall(number, one, two, three, four, 0, 0) };
    match i32::try_from(result).expect("small") {
        -1 => Err(std::io::Error::last_os_error().raw_os_error().expect("one")),
        result => Ok(result),
    }
}

fn open(family: i32, kind: i32, protocol: i32) -> Result<OwnedFd, i32> {
    let arguments = [family.into(), kind.into(), protocol.into(), 0];
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    call(libc::SYS_socket, arguments).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the `errno` of opening a socket; 0 if it opens.
fn errno(family: i32, kind: i32, protocol: i32) -> i32 {
    open(family, kind, protocol).err().unwrap_or(0)
}

#[test]
fn a_worker_opens_no_sockets_but_those_it_uses() {
    use libc::{AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK};
    use libc::{SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_RAW, SOCK_SEQPACKET, SOCK_STREAM};
    filtered(&network(), || {
        for (family, kind, protocol) in [
            (AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
            (AF_INET6, SOCK_STREAM, libc::IPPROTO_TCP),
            (AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, libc::IPPROTO_UDP),
            (AF_NETLINK, SOCK_RAW, libc::NETLINK_SOCK_DIAG),
        ] {
            assert_eq!(errno(family, kind, protocol), 0, "{family} {kind}");
        }
        // The kernel itself may refuse those of ICMP to a group (`ping_group_range`).
        let icmp = errno(AF_INET, SOCK_DGRAM, libc::IPPROTO_ICMP);
        assert_ne!(icmp, REFUSED);
        for family in [AF_UNIX, AF_VSOCK, AF_PACKET] {
            for kind in [SOCK_STREAM, SOCK_DGRAM, SOCK_RAW | SOCK_CLOEXEC] {
                let errno = errno(family, kind, 0);
                assert_eq!(errno, libc::EAFNOSUPPORT, "{family} {kind}");
            }
        }
        for (family, kind, protocol) in [
            (AF_INET, SOCK_STREAM, libc::IPPROTO_MPTCP),
            (AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, libc::IPPROTO_MPTCP),
            (AF_INET, SOCK_SEQPACKET, 0),
            (AF_INET, SOCK_STREAM, libc::IPPROTO_SCTP),
            (AF_INET, SOCK_DGRAM, libc::IPPROTO_UDPLITE),
            (AF_INET, SOCK_RAW, libc::IPPROTO_TCP),
            (AF_NETLINK, SOCK_RAW, libc::NETLINK_NETFILTER),
            (AF_NETLINK, SOCK_RAW, libc::NETLINK_GENERIC),
        ] {
            assert_eq!(errno(family, kind, protocol), REFUSED, "{family} {kind}");
        }
    });
}

#[test]
fn packets_and_raw_sockets_are_for_the_commands_that_need_them() {
    use libc::{AF_INET, AF_INET6, AF_PACKET, SOCK_DGRAM, SOCK_RAW};
    let (packets, raw) = (
        Rules {
            packets: true,
            ..network()
        },
        Rules {
            raw: true,
            ..network()
        },
    );
    // Others may open none of them, whatever the filter.
    let opens = if rustix::process::geteuid().is_root() {
        0
    } else {
        REFUSED
    };
    filtered(&packets, || {
        assert_eq!(errno(AF_PACKET, SOCK_RAW, 0), opens);
        assert_eq!(errno(AF_PACKET, SOCK_DGRAM, 0), opens);
        assert_eq!(errno(AF_INET, SOCK_RAW, libc::IPPROTO_TCP), REFUSED);
    });
    filtered(&raw, || {
        assert_eq!(errno(AF_INET, SOCK_RAW, libc::IPPROTO_ICMP), opens);
        assert_eq!(errno(AF_INET6, SOCK_RAW, libc::IPPROTO_TCP), opens);
        assert_eq!(errno(AF_INET, SOCK_RAW, libc::IPPROTO_RAW), REFUSED);
        assert_eq!(errno(AF_PACKET, SOCK_RAW, 0), libc::EAFNOSUPPORT);
    });
}

#[test]
fn a_pair_of_unix_sockets_leads_nowhere_else() {
    filtered(&network(), || {
        let pair = |family: i32, kind: i32| {
            let mut ends = [0; 2];
            let ends = &raw mut ends;
            // SAFETY: there is room for two descriptors. They stay open, which does no harm.
            let made = unsafe { libc::socketpair(family, kind, 0, ends.cast()) };
            (made != 0).then(|| std::io::Error::last_os_error().raw_os_error().expect("one"))
        };
        assert_eq!(pair(libc::AF_UNIX, libc::SOCK_STREAM), None);
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        assert_eq!(pair(libc::AF_UNIX, kind), None);
        assert_eq!(pair(libc::AF_UNIX, libc::SOCK_DGRAM), Some(REFUSED));
        assert_eq!(pair(libc::AF_INET, libc::SOCK_STREAM), Some(REFUSED));
    });
}

#[test]
fn nothing_connects_by_tcp_fast_open() {
    filtered(&network(), || {
        let socket = open(libc::AF_INET, libc::SOCK_STREAM, 0).expect("TCP");
        let fd = socket.as_raw_fd().into();
        let fast_open = (libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL).into();
        let quiet = libc::MSG_NOSIGNAL.into();
        assert_eq!(call(libc::SYS_sendto, [fd, 0, 0, fast_open]), Err(REFUSED));
        assert_eq!(call(libc::SYS_sendmsg, [fd, 0, fast_open, 0]), Err(REFUSED));
        let sent = call(libc::SYS_sendmmsg, [fd, 0, 0, fast_open]);
        assert_eq!(sent, Err(REFUSED));
        for (number, arguments) in [
            (libc::SYS_sendto, [fd, 0, 0, quiet]),
            (libc::SYS_sendmsg, [fd, 0, quiet, 0]),
        ] {
            assert_ne!(call(number, arguments), Err(REFUSED), "{number}");
        }
        let set = |level: i32, option: i32| {
            let arguments = [fd, level.into(), option.into(), 0];
            call(libc::SYS_setsockopt, arguments).expect_err("no value")
        };
        for option in [
            libc::TCP_FASTOPEN,
            libc::TCP_FASTOPEN_CONNECT,
            libc::TCP_FASTOPEN_KEY,
            libc::TCP_ULP,
        ] {
            assert_eq!(set(libc::IPPROTO_TCP, option), REFUSED, "{option}");
            // The same number means another option there.
            assert_ne!(set(libc::SOL_SOCKET, option), REFUSED, "{option}");
        }
        assert_ne!(set(libc::IPPROTO_TCP, libc::TCP_NODELAY), REFUSED);
    });
}

#[test]
fn other_processes_get_no_signal_and_no_processors() {
    let mut other = Command::new("sleep").arg("60").spawn().expect("a process");
    let pid = libc::c_long::from(other.id());
    filtered(&Rules::default(), || {
        assert_eq!(call(libc::SYS_tgkill, [pid, pid, 0, 0]), Err(REFUSED));
        let own = libc::c_long::from(std::process::id());
        let thread = rustix::thread::gettid().as_raw_pid().into();
        assert_eq!(call(libc::SYS_tgkill, [own, thread, 0, 0]), Ok(0));
        assert_eq!(
            call(libc::SYS_sched_setaffinity, [pid, 0, 0, 0]),
            Err(REFUSED)
        );
    });
    other.kill().expect("ours");
    other.wait().expect("ended");
}

#[test]
fn descriptors_have_no_owner_and_send_no_signals() {
    filtered(&Rules::default(), || {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let fd = reader.as_raw_fd().into();
        let control = |operation: i32, value: i32| {
            call(libc::SYS_fcntl, [fd, operation.into(), value.into(), 0])
        };
        assert_eq!(control(libc::F_SETOWN, 1), Err(REFUSED));
        assert_eq!(control(F_SETSIG, libc::SIGKILL), Err(REFUSED));
        assert_eq!(control(libc::F_SETFL, libc::O_ASYNC), Err(REFUSED));
        assert_eq!(control(libc::F_SETFL, libc::O_NONBLOCK), Ok(0));
        assert_eq!(control(libc::F_GETFL, 0), Ok(libc::O_NONBLOCK));
        assert_eq!(control(libc::F_SETFD, libc::FD_CLOEXEC), Ok(0));
    });
}

#[test]
fn interfaces_are_read_and_not_changed() {
    filtered(&network(), || {
        rustix::net::netdevice::name_to_index(
            open(libc::AF_INET, libc::SOCK_DGRAM, 0).expect("UDP"),
            "lo",
        )
        .expect("a loopback");
        let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0).expect("UDP");
        let fd = socket.as_raw_fd().into();
        // `FIOSETOWN`, `SIOCSPGRP`, `SIOCADDRT`, `SIOCSIFFLAGS` and `SIOCSIFADDR`.
        for request in [0x8901, 0x8902, 0x890b, 0x8914, 0x8916] {
            let outcome = call(libc::SYS_ioctl, [fd, request, 0, 0]);
            assert_eq!(outcome, Err(REFUSED), "{request:#x}");
        }
    });
}

#[test]
fn an_open_file_keeps_its_mode() {
    let file = rustix::fs::memfd_create("mode", rustix::fs::MemfdFlags::CLOEXEC);
    let fd = file.as_ref().expect("memory").as_raw_fd().into();
    filtered(&Rules::default(), || {
        let outcome = call(libc::SYS_fchmod, [fd, 0o4777, 0, 0]);
        assert_eq!(outcome, Err(REFUSED));
    });
}

/// The C library asks for caches of names at Unix sockets first.
#[test]
fn names_are_resolved_without_unix_sockets() {
    filtered(&network(), || {
        let found = ("localhost", 80).to_socket_addrs();
        assert!(found.expect("an address").next().is_some());
    });
}

#[test]
fn abstract_unix_sockets_of_others_are_out_of_reach() {
    let name = format!("lagtrace-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).expect("short");
    let _listener = UnixListener::bind_addr(&address).expect("a free name");
    UnixStream::connect_addr(&address).expect("it listens");
    thread::scope(|scope| {
        let restricted = || {
            let prepared = paths::prepare(&Rules::default()).expect("rules");
            let lacking = paths::restrict(prepared);
            if lacking.iter().any(|lacking| lacking.step == Step::Scopes) {
                return;
            }
            let refused = UnixStream::connect_addr(&address).expect_err("out of reach");
            assert_eq!(refused.raw_os_error(), Some(REFUSED));
        };
        scope.spawn(restricted).join().expect("no panic");
    });
}

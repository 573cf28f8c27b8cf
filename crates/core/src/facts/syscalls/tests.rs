use super::*;
use crate::observed::syscall::{Argument, Caller};

fn end(port: u16) -> Endpoint {
    Endpoint::new([127, 0, 0, 1].into(), port)
}

/// A call on the server's socket `inode` at `at` microseconds.
fn call(inode: u64, at: i64, request: Request) -> SocketCall {
    SocketCall {
        at: Timestamp::from_nanos(at * 1000),
        took: Duration::ZERO,
        caller: Caller {
            pid: 7,
            tid: 7,
            name: "server".to_owned(),
            thread: "server".to_owned(),
        },
        fd: 3,
        request,
        result: 0,
        socket: Some(CalledSocket {
            inode,
            cookie: None,
            namespace: None,
            kind: SocketKind::Tcp,
            is_v6: false,
            is_client: false,
            state: "ESTAB".to_owned(),
            local: Some(end(80)),
            remote: Some(end(5000)),
        }),
        before: None,
        after: None,
        sent: 0,
    }
}

fn set(inode: u64, at: i64, level: i32, option: i32, value: i32) -> SocketCall {
    let value = Argument {
        pointer: 1,
        len: 4,
        bytes: value.to_ne_bytes().to_vec(),
        ..Argument::default()
    };
    let request = Request::SetOption {
        level,
        option,
        value,
    };
    call(inode, at, request)
}

fn used(calls: &[SocketCall], option: SocketOption) -> Option<Use> {
    let mut all = Calls::default();
    calls.iter().for_each(|call| all.add_call(call));
    all.uses(end(80), Side::Server, option)
}

#[test]
fn an_option_is_set_in_time_late_or_never() {
    let accept = |inode| call(inode, 0, Request::Accept(Accepted::default()));
    let inherits = Accepted {
        nodelay: true,
        ..Accepted::default()
    };
    let late = SocketCall {
        sent: 100,
        ..set(2, 50, 6, 1, 1)
    };
    let calls = [
        accept(1),
        set(1, 20, 6, 1, 1),
        accept(2),
        late,
        accept(3),
        call(4, 0, Request::Accept(inherits)),
        accept(5),
        set(5, 10, 6, 1, 1),
        set(5, 20, 6, 1, 0),
        // The beginning of this connection was not traced.
        set(6, 0, 6, 1, 1),
    ];
    let of = used(&calls, SocketOption::NoDelay).expect("connections");
    assert_eq!((of.connections, of.inherited), (5, 1));
    assert_eq!((of.early, of.late, of.cleared), (1, 1, 1));
    assert_eq!((of.program.name.as_str(), of.program.pid), ("server", 7));
    assert_eq!(of.after.count(), 3, "the calls that switched it on");
    assert!(used(&calls[9..], SocketOption::NoDelay).is_none());
}

#[test]
fn a_cork_counts_with_the_longest_time_until_it_is_removed() {
    let mut calls = vec![call(1, 0, Request::Accept(Accepted::default()))];
    for (at, value) in [(0, 1), (50, 0), (100, 1), (300, 0)] {
        calls.push(set(1, at, 6, 3, value));
    }
    let of = used(&calls, SocketOption::Cork).expect("a connection");
    assert_eq!((of.early, of.cleared), (1, 1));
    assert_eq!(of.longest_on, Some(Duration::from_micros(200)));
}

#[test]
fn failed_calls_and_calls_on_other_sockets_count_nowhere() {
    let accept = call(1, 0, Request::Accept(Accepted::default()));
    let failed = SocketCall {
        result: -92,
        ..set(1, 10, 6, 1, 1)
    };
    let of = used(&[accept, failed], SocketOption::NoDelay).expect("a connection");
    assert_eq!((of.set(), of.cleared), (0, 0));
}

#[test]
fn a_listener_is_found_by_its_port_and_keeps_what_listen_asked_for() {
    let mut calls = Calls::default();
    let mut listen = SocketCall {
        after: Some(128),
        ..call(1, 0, Request::Listen(511))
    };
    if let Some(socket) = &mut listen.socket {
        socket.local = Some(Endpoint::new([0, 0, 0, 0].into(), 80));
    }
    calls.add_call(&listen);
    let listener = calls.listener(end(80)).expect("it listens");
    assert_eq!(listener.listened, Some((511, 128)));
    assert!(calls.listener(end(81)).is_none());
}

#[test]
fn memory_is_bounded() {
    let mut calls = Calls::default();
    for inode in 0..MAX_SOCKETS as u64 * 2 {
        calls.add_call(&call(inode, 0, Request::Accept(Accepted::default())));
    }
    assert_eq!(calls.sockets.len(), MAX_SOCKETS);
}

/// Returns the pictured sockets at port 80.
fn drawn(calls: &[SocketCall]) -> Vec<PicturedSocket> {
    let mut all = Calls::default();
    calls.iter().for_each(|call| all.add_call(call));
    all.pictured(|end| *end == self::end(80))
}

#[test]
fn calls_are_drawn_by_socket_and_time() {
    let accept = |at| call(1, at, Request::Accept(Accepted::default()));
    let inherits = Accepted {
        nodelay: true,
        cork: true,
        ..Accepted::default()
    };
    let refused = SocketCall {
        result: -92,
        sent: 12,
        ..set(1, 30, 6, 13, 0)
    };
    let mut other = set(2, 0, 6, 1, 1);
    other.socket.as_mut().expect("a socket").local = Some(end(81));
    // The calls of the second processor are reported late, and the inode is used again.
    let calls = [
        other,
        accept(10),
        refused,
        set(1, 20, 6, 1, 1),
        call(1, 50, Request::Accept(inherits)),
    ];
    let sockets = drawn(&calls);
    assert_eq!(sockets.len(), 2, "{sockets:#?}");
    let (first, second) = (&sockets[0], &sockets[1]);
    assert_eq!((first.start_ns, &*first.program), (10_000, "server"));
    assert_eq!(first.remote.as_deref(), Some("127.0.0.1:5000"));
    let times: Vec<u64> = first.calls.iter().map(|call| call.at_ns).collect();
    assert_eq!(times, [0, 10_000, 20_000]);
    let [_, set, failed] = &*first.calls else {
        panic!("{first:#?}");
    };
    let of = (set.option.as_deref(), &*set.value, set.error.as_deref());
    assert_eq!(of, (Some("TCP_NODELAY"), "[1]", None));
    assert_eq!(
        (failed.sent, failed.error.as_deref()),
        (12, Some("ENOPROTOOPT"))
    );
    assert_eq!(second.calls[0].value, "TCP_NODELAY, TCP_CORK");
}

#[test]
fn a_connection_begins_when_accept_returns_it() {
    let accepted = SocketCall {
        took: Duration::from_secs(5),
        ..call(1, 0, Request::Accept(Accepted::default()))
    };
    let calls = [accepted, set(1, 5_000_020, 6, 1, 1)];
    assert_eq!(drawn(&calls)[0].calls[1].at_ns, 20_000);
    let of = used(&calls, SocketOption::NoDelay).expect("a use");
    assert!(of.after.quantile(1.0) < Some(Duration::from_micros(21)));
}

#[test]
fn drawn_calls_are_bounded() {
    let many = i64::try_from(PicturedSocket::MAX_CALLS + 5).expect("a small number");
    let on_one: Vec<SocketCall> = (0..many).map(|at| set(1, at, 6, 3, 1)).collect();
    let [socket] = &*drawn(&on_one) else {
        panic!("one socket");
    };
    assert_eq!(
        (socket.calls.len(), socket.left_out),
        (PicturedSocket::MAX_CALLS, 5)
    );
    let many: Vec<SocketCall> = (0..20_000)
        .map(|each| {
            set(
                each % 5_000,
                i64::try_from(each).expect("a small number"),
                6,
                3,
                1,
            )
        })
        .collect();
    let sockets = drawn(&many);
    assert_eq!(sockets.len(), PicturedSocket::MAX);
    assert!(
        sockets.iter().all(|socket| socket.calls.len() == 1),
        "{sockets:#?}"
    );
    let opened = (0..100).map(|inode| call(inode, 0, Request::Accept(Accepted::default())));
    let calls: Vec<SocketCall> = opened.chain([set(99, 5, 6, 1, 1)]).collect();
    let sockets = drawn(&calls);
    assert_eq!(sockets.len(), PicturedSocket::MAX);
    assert!(sockets.iter().any(|socket| socket.calls.len() == 2));
}

use super::*;

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

use super::*;

fn option(level: i32, option: i32, bytes: &[u8]) -> SocketCall {
    let value = Argument {
        pointer: 0x1000,
        len: i32::try_from(bytes.len()).unwrap_or(i32::MAX),
        bytes: bytes.to_vec(),
        ..Argument::default()
    };
    SocketCall {
        at: Timestamp::from_nanos(0),
        took: Duration::ZERO,
        caller: Caller::default(),
        fd: 3,
        request: Request::SetOption {
            level,
            option,
            value,
        },
        result: 0,
        socket: None,
        before: None,
        after: None,
        sent: 0,
    }
}

fn number(level: i32, name: i32, value: i32) -> SocketCall {
    option(level, name, &value.to_ne_bytes())
}

/// Compares with the output of `strace` 6.1, which does not decode timeouts and 4-byte names.
#[test]
fn calls_are_written_as_strace_does() {
    let pair = |one: i32, two: i32| [one.to_ne_bytes(), two.to_ne_bytes()].concat();
    let wide = |one: i64, two: i64| [one.to_ne_bytes(), two.to_ne_bytes()].concat();
    for (call, text) in [
        (
            number(6, 1, 1),
            "setsockopt(3, SOL_TCP, TCP_NODELAY, [1], 4) = 0",
        ),
        (
            number(6, 3, 0),
            "setsockopt(3, SOL_TCP, TCP_CORK, [0], 4) = 0",
        ),
        (
            number(6, 1, -1),
            "setsockopt(3, SOL_TCP, TCP_NODELAY, [-1], 4) = 0",
        ),
        (
            number(6, 0x63, 1),
            "setsockopt(3, SOL_TCP, 0x63 /* TCP_??? */, [1], 4) = 0",
        ),
        (
            number(1, 0, 1),
            "setsockopt(3, SOL_SOCKET, 0 /* SO_??? */, [1], 4) = 0",
        ),
        (
            number(99, 1, 1),
            "setsockopt(3, 0x63 /* SOL_?? */, 1, [1], 4) = 0",
        ),
        (
            number(41, 26, 1),
            "setsockopt(3, SOL_IPV6, IPV6_V6ONLY, [1], 4) = 0",
        ),
        (
            number(0, 49, 1),
            "setsockopt(3, SOL_IP, IP_MULTICAST_ALL, [1], 4) = 0",
        ),
        (
            number(17, 103, 1),
            "setsockopt(3, SOL_UDP, UDP_SEGMENT, [1], 4) = 0",
        ),
        (
            option(1, 13, &pair(1, 5)),
            "setsockopt(3, SOL_SOCKET, SO_LINGER, {l_onoff=1, l_linger=5}, 8) = 0",
        ),
        (
            number(1, 13, 1),
            "setsockopt(3, SOL_SOCKET, SO_LINGER, 0x1000, 4) = 0",
        ),
        (
            option(1, 20, &wide(1, 500_000)),
            "setsockopt(3, SOL_SOCKET, SO_RCVTIMEO, {tv_sec=1, tv_usec=500000}, 16) = 0",
        ),
        (
            option(6, 13, b"reno"),
            "setsockopt(3, SOL_TCP, TCP_CONGESTION, \"reno\", 4) = 0",
        ),
        (
            option(1, 25, b"lo\0"),
            "setsockopt(3, SOL_SOCKET, SO_BINDTODEVICE, \"lo\\0\", 3) = 0",
        ),
        (
            option(6, 1, b"\x01"),
            "setsockopt(3, SOL_TCP, TCP_NODELAY, \"\\1\", 1) = 0",
        ),
        (
            option(6, 1, b""),
            "setsockopt(3, SOL_TCP, TCP_NODELAY, \"\", 0) = 0",
        ),
        (
            option(6, 99, &[b'A'; 40]),
            "setsockopt(3, SOL_TCP, 0x63 /* TCP_??? */, \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"..., 40) = 0",
        ),
        (
            option(6, 99, b"\x04\x033\0\"\\"),
            "setsockopt(3, SOL_TCP, 0x63 /* TCP_??? */, \"\\4\\0033\\0\\\"\\\\\", 6) = 0",
        ),
    ] {
        assert_eq!(call.syntax(), text);
    }
}

#[test]
fn what_cannot_be_read_is_its_address_and_errors_have_names() {
    let mut call = number(6, 1, 1);
    call.result = -14;
    let Request::SetOption { value, .. } = &mut call.request else {
        return;
    };
    value.bytes.clear();
    value.pointer = 8;
    let text = "setsockopt(3, SOL_TCP, TCP_NODELAY, 0x8, 4) = -1 EFAULT (Bad address)";
    assert_eq!(call.syntax(), text);
    let Request::SetOption { value, .. } = &mut call.request else {
        return;
    };
    (value.pointer, value.len) = (0, 0);
    call.result = -4000;
    let text = "setsockopt(3, SOL_TCP, TCP_NODELAY, NULL, 0) = -1 (errno 4000)";
    assert_eq!(call.syntax(), text);
    call.result = i64::MIN;
    assert!(call.syntax().contains("-1 (errno"), "{}", call.syntax());
}

#[test]
fn addresses_are_decoded() {
    let written = |bytes: &[u8]| {
        value::address(&Argument {
            pointer: 0x1000,
            len: i32::try_from(bytes.len()).unwrap_or(i32::MAX),
            bytes: bytes.to_vec(),
            ..Argument::default()
        })
    };
    let with = |family: u16, rest: &[u8]| [&family.to_ne_bytes(), rest].concat();
    let four = with(2, &[0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        written(&four),
        "{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"127.0.0.1\")}"
    );
    let mut six = [0; 26];
    (six[1], six[21]) = (9, 1);
    assert_eq!(
        written(&with(10, &six)),
        "{sa_family=AF_INET6, sin6_port=htons(9), sin6_flowinfo=htonl(0), \
         inet_pton(AF_INET6, \"::1\", &sin6_addr), sin6_scope_id=0}"
    );
    let path = with(1, b"/nope/x\0");
    assert_eq!(written(&path), "{sa_family=AF_UNIX, sun_path=\"/nope/x\"}");
    let name = with(1, b"\0abc");
    assert_eq!(written(&name), "{sa_family=AF_UNIX, sun_path=@\"abc\"}");
    assert_eq!(written(&with(2, b"")), "{sa_family=AF_INET}");
    assert_eq!(written(b"x"), "0x1000");
}

#[test]
fn no_bytes_make_it_panic() {
    for level in [0, 1, 6, 41, 99, i32::MIN] {
        for name in -1..90 {
            for len in 0..40 {
                for fill in [0, 1, b'7', 0xff] {
                    let mut call = option(level, name, &vec![fill; len]);
                    for result in [0, -1, -115, i64::MIN] {
                        call.result = result;
                        let _ = call.syntax_with_socket();
                    }
                    let Request::SetOption { value, .. } = &call.request else {
                        continue;
                    };
                    let _ = value::address(value);
                }
            }
        }
    }
}

//! The records that `bpf/options.bpf.c` reports, in the layout of `bpf/options.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::syscall::{
    Accepted, Argument, CalledSocket, Caller, Request, SocketCall, SocketKind,
};

use crate::clock::Clock;
use crate::socket::record::TcpState;

/// `enum call_kind` of `bpf/options.h`.
const SETSOCKOPT: u8 = 1;
const LISTEN: u8 = 2;
const SHUTDOWN: u8 = 3;
const BIND: u8 = 4;
const CONNECT: u8 = 5;
const ACCEPT: u8 = 6;

/// The flags of a record, from `CALL_HAS_SOCKET` on.
const HAS_SOCKET: u8 = 1;
const HAS_BEFORE: u8 = 2;
const HAS_AFTER: u8 = 4;
const IS_SECRET: u8 = 8;
const READ_LATE: u8 = 16;
const IS_CLIENT: u8 = 32;

/// `INHERITED_NODELAY` and the other bits of an accepted connection.
const NODELAY: i64 = 1;
const CORK: i64 = 2;
const SNDBUF: i64 = 4;
const RCVBUF: i64 = 8;

/// Offset of the option value in a record.
const VALUE: usize = 172;
/// Offset of the number of bytes sent.
const SENT: usize = 288;
/// Length of a name (`comm`), in bytes.
const NAME: usize = 16;

/// Parses a record; `None` if it is not a record of `bpf/options.h`. `own` is lagtrace's own
/// network namespace.
pub(super) fn read(bytes: &[u8], clock: &Clock, own: Option<u64>) -> Option<SocketCall> {
    let fields = Fields(bytes);
    let flags = fields.u8(1)?;
    let (entered, left) = (fields.u64(8)?, fields.u64(16)?);
    let known = |flag, at| match flags & flag {
        0 => Some(None),
        _ => fields.i64(at).map(Some),
    };
    Some(SocketCall {
        at: clock.of_kernel(entered),
        took: Duration::from_nanos(left.saturating_sub(entered)),
        caller: Caller {
            pid: fields.u32(128)?,
            tid: fields.u32(132)?,
            name: fields.name(136)?,
            thread: fields.name(152)?,
        },
        fd: fields.i32(40)?,
        request: fields.request(flags)?,
        result: fields.i64(24)?,
        socket: match flags & HAS_SOCKET {
            0 => None,
            _ => Some(fields.socket(own)?),
        },
        before: known(HAS_BEFORE, 56)?,
        after: known(HAS_AFTER, 64)?,
        sent: fields.u64(SENT)?,
    })
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }

    fn u8(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_ne_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_ne_bytes)
    }

    fn i32(&self, at: usize) -> Option<i32> {
        self.array(at).map(i32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_ne_bytes)
    }

    fn i64(&self, at: usize) -> Option<i64> {
        self.array(at).map(i64::from_ne_bytes)
    }

    fn name(&self, at: usize) -> Option<String> {
        let name: [u8; NAME] = self.array(at)?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
        Some(String::from_utf8_lossy(name.get(..end)?).into_owned())
    }

    fn request(&self, flags: u8) -> Option<Request> {
        let second = self.i32(44)?;
        Some(match self.u8(0)? {
            SETSOCKOPT => Request::SetOption {
                level: second,
                option: self.i32(48)?,
                value: self.argument(flags)?,
            },
            LISTEN => Request::Listen(second),
            SHUTDOWN => Request::Shutdown(second),
            BIND => Request::Bind(self.argument(flags)?),
            CONNECT => Request::Connect(self.argument(flags)?),
            ACCEPT => Request::Accept(self.accepted()?),
            _ => return None,
        })
    }

    fn accepted(&self) -> Option<Accepted> {
        let inherited = self.i64(64)?;
        Some(Accepted {
            backlog: u32::try_from(self.i64(56)?).unwrap_or(u32::MAX),
            is_deferred: self.i32(44)? != 0,
            fastopen: u32::try_from(self.i32(48)?).unwrap_or_default(),
            nodelay: inherited & NODELAY != 0,
            cork: inherited & CORK != 0,
            send_buffer: inherited & SNDBUF != 0,
            receive_buffer: inherited & RCVBUF != 0,
        })
    }

    fn argument(&self, flags: u8) -> Option<Argument> {
        let copied = usize::try_from(self.u32(168)?).ok()?;
        Some(Argument {
            pointer: self.u64(32)?,
            len: self.i32(52)?,
            bytes: self.0.get(VALUE..VALUE.checked_add(copied)?)?.to_vec(),
            is_secret: flags & IS_SECRET != 0,
            is_late: flags & READ_LATE != 0,
        })
    }

    fn socket(&self, own: Option<u64>) -> Option<CalledSocket> {
        let family = i32::from(self.u16(4)?);
        let namespace = u64::from(self.u32(124)?);
        let is_ip = matches!(family, libc::AF_INET | libc::AF_INET6);
        let cookie = self.u64(80)?;
        Some(CalledSocket {
            inode: self.u64(72)?,
            cookie: (cookie > 0).then_some(cookie),
            namespace: (Some(namespace) != own).then_some(namespace),
            kind: match (family, i32::from(self.u8(3)?), i32::from(self.u16(6)?)) {
                (libc::AF_UNIX, ..) => SocketKind::Unix,
                (_, libc::SOCK_STREAM, libc::IPPROTO_TCP) if is_ip => SocketKind::Tcp,
                (_, libc::SOCK_DGRAM, libc::IPPROTO_UDP) if is_ip => SocketKind::Udp,
                _ => SocketKind::Other,
            },
            is_v6: family == libc::AF_INET6,
            is_client: self.u8(1)? & IS_CLIENT != 0,
            state: self.state()?,
            local: self.end(family, 88, 120)?,
            remote: self.end(family, 104, 122)?,
        })
    }

    fn state(&self) -> Option<String> {
        let number = usize::from(self.u8(2)?).checked_sub(1);
        let state = number.and_then(|number| TcpState::ALL.get(number));
        Some(state.map_or("UNCONN", |state| state.name()).to_owned())
    }

    /// Reads an endpoint; `Some(None)` if it has no port.
    fn end(&self, family: i32, at: usize, port: usize) -> Option<Option<Endpoint>> {
        let address = match family {
            libc::AF_INET => IpAddr::from(Ipv4Addr::from(self.array::<4>(at)?)),
            libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(self.array::<16>(at)?)),
            _ => return Some(None),
        };
        let port = self.u16(port)?;
        Some((port > 0).then(|| Endpoint::new(address, port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cut_and_no_byte_makes_it_panic() {
        let clock = Clock::new();
        for kind in 0..=7 {
            for len in 0..300 {
                for fill in [0, 1, 2, 10, 0x70, 0xff] {
                    let mut bytes = vec![fill; len];
                    if let Some(first) = bytes.first_mut() {
                        *first = kind;
                    }
                    let told = read(&bytes, &clock, None);
                    assert!(told.is_none() || len >= 296, "{len} bytes are no call");
                    if let Some(call) = told {
                        let _ = call.syntax_with_socket();
                    }
                }
            }
        }
    }

    #[test]
    fn a_call_is_its_fields() {
        let mut bytes = vec![0; 296];
        let mut put = |at: usize, field: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + field.len()) {
                place.copy_from_slice(field);
            }
        };
        // TCP over IPv4, established. The option's value is 0 before the call and 1 after it.
        put(0, &[SETSOCKOPT, 7, 1, 1]);
        put(4, &2u16.to_ne_bytes());
        put(6, &6u16.to_ne_bytes());
        put(8, &5u64.to_ne_bytes());
        put(16, &9u64.to_ne_bytes());
        put(40, &11i32.to_ne_bytes());
        put(44, &6i32.to_ne_bytes());
        put(48, &1i32.to_ne_bytes());
        put(52, &4i32.to_ne_bytes());
        put(64, &1i64.to_ne_bytes());
        put(72, &4711u64.to_ne_bytes());
        put(88, &[127, 0, 0, 1]);
        put(104, &[127, 0, 0, 2]);
        put(120, &80u16.to_ne_bytes());
        put(122, &5555u16.to_ne_bytes());
        put(124, &77u32.to_ne_bytes());
        put(136, b"nginx");
        put(168, &4u32.to_ne_bytes());
        put(172, &1i32.to_ne_bytes());
        let call = read(&bytes, &Clock::new(), Some(77)).expect("a whole record");
        assert_eq!(
            call.syntax_with_socket(),
            "setsockopt(11<TCP:[127.0.0.1:80->127.0.0.2:5555]>, SOL_TCP, TCP_NODELAY, [1], 4) = 0"
        );
        assert_eq!((call.before, call.after), (Some(0), Some(1)));
        assert_eq!(call.took, Duration::from_nanos(4));
        assert_eq!(call.caller.name, "nginx");
        let socket = call.socket.expect("one of ours");
        assert_eq!((socket.inode, socket.state.as_str()), (4711, "ESTAB"));
        assert_eq!((socket.cookie, socket.namespace), (None, None));
    }
}

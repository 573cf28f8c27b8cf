//! Filters for raw sockets, which otherwise receive every packet of their protocol.

use core::net::SocketAddr;

use lagtrace_core::observed::segment::TcpFlags;
use socket2::SockFilter;

/// The instruction "jump if equal" of classic BPF.
const JUMP_EQUAL: u16 = 0x15;

/// Returns a classic BPF program that passes only packets from the target's port. Without it, a raw
/// socket gets a copy of every packet from the target's address.
pub(crate) fn from_port(target: SocketAddr) -> Vec<SockFilter> {
    const LOAD_HEADER_LEN: u16 = 0xb1; // ldxb 4*([0]&0xf)
    const LOAD_HALF_INDEXED: u16 = 0x48; // ldh [x + k]
    const LOAD_HALF: u16 = 0x28; // ldh [k]
    const RETURN: u16 = 0x06;
    // A raw IPv4 socket receives the IP header. A raw IPv6 socket receives only the bytes after it.
    let mut program = match target {
        SocketAddr::V4(_) => vec![
            SockFilter::new(LOAD_HEADER_LEN, 0, 0, 0),
            SockFilter::new(LOAD_HALF_INDEXED, 0, 0, 0),
        ],
        SocketAddr::V6(_) => vec![SockFilter::new(LOAD_HALF, 0, 0, 0)],
    };
    program.extend([
        SockFilter::new(JUMP_EQUAL, 0, 1, target.port().into()),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ]);
    program
}

/// Returns a program like that of [`from_port`] that passes only segments with SYN or RST. Only
/// these can answer a probe. Without this filter, a load on the target would fill the socket's
/// buffer.
pub(crate) fn answers_from(target: SocketAddr) -> Vec<SockFilter> {
    const LOAD_BYTE_INDEXED: u16 = 0x50; // ldb [x + k]
    const LOAD_BYTE: u16 = 0x30; // ldb [k]
    const JUMP_SET: u16 = 0x45;
    const FLAGS: u32 = 13;
    let load = match target {
        SocketAddr::V4(_) => LOAD_BYTE_INDEXED,
        SocketAddr::V6(_) => LOAD_BYTE,
    };
    let wanted = TcpFlags::SYN.with(TcpFlags::RST);
    let mut program = from_port(target);
    // The check goes before the two return instructions at the end. A wrong port jumps over it.
    let at = program.len() - 2;
    if let Some(jump) = program.get_mut(at - 1) {
        *jump = SockFilter::new(JUMP_EQUAL, 0, 3, target.port().into());
    }
    program.splice(
        at..at,
        [
            SockFilter::new(load, 0, 0, FLAGS),
            SockFilter::new(JUMP_SET, 0, 1, wanted.0.into()),
        ],
    );
    program
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use socket2::{Domain, Protocol, Socket, Type};

    use super::super::queue::take_reply;
    use super::*;

    /// Returns the flags of all packets of a short connection that pass this filter on a raw
    /// socket; `None` if the user may not open raw sockets.
    fn passed(ip: &str, filter: fn(SocketAddr) -> Vec<SockFilter>) -> Option<Vec<TcpFlags>> {
        let listener = TcpListener::bind((ip, 0)).ok()?;
        let address = listener.local_addr().expect("an address");
        let raw = Socket::new(Domain::for_address(address), Type::RAW, Some(Protocol::TCP)).ok()?;
        raw.attach_filter(&filter(address)).expect("a program");
        raw.set_nonblocking(true).expect("an option");
        let mut client = TcpStream::connect(address).expect("connected");
        let (mut server, _) = listener.accept().expect("accepted");
        for _ in 0..3 {
            server.write_all(b"data").expect("sent");
            client.read_exact(&mut [0; 4]).expect("read");
        }
        // The client would answer further segments with RST, but the filter passes only the
        // server's segments.
        drop(server);
        let flags_at = if address.is_ipv4() { 33 } else { 13 };
        let packets = std::iter::from_fn(|| take_reply(&raw));
        let flags = packets.filter_map(|packet| packet.bytes.get(flags_at).copied());
        Some(flags.map(TcpFlags).collect())
    }

    #[test]
    fn what_a_connection_carries_is_no_answer() {
        for ip in ["127.0.0.1", "::1"] {
            let (Some(all), Some(answers)) = (passed(ip, from_port), passed(ip, answers_from))
            else {
                continue;
            };
            assert!(all.len() > 3, "{all:?}");
            // Packets of another program can have the same port.
            let is_answer =
                |flags: &TcpFlags| flags.contains(TcpFlags::SYN) || flags.contains(TcpFlags::RST);
            assert!(answers.iter().all(is_answer), "{answers:?}");
            let both = TcpFlags::SYN.with(TcpFlags::ACK);
            assert!(answers.contains(&both), "{answers:?}");
        }
    }
}

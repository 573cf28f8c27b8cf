//! A built-in DNS server that answers late, like the server that a resolver queries if the name is
//! not in its cache.
//!
//! The server answers over UDP and TCP (RFC 1035). It resolves every name to the addresses of the
//! lab's server. The number of waiting answers is bounded: further queries are not answered.

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, ResourceRecord, TYPE};

use super::LONGEST_SLEEP;
use super::accept::serve_all;
use crate::error::Error;
use crate::host::address::Addresses;
use crate::quantity::duration;

/// Maximum number of waiting answers; further queries are dropped.
const MOST_WAITING: usize = 1024;

/// Maximum number of TCP connections served in parallel; further ones are closed.
const MOST_CONNECTIONS: usize = 64;

/// The idle time after which a TCP connection is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// Maximum length of a query, in bytes: a name, a question, and room for EDNS.
const LONGEST_QUERY: usize = 1024;

/// A DNS server that answers late.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowDns {
    /// The time from a query to its answer.
    #[serde(with = "duration")]
    pub time: Duration,
    /// The TTL of answers, in seconds.
    #[serde(default = "an_hour")]
    pub ttl_s: u32,
}

const fn an_hour() -> u32 {
    3600
}

impl SlowDns {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.time > LONGEST_SLEEP {
            Err("it sleeps for more than 60 s".to_owned())
        } else {
            Ok(())
        }
    }
}

/// The settings of the process of one such service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DnsPlan {
    pub(crate) dns: SlowDns,
    pub(crate) port: u16,
    /// The addresses that every name resolves to.
    pub(crate) addresses: Addresses,
}

/// An answer that waits for the time at which it is sent.
struct Waiting {
    due: Instant,
    to: SocketAddr,
    answer: Vec<u8>,
}

/// Serves until the process is ended.
pub(crate) fn run(plan: DnsPlan) -> Result<(), Error> {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, plan.port));
    let listen = Error::file("listen on", address.to_string());
    let socket = UdpSocket::bind(address).map_err(listen)?;
    let sender = socket
        .try_clone()
        .map_err(Error::file("share", address.to_string()))?;
    // The TCP listener is opened last, because the lab waits for this port before it uses the
    // server.
    let listener =
        TcpListener::bind(address).map_err(Error::file("listen on", address.to_string()))?;
    let (queue, waiting) = sync_channel(MOST_WAITING);
    thread::scope(|scope| {
        let sender = &sender;
        scope.spawn(move || send_when_due(sender, waiting));
        scope.spawn(|| serve_streams(&listener, &plan));
        receive(&socket, &plan, &queue);
    });
    Ok(())
}

fn receive(socket: &UdpSocket, plan: &DnsPlan, queue: &SyncSender<Waiting>) {
    let mut query = [0; LONGEST_QUERY];
    loop {
        let Ok((length, to)) = socket.recv_from(&mut query) else {
            // The error is an ICMP error for an answer sent earlier.
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let due = Instant::now() + plan.dns.time;
        if let Some(answer) = answer(&query[..length], plan.dns.ttl_s, plan.addresses) {
            let _ = queue.try_send(Waiting { due, to, answer });
        }
    }
}

/// Sends answers when they are due. All have the same delay, so they are sent in the order of their
/// queries.
fn send_when_due(socket: &UdpSocket, waiting: Receiver<Waiting>) {
    for Waiting { due, to, answer } in waiting {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // The client may be gone, so errors are ignored.
        let _ = socket.send_to(&answer, to);
    }
}

fn serve_streams(listener: &TcpListener, plan: &DnsPlan) {
    let plan = plan.clone();
    serve_all(
        listener,
        MOST_CONNECTIONS,
        Duration::ZERO,
        move |connection| {
            // An error on one connection does not affect the others.
            let _ = serve_stream(connection, &plan);
        },
    );
}

/// Serves messages that are preceded by their length (RFC 1035 §4.2.2), one after the other.
fn serve_stream(mut connection: &TcpStream, plan: &DnsPlan) -> io::Result<()> {
    connection.set_read_timeout(Some(IDLE_LIMIT))?;
    connection.set_nodelay(true)?;
    loop {
        let mut length = [0; 2];
        connection.read_exact(&mut length)?;
        let length = usize::from(u16::from_be_bytes(length));
        let mut query = [0; LONGEST_QUERY];
        let query = query.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
        connection.read_exact(query)?;
        let answer =
            answer(query, plan.dns.ttl_s, plan.addresses).ok_or(io::ErrorKind::InvalidData)?;
        thread::sleep(plan.dns.time);
        let length = u16::try_from(answer.len()).map_err(|_| io::ErrorKind::InvalidData)?;
        connection.write_all(&[&length.to_be_bytes()[..], &answer].concat())?;
    }
}

/// Returns the answer to a query with one question; `None` for any other message.
fn answer(query: &[u8], ttl_s: u32, addresses: Addresses) -> Option<Vec<u8>> {
    let query = Packet::parse(query).ok()?;
    let is_query = !query.has_flags(PacketFlag::RESPONSE);
    let [question] = query.questions.as_slice() else {
        return None;
    };
    if !is_query || query.opcode() != OPCODE::StandardQuery {
        return None;
    }
    let address = match question.qtype {
        QTYPE::TYPE(TYPE::A) => Some(RData::A(addresses.v4.into())),
        QTYPE::TYPE(TYPE::AAAA) => Some(RData::AAAA(addresses.v6.into())),
        _ => None,
    };
    let is_internet = question.qclass == QCLASS::CLASS(CLASS::IN);
    let record = |data| ResourceRecord::new(question.qname.clone(), CLASS::IN, ttl_s, data);
    let mut answer = Packet::new_reply(query.id());
    answer.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
    if query.has_flags(PacketFlag::RECURSION_DESIRED) {
        answer.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    answer.answers = address
        .filter(|_| is_internet)
        .map(record)
        .into_iter()
        .collect();
    answer.questions = query.questions.clone();
    answer.build_bytes_vec_compressed().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Length of a message's header (RFC 1035 §4.1.1).
    const HEADER: usize = 12;
    const TYPE_A: u16 = 1;
    const TYPE_AAAA: u16 = 28;

    const SERVER: Addresses = Addresses {
        v4: Ipv4Addr::new(10, 77, 0, 2),
        v6: Ipv6Addr::LOCALHOST,
    };

    /// Returns a query with id 0x0707, recursion desired, for `www.lab.test`.
    fn query(kind: u16) -> Vec<u8> {
        let mut bytes = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(b"\x03www\x03lab\x04test\0");
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&[0, 1]);
        bytes
    }

    #[test]
    fn an_address_is_answered_with_the_servers() {
        let answer = answer(&query(TYPE_A), 60, SERVER).expect("an answer");
        assert_eq!(&answer[..8], [7, 7, 0x85, 0x80, 0, 1, 0, 1]);
        assert_eq!(answer[HEADER..30], query(TYPE_A)[HEADER..]);
        assert!(answer.ends_with(&[0, 0, 0, 60, 0, 4, 10, 77, 0, 2]));
    }

    #[test]
    fn another_type_is_answered_with_nothing() {
        let answer = answer(&query(16), 60, SERVER).expect("an answer");
        assert_eq!(&answer[4..8], [0, 1, 0, 0]);
        assert_eq!(answer.len(), query(16).len());
    }

    #[test]
    fn what_is_no_query_is_not_answered() {
        let whole = query(TYPE_AAAA);
        for length in 0..whole.len() {
            assert_eq!(answer(&whole[..length], 60, SERVER), None, "{length}");
        }
        let mut response = whole.clone();
        response[2] |= 0x80;
        assert_eq!(answer(&response, 60, SERVER), None);
        let mut pointer = whole;
        pointer[HEADER] = 0xC0;
        assert_eq!(answer(&pointer, 60, SERVER), None);
        assert_eq!(answer(&[1; 1024], 60, SERVER), None);
    }
}

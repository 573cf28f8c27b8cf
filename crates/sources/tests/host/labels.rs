//! MPLS labels in the answers of a router. It behaves like current routers, and then like those
//! older than RFC 4884.

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lagtrace_core::observed::route::RouteMethod;
use lagtrace_sources::trace::{TracePlan, UDP_PORT};
use socket2::{Domain, Protocol, Socket, Type};

use crate::hops::{Chain, plan};
use crate::world::can_run;

/// `ETH_P_IP` in network byte order.
const IPV4: i32 = 0x0800_u16.to_be() as i32;
/// An extension with label 24001, class 5, bottom of the stack and TTL 1, as in RFC 4950. It has no
/// checksum.
const EXTENSION: [u8; 12] = [0x20, 0, 0, 0, 0, 8, 1, 1, 0x05, 0xdc, 0x1b, 0x01];
/// Length of the quote before the extension, in bytes.
const QUOTE: usize = 128;

/// Answers packets that expire at the first router. The answer has a label, and the router itself
/// is silent.
fn answer(chain: &Chain, is_old: bool, is_over: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let (mut sniffed, out) = chain.all[1].visit(|| {
        let sniffed = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(IPV4)));
        let out = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4));
        (sniffed.expect("root may"), out.expect("root may"))
    });
    let wait = Duration::from_millis(100);
    sniffed.set_read_timeout(Some(wait)).expect("an option");
    std::thread::spawn(move || {
        let mut packet = [0; 2_048];
        while !is_over.load(Ordering::Relaxed) {
            let Ok(len) = sniffed.read(&mut packet) else {
                continue;
            };
            let from = Ipv4Addr::from(*packet[12..].first_chunk::<4>().expect("room"));
            if packet[8] != 1 || from != Ipv4Addr::new(10, 99, 1, 1) {
                continue;
            }
            let words = if is_old { 0 } else { QUOTE as u8 / 4 };
            let mut message = vec![11, 0, 0, 0, 0, words, 0, 0];
            message.extend(&packet[..len.min(QUOTE)]);
            message.resize(8 + QUOTE, 0);
            message.extend(EXTENSION);
            let sum: u32 = message
                .chunks(2)
                .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                .sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            out.send_to(&message, &SocketAddr::from((from, 0)).into())
                .expect("it is sent");
        }
    })
}

#[test]
fn labels_are_told_in_every_way_by_routers_of_every_age() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let chain = Chain::new(2);
    let _server = chain.listen(8080);
    // The router's own answers are recognized by their length, because they have no labels.
    chain.filter(
        1,
        "output",
        "icmp type time-exceeded meta length < 140 drop",
    );
    for is_old in [false, true] {
        let is_over = Arc::new(AtomicBool::new(false));
        let router = answer(&chain, is_old, Arc::clone(&is_over));
        for (method, is_raw) in [
            (RouteMethod::TcpSyn, true),
            (RouteMethod::TcpConnect, false),
            (RouteMethod::InConnection, true),
            (RouteMethod::Paris, true),
            (RouteMethod::Paris, false),
            (RouteMethod::Dublin, true),
            (RouteMethod::Icmp, true),
        ] {
            let port = if method.is_tcp() { 8080 } else { UDP_PORT };
            let plan = TracePlan {
                is_raw,
                probes: 1,
                ..plan(chain.target(true), port, method)
            };
            let (_, hops) = chain.trace(&plan);
            let labels = &hops[0].labels;
            let told: Vec<_> = labels
                .iter()
                .map(|l| (l.label, l.class, l.is_bottom, l.ttl))
                .collect();
            let what = format!("{method:?}, {is_old}: {hops:#?}");
            assert_eq!(told, [(24_001, 5, true, 1)], "{what}");
            assert!(hops[1].labels.is_empty(), "{what}");
        }
        is_over.store(true, Ordering::Relaxed);
        router.join().expect("the router ends");
    }
}

//! Counters, compared with `nstat` and with an exchange whose delayed ACKs are known.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use lagtrace_core::observed::event::CounterScope;
use lagtrace_sources::counter::Counters;

use crate::world::{Namespace, can_run};

/// Number of exchanges in which the second of two small writes waits for a delayed ACK.
const STALLS: u64 = 12;

/// Makes exchanges without a stall, so that the kernel begins to delay ACKs, and then `STALLS`
/// exchanges with one stall each.
fn stall() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    let (mut server, _) = listener.accept().expect("one waits");
    let mut ask = |answers: &[&[u8]]| {
        client.write_all(b"q").expect("written");
        server.read_exact(&mut [0]).expect("read");
        for answer in answers {
            server.write_all(answer).expect("written");
            if answers.len() == 1 {
                client.read_exact(&mut [0; 2]).expect("read");
            }
        }
        if answers.len() == 2 {
            client.read_exact(&mut [0; 2]).expect("read");
        }
    };
    (0..20).for_each(|_| ask(&[b"AB"]));
    (0..STALLS).for_each(|_| {
        ask(&[b"A", b"B"]);
        (0..3).for_each(|_| ask(&[b"AB"])); // ACKs are delayed again
    });
}

#[test]
fn a_known_exchange_moves_the_counter() {
    if !can_run(true, &["ip", "nstat"]) {
        return;
    }
    let namespace = Namespace::new();
    let (changes, after) = namespace.visit(|| {
        let before = Counters::read().expect("/proc is there");
        stall();
        let after = Counters::read().expect("/proc is there");
        (before.changes(&after, CounterScope::Both), after)
    });
    let first = changes.first().expect("something moved");
    assert_eq!(
        (first.name.as_str(), first.scope),
        ("TcpExt:DelayedACKs", CounterScope::Both)
    );
    let delayed = first.after - first.before;
    assert!(
        (STALLS - 2..=STALLS + 4).contains(&delayed),
        "{delayed} of {STALLS}"
    );
    assert!(
        changes
            .iter()
            .any(|c| c.name == "TcpExt:ListenOverflows" && c.after == 0)
    );

    // The connection may still be closing, so `nstat` may read the value from before, from after,
    // or one in between.
    let listing = namespace.run("nstat -asz");
    let later = namespace.visit(|| Counters::read().expect("/proc is there"));
    for (ours, theirs) in [
        ("TcpExt:DelayedACKs", "TcpExtDelayedACKs"),
        ("Tcp:OutSegs", "TcpOutSegs"),
        ("Tcp:PassiveOpens", "TcpPassiveOpens"),
        ("Ip6:OutNoRoutes", "Ip6OutNoRoutes"),
    ] {
        let line = listing
            .lines()
            .find(|line| line.split_whitespace().next() == Some(theirs));
        let value = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        let (least, most) = (after.value(ours), later.value(ours));
        assert!(
            value.is_some() && least <= value && value <= most,
            "{ours}: {value:?}"
        );
    }
}

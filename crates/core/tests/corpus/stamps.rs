//! Compares the waits that the analysis finds with the server's own timestamps.

use lagtrace_core::exchange::wait::WaitKind;
use lagtrace_core::exchange::{Exchange, Outcome};
use libtest_mimic::Trial;

use crate::reading::{analyse, recording, segments};

/// The server's timestamps of one request: when it had read the request, and when each write
/// returned. Their clock is that of the packets' timestamps.
#[derive(serde::Deserialize)]
struct Stamp {
    peer: std::net::SocketAddr,
    /// The request's number on its connection, from 1.
    number: u32,
    read_ns: i64,
    written_ns: Vec<i64>,
}

/// Returns the start and the end of a wait by the server's timestamps, in nanoseconds.
type Account = fn(&Stamp) -> (i64, i64);

pub(crate) fn trials() -> Vec<Trial> {
    let thought: Account = |stamp| (stamp.read_ns, stamp.written_ns[0]);
    let paused: Account = |stamp| (stamp.written_ns[0], stamp.written_ns[1]);
    let recordings = [
        ("think-44-8ms", WaitKind::ServerThink, thought),
        ("pause-44-8ms", WaitKind::ServerPause, paused),
    ];
    let trials = recordings.map(|(name, kind, account)| {
        let title = format!("owners_agree_with_the_server_s_own_stamps::{name}");
        crate::trial(title, move || faults(name, kind, account))
    });
    trials.into()
}

fn stamps(name: &str) -> Vec<Stamp> {
    let path = format!(
        "{}/tests/corpus/recordings/{name}.stamps.ndjson",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).expect("the stamps");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a stamp"))
        .collect()
}

/// Returns, for each exchange, the differences between the ends of its wait and the server's
/// timestamps, in nanoseconds.
fn strays(name: &str, kind: WaitKind, account: Account) -> Vec<[i64; 2]> {
    let stamps = stamps(name);
    let outcome = analyse(&segments(&recording(&format!("{name}-server"))));
    let of = |exchange: &Exchange| {
        let stamp = stamps.iter().find(|stamp| {
            exchange.id.client == stamp.peer.into() && exchange.id.ordinal + 1 == stamp.number
        })?;
        let wait = exchange.waits.iter().find(|wait| wait.kind == kind)?;
        let (start, end) = account(stamp);
        let [starts, ends] = [wait.start.as_nanos() - start, wait.end.as_nanos() - end];
        Some([starts.abs(), ends.abs()])
    };
    let is_whole = |x: &&Exchange| matches!(x.outcome, Outcome::Complete(_));
    let whole = outcome.exchanges.iter().filter(is_whole);
    whole.filter_map(of).collect()
}

/// Lists a fault if fewer than nine in ten waits agree within 1 ms at both ends.
fn faults(name: &str, kind: WaitKind, account: Account) -> Vec<String> {
    let strays = strays(name, kind, account);
    let is_near = |ends: &&[i64; 2]| ends.iter().all(|&ns| ns < 1_000_000);
    let near = strays.iter().filter(is_near).count();
    let mut faults = Vec::new();
    if strays.len() < 15 {
        faults.push(format!("only {} waits", strays.len()));
    }
    if near * 10 < strays.len() * 9 {
        faults.push(format!("{near} of {}: {strays:?}", strays.len()));
    }
    faults
}

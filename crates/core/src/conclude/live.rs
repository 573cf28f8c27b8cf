//! Live sockets: both ends joined, and what of their state costs time.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::cause::evidence::human;
use crate::facts::LiveSockets;
use crate::flow::Endpoint;
use crate::live::{Holder, LiveSocket, Recovery};
use crate::report::{self, Remark, Tally};

/// Limited by one thing for a larger share of the time with data outstanding
/// is worth a word.
const LIMITED_SHARE: u64 = 10;
/// And for at least this long.
const LIMITED_LEAST: u64 = 100_000_000;
/// Looks that tell how often something is so.
const MANY_LOOKS: u64 = 10;

/// The sockets, ours first, listeners before connections.
pub(super) fn sockets(facts: &LiveSockets) -> Vec<report::LiveSocket> {
    let ends = Ends::of(facts);
    let chosen = facts.list.values().filter(|(socket, _)| socket.is_chosen);
    let mut list: Vec<&(LiveSocket, Tally)> = chosen.collect();
    list.sort_by_key(|(socket, _)| {
        (
            socket.namespace,
            socket.state != "LISTEN",
            socket.local,
            socket.remote,
            socket.cookie,
        )
    });
    let row = |(socket, held): &(LiveSocket, Tally)| row(socket, *held, ends.peer(socket));
    list.into_iter().map(row).collect()
}

/// What there was no room for.
pub(super) fn left_out(facts: &LiveSockets) -> Option<Remark> {
    (facts.left_out > 0).then(|| Remark {
        id: "sockets-left-out".to_owned(),
        text: format!(
            "Only the first {} sockets are here: choose some by --port, --pid or --name.",
            facts.list.len()
        ),
    })
}

/// Connections' sockets by their ends.
struct Ends<'a>(BTreeMap<(Endpoint, Endpoint), Vec<&'a LiveSocket>>);

impl<'a> Ends<'a> {
    fn of(facts: &'a LiveSockets) -> Self {
        let mut ends: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (socket, _) in facts
            .list
            .values()
            .filter(|(socket, _)| is_connection(socket))
        {
            ends.entry((socket.local, socket.remote))
                .or_default()
                .push(socket);
        }
        Self(ends)
    }

    /// The socket at the other end, if it is clear which one that is: the
    /// addresses of other namespaces may be the same.
    fn peer(&self, socket: &LiveSocket) -> Option<&'a LiveSocket> {
        let mirrored = self.0.get(&(socket.remote, socket.local))?;
        let is_ambiguous = |ends: &Vec<_>| ends.len() > 1;
        let own = self.0.get(&(socket.local, socket.remote))?;
        let is_at_home = |other: &&&LiveSocket| other.namespace == socket.namespace;
        match mirrored.as_slice() {
            [only] if !is_ambiguous(own) && is_connection(socket) => Some(only),
            several => several.iter().find(is_at_home).copied(),
        }
    }
}

fn is_connection(socket: &LiveSocket) -> bool {
    socket.remote.port != 0
}

fn row(socket: &LiveSocket, holding: Tally, peer: Option<&LiveSocket>) -> report::LiveSocket {
    report::LiveSocket {
        namespace: socket.namespace,
        cookie: socket.cookie,
        state: socket.state.to_owned(),
        local: socket.local.to_string(),
        remote: socket.remote.to_string(),
        holders: socket.holders.clone(),
        peer: peer.map_or_else(Vec::new, |peer| peer.holders.clone()),
        cgroup: socket.cgroup.clone(),
        container: socket.container.clone(),
        uid: socket.uid,
        receive_queue: socket.receive_queue,
        send_queue: socket.send_queue,
        timer: socket.timer.clone(),
        buffers: socket.buffers,
        congestion: socket.congestion.clone(),
        tcp: socket.tcp,
        options: socket.options,
        holding,
        remarks: remarks(socket, holding, peer),
    }
}

/// What costs time, or is about to.
fn remarks(socket: &LiveSocket, holding: Tally, peer: Option<&LiveSocket>) -> Vec<String> {
    let told = match socket.state {
        "LISTEN" => vec![backlog(socket)],
        _ => vec![
            held(socket, holding),
            unread(socket, peer),
            closed_window(socket, peer),
            repeating(socket),
            limited(socket),
            dropped(socket),
        ],
    };
    told.into_iter().flatten().collect()
}

/// Connections that wait to be accepted.
fn backlog(socket: &LiveSocket) -> Option<String> {
    let (waiting, most) = (socket.receive_queue, socket.send_queue);
    // The queue is full when it holds one more than its limit (`sk_acceptq_is_full()`).
    let what = match waiting {
        0 => return None,
        _ if waiting > most => "its accept queue is full: further connections are dropped or wait",
        _ => "wait for the process to accept them",
    };
    let s = if waiting == 1 { "" } else { "s" };
    Some(format!(
        "{waiting} connection{s} of at most {most}: {what}."
    ))
}

/// Bytes that its own stack holds back.
fn held(socket: &LiveSocket, holding: Tally) -> Option<String> {
    let tcp = socket.tcp?;
    let options = socket.options.unwrap_or_default();
    let bytes = tcp.notsent_bytes.unwrap_or_default();
    if options.cork == Some(true) && bytes > 0 && bytes < tcp.snd_mss && tcp.unacked == 0 {
        return Some(format!(
            "{bytes} bytes wait for TCP_CORK to be removed, 200 ms at most."
        ));
    }
    let is_often = holding.of >= MANY_LOOKS && holding.count * 10 >= holding.of;
    // At one instant any busy sender may be seen between two steps: several
    // looks, or the option, must say so as well.
    if options.nodelay == Some(true) || options.cork == Some(true) {
        return None;
    }
    let is_now = socket.is_holding() == Some(true) && options.nodelay == Some(false);
    if !is_often && !is_now {
        return None;
    }
    let how_often = match is_often {
        true => format!("in {} of {} looks", holding.count, holding.of),
        false => "at this instant".to_owned(),
    };
    let of_nagle = match options.nodelay {
        Some(_) => "TCP_NODELAY is off: Nagle's algorithm holds a small write",
        None => "as Nagle's algorithm does (TCP_NODELAY could not be read)",
    };
    Some(format!(
        "Less than a segment was held back {how_often} until what is in flight is acknowledged; {of_nagle}."
    ))
}

/// Bytes that wait for the process.
fn unread(socket: &LiveSocket, peer: Option<&LiveSocket>) -> Option<String> {
    let bytes = socket.receive_queue;
    (bytes > 0).then(|| {
        let of_peer = names(peer).map_or_else(String::new, |names| format!(", sent by {names}"));
        format!("{bytes} bytes{of_peer} wait to be read by the process.")
    })
}

/// The peer takes nothing more.
fn closed_window(socket: &LiveSocket, peer: Option<&LiveSocket>) -> Option<String> {
    let tcp = socket.tcp?;
    let waiting = tcp.notsent_bytes.filter(|&bytes| bytes > 0)?;
    (tcp.snd_wnd == Some(0)).then(|| {
        let who = names(peer).unwrap_or_else(|| "the peer".to_owned());
        format!("{waiting} bytes wait for {who} to read: its window is closed.")
    })
}

/// What is sent again and again.
fn repeating(socket: &LiveSocket) -> Option<String> {
    let tcp = socket.tcp?;
    if tcp.recovery != Recovery::Loss && tcp.retransmits == 0 {
        return None;
    }
    let next = match &socket.timer {
        Some(timer) if timer.name == "retransmission" => {
            format!(
                ", next in {}",
                human(Duration::from_nanos(timer.expires_ns))
            )
        }
        _ => String::new(),
    };
    let times = tcp.retransmits.max(1);
    Some(format!(
        "No answer for {}: sent again {times} times{next}.",
        human(Duration::from_nanos(tcp.last_ack_received_ns)),
    ))
}

/// What limited its sending, where that was long.
fn limited(socket: &LiveSocket) -> Option<String> {
    let tcp = socket.tcp?;
    let busy = tcp.busy_ns.filter(|&busy| busy > 0)?;
    let candidates = [
        (tcp.rwnd_limited_ns, "the peer's receive window"),
        (tcp.sndbuf_limited_ns, "its own send buffer"),
    ];
    let long = candidates.into_iter().filter_map(|(time, what)| {
        let time = time?;
        let is_long = time >= LIMITED_LEAST && time.saturating_mul(LIMITED_SHARE) >= busy;
        is_long.then_some((time, what))
    });
    let (time, what) = long.max()?;
    let set = match (what, socket.options) {
        ("its own send buffer", Some(options)) if options.is_send_buffer_set == Some(true) => {
            ", which was set by hand"
        }
        _ => "",
    };
    Some(format!(
        "Held back by {what}{set} for {} of the {} in which it had data to send.",
        human(Duration::from_nanos(time)),
        human(Duration::from_nanos(busy)),
    ))
}

fn dropped(socket: &LiveSocket) -> Option<String> {
    let drops = socket.buffers?.drops;
    (drops > 0).then(|| format!("{drops} packets were dropped at this socket."))
}

/// Who holds it, in a few words.
fn names(socket: Option<&LiveSocket>) -> Option<String> {
    let Holder { pid, name, .. } = socket?.holders.first()?;
    Some(format!("{name}[{pid}]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{LiveOptions, TcpInfo};

    fn endpoint(text: &str) -> Endpoint {
        text.parse::<core::net::SocketAddr>()
            .expect("an address")
            .into()
    }

    /// A connection that holds a small write back.
    fn holding() -> LiveSocket {
        LiveSocket {
            namespace: None,
            cookie: 1,
            state: "ESTAB",
            local: endpoint("10.0.0.1:80"),
            remote: endpoint("10.0.0.2:4000"),
            holders: vec![Holder {
                pid: 7,
                name: "nginx".to_owned(),
                fd: 3,
            }],
            cgroup: None,
            container: None,
            uid: 0,
            receive_queue: 0,
            send_queue: 300,
            timer: None,
            buffers: None,
            congestion: None,
            tcp: Some(TcpInfo {
                snd_mss: 1448,
                cwnd: 10,
                unacked: 1,
                notsent_bytes: Some(120),
                snd_wnd: Some(64_000),
                ..TcpInfo::default()
            }),
            options: Some(LiveOptions {
                nodelay: Some(false),
                cork: Some(false),
                ..LiveOptions::default()
            }),
            is_chosen: true,
        }
    }

    fn told(sockets: impl IntoIterator<Item = LiveSocket>) -> Vec<Vec<String>> {
        rows(sockets).into_iter().map(|row| row.remarks).collect()
    }

    fn rows(list: impl IntoIterator<Item = LiveSocket>) -> Vec<report::LiveSocket> {
        let mut facts = LiveSockets::default();
        list.into_iter().for_each(|socket| facts.take(socket));
        sockets(&facts)
    }

    fn with(change: impl FnOnce(&mut LiveSocket)) -> LiveSocket {
        let mut socket = holding();
        change(&mut socket);
        socket
    }

    fn with_tcp(change: impl FnOnce(&mut TcpInfo)) -> LiveSocket {
        with(|socket| change(socket.tcp.as_mut().expect("a connection")))
    }

    #[test]
    fn a_small_write_held_back_is_told() {
        let remarks = told([holding()]).concat();
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        assert!(
            remarks[0].contains("at this instant") && remarks[0].contains("TCP_NODELAY is off")
        );
        // Without the option one look is not enough, many are.
        let unread = || with(|socket| socket.options = None);
        assert!(told([unread()]).concat().is_empty());
        let often = told((0..10).map(|_| unread())).concat();
        assert!(often[0].contains("10 of 10 looks") && often[0].contains("could not be read"));
    }

    #[test]
    fn what_waits_for_something_else_is_not_held_back() {
        for other in [
            with(|s| s.options.as_mut().expect("read").nodelay = Some(true)),
            with_tcp(|tcp| tcp.notsent_bytes = Some(0)),
            with_tcp(|tcp| tcp.notsent_bytes = Some(5000)),
            with_tcp(|tcp| tcp.unacked = 0),
            with_tcp(|tcp| tcp.unacked = 10),
            with_tcp(|tcp| tcp.snd_wnd = Some(1000)),
            with_tcp(|tcp| tcp.recovery = Recovery::Disorder),
        ] {
            let remarks = told((0..20).map(|_| other.clone())).concat();
            assert!(remarks.is_empty(), "{remarks:?}");
        }
    }

    #[test]
    fn both_ends_are_joined_unless_it_is_unclear_which() {
        let client = |namespace, cookie| LiveSocket {
            namespace,
            cookie,
            local: endpoint("10.0.0.2:4000"),
            remote: endpoint("10.0.0.1:80"),
            holders: vec![Holder {
                pid: 9,
                name: "curl".to_owned(),
                fd: 5,
            }],
            tcp: None,
            ..holding()
        };
        let peer = |list: Vec<LiveSocket>| {
            let server = rows(list).into_iter().find(|row| row.cookie == 1);
            server.expect("the server").peer
        };
        assert_eq!(peer(vec![holding(), client(Some(4), 2)])[0].pid, 9);
        assert_eq!(peer(vec![holding(), client(None, 2)])[0].name, "curl");
        let unclear = vec![holding(), client(Some(4), 2), client(Some(5), 3)];
        assert!(peer(unclear).is_empty());
        assert!(peer(vec![holding()]).is_empty());
    }

    #[test]
    fn queues_and_limits_are_told_where_they_cost() {
        let listener = |waiting| {
            with(|socket| {
                socket.state = "LISTEN";
                socket.remote = endpoint("0.0.0.0:0");
                (socket.receive_queue, socket.send_queue, socket.tcp) = (waiting, 5, None);
            })
        };
        assert!(told([listener(0)]).concat().is_empty());
        assert!(told([listener(5)]).concat()[0].contains("to accept"));
        assert!(told([listener(6)]).concat()[0].contains("is full"));
        let limited = |time: u64| {
            with_tcp(|tcp| {
                (tcp.notsent_bytes, tcp.busy_ns) = (Some(0), Some(2_000_000_000));
                tcp.rwnd_limited_ns = Some(time);
            })
        };
        assert!(told([limited(1_000_000_000)]).concat()[0].contains("receive window"));
        assert!(told([limited(150_000_000)]).concat().is_empty());
        let closed = with_tcp(|tcp| tcp.snd_wnd = Some(0));
        assert!(told([closed]).concat()[0].contains("window is closed"));
        let lost = with_tcp(|tcp| {
            (tcp.recovery, tcp.retransmits) = (Recovery::Loss, 3);
            tcp.last_ack_received_ns = 1_500_000_000;
        });
        assert!(told([lost]).concat()[0].contains("sent again 3 times"));
    }
}

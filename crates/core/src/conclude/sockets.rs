//! Live sockets, each with the socket at the other end, and remarks on states that cost time.

mod tcp;
mod udp;
mod unix;

use std::collections::BTreeMap;

use crate::facts::{Facts, LiveSockets, SeenSocket};
use crate::observed::sockets::{Holder, LiveSocket, Protocol, SocketIdentity};
use crate::report::{self, Remark, counted};

/// Returns the chosen sockets, sorted by network namespace (our own first) and protocol, with
/// listeners before connections.
pub(super) fn sockets(facts: &Facts) -> Vec<report::LiveSocket> {
    let ends = SocketsByEnds::of(&facts.live);
    let chosen = facts
        .live
        .list
        .values()
        .filter(|seen| seen.socket.is_chosen);
    let mut list: Vec<&SeenSocket> = chosen.collect();
    list.sort_by_key(|SeenSocket { socket, .. }| {
        (
            socket.namespace,
            socket.protocol,
            socket.state != "LISTEN",
            socket.place(),
            socket.cookie,
        )
    });
    let row = |seen: &SeenSocket| {
        let listen_drops = listen_drops(facts, seen.socket.namespace);
        row(seen, ends.peer(&seen.socket), listen_drops)
    };
    list.into_iter().map(row).collect()
}

/// Returns the number of attempts to connect that listeners of a network namespace dropped during
/// the samples. The counters are of the namespace whose limits were read.
fn listen_drops(facts: &Facts, namespace: Option<u64>) -> Option<u64> {
    let limits = facts.kernel.limits.as_ref();
    limits.filter(|limits| limits.namespace == namespace)?;
    facts.counter("TcpExt:ListenDrops")
}

/// Returns the remark that further sockets were left out after the limit was reached.
pub(super) fn left_out(facts: &LiveSockets) -> Option<Remark> {
    (facts.left_out > 0).then(|| Remark {
        id: "sockets-left-out".to_owned(),
        text: format!(
            "Only the first {} shown: select some with --port, --pid or --name.",
            counted(facts.list.len() as u64, "socket is", "sockets are"),
        ),
    })
}

/// The sockets of connections, by the addresses of both ends.
struct SocketsByEnds<'a>(BTreeMap<SocketIdentity, Vec<&'a LiveSocket>>);

impl<'a> SocketsByEnds<'a> {
    fn of(facts: &'a LiveSockets) -> Self {
        let mut ends: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let sockets = facts.list.values().map(|seen| &seen.socket);
        for socket in sockets.filter(|socket| socket.peer_place().is_some()) {
            ends.entry(socket.place()).or_default().push(socket);
        }
        Self(ends)
    }

    /// Returns the socket at the other end. `None` if it is ambiguous, because other network
    /// namespaces may use the same addresses.
    fn peer(&self, socket: &LiveSocket) -> Option<&'a LiveSocket> {
        let mirrored = self.0.get(&socket.peer_place()?)?;
        let own = self.0.get(&socket.place())?;
        let is_at_home = |other: &&&LiveSocket| other.namespace == socket.namespace;
        match mirrored.as_slice() {
            [only] if own.len() == 1 => Some(only),
            several => several.iter().find(is_at_home).copied(),
        }
    }
}

fn row(
    seen: &SeenSocket,
    peer: Option<&LiveSocket>,
    listen_drops: Option<u64>,
) -> report::LiveSocket {
    let socket = &seen.socket;
    report::LiveSocket {
        protocol: socket.protocol,
        namespace: socket.namespace,
        cookie: socket.cookie,
        state: socket.state.to_owned(),
        local: socket.ends.local(),
        remote: socket.ends.remote(),
        holders: socket.owner.holders.clone(),
        peer: peer.map_or_else(Vec::new, |peer| peer.owner.holders.clone()),
        cgroup: socket.owner.cgroup.clone(),
        container: socket.owner.container.clone(),
        uid: socket.owner.uid,
        receive_queue: socket.queues.receive,
        send_queue: socket.queues.send,
        timer: socket.timer.clone(),
        buffers: socket.buffers,
        congestion: socket.congestion.clone(),
        tcp: socket.tcp,
        options: socket.options,
        holding: seen.holding,
        full: seen.full,
        dropped: seen.dropped(),
        remarks: match socket.protocol {
            Protocol::Tcp => tcp::remarks(seen, peer, listen_drops),
            Protocol::Udp => udp::remarks(seen),
            _ => unix::remarks(socket, peer),
        },
    }
}

/// Returns the remark on connections in the accept queue. `of_further` says what happens to
/// connections that do not fit into the queue.
fn backlog(socket: &LiveSocket, of_further: &str) -> Option<String> {
    let (waiting, most) = (socket.queues.receive, socket.queues.send);
    // The queue is full if it contains one connection more than its limit (`sk_acceptq_is_full()`,
    // `unix_recvq_full()`).
    let what = match waiting {
        0 => return None,
        _ if waiting > most => format!("its accept queue is full: {of_further}"),
        _ => "wait for the process to accept them".to_owned(),
    };
    let s = if waiting == 1 { "" } else { "s" };
    Some(format!(
        "{waiting} connection{s} of at most {most}: {what}."
    ))
}

/// Returns the remark on bytes that the process has not read yet.
fn unread(socket: &LiveSocket, peer: Option<&LiveSocket>) -> Option<String> {
    let bytes = socket.queues.receive;
    (bytes > 0).then(|| {
        let of_peer = names(peer).map_or_else(String::new, |names| format!(", sent by {names}"));
        format!(
            "{}{of_peer} wait to be read by the process.",
            counted(u64::from(bytes), "byte", "bytes"),
        )
    })
}

/// Returns the name and the process id of the socket's holder, such as `nginx[123]`.
fn names(socket: Option<&LiveSocket>) -> Option<String> {
    let Holder { pid, name, .. } = socket?.owner.holders.first()?;
    Some(format!("{name}[{pid}]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::event::{CounterChange, CounterScope};
    use crate::observed::sockets::{
        self, Buffers, KernelLimits, LiveOptions, Queues, Recovery, SocketOwner, TcpInfo,
    };

    fn ends(local: &str, remote: &str) -> sockets::Ends {
        let [local, remote] = [local, remote].map(|text| {
            let address = text.parse::<core::net::SocketAddr>();
            address.expect("an address").into()
        });
        sockets::Ends::Ip { local, remote }
    }

    fn held_by(pid: u32, name: &str, fd: u32) -> SocketOwner {
        SocketOwner {
            holders: vec![Holder {
                pid,
                name: name.to_owned(),
                fd,
            }],
            ..SocketOwner::default()
        }
    }

    /// Returns a connection whose own stack holds a small write back.
    fn holding() -> LiveSocket {
        LiveSocket {
            protocol: Protocol::Tcp,
            namespace: None,
            cookie: 1,
            state: "ESTAB",
            ends: ends("10.0.0.1:80", "10.0.0.2:4000"),
            owner: held_by(7, "nginx", 3),
            queues: Queues {
                receive: 0,
                send: 300,
            },
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
        sockets(&facts(list, None))
    }

    fn facts(list: impl IntoIterator<Item = LiveSocket>, listen_drops: Option<u64>) -> Facts {
        let mut facts = Facts::default();
        let live = &mut facts.live;
        list.into_iter().for_each(|socket| live.add_socket(socket));
        facts.kernel.limits = Some(KernelLimits {
            namespace: None,
            settings: Vec::new(),
        });
        facts.kernel.counters = Vec::from_iter(listen_drops.map(|rise| CounterChange {
            name: "TcpExt:ListenDrops".to_owned(),
            before: 7,
            after: 7 + rise,
            scope: CounterScope::Both,
        }));
        facts
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
        // Without the value of TCP_NODELAY, a single sample is not enough, but many samples are.
        let unread = || with(|socket| socket.options = None);
        assert!(told([unread()]).concat().is_empty());
        let often = told((0..10).map(|_| unread())).concat();
        assert!(often[0].contains("10 of 10 samples") && often[0].contains("could not be read"));
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
            ends: ends("10.0.0.2:4000", "10.0.0.1:80"),
            owner: held_by(9, "curl", 5),
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
                socket.ends = ends("10.0.0.1:80", "0.0.0.0:0");
                (socket.queues.receive, socket.queues.send, socket.tcp) = (waiting, 5, None);
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
        assert!(told([lost]).concat()[0].contains("retransmitted 3 times"));
    }

    /// Returns a listener with connections in its accept queue of 5, and drops.
    fn listener(waiting: u32, drops: u32) -> LiveSocket {
        with(|socket| {
            socket.state = "LISTEN";
            (socket.queues.receive, socket.queues.send, socket.tcp) = (waiting, 5, None);
            socket.buffers = Some(Buffers {
                drops,
                ..Buffers::default()
            });
        })
    }

    fn deferring(waiting: u32, drops: u32) -> LiveSocket {
        let mut socket = listener(waiting, drops);
        let options = socket.options.get_or_insert_default();
        options.defer_accept_ns = Some(31_000_000_000);
        socket
    }

    fn said<const N: usize>(looks: [LiveSocket; N], listen_drops: Option<u64>) -> String {
        let rows = sockets(&facts(looks, listen_drops)).into_iter();
        rows.map(|row| row.remarks.concat()).collect()
    }

    #[test]
    fn attempts_to_connect_that_found_no_room_are_told_at_the_listener() {
        for counted in [None, Some(3)] {
            let full = said([listener(6, 2), listener(0, 9)], counted);
            assert!(full.contains("Attempts to connect were dropped"), "{full}");
            assert!(full.contains("7 drops") && full.contains("full in 1 of 2"));
            assert!(full.contains("accepts more slowly"));
            let free = said([listener(1, 2), listener(0, 9)], counted);
            assert!(free.contains("7 drops") && !free.contains("slowly"));
            assert_eq!(free.contains("3 attempts to connect"), counted.is_some());
            assert_eq!(free.contains("without harm"), counted.is_none(), "{free}");
            assert_eq!(said([listener(0, 9), listener(0, 9)], counted), "");
        }
        let once = said([listener(0, 9)], None);
        assert!(once.contains("9 drops since it was opened") && once.contains("without harm"));
    }

    #[test]
    fn segments_that_a_listener_drops_without_harm_are_no_lost_attempts() {
        let none = Some(0);
        assert_eq!(said([listener(1, 2), listener(0, 9)], none), "");
        assert_eq!(said([deferring(1, 2), deferring(0, 9)], none), "");
        // Without the count of attempts, the option explains all drops.
        assert_eq!(said([deferring(0, 2), deferring(0, 9)], None), "");
        assert_eq!(said([deferring(0, 9)], None), "");
        // A queue that is full now does not show what was dropped before, or why.
        let full = said([deferring(6, 9)], None);
        assert!(full.contains("queue is full") && !full.contains("drops"));
        assert!(!said([listener(6, 9)], None).contains("were dropped"));
        assert!(!said([deferring(6, 2), deferring(0, 9)], None).contains("were dropped"));
        // The count is of another network namespace.
        let mut elsewhere = [listener(0, 2), listener(0, 9)];
        for socket in &mut elsewhere {
            socket.namespace = Some(4);
        }
        assert!(said(elsewhere, none).contains("7 drops"));
    }

    #[test]
    fn what_a_connection_dropped_is_no_loss() {
        let probed = with(|socket| {
            socket.tcp = Some(TcpInfo::default());
            socket.buffers = Some(Buffers {
                drops: 5,
                ..Buffers::default()
            });
        });
        assert_eq!(said([probed], None), "");
    }

    /// Returns a UDP socket with `drops` drops, and `used` of 100,000 bytes of its receive buffer
    /// in use.
    fn udp(used: u32, drops: u32) -> LiveSocket {
        with(|socket| {
            (socket.protocol, socket.state, socket.tcp) = (Protocol::Udp, "UNCONN", None);
            socket.buffers = Some(Buffers {
                receive_used: used,
                receive_limit: 100_000,
                drops,
                ..Buffers::default()
            });
        })
    }

    #[test]
    fn lost_datagrams_accuse_the_reader_only_with_a_full_buffer() {
        let one = |used, drops| told([udp(used, drops)]).concat().concat();
        assert_eq!(one(0, 0), "");
        assert!(one(99_000, 0).contains("wait to be read"));
        assert!(one(99_000, 3).contains("reads more slowly"));
        assert!(!one(80_000, 3).contains("slowly") && one(80_000, 3).contains("-f shows"));
        let two = |looks: [(u32, u32); 2]| {
            let looks = looks.map(|(used, drops)| udp(used, drops));
            let [row] = rows(looks).try_into().expect("one socket");
            (row.dropped, row.remarks.concat())
        };
        let (dropped, text) = two([(0, 7), (0, 7)]);
        assert_eq!(dropped, Some(0));
        assert!(text.contains("none of them during the 2 samples") && !text.contains("slowly"));
        let (dropped, text) = two([(99_000, 7), (0, 12)]);
        assert_eq!(dropped, Some(5));
        assert!(text.contains("5 datagrams") && text.contains("full in 1 of 2 samples"));
        let (_, text) = two([(0, 7), (0, 12)]);
        assert!(
            text.contains("had free space") && !text.contains("slowly"),
            "{text}"
        );
    }

    /// Returns one end of a Unix stream between two processes.
    fn unix(inode: u32, peer: u32, pid: u32) -> LiveSocket {
        with(|socket| {
            (socket.protocol, socket.cookie, socket.tcp) =
                (Protocol::UnixStream, inode.into(), None);
            socket.ends = sockets::Ends::Unix {
                path: None,
                inode,
                peer: Some(peer),
            };
            socket.owner.holders[0].pid = pid;
            socket.buffers = Some(Buffers {
                send_limit: 1_000,
                ..Buffers::default()
            });
        })
    }

    #[test]
    fn who_does_not_read_a_unix_socket_is_told_at_both_ends() {
        let (mut writer, mut reader) = (unix(1, 2, 7), unix(2, 1, 8));
        assert!(told([writer.clone(), reader.clone()]).concat().is_empty());
        writer.buffers.as_mut().expect("it has").send_used = 1_200;
        reader.queues.receive = 900;
        let list = rows([writer, reader]);
        assert_eq!((list[0].peer[0].pid, list[1].peer[0].pid), (8, 7));
        assert!(list[0].remarks.concat().contains("nginx[8] has not read"));
        assert!(list[0].remarks.concat().contains("a write waits"));
        assert!(
            list[1]
                .remarks
                .concat()
                .contains("900 bytes, sent by nginx[7]")
        );
    }
}

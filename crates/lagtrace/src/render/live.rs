//! Live sockets, one by one.

use lagtrace_core::observed::sockets::{Holder, LiveOptions, Protocol, TcpInfo};
use lagtrace_core::report::{LiveSocket, Report};

use super::page::{Page, Tone};
use super::quantity::{bytes, counted, duration};
use super::words;

/// An explanation of an option: the test that a socket's options must pass, true if it applies to
/// listeners, and the text.
type Meaning = (fn(&LiveOptions) -> bool, bool, &'static str);

/// The effects of the options on latency.
const MEANINGS: [Meaning; 6] = [
    (
        |o| o.nodelay == Some(false),
        false,
        "nodelay 0: Nagle's algorithm is on. A write smaller than a segment waits while earlier \
         data is unacknowledged. If the peer delays its ACKs, this takes 40 ms (Linux) or 200 ms. \
         Programs that answer in several writes should set TCP_NODELAY.",
    ),
    (
        |o| o.cork == Some(true),
        false,
        "cork 1: data smaller than a segment waits until the cork is removed, for at most 200 ms.",
    ),
    (
        |o| o.quickack == Some(false),
        false,
        "quickack 0: bare ACKs are delayed by 40 ms or more so that a response can carry them, and \
         a peer with Nagle's algorithm waits for them. The kernel sets this state, not the \
         program.",
    ),
    (
        |o| o.is_receive_buffer_set == Some(true),
        false,
        "rcvbuf set by the program: the kernel no longer adapts it to the path, and the receive \
         window stays below it.",
    ),
    (
        |o| o.is_send_buffer_set == Some(true),
        false,
        "sndbuf set by the program: the kernel no longer adapts it to the path, and the data in \
         flight stays below it.",
    ),
    (
        |o| o.defer_accept_ns.is_some_and(|time| time > 0),
        true,
        "defer accept: a connection is accepted only when its first data arrives. A client that \
         waits for a greeting from the server has to wait.",
    ),
];

/// Writes the sockets, and the meanings of their options.
pub(super) fn write(page: &mut Page, report: &Report) {
    if report.live.is_empty() {
        page.paragraph(0, Tone::Plain, "No matching socket was found.");
        return;
    }
    for socket in &report.live {
        one(page, socket);
    }
    // A listener sends nothing, and sockets accepted from it often get other options.
    let matters =
        |socket: &&LiveSocket, is_listeners: bool| (socket.state == "LISTEN") == is_listeners;
    let there = |&(holds, is_listeners, _): &Meaning| {
        let tcp = report.live.iter().filter(|s| s.protocol == Protocol::Tcp);
        let sockets = tcp.filter(|s| matters(s, is_listeners));
        sockets.filter_map(|s| s.options.as_ref()).any(holds)
    };
    let meanings: Vec<Meaning> = MEANINGS.into_iter().filter(there).collect();
    if meanings.is_empty() {
        return;
    }
    page.heading("What these options mean");
    for (_, _, text) in meanings {
        page.item(2, "•", Tone::Dim, &[(Tone::Plain, text)]);
    }
}

fn one(page: &mut Page, socket: &LiveSocket) {
    let is_listener = socket.state == "LISTEN";
    let ends = if is_listener || socket.state == "UNCONN" {
        socket.local.clone()
    } else {
        format!("{} ⇄ {}", socket.local, socket.remote)
    };
    let mut holders = names(&socket.holders);
    if !socket.peer.is_empty() {
        holders = format!("{holders} ⇄ {}", names(&socket.peer));
    }
    let place = place(socket);
    let state = format!(
        "{:<10}",
        format!("{}{}", kind(socket.protocol), socket.state)
    );
    let head = [
        (Tone::Strong, state.as_str()),
        (Tone::Plain, ends.as_str()),
        (Tone::Dim, holders.as_str()),
        (Tone::Dim, place.as_str()),
    ];
    let head: Vec<_> = head
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect();
    page.spans(0, &head);
    let mut lines = vec![queues(socket, is_listener)];
    lines.extend(socket.options.as_ref().map(options));
    lines.extend(socket.tcp.as_ref().map(transfer));
    if page.is_verbose() {
        lines.extend(socket.tcp.as_ref().map(rest));
        lines.extend(socket.options.as_ref().map(other_options));
        lines.extend(socket.cgroup.as_ref().map(|path| format!("cgroup {path}")));
    }
    for line in lines.into_iter().filter(|line| !line.is_empty()) {
        page.paragraph(4, Tone::Dim, &line);
    }
    for remark in &socket.remarks {
        page.item(
            4,
            "!",
            Tone::Bad,
            &[(Tone::Plain, &words::sentence(remark))],
        );
    }
}

/// Returns the prefix of the state that names the protocol; empty for TCP, the most common.
fn kind(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "",
        Protocol::Udp => "udp ",
        Protocol::UnixStream => "unix ",
        Protocol::UnixDatagram => "unix dgram ",
        Protocol::UnixSeqpacket => "unix seqpacket ",
    }
}

/// Returns the container and network namespace of a socket, if they differ from those of this
/// program.
fn place(socket: &LiveSocket) -> String {
    let container = socket
        .container
        .as_ref()
        .map(|id| format!("container {id}"));
    let namespace = socket.namespace.map(|id| format!("netns {id}"));
    let words = container.into_iter().chain(namespace);
    words.collect::<Vec<_>>().join(" · ")
}

/// Returns the processes that hold a socket. If there are many, as after a fork, only the first few
/// are returned.
fn names(holders: &[Holder]) -> String {
    const SHOWN: usize = 3;
    let one = |holder: &Holder| format!("{}[{}] fd {}", holder.name, holder.pid, holder.fd);
    let shown = holders.iter().take(SHOWN).map(one).collect::<Vec<_>>();
    let more = match holders.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

fn queues(socket: &LiveSocket, is_listener: bool) -> String {
    let mut words = Vec::new();
    if is_listener {
        words.push(format!(
            "{} of {} places in the accept queue used",
            socket.receive_queue, socket.send_queue
        ))
    } else {
        words.extend(unread(socket))
    }
    if let Some(timer) = &socket.timer {
        words.push(format!("{} in {}", timer.name, duration(timer.expires_ns)));
    }
    if socket.holding.count > 0 && socket.holding.of > 1 {
        let (count, of) = (socket.holding.count, socket.holding.of);
        words.push(format!("held back in {count} of {of} samples"));
    }
    words.join(" · ")
}

/// Returns the bytes that wait in the queues of a socket that is not a listener.
fn unread(socket: &LiveSocket) -> Vec<String> {
    let (receive, send) = (socket.receive_queue, socket.send_queue);
    let buffers = socket.buffers.unwrap_or_default();
    let of = |name, used: u32, most: Option<u32>| {
        let most = most.map(|most| format!(" of {}", bytes(most.into())));
        let words = format!("{name} {}{}", bytes(used.into()), most.unwrap_or_default());
        (used > 0).then_some(words)
    };
    let (read, sent) = match socket.protocol {
        Protocol::Tcp => (
            of("unread", receive, None),
            of("unacknowledged", send, None),
        ),
        Protocol::Udp => (
            of("unread", receive, Some(buffers.receive_limit)),
            of("not sent", send, Some(buffers.send_limit)),
        ),
        _ => (
            of("unread", receive, None),
            of("unread by the peer", send, Some(buffers.send_limit)),
        ),
    };
    read.into_iter().chain(sent).collect()
}

/// Returns the options that can delay data.
fn options(of: &LiveOptions) -> String {
    let flag = |name, value: Option<bool>| Some(format!("{name} {}", u8::from(value?)));
    let set = |name, is_set: Option<bool>, size: Option<u32>| match (is_set, size) {
        (Some(true), Some(size)) => {
            Some(format!("{name} {} set by the program", bytes(size.into())))
        }
        _ => None,
    };
    let words = [
        flag("nodelay", of.nodelay),
        flag("cork", of.cork),
        flag("quickack", of.quickack),
        flag("keepalive", of.keepalive),
        set("sndbuf", of.is_send_buffer_set, of.send_buffer),
        set("rcvbuf", of.is_receive_buffer_set, of.receive_buffer),
        of.user_timeout_ns
            .filter(|&time| time > 0)
            .map(|time| format!("user timeout {}", duration(time))),
        of.defer_accept_ns
            .filter(|&time| time > 0)
            .map(|time| format!("defer accept {}", duration(time))),
        of.notsent_lowat
            .filter(|&least| least != u32::MAX && least != 0)
            .map(|least| format!("notsent lowat {}", bytes(least.into()))),
        flag("reuseport", of.reuseport.filter(|&is_on| is_on)),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Returns the main figures of the transfer, from TCP_INFO.
fn transfer(tcp: &TcpInfo) -> String {
    let mut words = vec![
        format!("rtt {} ± {}", duration(tcp.rtt_ns), duration(tcp.rttvar_ns)),
        format!("rto {}", duration(tcp.rto_ns)),
        format!("ato {}", duration(tcp.ato_ns)),
        format!("cwnd {}", tcp.cwnd),
        format!("in flight {}", tcp.unacked),
    ];
    words.extend(
        tcp.notsent_bytes
            .filter(|&unsent| unsent > 0)
            .map(|unsent| format!("not sent {}", bytes(unsent.into()))),
    );
    if tcp.total_retrans > 0 {
        let times = counted(tcp.total_retrans.into(), "segment", "segments");
        words.push(format!("{times} retransmitted"));
    }
    words.extend(tcp.bytes_sent.map(|sent| format!("sent {}", bytes(sent))));
    words.extend(
        tcp.bytes_received
            .map(|got| format!("received {}", bytes(got))),
    );
    words.join(" · ")
}

/// Returns the remaining figures of TCP_INFO, shown if verbose.
fn rest(tcp: &TcpInfo) -> String {
    let [theirs, ours] = tcp.window_scales;
    let mut words = vec![
        format!("mss {} (peer's {})", tcp.snd_mss, tcp.rcv_mss),
        format!("pmtu {}", tcp.pmtu),
        format!("window scales {theirs}, {ours}"),
    ];
    let window = |name, window: Option<u32>| Some(format!("{name} {}", bytes(window?.into())));
    words.extend(window("peer's window", tcp.snd_wnd));
    words.extend(window("own window", tcp.rcv_wnd));
    words.extend(tcp.ssthresh.map(|segments| format!("ssthresh {segments}")));
    words.extend(
        tcp.min_rtt_ns
            .map(|least| format!("least rtt {}", duration(least))),
    );
    let rate = |name, rate: Option<u64>| Some(format!("{name} {}/s", bytes(rate?)));
    words.extend(rate("pacing", tcp.pacing_rate));
    words.extend(rate("delivery", tcp.delivery_rate));
    if tcp.is_app_limited {
        words.push("limited by the program".to_owned());
    }
    let time =
        |name, time: Option<u64>| Some(format!("{name} {}", duration(time.filter(|&t| t > 0)?)));
    words.extend(time("busy", tcp.busy_ns));
    words.extend(time("limited by the peer's window", tcp.rwnd_limited_ns));
    words.extend(time("limited by the send buffer", tcp.sndbuf_limited_ns));
    words.push(format!("data sent {} ago", duration(tcp.last_data_sent_ns)));
    words.push(format!(
        "received {} ago",
        duration(tcp.last_data_received_ns)
    ));
    words.join(" · ")
}

/// Returns the remaining options, shown if verbose.
fn other_options(of: &LiveOptions) -> String {
    let time = |name, time: Option<u64>| Some(format!("{name} {}", duration(time?)));
    let size = |name, size: Option<u32>| Some(format!("{name} {}", bytes(size?.into())));
    let words = [
        time("keepidle", of.keepalive_idle_ns),
        time("keepintvl", of.keepalive_interval_ns),
        of.keepalive_count.map(|count| format!("keepcnt {count}")),
        size("sndbuf", of.send_buffer),
        size("rcvbuf", of.receive_buffer),
        of.maxseg.map(|bytes| format!("maxseg {bytes}")),
        of.timestamping
            .filter(|&flags| flags != 0)
            .map(|flags| format!("timestamping {flags:#x}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

//! `sock_diag` compared with `ss`, and the sampler with what both ends know.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use lagtrace_core::observed::event::{
    Event, EventBody, ListenerSample, Phase, SocketOwner, SocketSample, TargetId,
};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::sockets::{Ends, LiveSocket};
use lagtrace_sources::socket::diag::DiagSocket;
use lagtrace_sources::socket::foreign::find_server;
use lagtrace_sources::socket::sampler::{Sampler, SamplerPlan};
use lagtrace_sources::socket::survey::{Choice, Protocols, Survey};
use lagtrace_sources::{route, timer};
use rustix::net::sockopt;

use crate::server::{Client, Server};
use crate::world::{can_run, run, run_without_rights};

/// Returns the value after `key` in a line of `ss`.
fn value(line: &str, key: &str) -> f64 {
    let word = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix(key))
        .unwrap_or_else(|| panic!("{key} in {line}"));
    let number: String = word
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    number.parse().expect("a number")
}

#[test]
fn a_connection_reads_as_ss_prints_it() {
    if !can_run(false, &["ss"]) {
        return;
    }
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).expect("loopback");
        let server = listener.local_addr().expect("bound");
        let client = TcpStream::connect(server).expect("connects");
        let local: Endpoint = client.local_addr().expect("bound").into();
        let mut diag = DiagSocket::open().expect("sock_diag");
        let record = diag
            .find(local, server.into())
            .expect("an answer")
            .expect("it exists");
        let line = run(&format!("ss -tinOHem sport = {}", local.port));
        let tcp = record.tcp.expect("a connection");
        for (key, ours) in [
            ("mss:", tcp.snd_mss),
            ("rcvmss:", tcp.rcv_mss),
            ("cwnd:", tcp.cwnd),
            ("snd_wnd:", tcp.snd_wnd.expect("a current kernel")),
            ("ino:", record.inode),
        ] {
            assert_eq!(value(&line, key), f64::from(ours), "{key} {line}");
        }
        for (key, ours) in [("rto:", tcp.rto), ("rtt:", tcp.rtt)] {
            let theirs = value(&line, key);
            assert!(
                (theirs - ours.as_secs_f64() * 1e3).abs() < 0.001,
                "{key} {theirs} {ours:?}"
            );
        }
        assert!(line.contains(&format!("sk:{:x}", record.cookie)), "{line}");
        let congestion = record.congestion.expect("every socket has one");
        assert!(
            line.split_whitespace().any(|word| word == congestion),
            "{line}"
        );
        let memory = record.memory.expect("a current kernel");
        assert!(
            line.contains(&format!("rb{},", memory.receive_limit)),
            "{line}"
        );
    }
}

/// Returns the only socket that a survey finds.
fn only(choice: Choice) -> LiveSocket {
    let mut survey = Survey::open(choice).expect("sock_diag");
    let mut found = survey.look().expect("an answer");
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_udp_socket_reads_as_ss_prints_it() {
    if !can_run(false, &["ss"]) {
        return;
    }
    let reader = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    sockopt::set_socket_recv_buffer_size(&reader, 8_192).expect("ours");
    let address = reader.local_addr().expect("bound");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    for _ in 0..50 {
        sender.send_to(&[7; 500], address).expect("it is sent");
    }
    let found = only(Choice {
        protocols: Protocols {
            tcp: false,
            udp: true,
            unix: false,
        },
        ports: vec![address.port()],
        ..Choice::default()
    });
    let line = run(&format!("ss -uanOHm sport = {}", address.port()));
    let memory = found.buffers.expect("a current kernel");
    let fields: Vec<&str> = line.split(['(', ')', ',']).collect();
    for ours in [
        format!("r{}", memory.receive_used),
        format!("rb{}", memory.receive_limit),
        format!("d{}", memory.drops),
    ] {
        assert!(fields.contains(&ours.as_str()), "{ours} {line}");
    }
    assert!(memory.drops > 0 && found.is_full() == Some(true), "{line}");
    assert_eq!(found.state, "UNCONN");
}

#[test]
fn a_unix_socket_reads_as_ss_prints_it() {
    if !can_run(false, &["ss"]) {
        return;
    }
    let path = std::env::temp_dir().join(format!("lthost-{}.sock", std::process::id()));
    let path = path.to_str().expect("plain letters").to_owned();
    let listener = UnixListener::bind(&path).expect("a free path");
    let waiting = UnixStream::connect(&path).expect("it listens");
    let mut survey = Survey::open(Choice {
        protocols: Protocols {
            tcp: false,
            udp: false,
            unix: true,
        },
        paths: vec![path.clone()],
        listening: true,
        ..Choice::default()
    })
    .expect("sock_diag");
    let found = survey.look().expect("an answer");
    std::fs::remove_file(&path).expect("ours");
    let [found] = found.as_slice() else {
        panic!("{found:?}");
    };
    let line = run(&format!("ss -xlnOHe src {path}"));
    let fields: Vec<&str> = line.split_whitespace().collect();
    let Ends::Unix { inode, peer, .. } = &found.ends else {
        panic!("{found:?}");
    };
    let queues = [found.queues.receive, found.queues.send].map(|n| n.to_string());
    assert_eq!(fields[2..4], queues.each_ref().map(String::as_str));
    assert_eq!(queues[0], "1");
    assert_eq!(fields[4..6], [path.as_str(), &inode.to_string()], "{line}");
    assert_eq!(*peer, None);
    drop((listener, waiting));
}

/// Makes exchanges over all connections, one after another, for `time`.
fn talk(clients: &mut [Client], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for client in clients.iter_mut() {
            client.ask();
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Samples the sockets of a server while exchanges run.
fn sampled(server: std::net::SocketAddr, clients: &mut [Client], most: usize) -> Vec<Event> {
    clients.iter_mut().for_each(Client::ask); // all connections are accepted now
    let first = clients.first().expect("a client");
    let search = find_server(server.into(), Some(&first.stream));
    let mut plan = SamplerPlan::new(TargetId::Subject, server.into(), Phase::Baseline);
    plan.period = Duration::from_millis(15);
    plan.most_samples = most;
    let sampler = Sampler::start(plan, search.server.as_ref()).expect("it starts");
    talk(clients, Duration::from_millis(700));
    sampler.enter(Phase::Experiment(1));
    talk(clients, Duration::from_millis(500));
    sampler.stop()
}

fn sockets(events: &[Event]) -> Vec<&SocketSample> {
    let sockets = events.iter().filter_map(|event| match &event.body {
        EventBody::Socket(sample) => Some(sample),
        _ => None,
    });
    sockets.collect()
}

fn listeners(events: &[Event]) -> Vec<&ListenerSample> {
    let listeners = events.iter().filter_map(|event| match &event.body {
        EventBody::Listener(sample) => Some(sample),
        _ => None,
    });
    listeners.collect()
}

fn notes(events: &[Event]) -> BTreeMap<&str, &str> {
    let notes = events.iter().filter_map(|event| match &event.body {
        EventBody::Note(note) => Some((note.id.as_str(), note.text.as_str())),
        _ => None,
    });
    notes.collect()
}

/// Returns true if unsent data waits behind an unacknowledged segment.
fn holds(sample: &SocketSample) -> bool {
    sample
        .tcp
        .is_some_and(|tcp| tcp.unacked > 0 && tcp.notsent_bytes > 0)
}

#[test]
fn both_ends_are_sampled_while_the_load_runs() {
    let server = Server::start("127.0.0.1:0", None);
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(server.address)).collect();
    clients[0].tell(b"n");
    let with_nodelay: Endpoint = clients[0].flow().local;
    let events = sampled(server.address, &mut clients, 2_000);
    assert_eq!(notes(&events), BTreeMap::new());
    assert!(events.is_sorted_by_key(|event| event.at));
    let samples = sockets(&events);
    let (own, theirs): (Vec<_>, Vec<_>) = samples
        .into_iter()
        .partition(|sample| sample.owner == SocketOwner::Own);
    assert!(
        own.len() >= 8 && theirs.len() >= 8,
        "{} {}",
        own.len(),
        theirs.len()
    );
    assert!(
        own.iter()
            .all(|s| s.nodelay == Some(true) && s.quickack.is_some())
    );
    for sample in &theirs {
        let SocketOwner::Process { pid, name, .. } = &sample.owner else {
            panic!("{sample:?}");
        };
        assert_eq!((*pid, name.is_empty()), (server.pid(), false));
        assert_eq!(sample.nodelay, Some(sample.remote == with_nodelay));
        assert_eq!(sample.cork, Some(false));
    }
    let held = |nodelay| {
        theirs
            .iter()
            .any(|s| s.nodelay == Some(nodelay) && holds(s))
    };
    assert_eq!((held(false), held(true)), (true, false));
    for phase in [Phase::Baseline, Phase::Experiment(1)] {
        assert!(events.iter().any(|event| event.phase == phase), "{phase:?}");
    }
    let listeners = listeners(&events);
    assert_eq!(listeners.len(), 1);
    assert!(listeners[0].limit > 0 && listeners[0].syn_backlog.is_some_and(|n| n > 0));
    // The kernel's timers predict the delayed ACKs of these sockets.
    let route = route::lookup(server.address.ip()).expect("loopback");
    let timers = timer::read(Some(&route));
    let delayed = own.iter().filter_map(|s| s.tcp).map(|tcp| tcp.ato);
    assert!(
        delayed.into_iter().any(|ato| ato == timers.delack_min),
        "{timers:?}"
    );
}

#[test]
fn samples_are_bounded() {
    let server = Server::start("127.0.0.1:0", None);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(server.address)).collect();
    let events = sampled(server.address, &mut clients, 10);
    // At least two samples of each connection's two ends are possible, so the limit of ten takes
    // effect.
    assert_eq!(sockets(&events).len(), 10);
}

#[test]
fn a_cork_is_seen() {
    let server = Server::start("127.0.0.1:0", None);
    let mut client = Client::connect(server.address);
    client.tell(b"c");
    client.tell(b"q");
    let search = find_server(server.address.into(), Some(&client.stream));
    let plan = SamplerPlan::new(TargetId::Twin, server.address.into(), Phase::Baseline);
    let sampler = Sampler::start(plan, search.server.as_ref()).expect("it starts");
    thread::sleep(Duration::from_millis(50));
    let events = sampler.stop();
    let samples = sockets(&events);
    let is_corked = |s: &&SocketSample| s.cork == Some(true) && s.target == TargetId::Twin;
    assert!(samples.iter().any(is_corked), "{samples:?}");
}

const SERVER: &str = "LAGTRACE_HOST_TEST_SERVER";

/// A survey without privileges: it must show the state of both ends, leave out the options of the
/// other user's sockets, and explain which privilege is missing.
#[test]
fn another_users_options_need_a_privilege() {
    if let Ok(address) = std::env::var(SERVER) {
        let address = address.parse().expect("an address");
        let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(address)).collect();
        let events = sampled(address, &mut clients, 500);
        let samples = sockets(&events);
        let theirs = samples.iter().filter(|s| s.owner == SocketOwner::Unnamed);
        assert!(theirs.clone().all(|s| s.nodelay.is_none()));
        assert!(theirs.clone().any(|s| holds(s)), "{samples:?}");
        let own = samples.iter().filter(|s| s.owner == SocketOwner::Own);
        assert!(own.clone().count() > 0 && own.clone().all(|s| s.nodelay == Some(true)));
        let notes = notes(&events);
        let note = notes.get("not-measured-peer-options").expect("said so");
        assert!(note.contains("CAP_SYS_PTRACE"), "{note}");
        return;
    }
    if !can_run(true, &["setpriv"]) {
        return;
    }
    let server = Server::start("127.0.0.1:0", None);
    let test = "sockets::another_users_options_need_a_privilege";
    run_without_rights(test, SERVER, &server.address.to_string());
}

/// The application sets options on a socket. They must be read correctly, both ends must be found,
/// and other sockets must be left out.
#[test]
fn a_survey_finds_both_ends_and_their_options() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let server: Endpoint = listener.local_addr().expect("bound").into();
    let client = TcpStream::connect(("127.0.0.1", server.port)).expect("connects");
    let (accepted, _) = listener.accept().expect("accepts");
    client.set_nodelay(true).expect("a connection");
    sockopt::set_socket_recv_buffer_size(&accepted, 65_536).expect("a connection");
    sockopt::set_tcp_user_timeout(&accepted, 7_000).expect("a connection");
    let own = std::process::id();
    let look = |choice: Choice| {
        let mut survey = Survey::open(choice).expect("sock_diag");
        survey.look().expect("an answer")
    };
    let chosen = look(Choice {
        ports: vec![server.port],
        pids: vec![own],
        ..Choice::default()
    });
    let find = |local: Endpoint, is_listener: bool| {
        let is_it = |s: &&LiveSocket| {
            let is_here = matches!(s.ends, Ends::Ip { local: own, .. } if own == local);
            is_here && (s.state == "LISTEN") == is_listener
        };
        let found = chosen.iter().find(is_it).expect("it is there");
        assert!(found.is_chosen && found.namespace.is_none());
        assert!(found.owner.holders.iter().any(|holder| holder.pid == own));
        found.clone()
    };
    let here: Endpoint = client.local_addr().expect("bound").into();
    let (theirs, ours) = (find(server, false), find(here, false));
    let (set, free) = (theirs.options.expect("ours"), ours.options.expect("ours"));
    assert_eq!((set.nodelay, free.nodelay), (Some(false), Some(true)));
    assert_eq!(set.user_timeout_ns, Some(7_000_000_000));
    // The kernel doubles the requested size.
    assert_eq!(set.receive_buffer, Some(131_072));
    assert_eq!(free.user_timeout_ns, Some(0));
    if set.is_receive_buffer_set.is_some() {
        assert_eq!(set.is_receive_buffer_set, Some(true));
        assert_eq!(free.is_receive_buffer_set, Some(false));
        assert_eq!(set.is_send_buffer_set, Some(false));
    }
    let tcp = ours.tcp.expect("a connection");
    assert!(tcp.snd_mss > 0 && tcp.pmtu > 0 && tcp.rto_ns > 0);
    assert_eq!(find(server, true).queues.send, 128);
    let others = look(Choice {
        ports: vec![server.port],
        names: vec!["no such program".to_owned()],
        ..Choice::default()
    });
    assert!(others.is_empty(), "{others:?}");
    let listening = look(Choice {
        ports: vec![server.port],
        listening: true,
        ..Choice::default()
    });
    assert_eq!(listening.len(), 1);
}

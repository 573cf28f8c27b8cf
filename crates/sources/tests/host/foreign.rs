//! A server in another network namespace. It is found and sampled, and one option of one connection
//! is changed and restored.

use std::sync::mpsc;
use std::time::Duration;

use lagtrace_core::observed::event::{CounterScope, EventBody, Phase, SocketOwner, TargetId};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_sources::counter::Counters;
use lagtrace_sources::firewall;
use lagtrace_sources::privilege::{HostError, NetworkNamespace};
use lagtrace_sources::socket::foreign::{OwnFlow, find_server};
use lagtrace_sources::socket::option::ForeignOption;
use lagtrace_sources::socket::sampler::{Sampler, SamplerPlan};

use crate::server::{Client, Server};
use crate::world::{Pair, can_run, run_without_rights};

#[test]
fn a_server_in_another_namespace_is_found_and_sampled() {
    if !can_run(true, &["ip"]) {
        return;
    }
    let pair = Pair::new();
    for host in [format!("{}.2", pair.net), format!("[{}:2]", pair.net6)] {
        let server = Server::start(&format!("{host}:8080"), Some(&pair.server.name));
        pair.client.visit(|| watch(&server));
    }
}

fn watch(server: &Server) {
    let target: Endpoint = server.address.into();
    let by_address = find_server(target, None).server.expect("by its address");
    let mut client = Client::connect(server.address);
    let search = find_server(target, Some(&client.stream));
    let found = search.server.expect("by our connection");
    assert_eq!(search.notes, []);
    assert!(!found.namespace().is_own());
    assert_eq!(found.namespace().id(), by_address.namespace().id());
    assert_eq!(found.endpoint(), target);
    let pids: Vec<u32> = found.processes().iter().map(|p| p.pid).collect();
    assert_eq!(pids, [server.pid()]);

    let listeners = found.listeners().expect("root may look");
    assert_eq!(listeners.len(), 1);
    assert_eq!((listeners[0].local, listeners[0].queued), (target, 0));
    assert!(listeners[0].syn_backlog.is_some());

    let plan = SamplerPlan::new(TargetId::Subject, target, Phase::Baseline);
    let sampler = Sampler::start(plan, Some(&found)).expect("root may enter");
    let (own, theirs) = (
        Counters::read().expect("ours"),
        Counters::read_of(server.pid()).expect("the server's"),
    );
    (0..30).for_each(|_| client.ask());
    let own = own.changes(&Counters::read().expect("ours"), CounterScope::Client);
    let after = Counters::read_of(server.pid()).expect("the server's");
    let theirs = theirs.changes(&after, CounterScope::Target);
    let events = sampler.stop();

    let is_server = |event: &&lagtrace_core::observed::event::Event| match &event.body {
        EventBody::Socket(sample) => {
            matches!(sample.owner, SocketOwner::Process { pid, .. } if pid == server.pid())
                && sample.nodelay == Some(false)
        }
        _ => false,
    };
    assert!(events.iter().filter(is_server).count() > 0, "{events:?}");
    let delayed = |changes: &[lagtrace_core::observed::event::CounterChange]| {
        let change = changes.iter().find(|c| c.name == "TcpExt:DelayedACKs");
        change.map(|c| c.after - c.before).expect("always told")
    };
    // The server waits for ACKs that the client delays.
    assert!(delayed(&own) >= 10, "{own:?}");
    assert!(delayed(&own) > 4 * delayed(&theirs), "{own:?} {theirs:?}");
}

/// Half-open connections: the client drops every SYN/ACK, so the server keeps waiting for the end
/// of the handshake.
#[test]
fn embryonic_connections_are_counted() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let pair = Pair::new();
    let address = format!("{}.2:8082", pair.net);
    let server = Server::start(&address, Some(&pair.server.name));
    for rule in [
        "add table ip t",
        "add chain ip t in { type filter hook input priority 0 ; }",
        "add rule ip t in tcp sport 8082 drop",
    ] {
        pair.client.run(&format!("nft {rule}"));
    }
    pair.client.visit(|| {
        let found = find_server(server.address.into(), None).server;
        let found = found.expect("by its address");
        let patience = Duration::from_millis(200);
        let refused = std::net::TcpStream::connect_timeout(&server.address, patience);
        assert!(refused.is_err());
        let listeners = found.listeners().expect("root may look");
        assert_eq!(listeners.len(), 1);
        assert_eq!((listeners[0].embryonic, listeners[0].queued), (1, 0));
        let own = NetworkNamespace::own().expect("/proc is there");
        let filters = firewall::read(&own, server.address.into(), false);
        assert_eq!(filters.blocking_rules, Some(1), "{filters:?}");
    });
}

#[test]
fn a_translated_server_is_found_by_our_connection() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let pair = Pair::new();
    let real = format!("{}.2:8081", pair.net);
    let server = Server::start(&real, Some(&pair.server.name));
    pair.client.run("nft add table ip t");
    pair.client
        .run("nft add chain ip t out { type nat hook output priority -100 ; }");
    pair.client.run(&format!(
        "nft add rule ip t out ip daddr {}.99 tcp dport 80 dnat to {real}",
        pair.net
    ));
    let shown = format!("{}.99:80", pair.net).parse().expect("an address");
    pair.client.visit(|| {
        let mut client = Client::connect(shown);
        let search = find_server(shown.into(), Some(&client.stream));
        let found = search.server.expect("by our connection");
        let (log, _notes) = mpsc::channel();
        let option = ForeignOption::set_nodelay(&found, client.flow(), log);
        let option = option.expect("both ends have counted the same");
        assert!(client.ask_nodelay());
        drop(option);
        assert!(!client.ask_nodelay());
        assert_eq!(found.endpoint(), server.address.into());
        assert_eq!(found.processes().first().map(|p| p.pid), Some(server.pid()));
        let far = found.far_end(client.flow()).expect("root may look");
        assert_eq!(far.expect("it exists").remote, client.flow().local);
    });
}

/// Two pairs of hosts with the same addresses. Each pair has a connection with the same ends. Each
/// client must find the server that it is connected to.
#[test]
fn equal_ends_in_several_namespaces_are_told_apart() {
    if !can_run(true, &["ip"]) {
        return;
    }
    let first = Pair::new();
    let pairs = [first.twin(), first.twin(), first];
    let address = format!("{}.2:8083", pairs[0].net);
    let servers = pairs
        .each_ref()
        .map(|pair| Server::start(&address, Some(&pair.server.name)));
    let port = 20_000 + u16::try_from(std::process::id() % 10_000).expect("small");
    let target = servers[0].address;
    let connect = |pair: &Pair| pair.client.visit(|| Client::connect_from(port, target));
    let clients = pairs.each_ref().map(connect);
    for (at, (pair, client)) in pairs.iter().zip(&clients).enumerate() {
        let found = pair
            .client
            .visit(|| find_server(target.into(), Some(&client.stream)).server);
        let found = found.expect("by our connection");
        let pids: Vec<u32> = found.processes().iter().map(|p| p.pid).collect();
        assert_eq!(pids, [servers[at].pid()], "the server of pair {at}");
    }
}

#[test]
fn an_option_of_our_connection_is_set_and_put_back() {
    let server = Server::start("127.0.0.1:0", None);
    let (mut client, mut other) = (
        Client::connect(server.address),
        Client::connect(server.address),
    );
    assert!(!client.ask_nodelay() && !other.ask_nodelay());
    let found = find_server(server.address.into(), Some(&client.stream));
    let found = found.server.expect("it is our child");
    let (log, notes) = mpsc::channel();
    let option = ForeignOption::set_nodelay(&found, client.flow(), log.clone());
    let option = option.expect("our own child may be touched");
    assert!(!option.was_on() && option.is_on().expect("it is there"));
    assert!(client.ask_nodelay() && !other.ask_nodelay());
    drop(option);
    assert!(!client.ask_nodelay());

    other.tell(b"n");
    assert!(other.ask_nodelay());
    let option = ForeignOption::set_nodelay(&found, other.flow(), log.clone()).expect("a child");
    drop(option);
    assert!(other.ask_nodelay(), "what was on stays on");

    let option = ForeignOption::set_nodelay(&found, client.flow(), log.clone()).expect("a child");
    client.tell(b"!"); // the server closes
    std::thread::sleep(Duration::from_millis(50));
    drop(option);
    drop(log);
    let texts: Vec<String> = notes.iter().map(|note| note.text).collect();
    let expected = [
        "was off and has been switched on.",
        "was switched off again, as before.",
        "was already on and was left on.",
        "was off and has been switched on.",
        "did not have to be restored: the connection is closed.",
    ];
    assert_eq!(texts.len(), expected.len(), "{texts:#?}");
    for (text, end) in texts.iter().zip(expected) {
        assert!(
            text.ends_with(end) && text.contains(&server.pid().to_string()),
            "{text}"
        );
    }
}

#[test]
fn what_is_not_ours_is_not_touched() {
    let server = Server::start("127.0.0.1:0", None);
    let client = Client::connect(server.address);
    let found = find_server(server.address.into(), Some(&client.stream));
    let found = found.server.expect("it is our child");
    let flow = client.flow();
    let turned = OwnFlow {
        local: flow.remote,
        remote: flow.local,
    };
    let nowhere = OwnFlow {
        local: Endpoint::new(flow.local.addr, 1),
        remote: flow.remote,
    };
    for flow in [turned, nowhere] {
        let (log, notes) = mpsc::channel();
        let refused = ForeignOption::set_nodelay(&found, flow, log).expect_err("not ours");
        assert!(matches!(refused, HostError::NotOurs { .. }), "{refused}");
        assert_eq!(notes.iter().count(), 0);
    }
}

const TARGET: &str = "LAGTRACE_HOST_TEST_TARGET";

#[test]
fn other_namespaces_need_a_privilege() {
    if let Ok(target) = std::env::var(TARGET) {
        let target: std::net::SocketAddr = target.parse().expect("an address");
        let search = find_server(target.into(), None);
        assert!(search.server.is_none());
        let note = search.notes.first().expect("said so");
        assert_eq!(note.id, "not-measured-namespaces");
        assert!(note.text.contains("CAP_SYS_PTRACE"), "{note:?}");
        return;
    }
    if !can_run(true, &["ip", "setpriv"]) {
        return;
    }
    let pair = Pair::new();
    let target = format!("{}.2:8080", pair.net);
    let _server = Server::start(&target, Some(&pair.server.name));
    run_without_rights(
        "foreign::other_namespaces_need_a_privilege",
        TARGET,
        &target,
    );
}

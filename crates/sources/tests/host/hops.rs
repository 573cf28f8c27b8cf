//! Traces over chains of network namespaces. Their routing is real, including the kernel's limits
//! on ICMP errors.

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lagtrace_core::observed::event::{EventBody, Stamp};
use lagtrace_core::observed::route::RouteMethod;
use lagtrace_core::report::{Hop, HopState, Route};
use lagtrace_core::route::RouteTally;
use socket2::{Domain, Protocol, Socket, Type};

use lagtrace_sources::trace::{Rounds, TracePlan, UDP_PORT, trace};

use crate::world::{Namespace, can_run, run, run_without_rights, skip};

/// Number of consecutive runs in which every hop must be found.
const RUNS: usize = 5;

/// A chain of namespaces: the client first, then routers, the target last. Link N from the client
/// has the networks 10.99.N.0/24 and fd99:N::/64. Its near end is host 1, its far end host 2.
pub(crate) struct Chain {
    pub(crate) all: Vec<Namespace>,
}

impl Chain {
    pub(crate) fn new(hops: usize) -> Self {
        let all: Vec<_> = (0..=hops).map(|_| Namespace::new()).collect();
        for namespace in &all {
            // Without this setting, the first packets are lost during duplicate address detection.
            let dad = "net.ipv6.conf.default.accept_dad";
            namespace.run(&format!(
                "sysctl -qw {dad}=0 net.ipv6.conf.all.accept_dad=0"
            ));
        }
        for (n, pair) in (1..).zip(all.windows(2)) {
            let (near, far) = (&pair[0], &pair[1]);
            near.run(&format!(
                "ip link add f{n} type veth peer name n{n} netns {}",
                far.name
            ));
            for (namespace, device, end) in [(near, 'f', 1), (far, 'n', 2)] {
                namespace.run(&format!("ip addr add 10.99.{n}.{end}/24 dev {device}{n}"));
                namespace.run(&format!(
                    "ip addr add fd99:{n}::{end}/64 dev {device}{n} nodad"
                ));
                namespace.run(&format!("ip link set {device}{n} up"));
            }
        }
        for (at, namespace) in all.iter().enumerate() {
            namespace.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
            if at < hops {
                let next = at + 1;
                namespace.run(&format!("ip route add default via 10.99.{next}.2"));
                namespace.run(&format!("ip -6 route add default via fd99:{next}::2"));
            }
            for net in 1..at {
                namespace.run(&format!("ip route add 10.99.{net}.0/24 via 10.99.{at}.1"));
                namespace.run(&format!("ip -6 route add fd99:{net}::/64 via fd99:{at}::1"));
            }
        }
        Self { all }
    }

    pub(crate) fn client(&self) -> &Namespace {
        &self.all[0]
    }

    pub(crate) fn target(&self, is_v4: bool) -> IpAddr {
        let last = self.all.len() - 1;
        let address = if is_v4 {
            format!("10.99.{last}.2")
        } else {
            format!("fd99:{last}::2")
        };
        address.parse().expect("an address")
    }

    /// Listens on a port of the target, for both address families.
    pub(crate) fn listen(&self, port: u16) -> TcpListener {
        let target = self.all.last().expect("there is one");
        target.visit(|| TcpListener::bind(("::", port)).expect("it is free there"))
    }

    /// Adds a filter rule to namespace number `at`.
    pub(crate) fn filter(&self, at: usize, hook: &str, rule: &str) {
        let namespace = &self.all[at];
        namespace.run("nft add table inet t");
        let chain =
            format!("nft add chain inet t {hook} {{ type filter hook {hook} priority 0 ; }}");
        namespace.run(&chain);
        namespace.run(&format!("nft add rule inet t {hook} {rule}"));
    }

    pub(crate) fn trace(&self, plan: &TracePlan) -> (Route, Vec<Hop>) {
        self.client().visit(|| traced(plan))
    }
}

fn traced(plan: &TracePlan) -> (Route, Vec<Hop>) {
    let mut tally = RouteTally::default();
    let outcome = trace(plan, &AtomicBool::new(false), |event| match event.body {
        EventBody::Trace(start) => tally.begin(start),
        EventBody::Hop(sample) => {
            let is_connect = plan.method == RouteMethod::TcpConnect;
            let is_by_kernel = sample.stamp == Stamp::Kernel;
            assert!(
                is_by_kernel || is_connect || sample.rtt.is_none(),
                "{sample:?}"
            );
            tally.observe(&sample);
        }
        EventBody::PathMtu(mtu) => tally.mtu(mtu),
        other => panic!("{other:?}"),
    });
    outcome.expect("sockets");
    (tally.route().expect("it was begun"), tally.hops())
}

pub(crate) fn plan(target: IpAddr, port: u16, method: RouteMethod) -> TracePlan {
    TracePlan {
        timeout: Duration::from_millis(1_500),
        ..TracePlan::new(SocketAddr::new(target, port), method)
    }
}

const ALL: [(RouteMethod, bool, &str); 9] = [
    (RouteMethod::TcpSyn, true, "open"),
    (RouteMethod::TcpConnect, false, "open"),
    (RouteMethod::Udp, false, "reached"),
    (RouteMethod::Paris, true, "reached"),
    (RouteMethod::Paris, false, "reached"),
    (RouteMethod::Dublin, true, "reached"),
    (RouteMethod::InConnection, true, "open"),
    (RouteMethod::Icmp, true, "reached"),
    (RouteMethod::Icmp, false, "reached"),
];

fn addresses(hops: &[Hop]) -> Vec<&str> {
    hops.iter()
        .map(|hop| hop.address.as_deref().unwrap_or("*"))
        .collect()
}

fn expected(hops: usize, is_v4: bool) -> Vec<String> {
    let at = |n| {
        if is_v4 {
            format!("10.99.{n}.2")
        } else {
            format!("fd99:{n}::2")
        }
    };
    (1..=hops).map(at).collect()
}

#[test]
fn every_hop_is_found_in_every_way_though_routers_limit_their_answers() {
    if !can_run(true, &["ip"]) {
        return;
    }
    beside_each_other([true, false], |is_v4| {
        let chain = Chain::new(4);
        let _server = chain.listen(8080);
        chain.client().visit(|| {
            let setting = "/proc/sys/net/ipv4/ping_group_range";
            std::fs::write(setting, "0 2147483647").expect("root may");
        });
        for one in ALL {
            is_found(&chain, is_v4, one);
        }
    });
}

fn is_found(chain: &Chain, is_v4: bool, (method, is_raw, outcome): (RouteMethod, bool, &str)) {
    let port = if method.is_tcp() { 8080 } else { UDP_PORT };
    // The kernel's default limits apply: after a burst of six, one ICMP error per second.
    let plan = TracePlan {
        is_raw,
        ..plan(chain.target(is_v4), port, method)
    };
    let (route, hops) = chain.trace(&plan);
    assert_eq!(addresses(&hops), expected(4, is_v4), "{method:?} {hops:#?}");
    assert_eq!((route.outcome.as_str(), route.distance), (outcome, Some(4)));
    let answers = |hop: &Hop| hop.received >= 1 && hop.rtt_ns.min > 0;
    assert!(hops.iter().all(answers), "{method:?} {hops:#?}");
    let is_lossy = |hop: &Hop| hop.state == HopState::Lossy;
    assert!(!hops.iter().any(is_lossy), "{method:?} {hops:#?}");
    assert_eq!(route.answered_by, None);
    // No addresses are translated here.
    assert_eq!(route.translated_before, Vec::<u8>::new(), "{hops:#?}");
}

/// Runs `act` for each item, in parallel threads. This saves time, because a trace mostly waits for
/// routers that limit their answers.
fn beside_each_other<T: Send>(all: impl IntoIterator<Item = T>, act: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for one in all {
            scope.spawn(|| act(one));
        }
    });
}

#[test]
fn no_hop_is_missed_run_after_run() {
    if !can_run(true, &["ip"]) {
        return;
    }
    let chain = Chain::new(3);
    let _server = chain.listen(8080);
    for run in 0..RUNS {
        let (_, hops) = chain.trace(&plan(chain.target(true), 8080, RouteMethod::TcpSyn));
        assert_eq!(addresses(&hops), expected(3, true), "run {run}: {hops:#?}");
    }
}

#[test]
fn silent_and_limited_hops_are_named_as_such() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let chain = Chain::new(4);
    let _server = chain.listen(8080);
    chain.filter(2, "output", "icmp type time-exceeded drop");
    chain.filter(
        3,
        "output",
        "icmp type time-exceeded limit rate over 1/second burst 1 packets drop",
    );
    let (route, hops) = chain.trace(&plan(chain.target(true), 8080, RouteMethod::TcpSyn));
    let states: Vec<_> = hops.iter().map(|hop| hop.state).collect();
    assert_eq!(
        states[1..],
        [HopState::Silent, HopState::Limited, HopState::Answers],
        "{hops:#?}"
    );
    assert_eq!((route.loss_from, hops[1].address.clone()), (None, None));
}

#[test]
fn a_loss_that_persists_is_told_from_limits() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let chain = Chain::new(3);
    let _server = chain.listen(8080);
    for at in 1..3 {
        chain.all[at].run("sysctl -qw net.ipv4.icmp_ratelimit=0");
    }
    // The second router drops every third packet that expires there, and every third packet that it
    // would forward to the target.
    for ttl in ["1", "> 1"] {
        let rule = format!("meta l4proto tcp ip ttl {ttl} numgen inc mod 3 == 0 drop");
        chain.filter(2, "prerouting", &rule);
    }
    let plan = TracePlan {
        rounds: Some(Rounds {
            count: Some(12),
            interval: Duration::from_millis(150),
        }),
        ..plan(chain.target(true), 8080, RouteMethod::TcpSyn)
    };
    let (route, hops) = chain.trace(&plan);
    let states: Vec<_> = hops.iter().map(|hop| hop.state).collect();
    assert_eq!(
        states,
        [HopState::Answers, HopState::Lossy, HopState::Lossy],
        "{hops:#?}"
    );
    let lost = |hop: &Hop| (hop.sent - hop.received, hop.sent);
    let lost: Vec<_> = hops.iter().map(lost).collect();
    assert_eq!(route.loss_from, Some(2), "{lost:?}");
}

#[test]
fn closed_rejected_and_silent_ports_are_told_apart() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    beside_each_other([RouteMethod::TcpSyn, RouteMethod::TcpConnect], |method| {
        ports_are_told_apart(method);
    });
}

fn ports_are_told_apart(method: RouteMethod) {
    let chain = Chain::new(3);
    for rule in [
        "tcp dport 81 drop",
        "tcp dport 82 reject with icmpx type admin-prohibited",
        "tcp dport 83 reject with icmpx type port-unreachable",
        "tcp dport 84 reject with tcp reset",
    ] {
        chain.filter(3, "input", rule);
    }
    // The router rejects the packets instead of the target.
    chain.filter(
        2,
        "forward",
        "tcp dport 85 reject with icmpx type admin-prohibited",
    );
    for (port, outcome, distance) in [
        (80, "closed", Some(3)),
        (81, "silent", None),
        (82, "prohibited", Some(3)),
        (83, "prohibited", Some(3)),
        (84, "closed", Some(3)),
        (85, "prohibited", Some(3)),
    ] {
        let (route, hops) = chain.trace(&plan(chain.target(true), port, method));
        let found = (route.outcome.as_str(), route.distance);
        assert_eq!(found, (outcome, distance), "{port} {method:?} {hops:#?}");
        let by = (port == 85).then_some("10.99.2.2");
        assert_eq!(route.answered_by.as_deref(), by, "{port}");
    }
}

#[test]
fn a_translator_shows_in_what_the_hops_behind_it_quote() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let chain = Chain::new(4);
    // The second router replaces the source address of forwarded packets. In answers, it restores
    // only the outer header, as stateless NAT does.
    let router = &chain.all[2];
    router.run("nft add table ip raw");
    router.run("nft add chain ip raw post { type filter hook postrouting priority 0 ; }");
    router.run("nft add chain ip raw pre { type filter hook prerouting priority -300 ; }");
    router.run("nft add rule ip raw post ip saddr 10.99.1.1 ip saddr set 10.99.3.99");
    router.run("nft add rule ip raw pre ip daddr 10.99.3.99 ip daddr set 10.99.1.1");
    chain.all[3].run("ip route add 10.99.3.99/32 via 10.99.3.1");
    let (route, hops) = chain.trace(&plan(chain.target(true), UDP_PORT, RouteMethod::Dublin));
    assert_eq!(addresses(&hops), expected(4, true), "{hops:#?}");
    assert_eq!(route.translated_before, [3], "{hops:#?}");
    for hop in &hops {
        let source = hop
            .translation
            .as_ref()
            .and_then(|seen| seen.source.as_deref());
        assert_eq!(source, (hop.ttl >= 3).then_some("10.99.3.99"), "{hop:#?}");
    }
    let shifts = hops
        .iter()
        .filter_map(|hop| Some(hop.translation.as_ref()?.checksum_shift));
    let shifts: Vec<u16> = shifts.collect();
    assert!(
        shifts.len() == 2 && shifts[0] == shifts[1] && shifts[0] != 0,
        "{shifts:?}"
    );
}

/// NAT with connection tracking also restores the quotes in ICMP errors, as Linux does. The trace
/// must then show no translation.
#[test]
fn a_translator_that_turns_quotes_back_is_not_made_up() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let chain = Chain::new(4);
    let router = &chain.all[2];
    router.run("nft add table ip nat");
    router.run("nft add chain ip nat post { type nat hook postrouting priority 100 ; }");
    router.run("nft add rule ip nat post oifname f3 masquerade");
    let (route, hops) = chain.trace(&plan(chain.target(true), UDP_PORT, RouteMethod::Dublin));
    assert_eq!(addresses(&hops), expected(4, true), "{hops:#?}");
    assert_eq!(route.outcome, "reached");
    assert_eq!(route.translated_before, Vec::<u8>::new(), "{hops:#?}");
}

#[test]
fn a_connection_of_our_own_shows_what_a_firewall_hides_from_syns() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let chain = Chain::new(4);
    let server = chain.listen(8080);
    // The router accepts new connections only with a TTL as in ordinary systems' packets, which
    // have passed few hops. Packets of accepted connections may pass.
    for rule in [
        "ct state established,related accept",
        "meta nfproto ipv4 ip ttl > 32 accept",
        "meta nfproto ipv6 ip6 hoplimit > 32 accept",
        "drop",
    ] {
        chain.filter(2, "forward", rule);
    }
    let kept = std::thread::spawn(move || {
        // All data that each connection received until its end. There must be none, and no RST.
        let mut ends = Vec::new();
        for connection in server.incoming().take(4) {
            let mut connection = connection.expect("a connection");
            let mut bytes = Vec::new();
            let outcome = connection.read_to_end(&mut bytes).map_err(|e| e.kind());
            ends.push((outcome, bytes));
        }
        ends
    });
    for is_v4 in [true, false] {
        let target = chain.target(is_v4);
        let (_, hidden) = chain.trace(&plan(target, 8080, RouteMethod::TcpSyn));
        let shown: Vec<_> = hidden.iter().filter(|hop| hop.received > 0).collect();
        // The scout opened a connection, which the kernel immediately closed with an RST.
        assert!(!shown.iter().any(|hop| hop.ttl == 3), "{hidden:#?}");
        let (route, hops) = chain.trace(&plan(target, 8080, RouteMethod::InConnection));
        assert_eq!(addresses(&hops), expected(4, is_v4), "{hops:#?}");
        assert_eq!((route.outcome.as_str(), route.distance), ("open", Some(4)));
        assert!(
            hops.iter().all(|hop| hop.state == HopState::Answers),
            "{hops:#?}"
        );
    }
    chain.client().visit(|| {
        for is_v4 in [true, false] {
            drop(TcpStream::connect((chain.target(is_v4), 8080)).expect("it listens"));
        }
    });
    let ends = kept.join().expect("the server ends");
    assert!(
        ends.iter()
            .all(|(outcome, bytes)| *outcome == Ok(0) && bytes.is_empty()),
        "{ends:?}"
    );
}

#[test]
fn past_the_routing_table_only_links_are_reached() {
    if !can_run(true, &["ip"]) {
        return;
    }
    let chain = Chain::new(2);
    let refused = |plan: &TracePlan| {
        let trace = || trace(plan, &AtomicBool::new(false), |_| {});
        let outcome = chain.client().visit(trace);
        outcome.expect_err("nothing is sent")
    };
    for method in [RouteMethod::TcpSyn, RouteMethod::Paris, RouteMethod::Icmp] {
        let near = IpAddr::from([10, 99, 1, 2]);
        let mut plan = plan(near, UDP_PORT, method);
        plan.dress.bypasses_routing = true;
        plan.probes = 1;
        assert_eq!(chain.trace(&plan).0.distance, Some(1), "{method:?}");
        // A target behind a router cannot be reached. Over IPv6, the kernel ignores the option, so
        // lagtrace rejects it even for a neighbour.
        plan.target.set_ip(chain.target(true));
        refused(&plan);
        plan.target.set_ip("fd99:1::2".parse().expect("an address"));
        refused(&plan);
    }
}

#[test]
fn a_search_ends_after_as_many_silent_hops_as_are_allowed() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let chain = Chain::new(5);
    // The target does not answer either, so its distance is unknown.
    for at in 2..5 {
        chain.filter(at, "output", "icmp type time-exceeded drop");
    }
    chain.filter(5, "input", "drop");
    let plan = TracePlan {
        max_unknown: 2,
        ..plan(chain.target(true), UDP_PORT, RouteMethod::Paris)
    };
    let (_, hops) = chain.trace(&plan);
    let found: Vec<_> = hops.iter().map(|hop| (hop.ttl, hop.state)).collect();
    let silent = [(2, HopState::Silent), (3, HopState::Silent)];
    assert_eq!(found[1..], silent, "{hops:#?}");
}

#[test]
fn probes_leave_from_the_address_that_was_asked_for() {
    if !can_run(true, &["ip"]) {
        return;
    }
    let chain = Chain::new(2);
    let _server = chain.listen(8080);
    chain
        .client()
        .run("ip addr add fd99:1::9/64 dev f1 nodad preferred_lft 0");
    chain.client().run("ip addr add 10.99.1.9/24 dev f1");
    for (is_v4, source) in [(true, "10.99.1.9"), (false, "fd99:1::9")] {
        for (method, is_raw, outcome) in ALL {
            if method == RouteMethod::Icmp && !is_raw {
                continue;
            }
            let port = if method.is_tcp() { 8080 } else { UDP_PORT };
            let mut plan = TracePlan {
                is_raw,
                probes: 1,
                ..plan(chain.target(is_v4), port, method)
            };
            plan.dress.source = Some(source.parse().expect("an address"));
            let (route, hops) = chain.trace(&plan);
            assert_eq!(route.source.as_deref(), Some(source));
            let found = (route.outcome.as_str(), route.distance);
            assert_eq!(found, (outcome, Some(2)), "{method:?} {hops:#?}");
        }
    }
}

/// A target whose answers become later and later. Late answers are not lost, even though the trace
/// only waits for them at the end.
#[test]
fn what_comes_late_in_the_end_is_not_lost() {
    if !can_run(true, &["ip"]) {
        return;
    }
    let chain = Chain::new(1);
    let target = &chain.all[1];
    target.run("sysctl -qw net.ipv4.icmp_echo_ignore_all=1");
    let socket = target.visit(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)));
    let mut socket = socket.expect("root may");
    let wait = Duration::from_secs(2);
    socket.set_read_timeout(Some(wait)).expect("an option");
    let server = std::thread::spawn(move || {
        let mut packet = [0; 128];
        for count in 0.. {
            let Ok(len) = socket.read(&mut packet) else {
                return;
            };
            // Turns the echo request into a reply and adjusts the checksum.
            let mut message = packet[20..len].to_vec();
            let sum = u32::from(u16::from_be_bytes([message[2], message[3]])) + 0x0800;
            let sum = (sum & 0xffff) + (sum >> 16);
            message[0] = 0;
            message[2..4].copy_from_slice(&(sum as u16).to_be_bytes());
            let to = SocketAddr::from(([10, 99, 1, 1], 0)).into();
            let socket = socket.try_clone().expect("a descriptor");
            let pause = Duration::from_millis(if count < 3 { 2 } else { 900 });
            std::thread::spawn(move || {
                std::thread::sleep(pause);
                socket.send_to(&message, &to).expect("it is sent");
            });
        }
    });
    let plan = TracePlan {
        rounds: Some(Rounds {
            count: Some(5),
            interval: Duration::from_millis(50),
        }),
        ..plan(chain.target(true), UDP_PORT, RouteMethod::Icmp)
    };
    let (_, hops) = chain.trace(&plan);
    assert_eq!(hops[0].state, HopState::Answers, "{hops:#?}");
    assert!(hops[0].rtt_ns.max > 800_000_000, "{hops:#?}");
    server.join().expect("the server ends");
}

/// The route disappears for a while. The measurements before and after must stay valid, and the
/// probes that could not be sent must be reported.
#[test]
fn what_cannot_be_sent_ends_no_trace() {
    if !can_run(true, &["ip"]) {
        return;
    }
    let chain = Chain::new(1);
    let plan = TracePlan {
        rounds: Some(Rounds {
            count: Some(25),
            interval: Duration::from_millis(100),
        }),
        ..plan(chain.target(true), UDP_PORT, RouteMethod::Icmp)
    };
    let client = chain.client();
    let (mut tally, mut told) = (RouteTally::default(), 0);
    let outcome = client.visit(|| {
        trace(&plan, &AtomicBool::new(false), |event| match event.body {
            EventBody::Trace(start) => tally.begin(start),
            EventBody::Hop(sample) => {
                tally.observe(&sample);
                told += 1;
                if told == 3 {
                    client.run("ip route add unreachable 10.99.1.2/32");
                    let again = format!("ip netns exec {} ip route del", client.name);
                    let again = format!("{again} unreachable 10.99.1.2/32");
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(500));
                        run(&again);
                    });
                }
            }
            other => panic!("{other:?}"),
        })
    });
    let hops = tally.hops();
    assert_eq!(hops[0].sent, hops[0].received, "{hops:#?}");
    assert!(told > 3, "it went on afterwards");
    let error = outcome.expect_err("some were not sent").to_string();
    assert!(error.contains(" to 10.99.1.2 could not be sent"), "{error}");
}

/// A server that closes connections without a request. This must not count as a loss at the server
/// or at a hop before it.
#[test]
fn what_a_closed_connection_leaves_unanswered_is_not_lost() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let chain = Chain::new(3);
    let server = chain.listen(8080);
    chain.filter(2, "output", "icmp type time-exceeded drop");
    // The target drops all keep-alives after the first few.
    let rule = "meta length 53 tcp dport 8080 limit rate over 1/hour burst 3 packets drop";
    chain.filter(3, "input", rule);
    std::thread::spawn(move || {
        for connection in server.incoming().take(12).flatten() {
            std::thread::sleep(Duration::from_millis(100));
            drop(connection);
        }
    });
    let plan = TracePlan {
        rounds: Some(Rounds {
            count: Some(8),
            interval: Duration::from_millis(150),
        }),
        ..plan(chain.target(true), 8080, RouteMethod::InConnection)
    };
    let (route, hops) = chain.trace(&plan);
    let last = hops.last().expect("there are hops");
    assert_eq!((last.ttl, route.distance), (3, Some(3)), "{hops:#?}");
    assert!(last.received > 0, "{last:#?}");
    assert_eq!((last.state, last.sent), (HopState::Answers, last.received));
    // The silent hop was probed too.
    assert!(hops[1].state == HopState::Silent && hops[1].sent > 0);
}

/// A program that answers datagrams after a while, without repeating their contents. In the
/// meantime, probes to nearer hops are sent.
#[test]
fn a_slow_answer_of_an_open_port_is_none_to_a_probe_that_expired() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let chain = Chain::new(4);
    for family in ["icmp", "icmpv6"] {
        chain.filter(2, "output", &format!("{family} type time-exceeded drop"));
    }
    let target = chain.all.last().expect("there is one");
    let socket = target.visit(|| UdpSocket::bind(("::", 5353)).expect("it is free there"));
    let server = std::thread::spawn(move || {
        let wait = Duration::from_secs(3);
        socket.set_read_timeout(Some(wait)).expect("an option");
        while let Ok((_, from)) = socket.recv_from(&mut [0; 64]) {
            std::thread::sleep(Duration::from_millis(12));
            socket.send_to(b"what?", from).expect("it is sent");
        }
    });
    for (is_v4, method, is_raw) in [
        (true, RouteMethod::Paris, false),
        (true, RouteMethod::Dublin, true),
        (false, RouteMethod::Paris, true),
    ] {
        let plan = TracePlan {
            is_raw,
            ..plan(chain.target(is_v4), 5353, method)
        };
        let (route, hops) = chain.trace(&plan);
        let mut expected = expected(4, is_v4);
        "*".clone_into(&mut expected[1]);
        assert_eq!(addresses(&hops), expected, "{method:?} {hops:#?}");
        assert_eq!((route.outcome.as_str(), route.distance), ("open", Some(4)));
    }
    server.join().expect("the server ends");
}

#[test]
fn parallel_paths_are_listed() {
    if !can_run(true, &["ip"]) {
        return;
    }
    // Depending on the flow, the second hop answers with one of two addresses.
    let chain = Chain::new(3);
    let (near, far) = (&chain.all[1], &chain.all[2]);
    near.run(&format!(
        "ip link add ga type veth peer name gb netns {}",
        far.name
    ));
    for (namespace, device, end) in [(near, "ga", 1), (far, "gb", 2)] {
        namespace.run(&format!("ip addr add 10.98.0.{end}/24 dev {device}"));
        namespace.run(&format!("ip link set {device} up"));
        namespace.run("sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv4.conf.all.rp_filter=0");
        namespace.run("sysctl -qw net.ipv4.icmp_errors_use_inbound_ifaddr=1");
    }
    near.run("sysctl -qw net.ipv4.fib_multipath_hash_policy=1");
    near.run("ip route replace default nexthop via 10.99.2.2 nexthop via 10.98.0.2");
    let plan = TracePlan {
        paths: 16,
        ..plan(chain.target(true), UDP_PORT, RouteMethod::Paris)
    };
    let (route, _) = chain.trace(&plan);
    let flows: u64 = route.paths.iter().map(|path| path.flows).sum();
    let seconds: Vec<_> = route
        .paths
        .iter()
        .map(|path| path.hops[1].as_deref())
        .collect();
    assert_eq!((route.paths.len(), flows), (2, 16), "{route:#?}");
    assert!(seconds.contains(&Some("10.99.2.2")) && seconds.contains(&Some("10.98.0.2")));
}

/// Creates a chain of three hops. The last link has an MTU of 1,400 bytes.
fn narrow_chain() -> Chain {
    let chain = Chain::new(3);
    for at in 1..4 {
        chain.all[at].run("sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0");
    }
    chain.all[2].run("ip link set f3 mtu 1400");
    chain.all[3].run("ip link set n3 mtu 1400");
    chain
}

#[test]
fn the_largest_packet_is_found_whether_routers_say_so_or_not() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let cases = [(true, true), (false, true), (true, false)];
    beside_each_other(cases, |(is_v4, router_tells)| {
        let chain = narrow_chain();
        if !router_tells {
            chain.filter(2, "output", "icmp type destination-unreachable drop");
        }
        let plan = TracePlan {
            mtu: true,
            ..plan(chain.target(is_v4), UDP_PORT, RouteMethod::Paris)
        };
        let mtu = chain.trace(&plan).0.mtu.expect("it was asked for");
        assert_eq!(mtu.mtu_bytes, Some(1_400), "{mtu:?}");
        let [narrowing] = &mtu.narrowings[..] else {
            panic!("{mtu:?}");
        };
        let router = expected(2, is_v4)[1].clone();
        let told = (narrowing.address.clone(), narrowing.ttl);
        if router_tells {
            assert_eq!(mtu.to_ttl, 3, "{mtu:?}");
            assert_eq!(told, (Some(router), Some(2)));
        } else {
            assert_eq!(told, (None, Some(3)));
        }
    });
}

#[test]
fn without_rights_the_way_to_this_host_is_found() {
    const VARIABLE: &str = "LAGTRACE_TEST_TRACE";
    if std::env::var_os(VARIABLE).is_some() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let here = IpAddr::from([127, 0, 0, 1]);
        for (method, port) in [
            (RouteMethod::TcpConnect, port),
            (RouteMethod::Udp, UDP_PORT),
            (RouteMethod::Paris, UDP_PORT),
        ] {
            let plan = TracePlan {
                is_raw: false,
                mtu: method == RouteMethod::Paris,
                ..plan(here, port, method)
            };
            let (route, hops) = traced(&plan);
            // The loopback interface can carry the largest possible packet.
            let mtu = route.mtu.and_then(|mtu| mtu.mtu_bytes);
            assert_eq!(mtu, plan.mtu.then_some(u16::MAX));
            assert_eq!(
                (addresses(&hops), route.distance),
                (vec!["127.0.0.1"], Some(1))
            );
        }
        let raw = plan(here, port, RouteMethod::TcpSyn);
        let refused = trace(&raw, &AtomicBool::new(false), |_| {});
        let error = refused.expect_err("raw sockets need a right").to_string();
        assert!(error.contains("CAP_NET_RAW"), "{error}");
        return;
    }
    if can_run(true, &["setpriv"]) {
        run_without_rights(
            "hops::without_rights_the_way_to_this_host_is_found",
            VARIABLE,
            "1",
        );
    } else {
        skip("setpriv");
    }
}

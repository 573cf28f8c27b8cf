//! Packet filter rules that could block a target.

use lagtrace_core::observed::flow::Endpoint;
use lagtrace_sources::firewall;
use lagtrace_sources::privilege::NetworkNamespace;

use crate::world::{Namespace, can_run, run_without_rights};

/// Returns the number of rules in the namespace that could block the target.
fn count(namespace: &Namespace, target: &str, is_forwarded: bool) -> Option<u32> {
    let target: std::net::SocketAddr = target.parse().expect("an address");
    let state = namespace.visit(|| {
        let own = NetworkNamespace::own().expect("/proc is there");
        firewall::read(&own, target.into(), is_forwarded)
    });
    assert!(!state.because.is_empty());
    state.blocking_rules
}

#[test]
fn nftables_rules_are_counted() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let namespace = Namespace::new();
    let target = "10.0.0.1:8080";
    assert_eq!(count(&namespace, target, false), Some(0));
    for rule in [
        "add table inet f",
        "add chain inet f in { type filter hook input priority 0 ; policy drop ; }",
        "add chain inet f through { type filter hook forward priority 0 ; policy drop ; }",
        "add chain inet f zone",
        "add chain inet f unreached",
        "add rule inet f in ct state established accept",
        "add rule inet f in tcp dport 22 drop",
        "add rule inet f in udp dport 8080 drop",
        "add rule inet f in jump zone",
        "add rule inet f zone tcp dport 8080 counter reject with tcp reset",
        "add rule inet f zone ip saddr 192.0.2.0/24 drop",
        "add rule inet f unreached drop",
        "add table ip6 six",
        "add chain ip6 six in { type filter hook input priority 0 ; }",
        "add rule ip6 six in drop",
    ] {
        namespace.run(&format!("nft {rule}"));
    }
    // The policy, the reject, and the drop by source address.
    assert_eq!(count(&namespace, target, false), Some(3));
    assert_eq!(count(&namespace, target, true), Some(4));
    // The drop by IPv4 source does not count for IPv6, but the rule in the IPv6 table does.
    assert_eq!(count(&namespace, "[fd00::1]:8080", false), Some(3));
    assert_eq!(count(&namespace, "10.0.0.1:22", false), Some(3));
    namespace.run("nft add rule inet f in tcp dport vmap { 25 : drop }");
    assert_eq!(
        count(&namespace, target, false),
        Some(5),
        "a map may lead anywhere"
    );
}

#[test]
fn legacy_tables_are_counted() {
    if !can_run(true, &["ip", "iptables-legacy", "ip6tables-legacy"]) {
        return;
    }
    let namespace = Namespace::new();
    for tool in ["iptables-legacy", "ip6tables-legacy"] {
        for rule in [
            "-A INPUT -p tcp --dport 8080 -j REJECT",
            "-A INPUT -p udp -j DROP",
            "-A OUTPUT ! -p tcp -j DROP",
            "-A OUTPUT -j ACCEPT",
            "-P FORWARD DROP",
            "-A FORWARD -j DROP",
            "-P INPUT DROP",
        ] {
            namespace.run(&format!("{tool} {rule}"));
        }
    }
    for target in ["10.0.0.1:8080", "[fd00::1]:8080"] {
        assert_eq!(count(&namespace, target, false), Some(2), "{target}");
        assert_eq!(count(&namespace, target, true), Some(4), "{target}");
    }
}

const CHILD: &str = "LAGTRACE_HOST_TEST_FILTERS";

#[test]
fn rules_need_a_privilege() {
    if std::env::var_os(CHILD).is_some() {
        let own = NetworkNamespace::own().expect("/proc is there");
        let target: std::net::SocketAddr = "127.0.0.1:80".parse().expect("an address");
        let state = firewall::read(&own, Endpoint::from(target), false);
        assert_eq!(state.blocking_rules, None);
        assert!(state.because.contains("CAP_NET_ADMIN"), "{state:?}");
        return;
    }
    if !can_run(true, &["setpriv"]) {
        return;
    }
    run_without_rights("filters::rules_need_a_privilege", CHILD, "1");
}

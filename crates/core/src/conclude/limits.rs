//! Kernel settings, compared with the counters that show their effect.
//!
//! A setting is accused only if a counter rises between the first and the last sample because its
//! limit is reached. With a single sample, the settings are listed without a judgement.

use crate::facts::Facts;
use crate::observed::sockets::{KernelLimits, KernelSetting, LiveSocket, Protocol};
use crate::report::{Bearing, KernelLimit};

/// The counters of one setting.
struct Rule {
    setting: &'static str,
    /// Each counter's name (`net/ipv4/proc.c`, `net/core/net-procfs.c`), and the meaning of one
    /// count.
    counted: &'static [(&'static str, &'static str)],
    proof: Proof,
}

/// The condition under which a risen counter accuses the setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// A risen counter is enough: nothing else makes it rise.
    Count,
    /// A socket that lost data must also have a queue as long as the setting allows. Otherwise the
    /// limit comes from the program.
    Socket,
    /// The connection table must have been full; see [`at_table`].
    Table,
    /// The counter never accuses the setting, because other events make it rise too.
    None,
}

const ACCEPT: &str = "net.core.somaxconn";
const RECEIVE_DEFAULT: &str = "net.core.rmem_default";
const RECEIVE_MOST: &str = "net.core.rmem_max";
const TRACKED: &str = "net.netfilter.nf_conntrack_max";
const TRACKED_NOW: &str = "net.netfilter.nf_conntrack_count";
const DROPPED: &str = "Conntrack:Drop";
const EVICTED: &str = "Conntrack:EarlyDrop";
/// The counter of failed insertions, which is reported only if it rose.
const RACED: &str = "Conntrack:InsertFailed";

const RULES: [Rule; 9] = [
    Rule {
        setting: ACCEPT,
        counted: &[(
            "TcpExt:ListenOverflows",
            "connections found an accept queue full",
        )],
        proof: Proof::Socket,
    },
    // The listener's backlog limits this queue too (`inet_csk_reqsk_queue_is_full()`).
    Rule {
        setting: "net.ipv4.tcp_max_syn_backlog",
        counted: &[
            (
                "TcpExt:TCPReqQFullDrop",
                "SYNs dropped because of a full queue",
            ),
            (
                "TcpExt:TCPReqQFullDoCookies",
                "SYNs answered with a cookie because of a full queue",
            ),
        ],
        proof: Proof::None,
    },
    Rule {
        setting: "net.ipv4.tcp_mem",
        counted: &[("TcpExt:TCPMemoryPressures", "times TCP's memory was short")],
        proof: Proof::Count,
    },
    // A program can also set the buffer size itself.
    Rule {
        setting: "net.ipv4.tcp_rmem",
        counted: &[(
            "TcpExt:PruneCalled",
            "times the kernel searched a full receive buffer for room",
        )],
        proof: Proof::None,
    },
    Rule {
        setting: RECEIVE_DEFAULT,
        counted: &[("Udp:RcvbufErrors", "datagrams found a receive buffer full")],
        proof: Proof::Socket,
    },
    Rule {
        setting: RECEIVE_MOST,
        counted: &[("Udp:RcvbufErrors", "datagrams found a receive buffer full")],
        proof: Proof::Socket,
    },
    Rule {
        setting: "net.core.netdev_max_backlog",
        counted: &[(
            "Softnet:Dropped",
            "packets found a processor's queue of this host full",
        )],
        proof: Proof::Count,
    },
    // A polling round also ends at its time limit, and the next round takes the remaining packets.
    Rule {
        setting: "net.core.netdev_budget",
        counted: &[(
            "Softnet:TimeSqueeze",
            "times a processor of this host used up its receive budget with packets left",
        )],
        proof: Proof::None,
    },
    Rule {
        setting: TRACKED,
        counted: &[
            (DROPPED, "packets dropped because they got no entry"),
            (EVICTED, "connections evicted from a full table"),
        ],
        proof: Proof::Table,
    },
];

/// Returns the settings with their assessment, in the order in which they were read.
pub(super) fn limits(facts: &Facts) -> Vec<KernelLimit> {
    let Some(limits) = &facts.kernel.limits else {
        return Vec::new();
    };
    let settings = limits.settings.iter();
    let shown = settings.filter(|setting| setting.name != TRACKED_NOW);
    shown.map(|setting| limit(facts, limits, setting)).collect()
}

fn limit(facts: &Facts, limits: &KernelLimits, setting: &KernelSetting) -> KernelLimit {
    let (bearing, text) = bearing(facts, setting, limits.namespace);
    let in_use = limits
        .settings
        .iter()
        .find(|other| setting.name == TRACKED && other.name == TRACKED_NOW);
    let in_use = in_use.map(|now| format!("{} in use", now.value));
    let words: Vec<String> = text.into_iter().chain(in_use).collect();
    KernelLimit {
        name: setting.name.clone(),
        value: setting.value.clone(),
        namespace: limits.namespace,
        bearing,
        text: (!words.is_empty()).then(|| words.join("; ")),
    }
}

fn bearing(
    facts: &Facts,
    setting: &KernelSetting,
    namespace: Option<u64>,
) -> (Bearing, Option<String>) {
    let Some(rule) = RULES.iter().find(|rule| rule.setting == setting.name) else {
        return (Bearing::Shown, None);
    };
    let differences: Option<Vec<(u64, &str)>> = rule
        .counted
        .iter()
        .map(|(counter, what)| Some((facts.counter(counter)?, *what)))
        .collect();
    let Some(differences) = differences else {
        return (Bearing::Shown, None);
    };
    let is_hit = |&&(count, _): &&(u64, &str)| count > 0;
    let told: Vec<String> = if differences.iter().any(|(count, _)| *count > 0) {
        differences.iter().filter(is_hit).map(words).collect()
    } else {
        let none = differences.iter().take(1).map(words).collect::<String>();
        return (Bearing::Cleared, Some(none));
    };
    let told = told.join(", ");
    match rule.proof {
        Proof::Count => (Bearing::Evidence, Some(told)),
        Proof::Socket => at_sockets(facts, (setting, namespace), &told),
        Proof::Table => at_table(facts, told),
        Proof::None => (Bearing::Shown, Some(told)),
    }
}

/// Judges the size of the connection table, which lost something. A packet that loses a race for an
/// entry counts as a drop and as a failed insertion (`nf_ct_resolve_clash()`), also with an empty
/// table; older kernels also count races that were settled. So the size is accused only by
/// evictions, or by more drops than failed insertions.
fn at_table(facts: &Facts, told: String) -> (Bearing, Option<String>) {
    let rise = |counter| facts.counter(counter).unwrap_or_default();
    let raced = rise(RACED);
    if rise(EVICTED) > 0 || rise(DROPPED) > raced {
        return (Bearing::Evidence, Some(told));
    }
    let text = format!("{told}, perhaps in a race for one: {raced} insertions failed");
    (Bearing::Shown, Some(text))
}

fn words((count, what): &(u64, &str)) -> String {
    format!("{count} {what}")
}

/// Judges a setting by the sampled sockets that lost something. Only sockets in the setting's
/// network namespace count, because the counters are of that namespace.
fn at_sockets(
    facts: &Facts,
    (setting, namespace): (&KernelSetting, Option<u64>),
    told: &str,
) -> (Bearing, Option<String>) {
    let seen = facts.live.list.values();
    let seen = seen.filter(|seen| seen.socket.namespace == namespace);
    let lost: Vec<&LiveSocket> = seen
        .filter(|seen| seen.full.count > 0 && seen.dropped().is_some_and(|dropped| dropped > 0))
        .map(|seen| &seen.socket)
        .filter(|socket| limit_of(setting, socket).is_some())
        .collect();
    if lost.is_empty() {
        let text = format!("{told}, but at none of the sockets above in any sample");
        return (Bearing::Shown, Some(text));
    }
    let ends: Vec<String> = lost.iter().map(|socket| socket.ends.local()).collect();
    let ends = ends.join(", ");
    let is_at_limit = |socket: &&LiveSocket| limit_of(setting, socket) == Some(true);
    if lost.iter().any(is_at_limit) {
        let text = format!("{told}: {ends}, as large as this setting allows");
        (Bearing::Evidence, Some(text))
    } else {
        let text = format!("{told}: {ends}, which have a different limit");
        (Bearing::Cleared, Some(text))
    }
}

/// Returns true if the size of the socket's queue is the setting's value; `None` if the socket has
/// no queue that the setting limits.
fn limit_of(setting: &KernelSetting, socket: &LiveSocket) -> Option<bool> {
    let value: u32 = setting.value.parse().ok()?;
    let is_listener = socket.state == "LISTEN" && socket.protocol == Protocol::Tcp;
    let receive = socket.buffers.map(|buffers| buffers.receive_limit);
    let receive = receive.filter(|_| socket.protocol == Protocol::Udp);
    match setting.name.as_str() {
        ACCEPT => is_listener.then_some(socket.queues.send == value),
        RECEIVE_DEFAULT => Some(receive? == value),
        // The kernel doubles the size that a program requests with `SO_RCVBUF`.
        RECEIVE_MOST => Some(receive? == value.saturating_mul(2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::KernelFacts;
    use crate::observed::event::{CounterChange, CounterScope};
    use crate::observed::flow::Endpoint;
    use crate::observed::sockets::{Buffers, Ends, Queues, SocketOwner};

    fn facts(counter: Option<u64>) -> Facts {
        let setting = |name: &str, value: &str| KernelSetting {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let change = counter.map(|rise| CounterChange {
            name: "Softnet:Dropped".to_owned(),
            before: 7,
            after: 7 + rise,
            scope: CounterScope::Both,
        });
        Facts {
            kernel: KernelFacts {
                limits: Some(KernelLimits {
                    namespace: None,
                    settings: vec![
                        setting("net.core.netdev_max_backlog", "1000"),
                        setting(TRACKED, "262144"),
                        setting(TRACKED_NOW, "262143"),
                        setting("net.core.default_qdisc", "fq"),
                    ],
                }),
                counters: change.into_iter().collect(),
                ..KernelFacts::default()
            },
            ..Facts::default()
        }
    }

    #[test]
    fn only_a_difference_accuses_a_setting() {
        let first = |counter| {
            let limit = limits(&facts(counter)).swap_remove(0);
            (limit.bearing, limit.text.unwrap_or_default())
        };
        assert_eq!(first(None), (Bearing::Shown, String::new()));
        let (bearing, text) = first(Some(0));
        assert_eq!(bearing, Bearing::Cleared);
        assert!(text.starts_with("0 packets"), "{text}");
        let (bearing, text) = first(Some(12));
        assert_eq!(bearing, Bearing::Evidence);
        assert!(text.starts_with("12 packets"), "{text}");
    }

    #[test]
    fn a_table_that_is_nearly_full_is_shown_and_not_accused() {
        let list = limits(&facts(None));
        assert_eq!(list.len(), 3);
        assert_eq!(list[1].bearing, Bearing::Shown);
        assert_eq!(list[1].text.as_deref(), Some("262143 in use"));
    }

    #[test]
    fn packets_that_lost_a_race_for_an_entry_do_not_accuse_the_tables_size() {
        for (drops, raced, evicted, bearing) in [
            (0, 0, 0, Bearing::Cleared),
            (5, 5, 0, Bearing::Shown),
            (2, 4, 0, Bearing::Shown),
            (5, 0, 0, Bearing::Evidence),
            (7, 4, 0, Bearing::Evidence),
            (5, 5, 1, Bearing::Evidence),
        ] {
            let mut facts = facts(None);
            for (name, rise) in [(DROPPED, drops), (EVICTED, evicted), (RACED, raced)] {
                facts.kernel.counters.push(CounterChange {
                    name: name.to_owned(),
                    before: 3,
                    after: 3 + rise,
                    scope: CounterScope::Both,
                });
            }
            assert_eq!(limits(&facts)[1].bearing, bearing, "{drops} {raced}");
        }
    }

    /// Returns a listener that drops connections, and whose queue is as long as the setting allows.
    fn losing(namespace: Option<u64>, drops: u32) -> LiveSocket {
        let address = Endpoint::new([127, 0, 0, 1].into(), 80);
        LiveSocket {
            protocol: Protocol::Tcp,
            namespace,
            cookie: 1,
            state: "LISTEN",
            ends: Ends::Ip {
                local: address,
                remote: address,
            },
            owner: SocketOwner::default(),
            queues: Queues {
                receive: 4,
                send: 3,
            },
            timer: None,
            buffers: Some(Buffers {
                drops,
                ..Buffers::default()
            }),
            congestion: None,
            tcp: None,
            options: None,
            is_chosen: true,
        }
    }

    #[test]
    fn sockets_of_other_namespaces_lose_by_settings_of_their_own() {
        for (own, bearing) in [(None, Bearing::Evidence), (Some(7), Bearing::Shown)] {
            let mut facts = facts(None);
            facts.kernel.counters.push(CounterChange {
                name: "TcpExt:ListenOverflows".to_owned(),
                before: 0,
                after: 5,
                scope: CounterScope::Both,
            });
            facts.kernel.limits = Some(KernelLimits {
                namespace: None,
                settings: vec![KernelSetting {
                    name: ACCEPT.to_owned(),
                    value: "3".to_owned(),
                }],
            });
            for drops in [0, 5] {
                facts.live.add_socket(losing(own, drops));
            }
            assert_eq!(limits(&facts)[0].bearing, bearing, "{own:?}");
        }
    }
}

//! The packet filter of a host: nftables inside the host's network namespace, whose rule sets are
//! removed together with the namespace.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::machine::namespace::Namespace;
use crate::machine::tool;

/// The packet filter of one port: a word for a common filter, or rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Firewall {
    /// A common filter.
    Word(FirewallWord),
    /// Rules in nft's own language.
    Rules(FirewallRules),
}

/// Common packet filters of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirewallWord {
    /// Every packet passes, as without a filter.
    Open,
    /// Every SYN to the port is dropped silently.
    DropSyn,
    /// The first SYN of each connection is dropped; its retransmission passes.
    DropFirstSyn,
    /// A connection without a packet for a second is forgotten. Later packets of the connection are
    /// dropped silently, as by a NAT device whose table has lost the entry.
    ForgetIdle,
    /// Like `ForgetIdle`, but later packets are answered with a reset, as by load balancers.
    ResetIdle,
}

/// Rules, each of them one line in nft's language, for the chains of one host. The rules are used
/// unchanged: a rule that is meant for one port must specify that port. `{port}` is replaced by the
/// port of the service with these rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FirewallRules {
    /// Sets that the rules of `rules` and `output` use: `NAME { type …; }`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<String>,
    /// The number of additional rules before `rules`. They match no packet, but each of them is
    /// evaluated for each packet.
    #[serde(skip_serializing_if = "is_zero")]
    pub needless: u32,
    /// Rules for incoming packets (hook `input` of family `inet`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Rules for outgoing packets (hook `output` of family `inet`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// Rules for incoming ARP (hook `input` of family `arp`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arp: Vec<String>,
    /// Rules for frames that arrive from the path, applied before all other processing except a
    /// recording (hook `ingress` of family `netdev`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<String>,
}

/// Maximum number of needless rules; this number loads in about two seconds.
const MOST_NEEDLESS: u32 = 100_000;

impl Firewall {
    /// Returns true if any packet may be dropped or rejected.
    pub(crate) fn filters(&self) -> bool {
        *self != Self::Word(FirewallWord::Open)
    }
}

impl FirewallRules {
    /// Checks the number of rules, and that each is one line; the error is the reason why they are
    /// invalid.
    pub(crate) fn check(&self) -> Result<(), String> {
        let all = [
            &self.sets,
            &self.rules,
            &self.output,
            &self.arp,
            &self.ingress,
        ];
        if self.needless > MOST_NEEDLESS {
            return Err(format!("more than {MOST_NEEDLESS} needless rules"));
        }
        match all.into_iter().flatten().find(|line| !is_one_line(line)) {
            Some(line) => Err(format!("`{line}` is no line of packet filter rules")),
            None => Ok(()),
        }
    }

    /// Returns the rules with a service's port inserted.
    fn of_port(&self, port: u16) -> Self {
        let port = port.to_string();
        let fill = |lines: &[String]| -> Vec<String> {
            let filled = lines.iter().map(|line| line.replace("{port}", &port));
            filled.collect()
        };
        Self {
            needless: self.needless,
            sets: fill(&self.sets),
            rules: fill(&self.rules),
            output: fill(&self.output),
            arp: fill(&self.arp),
            ingress: fill(&self.ingress),
        }
    }

    fn append(&mut self, more: &Self) {
        self.sets.extend_from_slice(&more.sets);
        self.needless = self.needless.max(more.needless);
        self.rules.extend_from_slice(&more.rules);
        self.output.extend_from_slice(&more.output);
        self.arp.extend_from_slice(&more.arp);
        self.ingress.extend_from_slice(&more.ingress);
    }

    /// Returns the tables with these rules for a host with this device, or `None` if there are no
    /// rules.
    fn tables(&self, interface: &str) -> Option<String> {
        let sets = self.sets.iter().fold(String::new(), |mut text, set| {
            let _ = writeln!(text, "set {set}");
            text
        });
        let chain = |name: &str, hook: &str, rules: &[String]| {
            if rules.is_empty() {
                return String::new();
            }
            format!(
                "chain {name} {{\ntype filter hook {hook} priority 0; policy accept;\n{}\n}}\n",
                rules.join("\n")
            )
        };
        let table = |family: &str, inner: String| {
            if inner.is_empty() {
                return inner;
            }
            format!("table {family} lagtrace {{\n{inner}}}\n")
        };
        // Addresses of a range that no host has (RFC 6890): 198.18.0.0/15.
        let needless = (0..self.needless).map(|n| {
            let address = Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + n);
            format!("ip saddr {address} drop")
        });
        let input: Vec<_> = needless.chain(self.rules.iter().cloned()).collect();
        let tables = [
            table(
                "inet",
                sets + &chain("input", "input", &input) + &chain("output", "output", &self.output),
            ),
            table("arp", chain("input", "input", &self.arp)),
            table(
                "netdev",
                chain(
                    "ingress",
                    &format!("ingress device {interface}"),
                    &self.ingress,
                ),
            ),
        ]
        .concat();
        (!tables.is_empty()).then_some(tables)
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_one_line(line: &str) -> bool {
    !line.trim().is_empty() && line.len() <= 1024 && !line.chars().any(char::is_control)
}

/// Loads the packet filter of a host: its own rules and those of its services, each with its port.
pub(crate) fn load<'a>(
    namespace: &Namespace,
    own: Option<&FirewallRules>,
    services: impl IntoIterator<Item = (u16, &'a Firewall)>,
    interface: &str,
) -> Result<(), Error> {
    let mut all = own.cloned().unwrap_or_default();
    for (port, firewall) in services {
        all.append(&match firewall {
            Firewall::Rules(rules) => rules.of_port(port),
            Firewall::Word(word) => word.rules(port),
        });
    }
    // Services with the same filter word share a set, so duplicates are removed.
    all.sets.sort();
    all.sets.dedup();
    let Some(tables) = all.tables(interface) else {
        return Ok(());
    };
    let mut nft = tool::command("nft");
    nft.args(["-f", "-"]);
    namespace.enter(&mut nft)?;
    tool::run_with_input(nft, &tables)
}

impl FirewallWord {
    fn rules(self, port: u16) -> FirewallRules {
        let syn = format!("tcp dport {port} tcp flags & (syn|ack) == syn");
        match self {
            Self::Open => FirewallRules::default(),
            Self::DropSyn => FirewallRules {
                rules: vec![format!("{syn} drop")],
                ..FirewallRules::default()
            },
            // There is one client, so its port identifies the connection. A minute is longer than
            // the time to any retransmission of a SYN after a single loss.
            Self::DropFirstSyn => FirewallRules {
                sets: vec![
                    "seen { type inet_service . inet_service; flags dynamic,timeout; timeout 60s; size 65536; }".to_owned(),
                ],
                rules: vec![format!(
                    "{syn} tcp sport . tcp dport != @seen add @seen {{ tcp sport . tcp dport }} drop"
                )],
                ..FirewallRules::default()
            },
            Self::ForgetIdle => forget_idle(port, &syn, "drop"),
            Self::ResetIdle => forget_idle(port, &syn, "reject with tcp reset"),
        }
    }
}

/// Returns rules that apply this verdict to packets of a connection that was idle for a second.
fn forget_idle(port: u16, syn: &str, end: &str) -> FirewallRules {
    let connection = "tcp sport . tcp dport";
    let live = format!("update @live {{ {connection} timeout 1s }}");
    FirewallRules {
        sets: vec![
            "live { type inet_service . inet_service; flags dynamic,timeout; timeout 1s; size 65536; }".to_owned(),
        ],
        rules: vec![
            format!("{syn} {live} accept"),
            format!("tcp dport {port} {connection} != @live {end}"),
            format!("tcp dport {port} {live}"),
        ],
        ..FirewallRules::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_rules_are_told_apart() {
        let read = |text: &str| {
            #[derive(Deserialize)]
            struct Holder {
                firewall: Firewall,
            }
            toml::from_str::<Holder>(text).map(|holder| holder.firewall)
        };
        let open = read("firewall = \"open\"").expect("a word");
        assert!(!open.filters());
        let word = read("firewall = \"drop-first-syn\"").expect("a word");
        assert_eq!(word, Firewall::Word(FirewallWord::DropFirstSyn));
        let rules = read("firewall = { rules = [\"udp dport 53 drop\"] }").expect("rules");
        assert!(matches!(rules, Firewall::Rules(rules) if rules.rules == ["udp dport 53 drop"]));
        assert!(read("firewall = { rule = [] }").is_err());
        assert!(read("firewall = \"drop-everything\"").is_err());
    }

    #[test]
    fn a_table_is_made_only_for_rules_there_are() {
        assert_eq!(FirewallRules::default().tables("path0"), None);
        let arp = FirewallRules {
            arp: vec!["drop".to_owned()],
            ..FirewallRules::default()
        };
        let tables = arp.tables("path0").expect("a table");
        assert!(tables.starts_with("table arp lagtrace {"), "{tables}");
        assert!(!tables.contains("inet") && !tables.contains("netdev"));
    }

    #[test]
    fn a_services_port_is_filled_in() {
        let rules = FirewallRules {
            rules: vec!["tcp dport {port} drop".to_owned()],
            ..FirewallRules::default()
        };
        assert_eq!(rules.of_port(443).rules, ["tcp dport 443 drop"]);
    }

    #[test]
    fn what_is_more_than_a_line_is_refused() {
        let rules = FirewallRules {
            output: vec!["drop\n}".to_owned()],
            ..FirewallRules::default()
        };
        assert!(rules.check().is_err());
    }
}

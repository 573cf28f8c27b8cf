//! The nftables ruleset of one network namespace, read over netlink.

use std::collections::{BTreeMap, BTreeSet};

use super::FilteredTraffic;
use super::rule::{self, Effect, LONGEST_NAME, NFPROTO_IPV4, NFPROTO_IPV6, number};
use crate::netlink::message::{Attributes, text};
use crate::privilege::{FilterObject, HostError, NetworkNamespace};

/// Bytes of `struct nfgenmsg`.
const HEADER_BYTES: usize = 4;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NF_DROP: u32 = 0;
const NF_INET_FORWARD: u32 = 2;
/// Families of tables, other than IPv4 and IPv6, that TCP packets can pass.
const NFPROTO_INET: u8 = 1;
const NFPROTO_NETDEV: u8 = 5;
const NFPROTO_BRIDGE: u8 = 7;
/// Maximum number of chains read.
const MOST_CHAINS: usize = 65_536;

/// A chain's family, table and name.
type ChainKey = (u8, String, String);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Chain {
    /// Number of blocking rules and policies in this chain.
    blocking: u32,
    leads_to: BTreeSet<String>,
    asks_map: bool,
}

/// The chains of a ruleset that apply to the traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ruleset {
    chains: BTreeMap<ChainKey, Chain>,
    /// Chains that are attached to a hook.
    hooked: Vec<ChainKey>,
}

/// Counts rules and policies that could block the traffic.
pub(super) fn count(
    namespace: &NetworkNamespace,
    traffic: &FilteredTraffic,
) -> Result<u32, HostError> {
    let mut ruleset = Ruleset::default();
    // An object that cannot be parsed is of an unknown kind, and is left out.
    for payload in namespace.filter_objects(FilterObject::Chain)? {
        ruleset.add_chain(&payload, traffic).unwrap_or_default();
    }
    for payload in namespace.filter_objects(FilterObject::Rule)? {
        ruleset.add_rule(&payload, traffic).unwrap_or_default();
    }
    Ok(ruleset.blocking())
}

impl Ruleset {
    fn add_chain(&mut self, payload: &[u8], traffic: &FilteredTraffic) -> Option<()> {
        let family = *payload.first()?;
        let attributes = payload.get(HEADER_BYTES..)?;
        if !concerns(family, traffic) || self.chains.len() >= MOST_CHAINS {
            return None;
        }
        let key = key(family, attributes, NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME)?;
        let mut chain = Chain::default();
        if let Some(hook) = Attributes::find(attributes, NFTA_CHAIN_HOOK) {
            let number = number(hook, NFTA_HOOK_HOOKNUM)?;
            let is_forward = family != NFPROTO_NETDEV && number == NF_INET_FORWARD;
            if is_forward && !traffic.is_forwarded {
                return None;
            }
            let policy = rule::number(attributes, NFTA_CHAIN_POLICY);
            chain.blocking = u32::from(policy == Some(NF_DROP));
            self.hooked.push(key.clone());
        }
        self.chains.insert(key, chain);
        Some(())
    }

    fn add_rule(&mut self, payload: &[u8], traffic: &FilteredTraffic) -> Option<()> {
        let family = *payload.first()?;
        let attributes = payload.get(HEADER_BYTES..)?;
        let key = key(family, attributes, NFTA_RULE_TABLE, NFTA_RULE_CHAIN)?;
        let chain = self.chains.get_mut(&key)?;
        let expressions = Attributes::find(attributes, NFTA_RULE_EXPRESSIONS)?;
        let Effect {
            blocks,
            leads_to,
            asks_map,
        } = rule::effect(expressions, traffic);
        chain.blocking = chain.blocking.saturating_add(u32::from(blocks || asks_map));
        chain.leads_to.extend(leads_to);
        chain.asks_map |= asks_map;
        Some(())
    }

    /// Counts the blocking rules and policies in the chains that packets can reach.
    fn blocking(&self) -> u32 {
        let mut reached: BTreeSet<&ChainKey> = BTreeSet::new();
        let mut open: Vec<&ChainKey> = self.hooked.iter().collect();
        let mut blocking = 0_u32;
        while let Some(key) = open.pop() {
            let Some(chain) = self.chains.get(key).filter(|_| reached.insert(key)) else {
                continue;
            };
            blocking = blocking.saturating_add(chain.blocking);
            // A verdict map can lead to any chain of its table.
            open.extend(self.chains.keys().filter(|other| {
                (other.0, &other.1) == (key.0, &key.1)
                    && (chain.asks_map || chain.leads_to.contains(&other.2))
            }));
        }
        blocking
    }
}

fn key(family: u8, attributes: &[u8], table: u16, chain: u16) -> Option<ChainKey> {
    let name = |kind| Attributes::find(attributes, kind).map(|name| text(name, LONGEST_NAME));
    Some((family, name(table)?, name(chain)?))
}

/// Returns true if the traffic passes tables of this family.
fn concerns(family: u8, traffic: &FilteredTraffic) -> bool {
    match family {
        NFPROTO_INET | NFPROTO_NETDEV | NFPROTO_BRIDGE => true,
        NFPROTO_IPV4 => traffic.target.addr.is_ipv4(),
        NFPROTO_IPV6 => traffic.target.addr.is_ipv6(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn traffic() -> FilteredTraffic {
        FilteredTraffic {
            target: "10.0.0.1:80"
                .parse::<std::net::SocketAddr>()
                .expect("an address")
                .into(),
            is_forwarded: false,
            first_ephemeral_port: 32_768,
        }
    }

    fn chain(blocking: u32, leads_to: &[&str], asks_map: bool) -> Chain {
        Chain {
            blocking,
            leads_to: leads_to.iter().map(|&name| name.to_owned()).collect(),
            asks_map,
        }
    }

    fn ruleset(chains: &[(&str, Chain)]) -> Ruleset {
        let key = |name: &str| (NFPROTO_INET, "filter".to_owned(), name.to_owned());
        Ruleset {
            chains: chains
                .iter()
                .map(|(name, chain)| (key(name), chain.clone()))
                .collect(),
            hooked: vec![key("input")],
        }
    }

    #[test]
    fn only_what_is_reached_counts() {
        let chains = [
            ("input", chain(1, &["a"], false)),
            ("a", chain(2, &["a", "input"], false)),
            ("elsewhere", chain(8, &[], false)),
        ];
        assert_eq!(ruleset(&chains).blocking(), 3);
        let with_map = [
            ("input", chain(1, &[], true)),
            ("any", chain(4, &[], false)),
        ];
        assert_eq!(ruleset(&with_map).blocking(), 5);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut ruleset = Ruleset::default();
            ruleset.add_chain(&bytes, &traffic()).unwrap_or_default();
            ruleset.add_rule(&bytes, &traffic()).unwrap_or_default();
            ruleset.blocking();
        }
    }
}

//! An nftables rule: its verdict, the chain that it jumps to, and its comparisons with packet
//! fields (`include/uapi/linux/netfilter/nf_tables.h`).

use super::FilteredTraffic;
use crate::netlink::message::{Attributes, be16_at, be32_at, text};

/// Maximum bytes kept of the name of a chain, table or expression.
pub(super) const LONGEST_NAME: usize = 256;

const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
/// The destination register of `meta`, `payload` and `immediate`.
const NFTA_DREG: u16 = 1;
const NFTA_LOOKUP_DREG: u16 = 3;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_META_KEY: u16 = 2;
const NFTA_PAYLOAD_BASE: u16 = 2;
const NFTA_PAYLOAD_OFFSET: u16 = 3;
const NFTA_PAYLOAD_LEN: u16 = 4;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
const NFTA_TARGET_NAME: u16 = 1;

const NFT_META_NFPROTO: u32 = 15;
const NFT_META_L4PROTO: u32 = 16;
const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
const NFT_CMP_EQ: u32 = 0;
const NFT_REG_VERDICT: u32 = 0;
const NF_DROP: u32 = 0;

/// `NFPROTO_*` of IPv4 and IPv6.
pub(super) const NFPROTO_IPV4: u8 = 2;
pub(super) const NFPROTO_IPV6: u8 = 10;

/// The possible effect of a rule on the target's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// True if the rule drops or rejects the packets.
    pub(super) blocks: bool,
    /// The chain of the same table that the rule sends the packets to.
    pub(super) leads_to: Option<String>,
    /// True if the rule takes its verdict from a map, which can contain any verdict.
    pub(super) asks_map: bool,
}

/// The field of a packet that a register contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loaded {
    Protocol,
    Family,
    Port,
    Other,
}

/// Interprets the expressions of a rule. The effect is empty if a comparison is false for all
/// packets of this traffic.
pub(super) fn effect(expressions: &[u8], traffic: &FilteredTraffic) -> Effect {
    let mut registers: Vec<(u32, Loaded)> = Vec::new();
    let mut effect = Effect::default();
    let elements = Attributes::new(expressions).filter(|&(kind, _)| kind == NFTA_LIST_ELEM);
    for (_, element) in elements {
        let name = Attributes::find(element, NFTA_EXPR_NAME).unwrap_or_default();
        let data = Attributes::find(element, NFTA_EXPR_DATA).unwrap_or_default();
        match text(name, LONGEST_NAME).as_str() {
            "meta" => load(&mut registers, data, loaded_by_meta(data)),
            "payload" => load(&mut registers, data, loaded_by_payload(data)),
            "cmp" if never_holds(data, &registers, traffic) => return Effect::default(),
            "cmp" => {}
            "immediate" => verdict(data, &mut effect),
            "reject" => effect.blocks = true,
            "target" => effect.blocks |= is_blocking_target(data),
            "lookup" => effect.asks_map |= number(data, NFTA_LOOKUP_DREG) == Some(NFT_REG_VERDICT),
            // Other expressions may write to any register.
            _ => registers.clear(),
        }
    }
    effect
}

/// Records that an expression loads a field into its destination register.
fn load(registers: &mut Vec<(u32, Loaded)>, data: &[u8], loaded: Loaded) {
    if let Some(register) = number(data, NFTA_DREG) {
        registers.retain(|&(known, _)| known != register);
        registers.push((register, loaded));
    }
}

/// Returns true if the rule contains an iptables target that drops or rejects packets.
fn is_blocking_target(data: &[u8]) -> bool {
    let name = Attributes::find(data, NFTA_TARGET_NAME).unwrap_or_default();
    matches!(text(name, LONGEST_NAME).as_str(), "REJECT" | "DROP")
}

fn loaded_by_meta(data: &[u8]) -> Loaded {
    match number(data, NFTA_META_KEY) {
        Some(NFT_META_L4PROTO) => Loaded::Protocol,
        Some(NFT_META_NFPROTO) => Loaded::Family,
        _ => Loaded::Other,
    }
}

fn loaded_by_payload(data: &[u8]) -> Loaded {
    let place = [NFTA_PAYLOAD_BASE, NFTA_PAYLOAD_OFFSET, NFTA_PAYLOAD_LEN]
        .map(|attribute| number(data, attribute));
    match place {
        [Some(NFT_PAYLOAD_TRANSPORT_HEADER), Some(0 | 2), Some(2)] => Loaded::Port,
        _ => Loaded::Other,
    }
}

/// Returns true if a comparison is false for all packets of the traffic.
fn never_holds(data: &[u8], registers: &[(u32, Loaded)], traffic: &FilteredTraffic) -> bool {
    let register = number(data, NFTA_CMP_SREG);
    let loaded = registers.iter().rev().find(|(r, _)| Some(*r) == register);
    let value = Attributes::find(data, NFTA_CMP_DATA)
        .and_then(|data| Attributes::find(data, NFTA_DATA_VALUE));
    let (Some(&(_, loaded)), Some(value), Some(NFT_CMP_EQ)) =
        (loaded, value, number(data, NFTA_CMP_OP))
    else {
        return false;
    };
    let family = if traffic.target.addr.is_ipv4() {
        NFPROTO_IPV4
    } else {
        NFPROTO_IPV6
    };
    match loaded {
        Loaded::Protocol => value
            .first()
            .is_some_and(|&p| i32::from(p) != libc::IPPROTO_TCP),
        Loaded::Family => value.first().is_some_and(|&f| f != family),
        Loaded::Port => be16_at(value, 0).is_some_and(|port| !traffic.may_use_port(port)),
        Loaded::Other => false,
    }
}

/// Adds the verdict of an `immediate` expression.
fn verdict(data: &[u8], effect: &mut Effect) {
    let verdict = Attributes::find(data, NFTA_IMMEDIATE_DATA)
        .and_then(|data| Attributes::find(data, NFTA_DATA_VERDICT));
    let Some(verdict) = verdict else {
        return;
    };
    effect.blocks |= number(verdict, NFTA_VERDICT_CODE) == Some(NF_DROP);
    effect.leads_to = Attributes::find(verdict, NFTA_VERDICT_CHAIN)
        .map(|chain| text(chain, LONGEST_NAME))
        .or_else(|| effect.leads_to.take());
}

/// Returns a numeric attribute. nftables uses network byte order.
pub(super) fn number(data: &[u8], attribute: u16) -> Option<u32> {
    be32_at(Attributes::find(data, attribute)?, 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::message::push_attribute;

    fn traffic() -> FilteredTraffic {
        FilteredTraffic {
            target: "10.0.0.1:8080"
                .parse::<std::net::SocketAddr>()
                .expect("an address")
                .into(),
            is_forwarded: false,
            first_ephemeral_port: 32_768,
        }
    }

    fn nested(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, value) in attributes {
            push_attribute(&mut bytes, *kind, value);
        }
        bytes
    }

    fn be(n: u32) -> [u8; 4] {
        n.to_be_bytes()
    }

    fn expression(name: &str, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let element = nested(&[
            (NFTA_EXPR_NAME, format!("{name}\0").as_bytes()),
            (NFTA_EXPR_DATA, &nested(attributes)),
        ]);
        nested(&[(NFTA_LIST_ELEM, &element)])
    }

    /// Builds the rule `tcp dport PORT drop` from the expressions that `nft` generates.
    fn drop_of_port(protocol: u8, port: u16) -> Vec<u8> {
        let equals = |value: &[u8]| {
            let data = nested(&[(NFTA_DATA_VALUE, value)]);
            expression("cmp", &[(1, &be(1)), (2, &be(0)), (NFTA_CMP_DATA, &data)])
        };
        let verdict = nested(&[(NFTA_VERDICT_CODE, &be(NF_DROP))]);
        let verdict = nested(&[(NFTA_DATA_VERDICT, &verdict)]);
        [
            expression("meta", &[(1, &be(1)), (2, &be(NFT_META_L4PROTO))]),
            equals(&[protocol]),
            expression(
                "payload",
                &[(1, &be(1)), (2, &be(2)), (3, &be(2)), (4, &be(2))],
            ),
            equals(&port.to_be_bytes()),
            expression("immediate", &[(1, &be(0)), (NFTA_IMMEDIATE_DATA, &verdict)]),
        ]
        .concat()
    }

    #[test]
    fn a_rule_about_other_packets_has_no_effect() {
        for (protocol, port, blocks) in [
            (6, 8080, true),
            (6, 40_000, true), // possibly an ephemeral port
            (6, 22, false),
            (17, 8080, false),
        ] {
            let effect = effect(&drop_of_port(protocol, port), &traffic());
            assert_eq!(effect.blocks, blocks, "protocol {protocol} port {port}");
        }
    }

    #[test]
    fn rejecting_and_jumping_are_seen() {
        assert!(effect(&expression("reject", &[]), &traffic()).blocks);
        assert!(effect(&expression("target", &[(1, b"REJECT\0")]), &traffic()).blocks);
        assert!(!effect(&expression("counter", &[]), &traffic()).blocks);
        let verdict = nested(&[(NFTA_VERDICT_CODE, &be(u32::MAX - 2)), (2, b"zone\0")]);
        let verdict = nested(&[(NFTA_DATA_VERDICT, &verdict)]);
        let jump = expression("immediate", &[(1, &be(0)), (NFTA_IMMEDIATE_DATA, &verdict)]);
        let effect = effect(&jump, &traffic());
        assert_eq!(
            (effect.blocks, effect.leads_to.as_deref()),
            (false, Some("zone"))
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0_usize..300,
        ) {
            effect(&bytes, &traffic());
            let mut rule = drop_of_port(6, 8080);
            rule.truncate(cut);
            rule.extend(bytes);
            effect(&rule, &traffic());
        }
    }
}

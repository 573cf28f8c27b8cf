//! The tables of legacy iptables, read with `getsockopt`
//! (`include/uapi/linux/netfilter_ipv4/ip_tables.h` and its IPv6 counterpart). Only existing tables
//! are read, because the kernel creates a missing table when it is read.

use super::FilteredTraffic;
use crate::netlink::message::{array_at, text, u16_at, u32_at};
use crate::privilege::{FilterTable, HostError, NetworkNamespace, TableFamily};

/// `XT_TABLE_MAXNAMELEN` and `XT_EXTENSION_MAXNAMELEN`.
const TABLE_NAME_BYTES: usize = 32;
const TARGET_NAME_BYTES: usize = 29;
/// Number of hooks in a table (`NF_INET_*`).
const HOOKS: usize = 5;
const NF_INET_FORWARD: usize = 2;
/// The verdict `NF_DROP` in a standard target, encoded as `-NF_DROP - 1`.
const VERDICT_DROP: i32 = -1;

/// Counts rules and policies that could block the traffic.
pub(super) fn count(
    namespace: &NetworkNamespace,
    traffic: &FilteredTraffic,
) -> Result<u32, HostError> {
    let family = if traffic.target.addr.is_ipv4() {
        TableFamily::Ipv4
    } else {
        TableFamily::Ipv6
    };
    let names = match namespace.table_names(family) {
        Ok(names) => names,
        // A kernel without legacy iptables has no such file.
        Err(HostError::Gone { .. }) => return Ok(0),
        Err(e) => return Err(e),
    };
    let mut blocking = 0_u32;
    for name in names.lines() {
        let table = FilterTable::named(name).ok_or_else(|| unknown(name))?;
        let (table, entries) = namespace.filter_table(family, table)?;
        let found = count_table(family, &table, &entries, traffic);
        blocking = blocking.saturating_add(found);
    }
    Ok(blocking)
}

/// Returns the error for a table that only another kernel can have. Its rules could block.
fn unknown(name: &str) -> HostError {
    let reason = std::io::Error::from(std::io::ErrorKind::Unsupported);
    HostError::failed(format!("reading the iptables table {name}"), reason)
}

/// The offsets of the fields of an entry, which differ by address family.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The protocol to compare with; 0: any.
    protocol: usize,
    /// Flags that invert comparisons (`IPT_INV_PROTO` is 0x40).
    inversions: usize,
    /// `target_offset`, followed by `next_offset`.
    target_offset: usize,
}

const fn layout(family: TableFamily) -> Layout {
    match family {
        TableFamily::Ipv4 => Layout {
            protocol: 80,
            inversions: 83,
            target_offset: 88,
        },
        TableFamily::Ipv6 => Layout {
            protocol: 128,
            inversions: 132,
            target_offset: 140,
        },
    }
}

/// Counts the blocking rules of one table, and the blocking policies of the hooks that the traffic
/// passes. `table` is a `struct ipt_getinfo`; `entries` has the entries in the table's order.
fn count_table(
    family: TableFamily,
    table: &[u8],
    entries: &[u8],
    traffic: &FilteredTraffic,
) -> u32 {
    let hooks = Hooks::read(table, traffic);
    let layout = layout(family);
    let (mut at, mut blocking) = (0_usize, 0_u32);
    while let Some(entry) = entries.get(at..).filter(|entry| !entry.is_empty()) {
        let (Some(target), Some(length)) = (
            u16_at(entry, layout.target_offset),
            u16_at(entry, layout.target_offset + 2).filter(|&length| length > 0),
        ) else {
            break;
        };
        let is_counted = !hooks.skips(at) && concerns_tcp(entry, layout);
        if is_counted && blocks(entry.get(usize::from(target)..).unwrap_or_default()) {
            blocking += 1;
        }
        at += usize::from(length);
    }
    blocking
}

/// Offsets of the forward hook's first rule and of its policy; `None` if the hook's rules count.
#[derive(Clone, Copy, Debug, Default)]
struct Hooks {
    forward: Option<(usize, usize)>,
}

impl Hooks {
    fn read(table: &[u8], traffic: &FilteredTraffic) -> Self {
        let valid = u32_at(table, TABLE_NAME_BYTES).unwrap_or(0);
        let offset = |array: usize| {
            let at = TABLE_NAME_BYTES + 4 + 4 * (HOOKS * array + NF_INET_FORWARD);
            usize::try_from(u32_at(table, at)?).ok()
        };
        let is_left_out = !traffic.is_forwarded && valid & (1 << NF_INET_FORWARD) != 0;
        Self {
            forward: is_left_out
                .then(|| Some((offset(0)?, offset(1)?)))
                .flatten(),
        }
    }

    /// Returns true if the entry at `at` belongs to the hook for forwarded packets and the traffic
    /// is not forwarded. The hook's entries extend from its first rule to its policy.
    fn skips(&self, at: usize) -> bool {
        self.forward
            .is_some_and(|(first, policy)| (first..=policy).contains(&at))
    }
}

/// Returns true if an entry applies to TCP or to any protocol.
fn concerns_tcp(entry: &[u8], layout: Layout) -> bool {
    const INVERTED: u8 = 0x40;
    let protocol = u16_at(entry, layout.protocol).unwrap_or(0);
    let inversions = entry.get(layout.inversions).copied().unwrap_or(0);
    let is_tcp = i32::from(protocol) == libc::IPPROTO_TCP;
    protocol == 0 || is_tcp != (inversions & INVERTED != 0)
}

/// Returns true if a target drops or rejects packets. The name of the standard target is empty.
fn blocks(target: &[u8]) -> bool {
    let name = text(target.get(2..).unwrap_or_default(), TARGET_NAME_BYTES);
    match name.as_str() {
        "" => array_at(target, 32).map(i32::from_ne_bytes) == Some(VERDICT_DROP),
        "REJECT" | "DROP" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn traffic(is_forwarded: bool) -> FilteredTraffic {
        FilteredTraffic {
            target: "10.0.0.1:80"
                .parse::<std::net::SocketAddr>()
                .expect("an address")
                .into(),
            is_forwarded,
            first_ephemeral_port: 32_768,
        }
    }

    /// Builds an IPv4 entry for `protocol` with a target of this name and verdict.
    fn entry(protocol: u16, inversions: u8, name: &str, verdict: i32) -> Vec<u8> {
        let mut bytes = vec![0; 112 + 40];
        bytes[80..82].copy_from_slice(&protocol.to_ne_bytes());
        bytes[83] = inversions;
        bytes[88..90].copy_from_slice(&112_u16.to_ne_bytes());
        bytes[90..92].copy_from_slice(&152_u16.to_ne_bytes());
        bytes[114..114 + name.len()].copy_from_slice(name.as_bytes());
        bytes[144..148].copy_from_slice(&verdict.to_ne_bytes());
        bytes
    }

    /// Builds a table whose forward chain consists of the second and the third entry.
    fn table() -> Vec<u8> {
        let mut bytes = vec![0; 84];
        bytes[32..36].copy_from_slice(&0b111_u32.to_ne_bytes());
        bytes[44..48].copy_from_slice(&152_u32.to_ne_bytes());
        bytes[64..68].copy_from_slice(&304_u32.to_ne_bytes());
        bytes
    }

    #[test]
    fn rules_and_policies_that_block_are_counted() {
        let entries = [
            entry(0, 0, "", VERDICT_DROP),
            entry(0, 0, "REJECT", 0),
            entry(0, 0, "", VERDICT_DROP),
            entry(6, 0, "REJECT", 0),
            entry(6, 0x40, "REJECT", 0), // all protocols except TCP
            entry(17, 0, "REJECT", 0),
            entry(17, 0x40, "", VERDICT_DROP), // all protocols except UDP
            entry(0, 0, "", -2),               // accept
            entry(0, 0, "ERROR", 0),
        ]
        .concat();
        let count =
            |forwarded| count_table(TableFamily::Ipv4, &table(), &entries, &traffic(forwarded));
        assert_eq!((count(false), count(true)), (3, 5));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            table in proptest::collection::vec(any::<u8>(), 0..100),
            entries in proptest::collection::vec(any::<u8>(), 0..500),
        ) {
            for family in [TableFamily::Ipv4, TableFamily::Ipv6] {
                let count = count_table(family, &table, &entries, &traffic(false));
                prop_assert!(count as usize <= entries.len());
            }
        }
    }
}

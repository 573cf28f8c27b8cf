//! The kernel's network counters before and after a load. They are read from `/proc/net/netstat`,
//! `/proc/net/snmp` and `/proc/net/snmp6`, and from `/proc/net/softnet_stat` and
//! `/proc/net/stat/nf_conntrack`, whose lines are summed over all processors.
//!
//! Every network namespace has its own counters, except `Softnet`, which counts for the whole host.
//! If the target runs on this host in another namespace, the counters of that namespace are read
//! too, under the same names. [`CounterScope`] distinguishes them.

use std::collections::BTreeMap;

use lagtrace_core::observed::event::{CounterChange, CounterScope};

use crate::privilege::{self, Capability, HostError};

/// Maximum number of bytes read from a file of counters; a longer file is truncated.
const MOST_BYTES: u64 = 256 * 1024;
/// Maximum number of counters read.
const MOST_COUNTERS: usize = 4_096;
/// Maximum number of changes reported.
const MOST_CHANGES: usize = 96;
/// Maximum bytes of a counter's name.
const LONGEST_NAME: usize = 64;

/// The counters that affect latency, the most significant first. Changes of these are reported
/// first. Counters that are also in [`ALWAYS`] are reported even without a change, because an
/// unchanged counter can rule out a cause.
const INTERESTING: &[&str] = &[
    "TcpExt:DelayedACKs",
    "TcpExt:DelayedACKLocked",
    "TcpExt:DelayedACKLost",
    "TcpExt:ListenOverflows",
    "TcpExt:ListenDrops",
    "Tcp:RetransSegs",
    "TcpExt:TCPTimeouts",
    "TcpExt:TCPLossProbes",
    "TcpExt:TCPLossProbeRecovery",
    "TcpExt:TCPFastRetrans",
    "TcpExt:TCPLostRetransmit",
    "TcpExt:TCPSlowStartRetrans",
    "TcpExt:TCPSynRetrans",
    "TcpExt:TCPSpuriousRTOs",
    "TcpExt:TCPDSACKRecv",
    "TcpExt:TCPSACKReorder",
    "TcpExt:TCPTSReorder",
    "TcpExt:TCPReqQFullDoCookies",
    "TcpExt:TCPReqQFullDrop",
    "TcpExt:SyncookiesSent",
    "TcpExt:SyncookiesRecv",
    "TcpExt:SyncookiesFailed",
    "TcpExt:EmbryonicRsts",
    "TcpExt:TCPBacklogDrop",
    "TcpExt:TCPRcvQDrop",
    "TcpExt:PruneCalled",
    "TcpExt:RcvPruned",
    "TcpExt:TCPRcvCollapsed",
    "TcpExt:TCPMemoryPressures",
    "TcpExt:TCPToZeroWindowAdv",
    "TcpExt:TCPFromZeroWindowAdv",
    "TcpExt:TCPWantZeroWindowAdv",
    "TcpExt:TCPWinProbe",
    "TcpExt:TCPZeroWindowDrop",
    "TcpExt:TCPAutoCorking",
    "TcpExt:TCPAckCompressed",
    "TcpExt:TCPTimeWaitOverflow",
    "TcpExt:PAWSActive",
    "TcpExt:PAWSEstab",
    "TcpExt:TCPChallengeACK",
    "TcpExt:TCPMTUPFail",
    "TcpExt:TcpTimeoutRehash",
    "Tcp:AttemptFails",
    "Tcp:EstabResets",
    "Tcp:OutRsts",
    "Tcp:InErrs",
    "Tcp:InCsumErrors",
    "Tcp:ActiveOpens",
    "Tcp:PassiveOpens",
    "Tcp:InSegs",
    "Tcp:OutSegs",
    "Udp:RcvbufErrors",
    "Udp:SndbufErrors",
    "Udp:InCsumErrors",
    "Softnet:Dropped",
    "Softnet:TimeSqueeze",
    "Conntrack:Drop",
    "Conntrack:EarlyDrop",
    "Conntrack:InsertFailed",
    "Ip:InDiscards",
    "Ip:OutDiscards",
    "Ip:OutNoRoutes",
    "Ip6:InDiscards",
    "Ip6:OutDiscards",
];

/// The counters that are reported even if they did not change.
const ALWAYS: &[&str] = &[
    "TcpExt:DelayedACKs",
    "TcpExt:ListenOverflows",
    "TcpExt:ListenDrops",
    "TcpExt:TCPReqQFullDrop",
    "TcpExt:TCPReqQFullDoCookies",
    "TcpExt:TCPBacklogDrop",
    "TcpExt:PruneCalled",
    "TcpExt:TCPMemoryPressures",
    "Tcp:RetransSegs",
    "Tcp:OutSegs",
    "Udp:RcvbufErrors",
    "Udp:SndbufErrors",
    "Softnet:Dropped",
    "Softnet:TimeSqueeze",
    "Conntrack:Drop",
    "Conntrack:EarlyDrop",
];

/// The index and name of each used column of `/proc/net/softnet_stat` (`softnet_seq_show()`). The
/// file has no heading.
const SOFTNET: &[(usize, &str)] = &[(1, "Dropped"), (2, "TimeSqueeze")];

/// The heading and name of each used column of `/proc/net/stat/nf_conntrack`.
const CONNTRACK: &[(&str, &str)] = &[
    ("drop", "Drop"),
    ("early_drop", "EarlyDrop"),
    ("insert_failed", "InsertFailed"),
];

/// Gauges and settings that the kernel lists among the counters. They are not reported.
const NO_COUNTERS: &[&str] = &[
    "Ip:Forwarding",
    "Ip:DefaultTTL",
    "Tcp:RtoAlgorithm",
    "Tcp:RtoMin",
    "Tcp:RtoMax",
    "Tcp:MaxConn",
    "Tcp:CurrEstab",
];

/// The counters of one network namespace at one time, by name with group (`Group:Name`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads the counters of the calling thread's namespace.
    ///
    /// # Errors
    /// Returns an error if `/proc` is not mounted. A kernel without IPv6 is no error; its counters
    /// are missing then.
    pub fn read() -> Result<Self, HostError> {
        Self::read_in("/proc/thread-self/net")
    }

    /// Reads the counters of the namespace of process `pid`. This needs no privilege.
    ///
    /// # Errors
    /// Returns an error if the process has ended, or if `/proc` hides it.
    pub fn read_of(pid: u32) -> Result<Self, HostError> {
        Self::read_in(&format!("/proc/{pid}/net"))
    }

    fn read_in(folder: &str) -> Result<Self, HostError> {
        let read = |name: &str| {
            let path = format!("{folder}/{name}");
            privilege::read_bounded(&path, MOST_BYTES)
                .map_err(|e| HostError::new(format!("reading {path}"), e, Capability::SysPtrace))
        };
        let mut counters = Self::default();
        counters.add_tables(&read("netstat")?);
        counters.add_tables(&read("snmp")?);
        counters.add_list(&read("snmp6").unwrap_or_default());
        counters.add_softnet(&read("softnet_stat").unwrap_or_default());
        // The file exists only if connection tracking is in use.
        counters.add_conntrack(&read("stat/nf_conntrack").unwrap_or_default());
        Ok(counters)
    }

    /// Returns the value of a counter by name, such as `TcpExt:DelayedACKs`.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Returns the changes from these counters to `after`, at most 96. The most significant ones
    /// come first, the others follow by name.
    pub fn changes(&self, after: &Self, scope: CounterScope) -> Vec<CounterChange> {
        let rank = |name: &str| INTERESTING.iter().position(|&known| known == name);
        let mut changes: Vec<CounterChange> = after
            .0
            .iter()
            .filter_map(|(name, &after)| {
                let before = self.value(name)?;
                let is_told = before != after || ALWAYS.contains(&name.as_str());
                is_told.then(|| CounterChange {
                    name: name.clone(),
                    before,
                    after,
                    scope,
                })
            })
            .collect();
        changes.sort_by_key(|change| rank(&change.name).unwrap_or(usize::MAX));
        changes.truncate(MOST_CHANGES);
        changes
    }

    /// Reads pairs of lines: `Group: name name`, then `Group: value value`. A pair with two
    /// different groups is left out, and so are values without a name.
    fn add_tables(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (Some((group, names)), Some((same, values))) =
                (names.split_once(':'), values.split_once(':'))
            else {
                continue;
            };
            if group == same {
                for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
                    self.add(group, name, value);
                }
            }
        }
    }

    /// Reads lines of the form `GroupName value`, as used for IPv6.
    fn add_list(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(word), Some(value)) = (words.next(), words.next()) else {
                continue;
            };
            if let Some((group, name)) = split_group(word) {
                self.add(group, name, value);
            }
        }
    }

    /// Reads lines of hexadecimal numbers, one line for each processor.
    fn add_softnet(&mut self, text: &str) {
        for line in text.lines() {
            for &(column, name) in SOFTNET {
                self.add_hexadecimal("Softnet", name, line.split_whitespace().nth(column));
            }
        }
    }

    /// Reads a heading, then lines of hexadecimal numbers, one line for each processor.
    fn add_conntrack(&mut self, text: &str) {
        let mut lines = text.lines();
        let headings: Vec<_> = lines
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        for line in lines {
            for (heading, name) in CONNTRACK {
                let column = headings.iter().position(|found| found == heading);
                let value = column.and_then(|column| line.split_whitespace().nth(column));
                self.add_hexadecimal("Conntrack", name, value);
            }
        }
    }

    /// Adds to a counter. A value that is not a number is left out.
    fn add_hexadecimal(&mut self, group: &str, name: &str, value: Option<&str>) {
        let value = value.and_then(|value| u64::from_str_radix(value, 16).ok());
        if let Some(value) = value {
            let sum = self.0.entry(format!("{group}:{name}")).or_default();
            *sum = sum.saturating_add(value);
        }
    }

    /// Sets a counter. An invalid name or value is left out.
    fn add(&mut self, group: &str, name: &str, value: &str) {
        let is_word = |word: &str| {
            (1..=LONGEST_NAME).contains(&word.len())
                && word.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        let (true, true, Ok(value)) = (is_word(group), is_word(name), value.parse()) else {
            return;
        };
        let name = format!("{group}:{name}");
        if self.0.len() < MOST_COUNTERS && !NO_COUNTERS.contains(&name.as_str()) {
            self.0.insert(name, value);
        }
    }
}

/// Splits the name of an IPv6 counter into its group and the remaining name.
fn split_group(word: &str) -> Option<(&str, &str)> {
    ["UdpLite6", "Icmp6", "Udp6", "Ip6"]
        .into_iter()
        .find_map(|group| Some((group, word.strip_prefix(group)?)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counters(text: &str) -> Counters {
        let mut counters = Counters::default();
        counters.add_tables(text);
        counters
    }

    #[test]
    fn pairs_of_lines_are_read() {
        let read = counters(
            "TcpExt: SyncookiesSent DelayedACKs\nTcpExt: 3 40\n\
             Tcp: RtoMin MaxConn OutSegs\nTcp: 200 -1 77\n",
        );
        assert_eq!(read.value("TcpExt:DelayedACKs"), Some(40));
        assert_eq!(read.value("Tcp:OutSegs"), Some(77));
        assert_eq!(
            (read.value("Tcp:MaxConn"), read.value("Tcp:RtoMin")),
            (None, None)
        );
    }

    #[test]
    fn processors_are_added_up() {
        let mut read = Counters::default();
        read.add_softnet("01c1 0000000a 5 0\n01d2 00000006 7 0\n01d2 zz\n");
        assert_eq!(read.value("Softnet:Dropped"), Some(16));
        assert_eq!(read.value("Softnet:TimeSqueeze"), Some(12));
        read.add_conntrack("entries  clashres drop early_drop\n00 00 1f 2\n00 00 01 3\n");
        assert_eq!(read.value("Conntrack:Drop"), Some(32));
        assert_eq!(read.value("Conntrack:EarlyDrop"), Some(5));
        assert_eq!(read.value("Conntrack:InsertFailed"), None);
    }

    #[test]
    fn what_is_damaged_is_left_out() {
        for text in [
            "TcpExt: A B\nIpExt: 1 2\n",
            "TcpExt: A\n",
            "no colon\nnone either\n",
            "TcpExt: A\nTcpExt: -5\n",
            "TcpExt: A\nTcpExt: 99999999999999999999999\n",
            "TcpExt: <b>\nTcpExt: 5\n",
        ] {
            assert_eq!(counters(text), Counters::default(), "{text}");
        }
        let short = counters("TcpExt: A B C\nTcpExt: 1 2\n");
        assert_eq!(
            (short.value("TcpExt:B"), short.value("TcpExt:C")),
            (Some(2), None)
        );
    }

    #[test]
    fn the_most_telling_come_first_and_suspects_are_cleared() {
        let names = "TcpExt: ABC ListenOverflows DelayedACKs TCPTimeouts\nTcpExt: ";
        let before = counters(&format!("{names}1 0 5 9\n"));
        let after = counters(&format!("{names}2 0 8 9\n"));
        let changes = before.changes(&after, CounterScope::Client);
        let told: Vec<_> = changes
            .iter()
            .map(|c| (c.name.as_str(), c.after - c.before))
            .collect();
        let expected = [
            ("TcpExt:DelayedACKs", 3),
            ("TcpExt:ListenOverflows", 0),
            ("TcpExt:ABC", 1),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn this_kernel_has_the_counters_that_matter() {
        let read = Counters::read().expect("/proc is mounted");
        let is_optional = |name: &str| name.starts_with("Conntrack:");
        for name in ALWAYS.iter().filter(|name| !is_optional(name)) {
            assert!(read.value(name).is_some(), "{name}");
        }
        let same = Counters::read_of(std::process::id()).expect("our own");
        assert!(same.value("Tcp:OutSegs") >= read.value("Tcp:OutSegs"));
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_read(text in "(Tcp(Ext)?: ?)?[\\PC\n ]{0,200}") {
            let mut read = counters(&text);
            read.add_list(&text);
            prop_assert!(read.0.len() <= text.len());
        }
    }
}

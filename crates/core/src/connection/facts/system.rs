//! Properties of an end's operating system in its packets: timers, counters and habits that differ
//! between kernels.
//!
//! A name requires two kinds of evidence that agree, and both are reported. Middleboxes may have
//! rewritten the fields.

use crate::observed::segment::INITIAL_TTLS;
use core::time::Duration;

use super::end::{End, SenderClock};

/// The SYN options and the initial TTL of an operating system.
struct Habit {
    name: &'static str,
    /// SYN and SYN/ACK options in order. Linux: `tcp_options_write()` in
    /// `net/ipv4/tcp_output.c`; FreeBSD: `tcp_addoptions()` in
    /// `sys/netinet/tcp_output.c`; all: the signatures of p0f 3.
    orders: &'static [&'static str],
    initial_ttl: u8,
}

const HABITS: [Habit; 4] = [
    Habit {
        name: "Linux",
        orders: &[
            "mss,sackOK,TS,nop,wscale",
            "mss,nop,nop,sackOK,nop,wscale",
            "mss,nop,nop,TS,nop,wscale",
            "mss,sackOK,TS",
        ],
        initial_ttl: 64,
    },
    Habit {
        name: "Windows",
        orders: &["mss,nop,wscale,nop,nop,sackOK", "mss,nop,wscale,sackOK,TS"],
        initial_ttl: 128,
    },
    Habit {
        name: "macOS or iOS",
        orders: &["mss,nop,wscale,nop,nop,TS,sackOK,eol"],
        initial_ttl: 64,
    },
    Habit {
        name: "FreeBSD",
        orders: &["mss,nop,wscale,sackOK,TS"],
        initial_ttl: 64,
    },
];

/// Maximum number of routers on a path: a TTL that implies more was set on purpose.
const MOST_HOPS: u8 = 40;

/// Ticks in which kernels count their timestamps: 1 µs (Linux, `tcp_usec_ts`), 1 ms (Linux since
/// 2016, FreeBSD, macOS, Windows), 4 ms and 10 ms (older Linux), 100 ms (older Windows), 500 ms
/// (older BSD).
const TICKS_NS: [u64; 6] = [
    1_000,
    1_000_000,
    4_000_000,
    10_000_000,
    100_000_000,
    500_000_000,
];
/// Minimum time between the two timestamps from which a tick is computed.
const LEAST_SPAN: Duration = Duration::from_millis(500);
/// Minimum number of ticks between those timestamps.
const LEAST_TICKS: i32 = 10;
/// Maximum relative difference between a measured tick and a known one.
const TICK_ERROR: f64 = 0.05;

/// Properties of an end's operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct System {
    /// Name of the operating system; `None` unless two kinds of evidence agree.
    pub(crate) name: Option<&'static str>,
    /// The evidence, in words.
    pub(crate) because: Vec<String>,
    pub(crate) initial_ttl: Option<u8>,
    /// Number of routers between the end and the observation point.
    pub(crate) hops: Option<u8>,
    pub(crate) tick_ns: Option<u64>,
    pub(crate) option_order: Option<String>,
}

/// Returns what `end`'s packets show about its operating system.
pub(crate) fn system(end: &End) -> System {
    let ttl = end.ttl.map(|(_, most)| most);
    let initial_ttl = ttl.and_then(initial_ttl);
    let order = end.syn.map(|syn| order(syn.layout));
    let mut system = System {
        name: None,
        because: Vec::new(),
        initial_ttl,
        hops: ttl.zip(initial_ttl).map(|(ttl, initial)| initial - ttl),
        tick_ns: tick(&end.clock),
        option_order: order.filter(|order| !order.is_empty()),
    };
    system.because = because(end, &system);
    let habit = HABITS.iter().find(|habit| {
        let order = system.option_order.as_deref().unwrap_or_default();
        habit.orders.contains(&order) && initial_ttl == Some(habit.initial_ttl)
    });
    system.name = habit.map(|habit| habit.name);
    system
}

fn because(end: &End, system: &System) -> Vec<String> {
    let mut list = Vec::new();
    list.extend(
        system
            .option_order
            .as_ref()
            .map(|order| format!("SYN options {order}")),
    );
    list.extend(system.initial_ttl.map(|ttl| format!("TTL {ttl}")));
    if let Some(tick) = system.tick_ns {
        list.push(format!("TSval tick {}", in_words(tick)));
    }
    if let Some(rare) = end.rare() {
        if let Some(median) = rare.delayed_acks.median_ns() {
            let count = rare.delayed_acks.count();
            let times = if count == 1 { "time" } else { "times" };
            let median = in_words(median);
            list.push(format!("delayed ACK {median} seen {count} {times}"));
        }
        if let Some(least) = rare.least_timeout {
            let least = in_words(u64::try_from(least.as_nanos()).unwrap_or(u64::MAX));
            list.push(format!("least retransmission timeout {least}"));
        }
    }
    list
}

fn in_words(ns: u64) -> String {
    match ns {
        1_000_000.. => format!("{} ms", (ns + 500_000) / 1_000_000),
        _ => format!("{} µs", (ns + 500) / 1_000),
    }
}

fn initial_ttl(ttl: u8) -> Option<u8> {
    let initial = INITIAL_TTLS.into_iter().find(|&initial| initial >= ttl)?;
    (ttl > 0 && initial - ttl <= MOST_HOPS).then_some(initial)
}

/// Returns the unit in which the timestamps count, from the first and the latest one.
fn tick(clock: &SenderClock) -> Option<u64> {
    let ((first_at, first), (last_at, last)) = (clock.first?, clock.last?);
    let span = last_at.since(first_at);
    let ticks = last.wrapping_sub(first) as i32;
    if span < LEAST_SPAN || ticks < 1 {
        return None;
    }
    let tick = span.as_nanos() as f64 / f64::from(ticks);
    TICKS_NS.into_iter().find(|&known| {
        let is_near = (tick / known as f64 - 1.0).abs() <= TICK_ERROR;
        is_near && ticks >= LEAST_TICKS
    })
}

/// Returns the options' names in order, as tcpdump writes them; see
/// [`TcpOptions::layout`](crate::observed::segment::TcpOptions::layout).
fn order(layout: u32) -> String {
    let names: Vec<&str> = (0..8)
        .map(|place| (layout >> (place * 4)) & 0xf)
        .take_while(|&code| code != 0)
        .map(|code| match code {
            1 => "eol",
            2 => "nop",
            3 => "mss",
            4 => "wscale",
            5 => "sackOK",
            9 => "TS",
            _ => "other",
        })
        .collect();
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::super::end::Syn;
    use super::*;
    use crate::observed::time::Timestamp;

    fn clock(millis: i64, ticks: u32) -> SenderClock {
        let begin = u32::MAX - 5;
        SenderClock {
            first: Some((Timestamp::from_nanos(0), begin)),
            last: Some((
                Timestamp::from_nanos(millis * 1_000_000),
                begin.wrapping_add(ticks),
            )),
        }
    }

    fn end(layout: u32, ttl: u8) -> End {
        let mut end = End::default();
        end.ttl = Some((ttl, ttl));
        end.syn = Some(Syn {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            has_timestamps: true,
            layout,
        });
        end
    }

    /// mss,sackOK,TS,nop,wscale.
    const LINUX: u32 = 0x4_2953;

    #[test]
    fn ticks_are_told_from_enough_time_only() {
        assert_eq!(tick(&clock(2000, 2003)), Some(1_000_000));
        assert_eq!(tick(&clock(2000, 200)), Some(10_000_000));
        assert_eq!(tick(&clock(20, 20)), None, "too short");
        assert_eq!(tick(&clock(2000, 1500)), None, "no tick that is used");
        assert_eq!(tick(&SenderClock::default()), None);
    }

    #[test]
    fn a_name_needs_options_and_ttl_that_agree() {
        let linux = system(&end(LINUX, 61));
        assert_eq!((linux.name, linux.hops), (Some("Linux"), Some(3)));
        assert_eq!(
            linux.because,
            ["SYN options mss,sackOK,TS,nop,wscale", "TTL 64"]
        );
        assert_eq!(system(&end(LINUX, 120)).name, None, "another system's TTL");
        let mut unseen = end(LINUX, 64);
        unseen.syn = None;
        assert_eq!(system(&unseen).name, None, "no SYN, no name");
        assert_eq!(system(&End::default()), System::default());
    }

    #[test]
    fn windows_and_macos_order_theirs_otherwise() {
        // mss,nop,wscale,nop,nop,sackOK and mss,nop,wscale,nop,nop,TS,sackOK,eol.
        assert_eq!(system(&end(0x52_2423, 128)).name, Some("Windows"));
        assert_eq!(system(&end(0x1592_2423, 64)).name, Some("macOS or iOS"));
    }
}

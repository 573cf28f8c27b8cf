//! Kernel timers that cause typical latencies: the tick, the minimum and maximum of a delayed ACK,
//! and the minimum retransmission timeout.

use std::time::Duration;

use lagtrace_core::observed::event::{KernelRoute, KernelTimers};
use rustix::time::{ClockId, clock_getres};

use crate::privilege::NetworkNamespace;

/// The kernel's default minimum of the retransmission timeout (`TCP_RTO_MIN`, HZ/5).
const RTO_MIN: Duration = Duration::from_millis(200);

/// Returns this host's timers for connections over `route`. They are read in the calling thread's
/// namespace, which needs no privilege.
pub fn read(route: Option<&KernelRoute>) -> KernelTimers {
    let sysctl = NetworkNamespace::own()
        .and_then(|own| own.sysctl("net/ipv4/tcp_rto_min_us"))
        .map(Duration::from_micros);
    derive(
        ticks_per_second(),
        sysctl.ok(),
        route.and_then(|route| route.rto_min),
        route.is_some_and(|route| route.quickack),
    )
}

/// Returns `CONFIG_HZ`, from the resolution of the coarse clock, which advances once per tick.
fn ticks_per_second() -> Option<u32> {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    hz_of_tick(tick.tv_sec, tick.tv_nsec)
}

fn hz_of_tick(seconds: i64, nanos: i64) -> Option<u32> {
    let nanos = u64::try_from(nanos)
        .ok()
        .filter(|&n| seconds == 0 && n > 0)?;
    let hz = (1_000_000_000 + nanos / 2) / nanos;
    u32::try_from(hz)
        .ok()
        .filter(|hz| (12..=10_000).contains(hz))
}

/// Computes the timers like `include/net/tcp.h` and `net/ipv4/tcp_output.c` (`tcp_delack_max()`,
/// `tcp_send_delayed_ack()`).
///
/// `sysctl` exists since Linux 6.11. Since then, a delayed ACK takes at most the minimum
/// retransmission timeout (of the route or the sysctl) minus one tick. Kernels 6.7 to 6.10 use only
/// the route's minimum. Earlier kernels have no such limit, so the results are too small for them
/// if the route has an `rto_min`.
fn derive(
    hz: Option<u32>,
    sysctl: Option<Duration>,
    route: Option<Duration>,
    quickack: bool,
) -> KernelTimers {
    let rate = u64::from(hz.unwrap_or(1000));
    let tick = Duration::from_nanos(1_000_000_000 / rate);
    let ticks = |count: u64| Duration::from_nanos(1_000_000_000 * count / rate);
    let least = if rate >= 100 { rate / 25 } else { 4 };
    let (mut delack_min, mut delack_max) = (ticks(least), ticks(rate / 5));
    if let Some(cap) = route.or(sysctl) {
        let cap = in_ticks(cap, tick).max(2).saturating_sub(1);
        delack_max = delack_max.min(ticks(cap));
        delack_min = delack_min.min(delack_max);
    }
    KernelTimers {
        hz,
        delack_min,
        delack_max,
        rto_min: route.or(sysctl).unwrap_or(RTO_MIN),
        source: source(hz, sysctl, route, quickack),
    }
}

/// Returns a duration in whole ticks, rounded up as in the kernel.
fn in_ticks(duration: Duration, tick: Duration) -> u64 {
    let ticks = duration.as_nanos().div_ceil(tick.as_nanos().max(1));
    u64::try_from(ticks).unwrap_or(u64::MAX).min(1 << 20)
}

/// Describes where the values come from.
fn source(
    hz: Option<u32>,
    sysctl: Option<Duration>,
    route: Option<Duration>,
    quickack: bool,
) -> String {
    let mut words = match hz {
        Some(hz) => format!("HZ={hz} by the resolution of CLOCK_MONOTONIC_COARSE"),
        None => "HZ unknown, limits as at HZ=1000".to_owned(),
    };
    words.push_str("; TCP_DELACK_MIN = HZ/25 and TCP_DELACK_MAX = HZ/5 (include/net/tcp.h)");
    match (route, sysctl) {
        (Some(route), _) => {
            words.push_str(&format!(
                "; rto_min {route:?} of the route, which caps delayed ACKs"
            ));
        }
        (None, Some(sysctl)) => words.push_str(&format!(
            "; net.ipv4.tcp_rto_min_us = {}, which caps delayed ACKs",
            sysctl.as_micros()
        )),
        (None, None) => words.push_str("; rto_min is the kernel's constant HZ/5"),
    }
    if quickack {
        words.push_str("; the route's quickack makes this host acknowledge immediately");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn ticks_are_told_by_their_length() {
        for (nanos, hz) in [
            (10_000_000, Some(100)),
            (4_000_000, Some(250)),
            (3_333_333, Some(300)),
            (1_000_000, Some(1000)),
            (976_563, Some(1024)),
            (1, None),
            (0, None),
            (-4, None),
        ] {
            assert_eq!(hz_of_tick(0, nanos), hz, "{nanos}");
        }
        assert_eq!(hz_of_tick(1, 4_000_000), None);
    }

    #[test]
    fn delayed_acks_follow_the_tick() {
        for (hz, min, max) in [
            (100, 40, 200),
            (250, 40, 200),
            (300, 40, 200),
            (1000, 40, 200),
        ] {
            let timers = derive(Some(hz), None, None, false);
            assert_eq!(
                (timers.delack_min, timers.delack_max),
                (ms(min), ms(max)),
                "{hz}"
            );
        }
        assert_eq!(
            derive(Some(64), None, None, false).delack_min,
            Duration::from_micros(62_500)
        );
    }

    #[test]
    fn the_retransmission_floor_caps_delayed_acks() {
        let usual = derive(Some(250), Some(ms(200)), None, false);
        assert_eq!((usual.delack_max, usual.rto_min), (ms(196), ms(200)));
        let low = derive(Some(250), Some(ms(200)), Some(ms(20)), false);
        assert_eq!(
            (low.delack_min, low.delack_max, low.rto_min),
            (ms(16), ms(16), ms(20))
        );
        let least = derive(Some(250), Some(Duration::ZERO), None, false);
        assert_eq!(least.delack_min, ms(4));
        let huge = derive(Some(250), Some(Duration::MAX), None, false);
        assert_eq!(huge.delack_max, ms(200));
    }
}

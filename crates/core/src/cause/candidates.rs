//! Candidates for the cause of a server's own time, the likeliest first. Packets cannot distinguish
//! them. Each candidate has its evidence and the observation that would confirm it.

use core::time::Duration;

use super::evidence::{ORDINARY_WORK, human, percent};
use super::kernel_place::{self, KernelPlace};
use super::rhythm::{median, of_each_client, quantile, thinks};
use super::upstream::asked_meanwhile;
use super::{Case, Id};
use crate::observed::time::Timestamp;
use crate::report::{Candidate, counted};
use crate::service::timeline::Moment;

/// The kernel's default period of a CPU quota (`cpu.max`).
pub(super) const QUOTA_PERIOD: Duration = Duration::from_millis(100);
/// Maximum deviation of a wait's end from a multiple of the quota period. It consists of the
/// scheduler's tick and the work until the response.
const QUOTA_STRAY: Duration = Duration::from_millis(12);
/// Maximum run time of a control group in a period before its quota is used up.
const QUOTA_RUN: Duration = Duration::from_millis(30);
/// Minimum share of intervals that are multiples of the quota period. A quarter is expected by
/// chance.
const ON_GRID: f64 = 0.7;
/// Minimum number of late responses for a meaningful share.
const LEAST_LATE: usize = 5;
/// Maximum spread of think times that count as constant: the difference between the 90th and the
/// 10th percentile, divided by the median.
const ALIKE: f64 = 0.15;
/// Minimum ratio of two think times: that of requests that meet many others, to that of requests
/// that meet few.
const GROWN: f64 = 1.5;
/// Maximum gap between responses on different connections that count as sent together.
const TOGETHER: Duration = Duration::from_millis(3);

/// The candidate that stands for a request in the socket's queue that the program has not read.
const UNREAD: Id = Id::SocketQueueDwell;

/// Returns the candidates for the time that a server takes before or within its responses.
pub(crate) fn of_server(case: &Case<'_>) -> Vec<Candidate> {
    let Some(fitting) = case.rhythm.fitting(fitting) else {
        return Vec::new();
    };
    let mut list = fitting.to_vec();
    let meanwhile = asked_meanwhile(case.endpoint, case.rhythms);
    let asked = match (case.upstream, meanwhile) {
        (Some(upstream), _) => format!(
            "the server's own requests to {} in that time do not account for it; requests to other \
             servers may",
            upstream.endpoint
        ),
        (None, Some(other)) => format!(
            "the server's host sends requests of its own to {other} in that time, and may wait for \
             them"
        ),
        (None, None) => {
            "this capture contains no requests of the server to other servers that match these \
             requests"
                .to_owned()
        }
    };
    list.push(candidate(
        Id::DownstreamWait,
        asked,
        "capture on the server with `-i any`, or check its log of upstream and query times",
    ));
    // If the server's kernel was watched, it excludes candidates that only fit the packets.
    if let Some(passed) = kernel_place::passed(case) {
        let may_be: &[Id] = match passed.place {
            KernelPlace::RunQueue => &[Id::CpuQuota, Id::WorkerSaturation, Id::CpuIdleWakeup],
            KernelPlace::Asleep => &[Id::RateLimit, Id::DownstreamWait, Id::StopTheWorld],
            _ => &[Id::CompressionCost, Id::StopTheWorld],
        };
        list.retain(|candidate| may_be.contains(&candidate.cause));
    }
    list
}

/// Returns the candidates that fit the times of the server's responses; `None` if there are no
/// usable requests.
fn fitting(clear: &[Moment]) -> Option<Vec<Candidate>> {
    if clear.is_empty() {
        return None;
    }
    let times = thinks(clear);
    Some(match alike(&times) {
        // A constant wait does not come from a resource that is scarce only at times.
        Some(alike) => compressed(clear).into_iter().chain([alike]).collect(),
        None => {
            let fitting = [
                limited(clear),
                on_quota_grid(clear),
                released_together(clear, quantile(&times, 0.5)),
                grown(clear),
                compressed(clear),
            ];
            let fitting = fitting.into_iter().flatten();
            fitting.chain(before_the_program(clear)).collect()
        }
    })
}

/// Returns the candidates for the pauses of a client between its requests. `ends` are the times at
/// which the pauses end.
pub(super) fn of_client(ends: Vec<Timestamp>) -> Vec<Candidate> {
    let quota = ending_on_quota_grid(ends);
    let others = [
        candidate(
            Id::DownstreamWait,
            "calls that the client makes to other hosts in these pauses cannot be seen in its \
             traffic to this server",
            "capture on the client with `-i any`, or trace the calls that it makes",
        ),
        candidate(
            UNREAD,
            "the client's kernel had the responses, but the packets do not show when its program \
             read them",
            "run `ss -tn` on the client: `Recv-Q` is above zero in the pauses if the program has \
             not read the responses",
        ),
    ];
    quota.into_iter().chain(others).collect()
}

fn candidate(cause: Id, because: impl Into<String>, decided_by: &str) -> Candidate {
    Candidate {
        cause: cause.to_owned(),
        because: because.into(),
        decided_by: decided_by.to_owned(),
    }
}

/// Returns `rate-limit` if the requests of each client address are answered one at a time, at the same
/// interval. A rule finds a limit of the whole service.
fn limited(clear: &[Moment]) -> Option<Candidate> {
    let (gate, clients) = of_each_client(clear)?;
    Some(candidate(
        Id::RateLimit,
        format!(
            "answers to each of {clients} client addresses came {} after each other ({:.3} per \
             second), although others were answered between them, and a request that met no other \
             took {}",
            human(gate.turn),
            gate.rate(),
            human(gate.quickest),
        ),
        "look for a limit of requests for each client in the server's configuration (nginx \
         `limit_req`)",
    ))
}

/// Returns `compression-cost` if at least half of the responses were compressed while they were
/// sent.
fn compressed(clear: &[Moment]) -> Option<Candidate> {
    let encoded = clear
        .iter()
        .filter(|moment| moment.response.is_encoded)
        .count();
    (encoded * 2 >= clear.len()).then(|| {
        candidate(
            Id::CompressionCost,
            format!(
                "{encoded} of {} compressed while they were sent",
                counted(clear.len() as u64, "response was", "responses were"),
            ),
            "repeat the request with `Accept-Encoding: identity`: it is fast if compression is the \
             cause",
        )
    })
}

/// Returns `cpu-quota` if most intervals between the ends of waits are multiples of a CPU quota's
/// period.
fn on_quota_grid(clear: &[Moment]) -> Option<Candidate> {
    ending_on_quota_grid(clear.iter().map(|moment| moment.resumed).collect())
}

fn ending_on_quota_grid(mut ends: Vec<Timestamp>) -> Option<Candidate> {
    ends.sort_unstable();
    ends.dedup_by(|next, before| next.since(*before) <= QUOTA_RUN);
    let gaps: Vec<Duration> = ends
        .windows(2)
        .filter_map(|pair| Some(pair.get(1)?.since(*pair.first()?)))
        .collect();
    let is_whole = |gap: &&Duration| {
        let periods = gap.as_secs_f64() / QUOTA_PERIOD.as_secs_f64();
        let off = (periods - periods.round()).abs() * QUOTA_PERIOD.as_secs_f64();
        periods.round() >= 1.0 && off <= QUOTA_STRAY.as_secs_f64()
    };
    let whole = gaps.iter().filter(is_whole).count();
    let fits = gaps.len() + 1 >= LEAST_LATE && whole as f64 >= gaps.len() as f64 * ON_GRID;
    fits.then(|| {
        candidate(
            Id::CpuQuota,
            format!(
                "{whole} of {} between the ends of waits are multiples of 100 ms",
                counted(gaps.len() as u64, "interval", "intervals"),
            ),
            "see whether `nr_throttled` in the control group's cpu.stat rises while it happens",
        )
    })
}

/// Returns candidates in the server's kernel, if most late requests were not acknowledged before
/// their response. In this case, packets do not show whether the kernel had the requests in time.
fn before_the_program(clear: &[Moment]) -> Vec<Candidate> {
    let late = || {
        clear
            .iter()
            .filter(|moment| moment.think() >= ORDINARY_WORK)
    };
    let (count, acked) = (
        late().count(),
        late().filter(|moment| moment.path.is_acked_first).count(),
    );
    if count < LEAST_LATE || acked * 2 >= count {
        return Vec::new();
    }
    let because = format!(
        "the server's kernel acknowledged {acked} of {count} late requests before its answer; the \
         packets do not show when it had the others"
    );
    let softirq = candidate(
        Id::SoftirqBacklog,
        because.clone(),
        "see whether `time_squeeze` or the drops in /proc/net/softnet_stat on the server rise \
         while it happens",
    );
    let processor = candidate(
        Id::CpuIdleWakeup,
        because,
        "look at the steal time in /proc/stat (`st` in vmstat) on the server, and at `perf sched \
         timehist` of its threads",
    );
    vec![softirq, processor]
}

/// Returns `worker-saturation` if requests take longer when they meet many others.
fn grown(clear: &[Moment]) -> Option<Candidate> {
    if clear.len() < LEAST_LATE * 2 {
        return None;
    }
    let mut asked: Vec<Timestamp> = clear.iter().map(|moment| moment.asked).collect();
    let mut answered: Vec<Timestamp> = clear.iter().map(|moment| moment.answered).collect();
    asked.sort_unstable();
    answered.sort_unstable();
    let mut met: Vec<(usize, Duration)> = clear
        .iter()
        .map(|moment| {
            let begun = asked.partition_point(|&at| at < moment.asked);
            let done = answered.partition_point(|&at| at <= moment.asked);
            (begun.saturating_sub(done), moment.think())
        })
        .collect();
    let middle = met.len() / 2;
    met.select_nth_unstable(middle);
    let (few, many) = met.split_at(middle);
    let most = |half: &[(usize, Duration)]| half.iter().map(|&(others, _)| others).max();
    let is_wider = most(few)? < most(many)?;
    let typical = |half: &[(usize, Duration)]| median(half.iter().map(|&(_, think)| think));
    let (alone, together) = (typical(few), typical(many));
    let is_grown =
        together.as_secs_f64() >= alone.as_secs_f64() * GROWN && together >= ORDINARY_WORK;
    (is_wider && is_grown).then(|| {
        candidate(
            Id::WorkerSaturation,
            format!(
                "the half of the requests with more concurrent requests took {} (median), the \
                 other half {}",
                human(together),
                human(alone)
            ),
            "compare single requests with many concurrent ones; look at `Recv-Q` in `ss -tn` on \
             the server",
        )
    })
}

/// Returns `stop-the-world` if most late responses left together with responses on other
/// connections. `usual` is the median think time; shorter waits do not count as late.
fn released_together(clear: &[Moment], usual: Duration) -> Option<Candidate> {
    let late = clear
        .iter()
        .filter(|m| m.think() >= ORDINARY_WORK.max(usual));
    let mut late: Vec<&Moment> = late.collect();
    late.sort_by_key(|moment| moment.answered);
    let together: usize = late
        .chunk_by(|a, b| b.answered.since(a.answered) <= TOGETHER)
        .filter(|burst| {
            burst
                .iter()
                .any(|moment| Some(moment.client) != burst.first().map(|m| m.client))
        })
        .map(<[&Moment]>::len)
        .sum();
    (late.len() >= LEAST_LATE && together * 2 >= late.len()).then(|| {
        candidate(
            Id::StopTheWorld,
            format!(
                "{together} of {} late answers left together with others",
                late.len()
            ),
            "look in the garbage collector's log, or in `perf sched`, for times at which all \
             threads are off the CPU",
        )
    })
}

/// Returns a candidate if the waits are constant, whatever was requested. `times` is in ascending
/// order.
fn alike(times: &[Duration]) -> Option<Candidate> {
    let [low, middle, high] = [0.1, 0.5, 0.9].map(|share| quantile(times, share));
    let spread = (high - low).as_secs_f64() / middle.as_secs_f64().max(1e-9);
    (middle >= ORDINARY_WORK && times.len() >= LEAST_LATE && spread <= ALIKE).then(|| {
        candidate(
            UNREAD,
            format!(
                "the 10th and the 90th percentile of the waits differ by {}",
                percent(spread)
            ),
            "run `ss -tn` on the server: `Recv-Q` is above zero during the wait if the program has \
             not read the request",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::timeline::Path;

    /// Returns a request on connection `n`, sent at `asked` and answered at `answered` (both in
    /// milliseconds).
    fn moment(n: u16, asked: i64, answered: i64) -> Moment {
        let at = |ms: i64| Timestamp::from_nanos(ms * 1_000_000);
        Moment::between(40_000 + n, at(asked), at(answered))
    }

    #[test]
    fn a_grid_of_quota_periods_is_told_from_other_ends() {
        let uneven = [13, 71, 40, 88, 22, 55];
        let moments = |step: i64| -> Vec<Moment> {
            let ends = (0_i64..).map(|n| 1000 + n * step);
            uneven
                .iter()
                .zip(ends)
                .map(|(&wait, end)| moment(0, end - wait, end))
                .collect()
        };
        assert!(on_quota_grid(&moments(100)).is_some());
        assert!(on_quota_grid(&moments(200)).is_some());
        assert!(on_quota_grid(&moments(130)).is_none());
    }

    #[test]
    fn waits_that_are_alike_are_told_from_uneven_ones() {
        let alike_ones: Vec<Moment> = (0..9).map(|n| moment(0, n * 100, n * 100 + 60)).collect();
        let uneven: Vec<Moment> = (0..9).map(|n| moment(0, n * 100, n * 110 + 20)).collect();
        assert!(alike(&thinks(&alike_ones)).is_some());
        assert!(alike(&thinks(&uneven)).is_none());
    }

    #[test]
    fn what_the_kernel_acknowledged_in_time_was_not_late_before_the_program() {
        let silent: Vec<Moment> = (0..9).map(|n| moment(0, n * 100, n * 110 + 20)).collect();
        assert_eq!(before_the_program(&silent).len(), 2);
        let heard = |moment: &Moment| Moment {
            path: Path {
                is_acked_first: true,
                ..Path::default()
            },
            ..*moment
        };
        let heard: Vec<Moment> = silent.iter().map(heard).collect();
        assert!(before_the_program(&heard).is_empty());
        assert!(before_the_program(silent.get(..4).unwrap_or_default()).is_empty());
    }

    #[test]
    fn requests_that_meet_more_others_and_take_longer_speak_for_saturation() {
        let alone = (0..6).map(|n| moment(n, i64::from(n) * 100, i64::from(n) * 100 + 10));
        let side_by_side =
            (0..6).map(|n| moment(n, 1000 + i64::from(n), 1000 + i64::from(n) * 14 + 10));
        let queued: Vec<Moment> = alone.clone().chain(side_by_side).collect();
        assert!(grown(&queued).is_some());
        let parallel = (0..6).map(|n| moment(n, 1000 + i64::from(n), 1010 + i64::from(n)));
        let fine: Vec<Moment> = alone.chain(parallel).collect();
        assert!(grown(&fine).is_none());
    }
}

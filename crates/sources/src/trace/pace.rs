//! The schedule of probes by hop. It performs no I/O and reads no clock.
//!
//! Each hop has at most one probe in flight. At first, the number of hops is unknown. The scout is
//! sent with the maximum TTL, and the TTL of the target's answer shows the likely distance. If
//! there is no answer, the trace probes a few hops beyond the farthest one that answered. In this
//! way, very few probes go beyond the target. Many of them would use up the target's rate limit of
//! ICMP errors, and its later answers would be missing.

use std::collections::BTreeMap;

use core::time::Duration;

use lagtrace_core::observed::time::Timestamp;

/// Number of hops that are probed beyond the farthest one that answered, as long as all hops
/// answer.
const AHEAD: u8 = 4;
/// Time for which a silent hop is not probed again. It is longer than the default of
/// `net.ipv4.icmp_ratelimit` and `net.ipv6.icmp.ratelimit`, so that a router's rate limit allows
/// the next answer.
pub(super) const RECOVERY: Duration = Duration::from_millis(1_100);
/// Number of additional probes to a hop that replace unanswered ones.
const SPARE: u32 = 2;
/// Number of probes to a hop before it counts as silent.
const TRIES: u32 = 3;

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send a probe with this flow and TTL.
    Send(u16, u8),
    /// Wait until this time.
    Wait(Timestamp),
    /// Wait until a probe in flight is answered or overdue.
    Idle,
    /// Every hop is known.
    Done,
}

/// The kind of host that sent an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// A router on the path.
    Router,
    /// The target, or a host that answers on its behalf.
    End {
        /// True if the host answered with an ICMP error, whose rate may be limited.
        is_limited: bool,
    },
}

/// The settings of a trace's schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) first_ttl: u8,
    pub(super) max_ttl: u8,
    /// Number of answers requested from each hop; `None`: one probe in each round, answered or not.
    pub(super) wanted: Option<u32>,
    /// Interval between two probes to the same hop.
    pub(super) interval: Duration,
    /// Minimum time between any two packets.
    pub(super) gap: Duration,
    /// Number of hops that are probed beyond the farthest one that answered, as soon as some hops
    /// are silent. The search ends after as many consecutive silent hops.
    pub(super) far_ahead: u8,
}

/// The state of a trace's schedule.
#[derive(Debug)]
pub(super) struct Pace {
    manner: Manner,
    hops: BTreeMap<(u16, u8), Hop>,
    /// For each TTL, the time from which on it may be probed again, and true if its last probe
    /// stayed unanswered. All flows share these times, because they share the routers.
    due: BTreeMap<u8, (Timestamp, bool)>,
    /// Time at which the next packet may be sent.
    next: Timestamp,
    flows: u16,
    rounds: u32,
    /// Distance of the target in hops; `None` until the target, or a host that answers for it, has
    /// answered.
    distance: Option<u8>,
    /// True if the host at this distance does not limit its answers.
    is_willing: bool,
    /// Likely distance of the target, estimated from its answer to the scout (the first probe).
    guess: Option<u8>,
    /// True if the target has answered at all.
    is_alive: bool,
    /// Farthest router that has answered.
    highest: u8,
    is_far: bool,
    /// Hop up to which the search was extended because the target has answered the scout.
    reach: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Hop {
    sent: u32,
    /// Number of probes since the hop last counted as silent.
    tries: u32,
    answered: u32,
    is_under_way: bool,
}

impl Pace {
    pub(super) fn new(manner: Manner) -> Self {
        Self {
            hops: BTreeMap::new(),
            due: BTreeMap::new(),
            next: Timestamp::MIN,
            flows: 1,
            rounds: 1,
            distance: None,
            is_willing: false,
            guess: None,
            is_alive: false,
            highest: manner.first_ttl.saturating_sub(1),
            is_far: false,
            reach: 0,
            manner,
        }
    }

    /// Returns the distance of the target in hops.
    pub(super) fn distance(&self) -> Option<u8> {
        self.distance
    }

    /// Returns the distance of the target if it is known, otherwise the farthest hop that answered.
    pub(super) fn highest(&self) -> u8 {
        self.distance.unwrap_or(self.highest)
    }

    /// Records that the target answered the scout. `hops` is the estimated distance.
    pub(super) fn scouted(&mut self, hops: Option<u8>) {
        self.is_alive = true;
        self.guess =
            hops.filter(|hops| (self.manner.first_ttl..=self.manner.max_ttl).contains(hops));
    }

    /// Begins a round: allows one more probe to every hop.
    pub(super) fn begin_round(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
    }

    /// Adds flows. They probe the hops that are known now.
    pub(super) fn add_flows(&mut self, flows: u16) {
        self.flows = self.flows.max(flows);
    }

    /// Returns the largest TTL that may be probed now.
    pub(super) fn frontier(&self) -> u8 {
        let known = self.guess.filter(|&guess| self.highest < guess);
        let far = self.manner.far_ahead;
        let ahead = if self.is_far { far } else { far.min(AHEAD) };
        let far = match (known, self.guess) {
            (Some(guess), _) => guess,
            // The target is a hop or two farther away than estimated.
            (None, Some(_)) => self.highest.saturating_add(2),
            (None, None) => self.highest.saturating_add(ahead),
        };
        self.distance
            .unwrap_or_else(|| far.max(self.reach))
            .min(self.manner.max_ttl)
    }

    /// Returns the next action at `now`.
    pub(super) fn next(&mut self, now: Timestamp) -> Next {
        loop {
            match self.look(now) {
                Next::Done if self.extend() => {}
                next => return next,
            }
        }
    }

    /// Extends the search to further hops if the target has answered, but its distance is still
    /// unknown. Returns true if the search was extended.
    fn extend(&mut self) -> bool {
        let is_wanted = self.distance.is_none() && self.is_alive;
        let frontier = self.frontier();
        let can = is_wanted && frontier < self.manner.max_ttl;
        if can {
            self.reach = frontier.saturating_add(self.manner.far_ahead);
        }
        can
    }

    fn look(&self, now: Timestamp) -> Next {
        let (mut best, mut soonest, mut is_under_way) = (None, None, false);
        let first = self.manner.first_ttl;
        for flow in 0..self.flows {
            for ttl in first..=self.frontier() {
                let hop = self.hops.get(&(flow, ttl)).copied().unwrap_or_default();
                is_under_way |= hop.is_under_way;
                if !self.needs(flow, hop) || self.is_put_off(ttl, hop) {
                    continue;
                }
                let due = self.due.get(&ttl).map_or(Timestamp::MIN, |(due, _)| *due);
                let due = due.max(self.next);
                let rank = (hop.sent, flow, ttl);
                if due <= now && best.is_none_or(|best| rank < best) {
                    best = Some(rank);
                }
                soonest = Some(soonest.map_or(due, |soonest: Timestamp| soonest.min(due)));
            }
        }
        match (best, soonest) {
            (Some((_, flow, ttl)), _) => Next::Send(flow, ttl),
            (None, Some(due)) => Next::Wait(due),
            (None, None) if is_under_way => Next::Idle,
            (None, None) => Next::Done,
        }
    }

    /// Returns true if a hop must wait for another hop. The host at the farthest known distance can
    /// also be one of the unknown hops before it, for example a router that refuses to forward.
    /// Such a host may limit its answers. Probes to other hops would use up the answers that the
    /// unknown hops still need.
    fn is_put_off(&self, ttl: u8, hop: Hop) -> bool {
        let is_open = |ttl: &u8| {
            let hop = self.hops.get(&(0, *ttl)).copied().unwrap_or_default();
            hop.answered == 0 && (hop.is_under_way || hop.tries < TRIES)
        };
        let next = self.highest.saturating_add(1);
        let is_slow = self.due.get(&ttl).is_some_and(|(_, is_slow)| *is_slow);
        let doubtful = match self.distance {
            _ if self.manner.wanted.is_none() => None,
            Some(distance) => (next..distance).find(is_open),
            None => Some(next).filter(|next| is_slow && ttl < *next && is_open(next)),
        };
        doubtful.is_some_and(|doubtful| ttl > doubtful || ttl < doubtful && hop.answered > 0)
    }

    fn needs(&self, flow: u16, hop: Hop) -> bool {
        if hop.is_under_way {
            return false;
        }
        let wanted = match (flow, self.manner.wanted) {
            (0, Some(wanted)) => wanted,
            (0, None) => return hop.sent < self.rounds,
            _ => 1,
        };
        match hop.answered {
            0 => hop.tries < TRIES,
            answered => answered < wanted && hop.sent < wanted.saturating_add(SPARE),
        }
    }

    /// Records a probe that was sent.
    pub(super) fn sent(&mut self, flow: u16, ttl: u8, now: Timestamp) {
        let hop = self.hops.entry((flow, ttl)).or_default();
        hop.sent += 1;
        hop.tries += 1;
        hop.is_under_way = true;
        let (due, is_slow) = self.due.entry(ttl).or_default();
        *due = now
            + if *is_slow {
                RECOVERY
            } else {
                self.manner.interval
            };
        self.next = now + self.manner.gap;
    }

    /// Records an answer, even a late one.
    pub(super) fn answered(&mut self, flow: u16, ttl: u8, met: Met) {
        let hop = self.hops.entry((flow, ttl)).or_default();
        hop.answered += 1;
        hop.is_under_way = false;
        let Met::End { is_limited } = met else {
            if flow == 0 {
                self.highest = self.highest.max(ttl);
            }
            return;
        };
        if flow != 0 || self.distance.is_some_and(|distance| distance <= ttl) {
            return;
        }
        self.distance = Some(ttl);
        self.is_willing = !is_limited;
        // The silent hops before this one can be the same host, if probes with larger TTLs used up
        // its limited answers. They are probed again.
        let is_slow = self.due.get(&ttl).is_some_and(|(_, is_slow)| *is_slow);
        if is_limited && is_slow {
            for (_, hop) in self
                .hops
                .range_mut((0, self.highest.saturating_add(1))..(0, ttl))
            {
                hop.tries = 0;
            }
        }
    }

    /// Records that a probe is overdue. A later answer counts as late.
    pub(super) fn overdue(&mut self, flow: u16, ttl: u8, sent: Timestamp) {
        self.hops.entry((flow, ttl)).or_default().is_under_way = false;
        // No host beyond the target can answer.
        if self.distance.is_some_and(|distance| ttl > distance) {
            return;
        }
        self.is_far |= flow == 0 && ttl > self.highest;
        // A target that does not limit its answers is probed in every round, and so is the hop of a
        // trace that has only one hop.
        let is_target = self.is_willing && self.distance.is_some() && ttl > self.highest;
        let is_alone = self.manner.first_ttl == self.manner.max_ttl;
        if self.manner.wanted.is_none() && (is_target || is_alone) {
            return;
        }
        let (due, is_slow) = self.due.entry(ttl).or_default();
        (*due, *is_slow) = ((*due).max(sent + RECOVERY), self.manner.wanted.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FAR_AHEAD: u8 = 8;

    fn manner() -> Manner {
        Manner {
            first_ttl: 1,
            max_ttl: 30,
            wanted: Some(3),
            interval: 100 * MS,
            gap: 5 * MS,
            far_ahead: FAR_AHEAD,
        }
    }

    /// The behaviour of the hops: returns true if a probe with this TTL at this time is answered.
    type Path<'a> = &'a mut dyn FnMut(u8, Duration) -> bool;

    /// Runs a trace to a target `distance` hops away. Answers take 10 ms, timeouts 300 ms. Returns
    /// the TTLs and times of the probes, and the duration.
    fn run(mut pace: Pace, distance: u8, path: Path<'_>) -> (Vec<(u8, Duration)>, Duration) {
        let start = Timestamp::from_nanos(1_000_000_000);
        let (mut now, mut sent, mut under_way) = (start, Vec::new(), Vec::new());
        loop {
            under_way.retain(|&(end, flow, ttl, is_answered, begun)| {
                if end <= now && is_answered {
                    let met = if ttl >= distance {
                        Met::End { is_limited: true }
                    } else {
                        Met::Router
                    };
                    pace.answered(flow, ttl, met);
                } else if end <= now {
                    pace.overdue(flow, ttl, begun);
                }
                end > now
            });
            match pace.next(now) {
                Next::Send(flow, ttl) => {
                    let is_answered = path(ttl, now.since(start));
                    let end = now + if is_answered { 10 * MS } else { 300 * MS };
                    under_way.push((end, flow, ttl, is_answered, now));
                    pace.sent(flow, ttl, now);
                    sent.push((ttl, now.since(start)));
                }
                Next::Done => return (sent, now.since(start)),
                _ => now = now + MS,
            }
            assert!(now.since(start) < Duration::from_secs(60), "it ends");
        }
    }

    fn count(sent: &[(u8, Duration)], ttl: u8) -> usize {
        sent.iter().filter(|(its, _)| *its == ttl).count()
    }

    #[test]
    fn a_willing_route_is_known_soon_and_hardly_overshot() {
        let (sent, took) = run(Pace::new(manner()), 6, &mut |_, _| true);
        assert!((1..=6).all(|ttl| count(&sent, ttl) == 3), "{sent:?}");
        assert!(sent.iter().all(|(ttl, _)| *ttl <= 6 + AHEAD) && sent.len() <= 18 + 4);
        assert!(took < 400 * MS, "{took:?}");
        let mut scouted = Pace::new(manner());
        scouted.scouted(Some(6));
        assert_eq!(run(scouted, 6, &mut |_, _| true).0.len(), 18);
    }

    #[test]
    fn packets_keep_their_distance_and_hops_their_intervals() {
        let (sent, _) = run(Pace::new(manner()), 6, &mut |_, _| true);
        assert!(sent.windows(2).all(|pair| pair[1].1 - pair[0].1 >= 5 * MS));
        for ttl in 1..=6 {
            let times: Vec<_> = sent.iter().filter(|(its, _)| *its == ttl).collect();
            assert!(
                times
                    .windows(2)
                    .all(|pair| pair[1].1 - pair[0].1 >= 100 * MS)
            );
        }
    }

    #[test]
    fn a_limited_hop_is_found_however_empty_its_bucket_is() {
        // The bucket is empty at first and gets one token per second, like
        // `net.ipv4.icmp_ratelimit` after other traffic.
        let mut filled = 900 * MS;
        let (mut found, mut bucket) = (0, |at: Duration| {
            let has = at >= filled;
            if has {
                filled = at + 1_000 * MS;
            }
            has
        });
        let (sent, _) = run(Pace::new(manner()), 4, &mut |ttl, at| {
            let is_answered = ttl != 2 || bucket(at);
            found += u32::from(ttl == 2 && is_answered);
            is_answered
        });
        assert!(found >= 2, "{sent:?}");
    }

    #[test]
    fn a_silent_hop_is_asked_three_times_over_two_seconds() {
        let (sent, took) = run(Pace::new(manner()), 4, &mut |ttl, _| ttl != 2);
        let times: Vec<_> = sent.iter().filter(|(ttl, _)| *ttl == 2).collect();
        assert_eq!(times.len(), 3);
        assert!(
            times
                .windows(2)
                .all(|pair| pair[1].1 - pair[0].1 >= RECOVERY)
        );
        assert!(took < Duration::from_secs(3), "{took:?}");
    }

    #[test]
    fn a_silent_target_ends_the_search() {
        let (sent, took) = run(Pace::new(manner()), 4, &mut |ttl, _| ttl < 4);
        assert!(sent.iter().all(|(ttl, _)| *ttl <= 3 + FAR_AHEAD));
        assert!(took < Duration::from_secs(4), "{took:?}");
        // If the target has answered the scout, the search continues up to the maximum TTL.
        let mut scouted = Pace::new(manner());
        scouted.scouted(None);
        let (sent, _) = run(scouted, 29, &mut |ttl, _| !(4..=28).contains(&ttl));
        assert_eq!(count(&sent, 29), 3);
    }

    #[test]
    fn a_target_that_limits_its_answers_is_not_taken_to_be_farther_away() {
        // The target answers once per second, whatever the TTL. Its first answer was late.
        let mut filled = Duration::ZERO;
        let mut first = true;
        let (sent, _) = run(Pace::new(manner()), 4, &mut |ttl, at| {
            if ttl < 4 {
                return true;
            }
            if ttl == 4 && std::mem::take(&mut first) {
                return false;
            }
            let is_answered = at >= filled;
            if is_answered {
                filled = at + 1_000 * MS;
            }
            is_answered
        });
        assert!(count(&sent, 4) >= 3 && count(&sent, 5) == 1, "{sent:?}");
    }

    #[test]
    fn in_rounds_a_target_that_limits_nothing_is_asked_though_it_lost_some() {
        for (is_limited, is_due) in [(false, true), (true, false)] {
            let mut pace = Pace::new(Manner {
                wanted: None,
                ..manner()
            });
            let at = |ms| Timestamp::from_nanos(1_000_000_000) + ms * MS;
            pace.sent(0, 1, at(0));
            pace.answered(0, 1, Met::End { is_limited });
            pace.begin_round();
            pace.sent(0, 1, at(100));
            pace.begin_round();
            pace.overdue(0, 1, at(100));
            let next = pace.next(at(400));
            assert_eq!(next == Next::Send(0, 1), is_due, "{next:?}");
        }
    }

    #[test]
    fn rounds_ask_every_hop_once() {
        let mut pace = Pace::new(Manner {
            wanted: None,
            ..manner()
        });
        pace.scouted(Some(3));
        let (sent, _) = run(pace, 3, &mut |ttl, _| ttl != 2);
        assert_eq!([1, 2, 3].map(|ttl| count(&sent, ttl)), [1, 1, 1]);
    }
}

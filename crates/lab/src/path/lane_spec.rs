//! The description of one direction of a path in a scenario.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LONGEST;
use super::bottleneck::PolicerSpec;
use super::disorder::DisorderSpec;
use super::drops::DropSpec;
use super::jitter::JitterSpec;
use super::loss::{BurstLossSpec, check_share};
use super::radio::SleepSpec;
use super::thin_acks::ThinAcksSpec;
use crate::quantity::{Rate, Size, duration, optional_duration};

/// The default size of the queue before a bottleneck.
pub(super) const DEFAULT_QUEUE: Size = Size::from_bytes(64_000);

/// A direction of the path: its parts, in the order in which a packet passes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaneSpec {
    /// The MTU, at least 1,280 bytes, of a link in the middle of the path that takes only smaller
    /// packets than the hosts send. A larger packet is fragmented if it is IPv4 without DF;
    /// otherwise it is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// True if the router before that link reports this to senders, as it should (ICMP type 3 code
    /// 4, ICMPv6 type 2). On by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp: Option<bool>,
    /// Thinning of acknowledgements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thin_acks: Option<ThinAcksSpec>,
    /// A radio link that sleeps when idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sleep: Option<SleepSpec>,
    /// A policer: packets that exceed its rate are dropped, packets that conform are not delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<PolicerSpec>,
    /// Selected packets that are dropped: every packet that one of these selects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drop: Vec<DropSpec>,
    /// The share of packets that are lost at random, 0 to 1.
    pub loss: f64,
    /// Loss in bursts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_loss: Option<BurstLossSpec>,
    /// The bottleneck's rate: packets leave it one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Maximum number of bytes queued before the bottleneck, 64 kB by default. A packet that
    /// arrives when the queue is full is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Size>,
    /// Delay that varies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterSpec>,
    /// Packets that are delayed, so that others overtake them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<DisorderSpec>,
    /// The delay of this direction, in place of half the round trip; for a member, the delay that
    /// it adds.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Changes of the route, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepSpec>,
    /// Packets that are duplicated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<DisorderSpec>,
}

/// A change of the route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// The time of the change, counted from the path's first packet.
    #[serde(with = "duration")]
    pub at: Duration,
    /// The delay added to that of the first route; 0 returns to the first route.
    #[serde(with = "duration")]
    pub delay: Duration,
    /// The number of routers added to the first route. Each decreases the time to live by one and
    /// never answers.
    #[serde(default)]
    pub ttl: u8,
}

/// Minimum MTU of IPv6 links (RFC 8200 §5).
const LEAST_MTU: u16 = 1280;

impl LaneSpec {
    /// Checks that the direction is valid for hosts that send packets of up to `largest` bytes; the
    /// error is the reason why it is not.
    pub(super) fn check(&self, largest: u64) -> Result<(), String> {
        check_share(self.loss)?;
        self.check_rates(largest)?;
        if self.mtu.is_some_and(|mtu| mtu < LEAST_MTU) {
            return Err(format!("its MTU is below {LEAST_MTU}"));
        }
        if self.icmp.is_some() && self.mtu.is_none() {
            return Err("it answers for an MTU that it does not have".to_owned());
        }
        if !self.steps.is_sorted_by_key(|step| step.at) {
            return Err("its steps are not in the order of their times".to_owned());
        }
        self.check_times()?;
        self.drop.iter().try_for_each(DropSpec::check)?;
        self.thin_acks.map_or(Ok(()), |thin| thin.check())?;
        self.burst_loss.map_or(Ok(()), |loss| loss.check())?;
        self.jitter.as_ref().map_or(Ok(()), JitterSpec::check)?;
        let disorders = [self.reorder, self.duplicate];
        disorders.iter().flatten().try_for_each(DisorderSpec::check)
    }

    fn check_rates(&self, largest: u64) -> Result<(), String> {
        if self.queue.is_some_and(|queue| queue.bytes() < largest) {
            return Err(format!(
                "its queue does not hold one packet of {largest} bytes"
            ));
        }
        if self.queue.is_some() && self.rate.is_none() {
            return Err("it has a queue but no rate that would fill it".to_owned());
        }
        let too_small = |policer: PolicerSpec| policer.burst.bytes() < largest;
        if self.policer.is_some_and(too_small) {
            Err(format!(
                "its policer's burst does not hold one packet of {largest} bytes"
            ))
        } else {
            Ok(())
        }
    }

    /// Checks that no configured delay of a packet exceeds the maximum for a path.
    fn check_times(&self) -> Result<(), String> {
        let waits = [
            self.delay,
            self.sleep.map(|sleep| sleep.wake),
            self.thin_acks.map(|thin| thin.wait),
            self.reorder.map(|reorder| reorder.gap),
            self.duplicate.map(|duplicate| duplicate.gap),
            self.jitter.as_ref().map(JitterSpec::longest),
        ];
        let steps = self.steps.iter().map(|step| step.delay);
        match steps.chain(waits.into_iter().flatten()).max() {
            Some(longest) if longest > LONGEST => Err("its path is longer than 10 s".to_owned()),
            _ => Ok(()),
        }
    }

    /// Checks that queue and policer can pass a whole super-segment. This is required because
    /// segments are cut only at an MTU, not at a rate.
    pub(super) fn check_offload(&self) -> Result<(), String> {
        const WHOLE: u64 = 66_000;
        let is_small = |size: Option<Size>| size.is_some_and(|size| size.bytes() < WHOLE);
        let queue = self.rate.map(|_| self.queue.unwrap_or(DEFAULT_QUEUE));
        if is_small(self.policer.map(|policer| policer.burst)) || is_small(queue) {
            Err(format!(
                "with offload, its queue and its policer's burst have to hold {WHOLE} bytes"
            ))
        } else {
            Ok(())
        }
    }
}

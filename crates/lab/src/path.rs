//! The path between the two hosts: its description ([`PathSpec`]), its effect on a packet ([`lane`]
//! and `transit`, which perform no I/O and use virtual time), and the process that carries real
//! packets (`emulator`).
//!
//! With nothing to emulate, the hosts are joined by a plain veth pair, or are one host that talks
//! to itself over its loopback. Otherwise each host has a TUN device, and one process carries
//! packets between the two.

mod bottleneck;
pub(crate) mod chance;
mod counters;
pub(crate) mod delay_line;
mod disorder;
mod drops;
pub(crate) mod emulator;
mod fragment;
mod hop;
mod icmp;
mod jitter;
pub mod lane;
mod lane_spec;
mod loss;
mod packet;
mod priority;
mod radio;
mod stage;
mod thin_acks;
mod transit;
mod tun;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use bottleneck::PolicerSpec;
pub use counters::{DropReason, LaneCounters, PathCounters};
pub use disorder::DisorderSpec;
pub use drops::{DropSpec, Flags, Protocol};
pub use hop::{Answers, HopSpec};
pub use jitter::{Distribution, JitterSpec};
pub use lane_spec::{LaneSpec, StepSpec};
pub use loss::BurstLossSpec;
pub use packet::Packet;
pub use radio::SleepSpec;
pub use thin_acks::ThinAcksSpec;

use crate::quantity::duration;

/// The name of each host's device towards the other host.
pub(crate) const INTERFACE: &str = "path0";

/// The default maximum IP packet size of a device, in bytes: Ethernet's.
const MTU: u32 = 1500;

/// The maximum IP packet size of a loopback device, in bytes (`drivers/net/loopback.c`).
const LOOPBACK_MTU: u32 = 65_536;

/// Minimum MTU of a path: the size that every host accepts over IPv4 (RFC 1122 §3.3.2).
const LEAST_MTU: u32 = 576;

/// Maximum MTU of a path: a veth pair's, `ETH_MAX_MTU`.
const LARGEST_MTU: u32 = 65_535;

/// Minimum MTU of IPv6 links (RFC 8200 §5): a device with a smaller MTU has no IPv6.
const LEAST_IPV6_MTU: u32 = 1280;

/// Maximum round trip, and maximum delay of a direction.
const LONGEST: Duration = Duration::from_secs(10);

/// The path between the hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathSpec {
    /// The round-trip time, 0 to 10 s, half of it in each direction.
    #[serde(with = "duration")]
    pub round_trip: Duration,
    /// The direction from the client to the server.
    pub to_server: LaneSpec,
    /// The direction from the server to the client.
    pub to_client: LaneSpec,
    /// The seed of random events (loss): the same seed draws the same sequence.
    pub seed: u64,
    /// The routers on the path, the first one next to the client.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopSpec>,
    /// The number of hops before the link to which the lanes' faults apply: a packet that ends at
    /// one of these hops does not cross that link. All hops by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults_after: Option<usize>,
    /// Parallel links (ECMP, a bundle). The hash of a packet's addresses and ports selects its
    /// link, so that each connection stays on one link in each direction.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberSpec>,
    /// True if hosts send super-segments of up to 64 kB, as with a network card that segments and
    /// merges them (TSO, GRO). Captures then contain whole super-segments. By default, this is on
    /// for a veth pair or loopback and off for an emulated path. An emulated path never cuts
    /// super-segments: loss, a policer and a queue act on the whole, but an MTU applies to the size
    /// of the parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<bool>,
    /// True if client and server are one host, with the service at 127.0.0.1 or ::1; nothing is
    /// emulated in that case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub loopback: bool,
    /// The maximum IP packet size, in bytes, of the hosts' devices towards each other: by default
    /// 1,500, or 65,536 for a loopback. Below 1,280 the hosts have no IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
}

/// A link among several parallel ones. Its faults and its delays apply in addition to those of the
/// lanes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemberSpec {
    /// The direction from the client to the server.
    pub to_server: LaneSpec,
    /// The direction from the server to the client.
    pub to_client: LaneSpec,
}

/// Maximum number of parallel links of a path.
const MEMBER_LIMIT: usize = 64;

impl Default for PathSpec {
    fn default() -> Self {
        Self {
            round_trip: Duration::ZERO,
            to_server: LaneSpec::default(),
            to_client: LaneSpec::default(),
            seed: 1,
            hops: Vec::new(),
            faults_after: None,
            members: Vec::new(),
            offload: None,
            loopback: false,
            mtu: None,
        }
    }
}

impl PathSpec {
    /// Returns true if anything is to be emulated; if not, a veth pair or a loopback is used.
    pub fn is_emulated(&self) -> bool {
        let plain = LaneSpec::default();
        !self.round_trip.is_zero()
            || self.to_server != plain
            || self.to_client != plain
            || !self.hops.is_empty()
            || !self.members.is_empty()
    }

    /// Returns true if hosts send super-segments.
    pub(crate) fn is_offloaded(&self) -> bool {
        self.offload.unwrap_or(!self.is_emulated())
    }

    /// Returns the maximum IP packet size of the hosts' devices, in bytes.
    pub(crate) fn device_mtu(&self) -> u32 {
        let usual = if self.loopback { LOOPBACK_MTU } else { MTU };
        self.mtu.unwrap_or(usual)
    }

    /// Returns true if the hosts have IPv6 addresses.
    pub fn has_ipv6(&self) -> bool {
        self.device_mtu() >= LEAST_IPV6_MTU
    }

    /// Returns true if routers on the path may send packets, such as ICMP errors.
    pub(crate) fn has_routers(&self) -> bool {
        let tells = |lane: &LaneSpec| lane.mtu.is_some() && lane.icmp.unwrap_or(true);
        !self.hops.is_empty() || tells(&self.to_server) || tells(&self.to_client)
    }

    /// Returns the delays of both directions: to the server, to the client.
    pub(crate) fn delays(&self) -> (Duration, Duration) {
        let half = self.round_trip / 2;
        (
            self.to_server.delay.unwrap_or(half),
            self.to_client.delay.unwrap_or(self.round_trip - half),
        )
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let (there, back) = self.delays();
        if self.round_trip > LONGEST || there > LONGEST || back > LONGEST {
            return Err("its path is longer than 10 s".to_owned());
        }
        self.check_devices()?;
        hop::check(&self.hops, there.min(back))?;
        if self.faults_after.is_some_and(|hop| hop > self.hops.len()) {
            return Err("its faults are behind more hops than it has".to_owned());
        }
        self.check_members()?;
        let members = self.members.iter();
        let lanes = members.flat_map(|member| [&member.to_server, &member.to_client]);
        lanes
            .chain([&self.to_server, &self.to_client])
            .try_for_each(|lane| {
                lane.check(self.device_mtu().into())?;
                if self.is_emulated() && self.is_offloaded() {
                    lane.check_offload()
                } else {
                    Ok(())
                }
            })
    }

    /// Checks the settings of the hosts' devices; the error is the reason why they are invalid.
    fn check_devices(&self) -> Result<(), String> {
        if self.loopback && self.is_emulated() {
            return Err(
                "on loopback there is no path: no round trip, nothing to emulate".to_owned(),
            );
        }
        let largest = if self.loopback {
            LOOPBACK_MTU
        } else {
            LARGEST_MTU
        };
        match self.mtu {
            Some(mtu) if !(LEAST_MTU..=largest).contains(&mtu) => Err(format!(
                "its devices' MTU is not from {LEAST_MTU} to {largest}"
            )),
            _ => Ok(()),
        }
    }

    /// Checks the members. A member cannot have settings that involve the hosts or both directions,
    /// because these belong to the path as a whole.
    fn check_members(&self) -> Result<(), String> {
        if self.members.len() > MEMBER_LIMIT {
            return Err(format!("it has more than {MEMBER_LIMIT} members"));
        }
        let members = self.members.iter();
        let mut lanes = members.flat_map(|member| [&member.to_server, &member.to_client]);
        let is_odd = |lane: &LaneSpec| {
            lane.mtu.is_some()
                || lane.thin_acks.is_some()
                || lane.sleep.is_some()
                || lane.steps.iter().any(|step| step.ttl > 0)
        };
        if lanes.any(is_odd) {
            Err("a member has no MTU, thinning, sleep or time to live".to_owned())
        } else {
            Ok(())
        }
    }
}

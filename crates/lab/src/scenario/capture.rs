//! The settings of a scenario's recordings: the round trips, and the file format.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{optional_duration, parse_duration};

/// The settings of a scenario's recordings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaptureSpec {
    /// The round trips at which the scenario is recorded; if empty, the path's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub round_trips: Vec<String>,
    /// The settings of segmentation offload, on or off; if empty, the path's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offload: Vec<bool>,
    /// True if the client sends requests over IPv6.
    pub ipv6: bool,
    /// The device to listen on in place of the path's own: `any` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The number of bytes kept of each packet; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u32>,
    /// The time that the load runs before the recording begins.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub begin_after: Option<Duration>,
    /// The file format.
    pub format: CaptureFormat,
    /// The VLAN whose tag every frame has; only if the path is a veth pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// The share of packets that are missing from the file, 0 to 1.
    pub lose: f64,
    /// The circumstances that the truth depends on; recordings with randomly drawn parameters do
    /// not change them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<Circumstance>,
    /// True if nothing else may be recorded at the same time, because the scenario's truth depends
    /// on the load of the processors.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

/// A circumstance of a recording that may vary if the truth does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Circumstance {
    /// The round trip, between the minimum and the maximum at which the scenario is recorded.
    Distance,
    /// The number of hosts: a single host that is client and server, or two.
    Loopback,
    /// The MTU of the hosts' devices.
    Mtu,
    /// Segmentation offload: whether segments leave the hosts as large (TSO/GRO) packets.
    Offload,
    /// The version of IP.
    Ip,
    /// The port.
    Port,
    /// The client's receive buffer of a connection.
    ReceiveBuffer,
    /// The number of connections in parallel.
    Connections,
    /// The size of responses.
    Size,
    /// The number of bytes kept of each packet.
    Snapshot,
    /// The file format.
    Format,
    /// The beginning of the recording: at the start of the load, or later.
    Begin,
}

/// A format of capture files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaptureFormat {
    /// pcap with timestamps in nanoseconds.
    #[default]
    Pcap,
    /// pcap with timestamps in microseconds.
    PcapMicro,
    /// pcapng.
    Pcapng,
}

impl Default for CaptureSpec {
    fn default() -> Self {
        Self {
            round_trips: Vec::new(),
            offload: Vec::new(),
            ipv6: false,
            interface: None,
            snapshot: None,
            begin_after: None,
            format: CaptureFormat::Pcap,
            vlan: None,
            lose: 0.0,
            fixed: Vec::new(),
            alone: false,
        }
    }
}

impl CaptureSpec {
    /// Returns the round trips at which the scenario is recorded; `own` if it specifies none.
    pub fn distances(&self, own: Duration) -> Vec<Duration> {
        let said: Vec<_> = self
            .round_trips
            .iter()
            .filter_map(|text| parse_duration(text).ok())
            .collect();
        if said.is_empty() { vec![own] } else { said }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(bad) = self
            .round_trips
            .iter()
            .find_map(|text| parse_duration(text).err())
        {
            return Err(format!("its recording: {bad}"));
        }
        if !(0.0..1.0).contains(&self.lose) {
            return Err(format!("its recording cannot lose {} of it", self.lose));
        }
        if self.snapshot.is_some_and(|bytes| bytes < 64) {
            return Err("its recording keeps less of a packet than its headers".to_owned());
        }
        Ok(())
    }
}

//! The scenario with its fault switched off, which proves that the fault causes the difference.

use serde::{Deserialize, Serialize};

use super::Scenario;
use crate::host::HostSpec;
use crate::host::firewall::Firewall;
use crate::load::Load;
use crate::path::PathSpec;
use crate::server::Server;

/// The parts of a scenario without the fault. Each replaces the whole corresponding part of the
/// scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Without {
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathSpec>,
    /// The host that sends requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<HostSpec>,
    /// The host that answers requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<HostSpec>,
}

/// The parts of a service without the fault. Each replaces the whole corresponding part of the
/// service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceWithout {
    /// The server that listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// The packet filter: `open` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firewall: Option<Firewall>,
    /// True if the server's processes are neither stopped nor given a quota.
    pub no_control: bool,
    /// The clients' load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// The programs that run in parallel to the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<Vec<Vec<String>>>,
}

impl Without {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Scenario {
    /// Returns true if the scenario specifies how to switch its fault off.
    pub(crate) fn has_off_switch(&self) -> bool {
        !self.without.is_empty()
            || self
                .services
                .iter()
                .any(|service| service.without.is_some())
    }

    /// Returns the scenario with its fault switched off. The round trip is kept, because it may
    /// have been requested explicitly.
    #[must_use]
    pub(crate) fn switched_off(mut self) -> Self {
        let without = std::mem::take(&mut self.without);
        if let Some(path) = without.path {
            let round_trip = self.path.round_trip;
            self.path = PathSpec { round_trip, ..path };
        }
        self.client = without.client.unwrap_or(self.client);
        self.server = without.server.unwrap_or(self.server);
        for service in &mut self.services {
            let Some(without) = service.without.take() else {
                continue;
            };
            service.server = without.server.unwrap_or_else(|| service.server.clone());
            service.load = without.load.unwrap_or_else(|| service.load.clone());
            service.background = without
                .background
                .unwrap_or_else(|| std::mem::take(&mut service.background));
            service.firewall = without.firewall.or_else(|| service.firewall.take());
            if without.no_control {
                (service.cpu_quota, service.stop) = (None, None);
            }
        }
        self
    }
}

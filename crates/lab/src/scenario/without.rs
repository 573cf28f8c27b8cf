//! The same scenario with its fault switched off: what shows that the fault makes the difference.

use serde::{Deserialize, Serialize};

use super::{HostSpec, Scenario};
use crate::firewall::Firewall;
use crate::load::Load;
use crate::path::PathSpec;
use crate::server::Server;

/// Parts of a scenario without the fault. Each takes the place of the scenario's own, whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Without {
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathSpec>,
    /// The host that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<HostSpec>,
    /// The host that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<HostSpec>,
}

/// Parts of a service without the fault. Each takes the place of the service's own, whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceWithout {
    /// What listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// What the packet filter does: `open` for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firewall: Option<Firewall>,
    /// Whether the server's processes are neither stopped nor given a quota.
    pub no_control: bool,
    /// What asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// What runs beside the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<Vec<Vec<String>>>,
}

impl Without {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Scenario {
    /// Whether the scenario says how its fault is switched off.
    pub(crate) fn has_off_switch(&self) -> bool {
        !self.without.is_empty()
            || self
                .services
                .iter()
                .any(|service| service.without.is_some())
    }

    /// The scenario with its fault switched off. The round trip stays what it is here, for it
    /// may have been asked for.
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

//! One port of the server: what listens, what asks, and the truth about it.

use serde::{Deserialize, Serialize};

use super::{Proof, ServiceWithout, Truth, is_kebab_case};
use crate::bring_up::RESERVED_NAMES;
use crate::control::{CpuQuota, Stop};
use crate::firewall::Firewall;
use crate::load::Load;
use crate::server::Server;

/// One port of the server, what answers there, and the truth about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The service's name within its scenario.
    pub name: String,
    /// The TCP port, the same over IPv4 and IPv6.
    pub port: u16,
    /// What listens there.
    pub server: Server,
    /// What the server's packet filter does to this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firewall: Option<Firewall>,
    /// The CPU time that the server's processes get. All nginx services of a scenario are one
    /// nginx and share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<CpuQuota>,
    /// When all of the server's processes are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// What asks while the service is recorded.
    #[serde(default)]
    pub load: Load,
    /// Programs that run on the client while the load does, each with its arguments; they are
    /// ended after it. The same words are filled in as in a load's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<Vec<String>>,
    /// What a right diagnosis of this service says and does not say.
    #[serde(default)]
    pub truth: Truth,
    /// How something other than lagtrace shows that the fault is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<Proof>,
    /// What takes the place of the service's own parts where the fault is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<ServiceWithout>,
}

impl Service {
    /// Whether it is a case by itself. A database behind a server, or the resolver that the
    /// client's library asks, only belongs to another service's case, unless the scenario says
    /// how it is asked.
    pub fn is_asked(&self) -> bool {
        self.server.is_for_pages() || !self.load.is_plain()
    }

    pub(super) fn check(&self, before: &[Service]) -> Result<(), String> {
        if !is_kebab_case(&self.name) {
            return Err(format!(
                "the service's name `{}` is not lower-case words joined by hyphens",
                self.name
            ));
        }
        if RESERVED_NAMES.contains(&self.name.as_str()) {
            return Err(format!("no service may be called `{}`", self.name));
        }
        if before.iter().any(|other| other.name == self.name) {
            return Err(format!("two services are called `{}`", self.name));
        }
        if self.port == 0 {
            return Err(format!("service `{}` has port 0", self.name));
        }
        let shares = |other: &&Service| {
            other.port == self.port && !self.server.shares_port_with(&other.server)
        };
        if let Some(other) = before.iter().find(shares) {
            return Err(format!(
                "services `{}` and `{}` claim port {}",
                other.name, self.name, self.port
            ));
        }
        let named = |reason| format!("service `{}`: {reason}", self.name);
        if let Some(Firewall::Rules(rules)) = &self.firewall {
            rules.check().map_err(named)?;
        }
        self.server.check().map_err(named)?;
        self.cpu_quota
            .map_or(Ok(()), |quota| quota.check())
            .and(self.stop.map_or(Ok(()), |stop| stop.check()))
            .map_err(named)?;
        self.truth.check().map_err(named)?;
        self.load.check().map_err(named)?;
        if self.background.iter().any(Vec::is_empty) {
            return Err(named("a program in the background has no name".to_owned()));
        }
        self.proof.iter().try_for_each(Proof::check).map_err(named)
    }
}

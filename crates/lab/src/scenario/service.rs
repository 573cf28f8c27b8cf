//! Services: a port of the server, the server on that port and its load, and the truth about them.

use serde::{Deserialize, Serialize};

use super::{Proof, ServiceWithout, Truth, is_kebab_case};
use crate::host::firewall::Firewall;
use crate::load::Load;
use crate::server::{CpuQuota, Server, ServicePort, Stop};

/// The roles of the processes that serve a lab as a whole: the path, the one nginx of all nginx
/// services, and its workers. No service may have one of these names.
pub(crate) const PATH: &str = "path";
pub(crate) const NGINX: &str = "nginx";
pub(crate) const NGINX_WORKER: &str = "nginx-worker";
const RESERVED_NAMES: [&str; 3] = [PATH, NGINX, NGINX_WORKER];

/// A port of the server, the server on that port, and the truth about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// The service's name within its scenario.
    pub name: String,
    /// The TCP port, which is the same over IPv4 and IPv6.
    pub port: u16,
    /// The server that listens on the port.
    pub server: Server,
    /// The packet filter of this port on the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firewall: Option<Firewall>,
    /// The quota of CPU time of the server's processes. All nginx services of a scenario run in one
    /// nginx and share the quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<CpuQuota>,
    /// The times at which all of the server's processes are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// The clients' load while the service is recorded.
    #[serde(default)]
    pub load: Load,
    /// Programs that run on the client during the load, each with its arguments; they are ended
    /// after the load. The same placeholders are replaced as in a load's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<Vec<String>>,
    /// The content of a correct diagnosis of this service: the statements that it makes and does
    /// not make.
    #[serde(default)]
    pub truth: Truth,
    /// Evidence independent of lagtrace that the fault is present.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<Proof>,
    /// The parts that replace the service's own when the fault is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<ServiceWithout>,
}

impl Service {
    /// Returns true if the service is a case by itself. A database used by a server, or the
    /// resolver that the client's library queries, is only a part of another service's case, unless
    /// the scenario gives it its own load.
    pub fn is_asked(&self) -> bool {
        self.server.is_for_pages() || !self.load.is_plain()
    }

    /// Returns the service's port, for its server.
    pub(crate) fn port(&self) -> ServicePort<'_> {
        ServicePort {
            name: &self.name,
            port: self.port,
        }
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

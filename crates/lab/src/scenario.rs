//! Scenarios: two hosts, the path between them, the servers' services, and the truth about them.
//!
//! Input: the TOML files in the repository's `lab/` folder, which are built into the binary, or a
//! text in the same format. Output: a checked [`Scenario`]. This module does not access the system.

mod capture;
mod proof;
pub(crate) mod requirement;
pub(crate) mod service;
mod shelf;
mod truth;
mod without;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::host::{HostSpec, Shaper};
pub use capture::{CaptureFormat, CaptureSpec, Circumstance};
pub use proof::{Proof, Witness};
pub use requirement::Requirement;
pub use service::Service;
pub use truth::{Culprit, Expectation, Hidden, Truth};
pub use without::{ServiceWithout, Without};

use crate::error::Error;
use crate::path::PathSpec;

/// A reproducible situation: hosts, path, services and the correct diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The scenario's name, which is also its file name: lower-case words joined by hyphens.
    pub name: String,
    /// The title: the scenario's subject, in one line.
    pub title: String,
    /// The name of the service under test.
    pub target: String,
    /// The name of the target's healthy twin, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The path between the two hosts.
    #[serde(default)]
    pub path: PathSpec,
    /// The host that sends requests.
    #[serde(default)]
    pub client: HostSpec,
    /// The host that answers requests.
    #[serde(default)]
    pub server: HostSpec,
    /// The services of the server, at least one; a service need not listen.
    #[serde(rename = "service")]
    pub services: Vec<Service>,
    /// The parts that replace path and hosts when the fault is switched off.
    #[serde(default, skip_serializing_if = "Without::is_empty")]
    pub without: Without,
    /// The settings of the scenario's recordings.
    #[serde(default)]
    pub recording: CaptureSpec,
}

impl Scenario {
    /// Returns every scenario in this program, by name.
    ///
    /// # Errors
    /// A scenario file cannot be parsed; the crate's tests ensure that no such file is shipped.
    pub fn all() -> Result<Vec<Self>, Error> {
        shelf::FILES
            .iter()
            .map(|(name, text)| Self::parse(name, text))
            .collect()
    }

    /// Returns the scenario with this name.
    ///
    /// # Errors
    /// [`Error::UnknownScenario`], which lists the known names.
    pub fn by_name(name: &str) -> Result<Self, Error> {
        let file = shelf::FILES.iter().find(|(known, _)| *known == name);
        let (name, text) = file.ok_or_else(|| Error::UnknownScenario {
            name: name.to_owned(),
            known: shelf::FILES.iter().map(|(known, _)| *known).collect(),
        })?;
        Self::parse(name, text)
    }

    /// Reads a scenario from TOML; `origin` is the name of the text in errors.
    ///
    /// # Errors
    /// [`Error::ScenarioSyntax`] and [`Error::ScenarioSense`].
    pub fn parse(origin: &str, text: &str) -> Result<Self, Error> {
        let scenario: Self = toml::from_str(text).map_err(|source| Error::ScenarioSyntax {
            origin: origin.to_owned(),
            source: Box::new(source),
        })?;
        scenario.check_sense(origin)?;
        Ok(scenario)
    }

    /// Checks that the scenario's parts are consistent; `origin` is the name of the text in the
    /// error.
    pub(crate) fn check_sense(&self, origin: &str) -> Result<(), Error> {
        self.check().map_err(|reason| Error::ScenarioSense {
            origin: origin.to_owned(),
            reason,
        })
    }

    /// Returns the scenario with another round-trip time.
    #[must_use]
    pub fn with_round_trip(mut self, round_trip: Duration) -> Self {
        self.path.round_trip = round_trip;
        self
    }

    /// Returns the service with this name.
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.name == name)
    }

    /// Returns the service under test.
    pub fn target(&self) -> &Service {
        self.service(&self.target)
            .expect("a checked scenario has its target")
    }

    /// Returns the healthy twin of the target.
    pub fn control(&self) -> Option<&Service> {
        self.service(self.control.as_deref()?)
    }

    /// Checks all requirements of `parse` except syntax; the error is the reason why they are not
    /// met.
    fn check(&self) -> Result<(), String> {
        if !is_kebab_case(&self.name) {
            return Err(format!(
                "its name `{}` is not lower-case words joined by hyphens",
                self.name
            ));
        }
        for wanted in [Some(&self.target), self.control.as_ref()]
            .into_iter()
            .flatten()
        {
            if self.service(wanted).is_none() {
                return Err(format!("it has no service `{wanted}`"));
            }
        }
        self.path.check()?;
        if self.path.loopback {
            self.check_one_host()?;
        }
        self.recording.check()?;
        if self.recording.ipv6 && !self.path.has_ipv6() {
            return Err("it is recorded over IPv6, which its MTU is too small for".to_owned());
        }
        for host in [&self.client, &self.server] {
            host.check()?;
        }
        self.services
            .iter()
            .enumerate()
            .try_for_each(|(n, service)| service.check(&self.services[..n]))
    }
}

impl Scenario {
    /// Checks the settings of both hosts on loopback, where they are a single host with one kernel
    /// and one route to itself.
    fn check_one_host(&self) -> Result<(), String> {
        let spoken_of = HostSpec {
            sysctl: self.client.sysctl.clone(),
            files: self.client.files.clone(),
            ..HostSpec::default()
        };
        if self.client != spoken_of {
            return Err(
                "on loopback there is one host: [client] says sysctl and files, [server] the rest"
                    .to_owned(),
            );
        }
        let mut keys = self.client.sysctl.keys();
        match keys.find(|&key| self.server.sysctl.contains_key(key)) {
            Some(key) => Err(format!(
                "on loopback there is one host: `{key}` is said twice"
            )),
            None => Ok(()),
        }
    }
}

/// Returns true for lower-case words joined by single hyphens, as in the names of scenarios,
/// services and causes.
fn is_kebab_case(text: &str) -> bool {
    text.len() <= 64
        && text.split('-').all(|word| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests;

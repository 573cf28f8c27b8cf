//! A running lab, as its owner uses it.

mod bring_up;
mod crew;
mod hold;
pub(crate) mod keeper;
pub(crate) mod run;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use self::bring_up::{counters_file, server_log};
use self::hold::Hold;
use self::run::Run;
use crate::error::Error;
use crate::host::Host;
use crate::machine::helper::Helper;
use crate::machine::privilege;
use crate::path::PathCounters;
use crate::recording::{Recording, RecordingOptions};
use crate::scenario::requirement;
use crate::scenario::{Scenario, Service};
use crate::server::nginx;
use crate::server::stamp::{self, AccessLine, Stamp};
use crate::side::{Family, Side};

/// A running lab. Dropping it takes the lab down, unless it was [detached](Lab::detach) or only
/// [attached](Lab::attach) to. The end of this process, for any reason, has the same effect.
#[derive(Debug)]
pub struct Lab {
    run: Run,
    client: Host,
    server: Host,
    keeper: Option<Hold>,
}

impl Lab {
    /// Brings a scenario up. When this function returns, every server listens.
    ///
    /// # Errors
    /// [`Error::ScenarioSense`], [`Error::NeedsRoot`], [`Error::MissingTool`], or the error of the
    /// step that failed; in that case nothing of the lab remains.
    pub fn bring_up(scenario: &Scenario, helper: &Helper) -> Result<Self, Error> {
        // Anything may have been changed since the scenario was read.
        scenario.check_sense(&scenario.name)?;
        privilege::check()?;
        requirement::check(scenario)?;
        let (hold, run) = Hold::on_new_keeper(scenario, helper)?;
        Ok(Self::with(run, Some(hold)))
    }

    /// Returns a lab that another process keeps; dropping it leaves the lab running.
    pub fn attach(run: Run) -> Self {
        Self::with(run, None)
    }

    fn with(run: Run, keeper: Option<Hold>) -> Self {
        let host = |side| Host::new(side, run.namespace(side), &run.scenario.path);
        let client = host(Side::Client);
        let server = host(Side::Server);
        Self {
            run,
            client,
            server,
            keeper,
        }
    }

    /// Leaves the lab running after this process has ended, until [`crate::take_down`].
    ///
    /// # Errors
    /// The keeper has ended, and the lab with it.
    pub fn detach(mut self) -> Result<Run, Error> {
        if let Some(keeper) = self.keeper.take() {
            keeper.let_stay()?;
            self.run.is_detached = true;
        }
        Ok(self.run.clone())
    }

    /// Takes the lab down and waits until nothing of it remains. This has no effect on an attached
    /// lab, which [`crate::take_down`] takes down.
    ///
    /// # Errors
    /// The part that could not be removed; the next run tries again.
    pub fn take_down(mut self) -> Result<(), Error> {
        self.keeper.take().map_or(Ok(()), Hold::release)
    }

    /// Returns the lab's record.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the running scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.run.scenario
    }

    /// Returns the host that sends requests.
    pub fn client(&self) -> &Host {
        &self.client
    }

    /// Returns the host that answers requests.
    pub fn server(&self) -> &Host {
        &self.server
    }

    /// Returns the capture points of a recording, each with the name of its capture: the client and
    /// the server, or on loopback the single device that carries the traffic of both.
    pub(crate) fn vantages(&self) -> Vec<(&'static str, &Host)> {
        if self.run.scenario.path.loopback {
            return vec![("loopback", &self.server)];
        }
        vec![("client", &self.client), ("server", &self.server)]
    }

    /// Returns the URL of a service for requests from the client.
    pub fn url(&self, service: &Service, family: Family) -> String {
        let scheme = service.server.scheme();
        match self.server.address(family) {
            IpAddr::V4(address) => format!("{scheme}://{address}:{}/", service.port),
            IpAddr::V6(address) => format!("{scheme}://[{address}]:{}/", service.port),
        }
    }

    /// Returns the counters of the emulated path, which are written every 0.1 s; `None` if no path
    /// is emulated.
    ///
    /// # Errors
    /// The emulator's file cannot be read.
    pub fn path_counters(&self) -> Result<Option<PathCounters>, Error> {
        if !self.run.scenario.path.is_emulated() {
            return Ok(None);
        }
        let file = counters_file(&self.run);
        let text = std::fs::read(&file).map_err(Error::file("read", &file))?;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| Error::BadLog {
                path: file,
                line: 1,
                source,
            })
    }

    /// Returns the timestamps that a `think` or `pause` server with `stamps = true` has recorded so
    /// far.
    ///
    /// # Errors
    /// [`Error::UnknownService`], or the log cannot be read.
    pub fn stamps(&self, service: &str) -> Result<Vec<Stamp>, Error> {
        let service = self.service(service)?;
        stamp::read_stamps(&stamp::stamp_log(&self.run.folder(), &service.name))
    }

    /// Returns the access log so far of an nginx with `access_log = true`.
    ///
    /// # Errors
    /// [`Error::UnknownService`], or the log cannot be read.
    pub fn access_log(&self, service: &str) -> Result<Vec<AccessLine>, Error> {
        let service = self.service(service)?;
        stamp::read_access_log(&nginx::access_log(&self.run.folder(), &service.name))
    }

    /// Returns the log file of a service's server: the error log of nginx, or the output of another
    /// server.
    ///
    /// # Errors
    /// [`Error::UnknownService`].
    pub fn server_log(&self, service: &str) -> Result<PathBuf, Error> {
        Ok(server_log(&self.run, self.service(service)?))
    }

    /// Returns the service with this name.
    ///
    /// # Errors
    /// [`Error::UnknownService`].
    pub fn service(&self, name: &str) -> Result<&Service, Error> {
        let scenario = &self.run.scenario;
        scenario.service(name).ok_or_else(|| Error::UnknownService {
            scenario: scenario.name.clone(),
            service: name.to_owned(),
        })
    }

    /// Starts recording the packets at both ends with tcpdump, into one file each.
    ///
    /// # Errors
    /// [`Error::MissingTool`] or [`Error::Recording`].
    pub fn record(
        &self,
        client: &Path,
        server: &Path,
        options: &RecordingOptions,
    ) -> Result<Recording, Error> {
        Recording::start([(&self.client, client), (&self.server, server)], options)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            // The error is ignored: callers that want it use `take_down`.
            let _ = keeper.release();
        }
    }
}

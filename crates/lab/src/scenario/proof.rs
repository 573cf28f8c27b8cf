//! Evidence independent of lagtrace that a fault is present: from tshark, a counter of the kernel,
//! the server's log, the emulator, or the client's own clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{format_duration, optional_duration};
use crate::side::Side;

/// A proof of the fault; exactly one of its witnesses is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Proof {
    /// Packets that match a display filter of tshark, in which `{port}` and `{address}` are
    /// replaced by those of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tshark: Option<String>,
    /// The host whose recording tshark reads.
    pub end: Side,
    /// The increase of a kernel counter, by nstat's name of the counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
    /// The host whose kernel counter is read.
    pub host: Side,
    /// Lines that contain this text in the logs of the lab's servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// A counter of the path's emulator, such as `to_client.dropped_loss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// True to count requests that failed according to the client.
    pub errors: bool,
    /// The time by which the mean request takes longer with the fault than without, as measured by
    /// the client.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub slower_by: Option<Duration>,
    /// Minimum count with the fault.
    pub at_least: u64,
    /// Maximum count without the fault.
    pub at_most: u64,
}

impl Default for Proof {
    fn default() -> Self {
        Self {
            tshark: None,
            end: Side::Client,
            counter: None,
            host: Side::Client,
            log: None,
            path: None,
            errors: false,
            slower_by: None,
            at_least: 1,
            at_most: 0,
        }
    }
}

/// The witness of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness<'a> {
    /// Packets of one end's recording that match a display filter.
    Tshark(&'a str, Side),
    /// The increase of a host's kernel counter.
    Counter(&'a str, Side),
    /// Lines of the servers' logs.
    Log(&'a str),
    /// A counter of the path's emulator.
    Path(&'a str),
    /// Requests that failed.
    Errors,
    /// The mean time of a request with the fault, minus the mean time without it.
    Slower(Duration),
}

impl Proof {
    /// Returns the witness; `None` if none or several are set.
    pub(crate) fn witness(&self) -> Option<Witness<'_>> {
        let named = [
            self.tshark
                .as_deref()
                .map(|filter| Witness::Tshark(filter, self.end)),
            self.counter
                .as_deref()
                .map(|name| Witness::Counter(name, self.host)),
            self.log.as_deref().map(Witness::Log),
            self.path.as_deref().map(Witness::Path),
            self.errors.then_some(Witness::Errors),
            self.slower_by.map(Witness::Slower),
        ];
        let mut named = named.into_iter().flatten();
        named.next().filter(|_| named.next().is_none())
    }

    /// Describes the proof in words.
    pub fn describe(&self) -> String {
        let bounds = format!(
            "at least {} with the fault, at most {} without",
            self.at_least, self.at_most
        );
        match self.witness() {
            Some(Witness::Tshark(filter, end)) => {
                format!("packets at {end} for which tshark says `{filter}`: {bounds}")
            }
            Some(Witness::Counter(name, host)) => {
                format!("growth of the kernel counter {name} on {host}: {bounds}")
            }
            Some(Witness::Log(text)) => {
                format!("lines with `{text}` in the servers' logs: {bounds}")
            }
            Some(Witness::Path(name)) => format!("the emulated path's {name}: {bounds}"),
            Some(Witness::Errors) => format!("failed requests: {bounds}"),
            Some(Witness::Slower(time)) => format!(
                "the mean request on the client's own clock: slower by at least {}",
                format_duration(time)
            ),
            None => "nothing".to_owned(),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.witness().is_none() {
            return Err(
                "a proof names exactly one of tshark, counter, log, path, errors and slower_by"
                    .to_owned(),
            );
        }
        if self.at_most >= self.at_least {
            return Err(
                "a proof holds with and without the fault: at_most is not below at_least"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

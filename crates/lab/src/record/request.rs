//! The parameters of one recording.

use std::time::Duration;

use super::drawn::Drawn;
use crate::quantity;
use crate::scenario::Scenario;

/// The parameters of a recording that differ from the scenario's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The service; `None`: the scenario's case.
    pub service: Option<String>,
    /// The path's round trip.
    pub round_trip: Option<Duration>,
    /// True if segments cross the path as large offload (TSO/GRO) packets.
    pub offload: Option<bool>,
    /// The seed of the path's random events.
    pub seed: Option<u64>,
    /// True if the client sends requests over IPv6.
    pub ipv6: bool,
    /// The other randomly drawn parameters.
    pub drawn: Option<Drawn>,
}

impl Request {
    /// Returns the recordings that the scenario itself specifies.
    pub fn all_of(scenario: &Scenario) -> Vec<Self> {
        let spec = &scenario.recording;
        let offload: Vec<_> = if spec.offload.is_empty() {
            vec![None]
        } else {
            spec.offload.iter().copied().map(Some).collect()
        };
        let distances = spec.distances(scenario.path.round_trip);
        let each = |round_trip: Duration| {
            offload.iter().map(move |&offload| Self {
                round_trip: Some(round_trip),
                offload,
                ipv6: spec.ipv6,
                ..Self::default()
            })
        };
        distances.into_iter().flat_map(each).collect()
    }

    /// Describes in words the differences of the recording from the scenario's own settings.
    pub fn describe(&self) -> String {
        let far = self.round_trip.filter(|time| !time.is_zero());
        let offload = match self.offload {
            Some(true) => Some("offload"),
            Some(false) => Some("segments"),
            None => None,
        };
        let drawn = self.drawn.as_ref().map(Drawn::to_string);
        let said = [
            self.seed.map(|seed| format!("seed {seed}")),
            far.map(quantity::format_duration),
            offload.map(str::to_owned),
            self.ipv6.then(|| "IPv6".to_owned()),
            drawn.filter(|said| !said.is_empty()),
        ];
        let said: Vec<_> = said.into_iter().flatten().collect();
        said.join(", ")
    }

    pub(super) fn apply(&self, mut scenario: Scenario) -> Scenario {
        let paths = [Some(&mut scenario.path), scenario.without.path.as_mut()];
        for path in paths.into_iter().flatten() {
            path.round_trip = self.round_trip.unwrap_or(path.round_trip);
            path.seed = self.seed.unwrap_or(path.seed);
            path.offload = self.offload.or(path.offload);
        }
        if let Some(round_trip) = self.round_trip {
            scenario = scenario.with_round_trip(round_trip);
        }
        if let Some(drawn) = &self.drawn {
            let name = self.service.clone().unwrap_or(scenario.target.clone());
            drawn.apply(&mut scenario, &name);
        }
        scenario
    }
}

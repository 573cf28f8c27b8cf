//! Load in steps, and the knee of the latency curve.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, LoadRun};

/// Minimum number of steps for determining the knee of a curve.
const LEAST_STEPS: usize = 3;
/// Minimum power, as a share of the highest, for a step to count as equal to the step with the
/// highest power. The knee is the step with the least load among these equal steps.
const EQUAL_POWER: f64 = 0.95;
/// Maximum share of failed requests in a step that can be the knee.
const FEW_FAILURES: f64 = 0.01;

/// Load in ascending steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// The quantity that increases: `connections` or `rate`.
    pub over: String,
    /// The steps, lowest load first.
    pub steps: Vec<SweepStep>,
    /// The index of the step that is the knee: the step with the least load among those with about
    /// the highest power. Power is responses per second divided by their mean latency (Kleinrock,
    /// "Power and deterministic rules of thumb for probabilistic problems in computer
    /// communications", ICC 1979). `None` if the knee cannot be determined.
    pub knee: Option<usize>,
    /// The reason that there is no knee, or what limits the service at the knee.
    pub remark: Option<String>,
}

/// A step of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepStep {
    /// Connections kept open in parallel.
    pub connections: u32,
    /// Requests per second offered; `None` in closed loop.
    pub offered_rate: Option<f64>,
    /// Whole responses per second.
    pub rate: f64,
    /// Requests without a whole response.
    pub failed: u64,
    /// Latencies of the requests.
    pub latency_ns: Figures,
    /// True if the generator, and not the service, may have set the figures.
    pub is_generator_limit: bool,
    /// True if fewer requests were answered than were due.
    pub falls_behind: bool,
}

impl From<&LoadRun> for SweepStep {
    fn from(run: &LoadRun) -> Self {
        Self {
            connections: run.connections,
            offered_rate: run.offered_rate,
            rate: run.rate,
            failed: run.failed,
            latency_ns: run.latency_ns,
            is_generator_limit: run.generator.is_some_and(|generator| generator.is_limit),
            falls_behind: run.falls_behind,
        }
    }
}

impl SweepStep {
    /// Returns the power of a step: responses per second divided by their mean latency. The power
    /// decreases when more load only makes requests wait. It is 0 if it would not be meaningful.
    fn power(&self) -> f64 {
        let requests = self.latency_ns.count.max(1) as f64;
        // The latency of a queue that grows throughout the step depends on the step's length.
        if self.falls_behind || self.failed as f64 > requests * FEW_FAILURES {
            return 0.0;
        }
        self.rate / self.latency_ns.mean.max(1) as f64
    }
}

impl Sweep {
    /// Makes a sweep of these steps; `over` is `connections` or `rate`.
    pub fn new(over: &str, steps: Vec<SweepStep>) -> Self {
        let (knee, remark) = match knee(&steps) {
            Ok(knee) => (Some(knee), None),
            Err(remark) => (None, Some(remark.to_owned())),
        };
        Self {
            over: over.to_owned(),
            steps,
            knee,
            remark,
        }
    }
}

fn knee(steps: &[SweepStep]) -> Result<usize, &'static str> {
    if steps.len() < LEAST_STEPS {
        return Err("There are too few steps to find a knee: at least three are needed.");
    }
    let highest = steps.iter().map(SweepStep::power).fold(0.0, f64::max);
    if highest <= 0.0 && steps.iter().any(|step| step.falls_behind) {
        return Err("The service did not keep up with any step: the knee is below the first one.");
    }
    if highest <= 0.0 {
        return Err("Every step had many failures, so no knee can be found.");
    }
    let is_high = |step: &SweepStep| step.power() >= highest * EQUAL_POWER;
    let knee = steps.iter().position(is_high).unwrap_or(0);
    // The knee is confirmed by the step after it, so the generator must not limit that step either.
    if steps
        .iter()
        .take(knee + 2)
        .any(|step| step.is_generator_limit)
    {
        return Err(
            "The load generator itself became the limit, so the knee of the service is not known.",
        );
    }
    if steps.iter().skip(knee + 1).all(is_high) {
        return Err(
            "There is no knee within these steps: throughput still grew as much as latency.",
        );
    }
    let is_least = steps
        .first()
        .is_some_and(|step| step.connections == 1 && step.offered_rate.is_none());
    if knee == 0 && !is_least {
        return Err("The knee is at or below the first step: begin with less load.");
    }
    Ok(knee)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps of a service that answers each request in at least 1 ms, and at most 8,000
    /// requests per second.
    fn steps(limit: usize) -> Vec<SweepStep> {
        let step = |n: usize| {
            let connections = 1 << n;
            let rate = f64::min(1000.0 * f64::from(connections), 8000.0);
            let mean = (f64::from(connections) / rate * 1e9) as u64;
            SweepStep {
                connections,
                offered_rate: None,
                rate,
                failed: 0,
                latency_ns: Figures {
                    count: 1000,
                    mean,
                    ..Figures::default()
                },
                is_generator_limit: n >= limit,
                falls_behind: false,
            }
        };
        (0..8).map(step).collect()
    }

    #[test]
    fn the_knee_is_where_more_load_only_waits_longer() {
        let sweep = Sweep::new("connections", steps(99));
        assert_eq!((sweep.knee, &sweep.remark), (Some(3), &None));
        assert_eq!(sweep.steps[3].connections, 8);
    }

    #[test]
    fn a_knee_that_may_lie_below_the_first_step_is_not_named() {
        let above: Vec<SweepStep> = steps(99).into_iter().skip(3).collect();
        let remark = Sweep::new("connections", above).remark;
        assert!(remark.expect("a reason").contains("at or below the first"));
        // One connection is the minimum load, so the first step can be the knee.
        let mut least = steps(99);
        least.iter_mut().for_each(|step| step.rate = 1000.0);
        least.iter_mut().for_each(|step| {
            step.latency_ns.mean = u64::from(step.connections) * 1_000_000;
        });
        assert_eq!(Sweep::new("connections", least.clone()).knee, Some(0));
        // One request per second is not the minimum rate.
        for step in &mut least {
            (step.offered_rate, step.connections) = (Some(f64::from(step.connections)), 1);
        }
        let remark = Sweep::new("rate", least).remark;
        assert!(remark.expect("a reason").contains("at or below the first"));
    }

    #[test]
    fn a_step_that_was_not_kept_up_with_is_no_knee() {
        // The latency of a step with a growing queue depends on the step's length.
        let mut rates = steps(99);
        rates.iter_mut().for_each(|step| {
            step.offered_rate = Some(1000.0 * f64::from(step.connections));
            step.falls_behind = step.connections > 8;
        });
        assert_eq!(Sweep::new("rate", rates.clone()).knee, Some(3));
        rates[3].falls_behind = true;
        let knee = Sweep::new("rate", rates.clone()).knee;
        assert_eq!(knee, Some(2), "the last that was kept up with");
        rates.iter_mut().for_each(|step| step.falls_behind = true);
        let remark = Sweep::new("rate", rates).remark;
        assert!(
            remark
                .expect("a reason")
                .contains("did not keep up with any step")
        );
    }

    #[test]
    fn no_knee_is_named_where_it_may_be_the_generators_or_was_not_reached() {
        for limited in [0, 3, 4] {
            let sweep = Sweep::new("connections", steps(limited));
            assert_eq!(sweep.knee, None);
            assert!(
                sweep.remark.expect("a reason").contains("generator"),
                "{limited}"
            );
        }
        assert_eq!(Sweep::new("connections", steps(5)).knee, Some(3));
        let short = steps(99).into_iter().take(4).collect();
        assert!(
            Sweep::new("connections", short)
                .remark
                .expect("a reason")
                .contains("no knee")
        );
        let few = steps(99).into_iter().take(2).collect();
        assert!(
            Sweep::new("connections", few)
                .remark
                .expect("a reason")
                .contains("few")
        );
        let mut failing = steps(99);
        failing[3].failed = 500;
        assert_ne!(Sweep::new("connections", failing).knee, Some(3));
    }
}

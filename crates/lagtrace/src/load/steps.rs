//! Load in steps: more connections or a higher rate, one step after another.

use std::time::Duration;

use clap::Args;
use lagtrace_core::report::{Sweep, SweepStep};
use lagtrace_sources::load::{Pace, Plan};

use super::{Drawn, warm_up};
use crate::failure::{Failure, Result};

/// Minimum duration of a step: a shorter one would still be affected by the previous load.
const SHORTEST: Duration = Duration::from_millis(500);

/// Options for a load that increases in steps.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Steps")]
pub(super) struct Steps {
    /// Find the knee: more connections in each step, by a constant factor; -d is the time of all
    /// steps together
    #[arg(long, value_name = "FROM..TO", value_parser = connections)]
    #[arg(conflicts_with_all = ["rate", "ramp", "hdr", "requests"])]
    sweep: Option<(u32, u32)>,
    /// Find the knee: a higher rate in each step, by a constant amount; -d is the time of all steps
    /// together
    #[arg(long, value_name = "FROM..TO", value_parser = rates)]
    #[arg(conflicts_with_all = ["rate", "hdr", "requests"])]
    ramp: Option<(f64, f64)>,
    /// Number of steps of --sweep and --ramp
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u8).range(2..=32))]
    steps: u8,
}

impl Steps {
    /// Returns the maximum number of connections and the maximum rate over all steps.
    pub(super) fn heaviest(&self) -> (Option<u32>, Option<f64>) {
        (self.sweep.map(|(_, to)| to), self.ramp.map(|(_, to)| to))
    }

    /// Returns the quantity that increases, and the plan of each step, derived from `plan`; `None`
    /// for a load without steps.
    pub(super) fn plans(
        &self,
        plan: &Plan,
        given_warm_up: Option<Duration>,
    ) -> Result<Option<(&'static str, Vec<Plan>)>> {
        let last = f64::from(self.steps - 1);
        let part = |n: u8| f64::from(n) / last;
        let numbers = 0..self.steps;
        let (over, loads): (_, Vec<(Option<u32>, Pace)>) = match (self.sweep, self.ramp) {
            (Some((from, to)), _) => {
                let ratio = f64::from(to) / f64::from(from);
                let of = |n| (f64::from(from) * ratio.powf(part(n))).round() as u32;
                let mut counts: Vec<u32> = numbers.map(of).collect();
                counts.dedup();
                let load = |count| (Some(count), Pace::ClosedLoop);
                ("connections", counts.into_iter().map(load).collect())
            }
            (None, Some((from, to))) => {
                let of = |n| (None, Pace::Rate(from + (to - from) * part(n)));
                ("rate", numbers.map(of).collect())
            }
            (None, None) => return Ok(None),
        };
        let whole = (plan.warm_up + plan.duration) / loads.len() as u32;
        if whole < SHORTEST {
            let hint = "use a longer -d, or fewer --steps";
            return Err(Failure::new("there is less than half a second for each step").hint(hint));
        }
        let warm_up = given_warm_up.unwrap_or(warm_up(whole));
        let duration = whole.checked_sub(warm_up).filter(|left| !left.is_zero());
        let duration = duration
            .ok_or_else(|| Failure::new("the warm-up takes a whole step").hint("make -d longer"))?;
        let step = |(connections, pace): (Option<u32>, Pace)| {
            let mut step = plan.clone();
            for lane in &mut step.lanes {
                lane.connections = connections.unwrap_or(lane.connections);
            }
            (step.pace, step.warm_up, step.duration) = (pace, warm_up, duration);
            step
        };
        Ok(Some((over, loads.into_iter().map(step).collect())))
    }
}

/// Returns the report of a load in steps, which is the report of its knee or of the last step.
pub(super) fn join(over: &str, reports: Vec<Drawn>) -> Option<Drawn> {
    let loads = reports
        .iter()
        .filter_map(|(report, _)| report.load.as_ref());
    let sweep = Sweep::new(over, loads.map(SweepStep::from).collect());
    let shown = sweep.knee.unwrap_or(reports.len().saturating_sub(1));
    let (mut report, picture) = reports.into_iter().nth(shown)?;
    report.sweep = Some(sweep);
    Some((report, picture))
}

fn connections(text: &str) -> std::result::Result<(u32, u32), String> {
    range(text, |text| {
        text.parse().ok().filter(|n| (1..=60_000).contains(n))
    })
    .ok_or_else(|| format!("`{text}` is not a range of connections: write it as 1..256"))
}

fn rates(text: &str) -> std::result::Result<(f64, f64), String> {
    range(text, |text| {
        text.parse()
            .ok()
            .filter(|rate: &f64| rate.is_finite() && *rate > 0.0 && *rate <= 1e6)
    })
    .ok_or_else(|| format!("`{text}` is not a range of rates: write it as 100..2000"))
}

fn range<T: PartialOrd>(text: &str, part: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    let (from, to) = text.split_once("..")?;
    let (from, to) = (part(from)?, part(to)?);
    (from < to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_ascend() {
        assert_eq!(connections("1..256"), Ok((1, 256)));
        assert_eq!(rates("0.5..20"), Ok((0.5, 20.0)));
        for wrong in [
            "", "5", "5..", "..5", "9..3", "0..3", "1..70000", "a..b", "3..3",
        ] {
            assert!(connections(wrong).is_err(), "{wrong}");
        }
        assert!(rates("-1..5").is_err() && rates("1..inf").is_err());
    }
}

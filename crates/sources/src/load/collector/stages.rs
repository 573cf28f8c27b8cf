//! Sums of the stages of requests.

use lagtrace_core::observed::event::{LoadStages, StageTimes, TargetId};
use lagtrace_core::stats::histogram::Distribution;

/// Returns the sums of a target, with no requests counted.
pub(super) fn stages_of(target: TargetId) -> LoadStages {
    let names = StageTimes::default().each();
    LoadStages {
        target,
        stages: names
            .map(|(name, _)| (name.to_owned(), Distribution::default()))
            .into(),
        ..LoadStages::default()
    }
}

/// Adds the stages of a request; `None` means that they are unknown.
pub(super) fn add_stages(sums: &mut LoadStages, times: Option<&StageTimes>) {
    let Some(times) = times else {
        sums.without += 1;
        return;
    };
    sums.requests += 1;
    sums.acknowledged_apart += u64::from(times.is_acknowledged_apart);
    for ((_, all), (_, time)) in sums.stages.iter_mut().zip(times.each()) {
        all.record(time);
    }
}

//! Exit codes and their meaning.

use std::process::ExitCode;

use lagtrace_core::report::{LayerState, OverallResult, Report};

/// The outcome of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No finding, no deterioration, or a command that does not search for causes.
    Clean,
    /// There are findings: a cause, or a target that refuses connections or fails.
    Found,
    /// The user stopped the command before there was a result.
    Interrupted,
}

impl Outcome {
    /// Returns the outcome of a diagnosis. A cause counts as a finding. An accused layer counts
    /// too: a target that refuses connections has no exchanges, so no cause can have a cost. Failed
    /// requests count even if nothing shows why. Unexplained time does not count. A finding that only
    /// names the owner of the time does not count either. An interrupted run has a result if it
    /// measured a request or found a cause.
    pub(crate) fn of(report: &Report) -> Self {
        let overall = report.overall.as_ref();
        let is_interrupted = overall.is_some_and(|o| o.result == OverallResult::Interrupted);
        if is_interrupted && report.exchanges.count == 0 {
            return Self::Interrupted;
        }
        let accused = |state| state == LayerState::Accused;
        let is_accused = report.layers.iter().any(|layer| accused(layer.state));
        if report.accusations().next().is_some() || is_accused || report.fails() {
            Self::Found
        } else {
            Self::Clean
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Clean => Self::SUCCESS,
            Outcome::Found => Self::from(1),
            Outcome::Interrupted => Self::from(130),
        }
    }
}

/// The exit code of usage errors and of failures after which no report is printed.
pub(crate) const FAILURE: u8 = 2;

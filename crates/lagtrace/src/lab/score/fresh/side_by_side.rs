//! Recordings made in parallel. This is possible because each has its own hosts and mostly sleeps.
//! Recordings that depend on the load of the processors are made alone.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, RwLock};

use lagtrace_lab::Scenario;

use crate::interrupt::Interrupt;

/// A recording that is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) scenario: &'a Scenario,
    /// The index of the recording among those of its scenario, from 0.
    pub(super) draw: u64,
}

/// The remaining jobs.
#[derive(Debug)]
pub(super) struct Jobs<'a> {
    rest: Mutex<VecDeque<Job<'a>>>,
    /// The lock that recordings hold: for reading if others may run in parallel, for writing if
    /// they must run alone.
    machine: RwLock<()>,
}

impl Job<'_> {
    pub(super) fn is_alone(&self) -> bool {
        self.scenario.recording.alone
    }
}

impl<'a> Jobs<'a> {
    pub(super) fn new(jobs: Vec<Job<'a>>) -> Self {
        Self {
            rest: Mutex::new(jobs.into()),
            machine: RwLock::new(()),
        }
    }

    /// Performs jobs one after the other until there are none left, or the user requests a stop.
    pub(super) fn work(&self, interrupt: &Interrupt, mut record: impl FnMut(&Job<'a>)) {
        while let Some(job) = self.next(interrupt) {
            if job.is_alone() {
                let _alone = self.machine.write().unwrap_or_else(PoisonError::into_inner);
                record(&job);
            } else {
                let _beside = self.machine.read().unwrap_or_else(PoisonError::into_inner);
                record(&job);
            }
        }
    }

    fn next(&self, interrupt: &Interrupt) -> Option<Job<'a>> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        rest.pop_front().filter(|_| !interrupt.is_requested())
    }
}

//! Newly made recordings with randomly drawn parameters. They show whether diagnoses are also
//! correct outside the corpus, to which rules may have been tuned.

use std::fs;
use std::path::Path;
use std::sync::mpsc;

use anyhow::Context as _;
use lagtrace_lab::record::{Request, record};
use lagtrace_lab::{Error, Helper, Scenario};
use serde::Serialize;
use tempfile::TempDir;

use crate::console::Console;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::lab::{HELPER, failed};

mod side_by_side;

use side_by_side::{Job, Jobs};

/// Maximum number of attempts at a recording, each with other parameters, before its scenario
/// counts as one that cannot be recorded. Several are needed because a proof may reject a
/// recording.
const TRIES: u64 = 3;

/// The recordings to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'a> {
    /// The scenarios, by name; if empty, all scenarios.
    pub(super) scenarios: &'a [String],
    /// The seed from which parameters are drawn.
    pub(super) seed: u64,
    /// The number of recordings of each scenario.
    pub(super) draws: u64,
    /// The number of recordings made in parallel, except those that need the processors for
    /// themselves.
    pub(super) jobs: usize,
}

/// Recordings in a folder that is removed on drop.
#[derive(Debug)]
pub(super) struct Fresh {
    folder: TempDir,
    pub(super) seed: u64,
    /// The recordings that could not be made, each with its last attempt.
    pub(super) refused: Vec<Refused>,
    /// The rejected attempts that were followed by another attempt.
    pub(super) redrawn: Vec<Refused>,
}

/// A scenario that could not be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Refused {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// The seed of the parameters.
    pub(crate) seed: u64,
    /// The parameters, in words.
    pub(crate) drawn: String,
    /// The reason.
    pub(crate) reason: String,
    /// True if the reason is that the machine lacks a program that the scenario needs.
    pub(crate) is_for_want_of_a_tool: bool,
}

/// The result of one attempt.
enum Event {
    Recorded(String),
    Refused(Refused),
    /// A recording that could not be made; holds the last attempt.
    Never(Refused),
    /// An error with which no scenario can be recorded on this machine.
    Hopeless(Error),
}

impl Fresh {
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Copies recordings, by name, to a permanent folder.
    pub(super) fn keep<'a>(
        &self,
        recordings: impl IntoIterator<Item = &'a str>,
        folder: &Path,
    ) -> Result<()> {
        for name in recordings {
            let (from, to) = (self.folder().join(name), folder.join(name));
            let copy = || -> std::io::Result<()> {
                fs::create_dir_all(&to)?;
                for entry in fs::read_dir(&from)? {
                    let entry = entry?;
                    fs::copy(entry.path(), to.join(entry.file_name()))?;
                }
                Ok(())
            };
            copy().with_context(|| format!("cannot keep {}", to.display()))?;
        }
        Ok(())
    }
}

/// Makes the planned recordings, and varies everything that their truth does not depend on. Returns
/// `None` if the user requested a stop.
pub(super) fn make(
    plan: Plan<'_>,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Option<Fresh>> {
    let scenarios = match plan.scenarios {
        [] => Scenario::all().map_err(failed)?,
        names => {
            let named = names
                .iter()
                .map(|name| Scenario::by_name(name).map_err(failed));
            named.collect::<Result<_>>()?
        }
    };
    let mut fresh = Fresh {
        folder: tempfile::tempdir().context("create a folder for the recordings")?,
        seed: plan.seed,
        refused: Vec::new(),
        redrawn: Vec::new(),
    };
    console.outcome("seed", &plan.seed.to_string());
    let jobs = Jobs::new(jobs(&scenarios, plan.draws));
    let folder = fresh.folder().to_owned();
    let (events, came) = mpsc::channel();
    let hopeless = std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            let (events, jobs, folder) = (events.clone(), &jobs, &folder);
            let record_one = move |job: &Job<'_>| {
                attempt(job, plan, folder, interrupt, &events);
            };
            scope.spawn(move || jobs.work(interrupt, record_one));
        }
        drop(events);
        came.into_iter()
            .filter_map(|event| fresh.note(event, console, interrupt))
            .last()
    });
    match hopeless {
        Some(error) => Err(failed(error)),
        None if interrupt.is_requested() => Ok(None),
        None => Ok(Some(fresh)),
    }
}

impl Fresh {
    /// Stores the result of an attempt; returns the error if no further attempt can succeed after
    /// it.
    fn note(&mut self, event: Event, console: &Console, interrupt: &Interrupt) -> Option<Error> {
        match event {
            Event::Recorded(name) => console.outcome("recorded", &name),
            // An attempt that the user interrupted says nothing about its scenario.
            _ if interrupt.is_requested() => {}
            Event::Refused(refused) => {
                console.outcome("refused", &refused.describe());
                self.redrawn.push(refused);
            }
            Event::Never(refused) => {
                console.outcome("refused", &refused.describe());
                self.refused.push(refused);
            }
            Event::Hopeless(error) => {
                interrupt.request();
                return Some(error);
            }
        }
        None
    }
}

/// Returns the jobs of all scenarios. Jobs that need the processors for themselves come last.
fn jobs(scenarios: &[Scenario], draws: u64) -> Vec<Job<'_>> {
    let mut jobs: Vec<_> = (0..draws)
        .flat_map(|draw| scenarios.iter().map(move |scenario| Job { scenario, draw }))
        .collect();
    jobs.sort_by_key(|job| job.is_alone());
    jobs
}

/// Makes one recording, with the first parameters that the proof accepts.
fn attempt(
    job: &Job<'_>,
    plan: Plan<'_>,
    folder: &Path,
    interrupt: &Interrupt,
    events: &mpsc::Sender<Event>,
) {
    // The receiver is gone when it needs no more events, so the error is ignored.
    let say = |event| {
        let _ = events.send(event);
    };
    for turn in 0..TRIES {
        let seed = plan.seed + turn * plan.draws + job.draw;
        let request = request(job.scenario, seed);
        let error = match record_one(job.scenario, &request, folder) {
            Ok(name) => return say(Event::Recorded(name)),
            Err(error) if is_hopeless(&error) => return say(Event::Hopeless(error)),
            Err(error) => error,
        };
        let refused = Refused::new(job.scenario, &request, seed, &error);
        let is_last = turn + 1 == TRIES || refused.is_for_want_of_a_tool;
        if is_last || interrupt.is_requested() {
            return say(Event::Never(refused));
        }
        say(Event::Refused(refused));
    }
}

/// Returns one of the recordings that a scenario specifies, selected by the seed, with parameters
/// drawn from the seed.
fn request(scenario: &Scenario, seed: u64) -> Request {
    let mut requests = Request::all_of(scenario);
    let which = usize::try_from(seed).unwrap_or_default() % requests.len().max(1);
    requests.swap_remove(which).vary(scenario, seed)
}

/// Makes the recording, and returns its name with the drawn parameters.
fn record_one(
    scenario: &Scenario,
    request: &Request,
    folder: &Path,
) -> std::result::Result<String, Error> {
    let helper = Helper::this_program(HELPER);
    let (_, label) = record(scenario, request, &helper, folder)?;
    Ok(format!("{}: {}", label.scenario, label.describe()))
}

impl Refused {
    fn new(scenario: &Scenario, request: &Request, seed: u64, error: &Error) -> Self {
        let is_for_want_of_a_tool = matches!(
            error,
            Error::MissingTool { .. } | Error::MissingProgram { .. }
        );
        Self {
            scenario: scenario.name.clone(),
            seed,
            drawn: request.describe(),
            reason: error.chain(),
            is_for_want_of_a_tool,
        }
    }

    /// Describes the reason and the parameters.
    pub(crate) fn describe(&self) -> String {
        format!("{} ({})", self.reason, self.drawn)
    }
}

/// Returns true if the error also prevents recording any other scenario.
fn is_hopeless(error: &Error) -> bool {
    matches!(error, Error::NeedsRoot | Error::NeedsCapabilities { .. })
}

/// Returns a seed taken from the clock.
pub(super) fn any_seed() -> u64 {
    // Few digits, so that a person can type it again.
    crate::clock::now().as_nanos().unsigned_abs() / 1_000 % 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_drawn_so_often_and_what_must_be_alone_comes_last() {
        let names = ["compression-cost", "server-think", "packet-loss"];
        let named = names.map(|name| Scenario::by_name(name).expect("a shipped scenario"));
        let planned = jobs(&named, 2);
        let order: Vec<_> = planned
            .iter()
            .map(|job| (job.scenario.name.as_str(), job.draw))
            .collect();
        assert_eq!(
            order,
            [
                ("server-think", 0),
                ("packet-loss", 0),
                ("server-think", 1),
                ("packet-loss", 1),
                ("compression-cost", 0),
                ("compression-cost", 1),
            ]
        );
    }

    #[test]
    fn what_is_kept_is_whole_and_nothing_else_is() {
        let fresh = Fresh {
            folder: tempfile::tempdir().expect("a folder"),
            seed: 1,
            refused: Vec::new(),
            redrawn: Vec::new(),
        };
        for name in ["right", "wrong"] {
            fs::create_dir(fresh.folder().join(name)).expect("a recording");
            for file in ["client.pcap.gz", "truth.json"] {
                let text = format!("{file} of {name}");
                fs::write(fresh.folder().join(name).join(file), text).expect("a file");
            }
        }
        let kept = tempfile::tempdir().expect("a folder");
        let place = kept.path().join("deep");
        // Both ends of a recording may be wrong.
        fresh.keep(["wrong", "wrong"], &place).expect("copies");
        let truth = fs::read_to_string(place.join("wrong/truth.json")).expect("a copy");
        assert_eq!(truth, "truth.json of wrong");
        assert!(place.join("wrong/client.pcap.gz").exists() && !place.join("right").exists());
        assert!(fresh.keep(["missing"], &place).is_err());
    }
}

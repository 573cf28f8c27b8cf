//! Recordings made anew: what was tuned to the corpus does not help with them.

use std::path::Path;

use anyhow::Context as _;
use lagtrace_lab::record::{Request, record};
use lagtrace_lab::{Error, Helper, Scenario};
use serde::Serialize;
use tempfile::TempDir;

use crate::console::Console;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::lab::{HELPER, failed};

/// Recordings that are there for as long as this is.
#[derive(Debug)]
pub(super) struct Fresh {
    folder: TempDir,
    /// What could not be recorded.
    pub(super) refused: Vec<Refused>,
}

/// A scenario that could not be recorded.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Refused {
    /// Its name.
    pub(crate) scenario: String,
    /// Why.
    pub(crate) reason: String,
    /// Whether the machine lacks something that it needs.
    pub(crate) is_for_want_of_a_tool: bool,
}

impl Fresh {
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Records each of these scenarios, or all, once, with everything changed that
/// its truth does not depend on; `None` if the user asked to stop.
pub(super) fn make(
    names: &[String],
    seed: u64,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Option<Fresh>> {
    let scenarios = match names {
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
        refused: Vec::new(),
    };
    console.outcome("seed", &seed.to_string());
    for scenario in &scenarios {
        let made = record_one(scenario, seed, fresh.folder());
        if interrupt.is_requested() {
            return Ok(None);
        }
        match made {
            Ok(name) => console.outcome("recorded", &name),
            Err(error) if is_hopeless(&error) => return Err(failed(error)),
            Err(error) => {
                console.outcome("refused", &error.chain());
                fresh.refused.push(Refused {
                    scenario: scenario.name.clone(),
                    reason: error.chain(),
                    is_for_want_of_a_tool: is_missing_tool(&error),
                });
            }
        }
    }
    Ok(Some(fresh))
}

/// One of the recordings that a scenario asks for, which one by the seed; its name.
fn record_one(scenario: &Scenario, seed: u64, folder: &Path) -> std::result::Result<String, Error> {
    let mut requests = Request::all_of(scenario);
    let which = usize::try_from(seed).unwrap_or_default() % requests.len().max(1);
    let request = requests.swap_remove(which).vary(scenario, seed);
    let helper = Helper::this_program(HELPER);
    let (_, label) = record(scenario, &request, &helper, folder)?;
    Ok(format!(
        "{} {}, port {}",
        label.scenario, label.variant, label.port
    ))
}

/// Whether no other scenario could be recorded either.
fn is_hopeless(error: &Error) -> bool {
    matches!(error, Error::NeedsRoot | Error::NeedsCapabilities { .. })
}

fn is_missing_tool(error: &Error) -> bool {
    matches!(
        error,
        Error::MissingTool { .. } | Error::MissingProgram { .. }
    )
}

/// A seed that nobody chose.
pub(super) fn any_seed() -> u64 {
    // Few digits, so that a person can type it again.
    crate::conclusion::now().as_nanos().unsigned_abs() / 1_000 % 1_000_000
}

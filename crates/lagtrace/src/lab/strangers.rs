//! The command `lagtrace-lab strangers`, which measures what `lagtrace analyze` says of traffic that
//! no rule was written for.
//!
//! Each run has its own programs, faults, path and capture, all drawn from a seed. The first finding,
//! and every figure that the programs' own clocks know, is compared with the truth.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use indicatif::ProgressBar;
use lagtrace_lab::stranger::{StrangerRecording, Traffic, again, own_seed, record};
use lagtrace_lab::{Error, Helper};
use serde::Serialize;

use super::{HELPER, failed};
use crate::analyze;
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::json;
use crate::output::Format;

mod figures;
mod judge;
mod page;

use judge::JudgedRun;

/// The options of `lagtrace-lab strangers`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each run draws a protocol, sizes, think times, connections, a path, a capture,
and none, one or two faults. Both programs write down when each request began
and ended, and each wait that they added. The report is compared with these
diaries: the first finding and its owner, and each figure that they know. A
figure is true if it is within 10 % or 1 ms of them.

The first run has the seed itself, and each run that is not right is listed with
its own seed: `--seed OWN` repeats it alone. This needs root.

Examples:
  sudo lagtrace-lab strangers --seed 7 --count 100 --keep /tmp/strangers
  sudo lagtrace-lab strangers --seed 2714436621 --keep /tmp/one
  lagtrace-lab strangers --again /tmp/strangers")]
pub(super) struct Options {
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Number of runs
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    count: u64,
    /// Folder for the captures and diaries of all runs that are not right, or of a single run
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Judge the runs in this folder again, without running them
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["seed", "count", "keep"])]
    again: Option<PathBuf>,
}

/// All runs, as they were judged.
#[derive(Debug, Default, Serialize)]
pub(super) struct StrangersScore {
    /// The runs.
    cases: Vec<JudgedRun>,
    /// The runs that could not be recorded, each with its seed and the reason.
    refused: Vec<(u64, String)>,
}

/// Makes and judges the runs. The outcome is `Found` if one is not right.
pub(super) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let mut score = StrangersScore::default();
    if let Some(folder) = &options.again {
        judge_kept(folder, &mut score, console, &interrupt)?;
    } else {
        for run in 0..options.count {
            if interrupt.is_requested() {
                break;
            }
            let seed = own_seed(options.seed, run);
            make(seed, options, &mut score, console, &interrupt)?;
        }
    }
    let text = match console.output().format {
        Format::Text => page::text(&score, &console.style()),
        Format::Json => json::indented(&score) + "\n",
        Format::Ndjson => score
            .cases
            .iter()
            .map(|case| json::compact(case) + "\n")
            .collect(),
    };
    deliver(console, &text)?;
    let is_right = score.cases.iter().all(JudgedRun::is_right);
    Ok(if interrupt.is_requested() {
        // The runs until then are told.
        Outcome::Interrupted
    } else if is_right {
        Outcome::Clean
    } else {
        Outcome::Found
    })
}

/// Makes one run and judges it.
fn make(
    seed: u64,
    options: &Options,
    score: &mut StrangersScore,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<()> {
    let traffic = Traffic::draw(seed);
    let scratch = tempfile::tempdir().context("create a folder for the run")?;
    let recorded = match record(&traffic, &Helper::this_program(HELPER), scratch.path()) {
        // Its programs and its capture were interrupted too.
        _ if interrupt.is_requested() => return Ok(()),
        Ok(recorded) => recorded,
        Err(error @ (Error::NeedsRoot | Error::NeedsCapabilities { .. })) => {
            return Err(failed(error));
        }
        Err(error) => {
            console.outcome("refused", &format!("{seed}: {error:#}"));
            score.refused.push((seed, error.to_string()));
            return Ok(());
        }
    };
    let Some(case) = diagnose(&recorded, interrupt)? else {
        return Ok(());
    };
    console.outcome("run", &format!("{seed}: {}", case.told()));
    let is_alone = options.count == 1;
    if let Some(folder) = options
        .keep
        .as_ref()
        .filter(|_| is_alone || !case.is_right())
    {
        keep(scratch.path(), &folder.join(seed.to_string()))?;
    }
    score.cases.push(case);
    Ok(())
}

/// Returns the case of one run; `None` if the user requested a stop.
fn diagnose(recorded: &StrangerRecording, interrupt: &Interrupt) -> Result<Option<JudgedRun>> {
    let files = &recorded.captures;
    let report = analyze::report(files, u64::MAX, &ProgressBar::hidden(), interrupt)?;
    Ok(report.map(|report| JudgedRun::of(recorded, &report)))
}

fn judge_kept(
    folder: &Path,
    score: &mut StrangersScore,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<()> {
    let unreadable = || format!("cannot read {}", folder.display());
    let entries = fs::read_dir(folder).with_context(unreadable)?;
    let mut runs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    runs.retain(|run| run.is_dir());
    runs.sort();
    if runs.is_empty() {
        let told = format!("{} has no folders of runs", folder.display());
        return Err(Failure::new(told).hint("`--keep FOLDER` makes them"));
    }
    for run in runs {
        if interrupt.is_requested() {
            break;
        }
        let recorded = again(&run).map_err(failed)?;
        if let Some(case) = diagnose(&recorded, interrupt)? {
            console.outcome(
                "run",
                &format!("{}: {}", recorded.traffic.seed, case.told()),
            );
            score.cases.push(case);
        }
    }
    Ok(())
}

fn keep(from: &Path, to: &Path) -> Result<()> {
    let copy = || -> std::io::Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(())
    };
    copy().with_context(|| format!("cannot keep {}", to.display()))?;
    Ok(())
}

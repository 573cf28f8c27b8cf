//! The command `lagtrace-lab score`, which measures how often the diagnosis is correct for
//! recordings whose truth is known.
//!
//! The analysis of `lagtrace analyze` runs over each recording, separately for each end,
//! and its first finding is compared with the truth stored with the recording.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;

use crate::analyze;
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::page::{self as html_page, Shown};
use crate::render::harmless;
use crate::render::html::Document;

pub(crate) mod case;
mod corpus;
pub(crate) mod fresh;
mod page;
pub(crate) mod sum;
pub(crate) mod summary;

use case::{Case, End};
use corpus::Recording;
use sum::Score;

/// The default folder of recordings.
const CORPUS: &str = "corpus";

/// The options of `lagtrace-lab score`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each recording is a folder from `lagtrace-lab record`: the capture at the
client, the capture at the server, and the truth. Each capture is diagnosed
alone, as `lagtrace analyze` does. Causes without a rule in this version are
listed as such: lagtrace can only miss them or report something wrong. -v lists
every diagnosis, not only the wrong ones.

--fresh makes a new recording of each scenario with random parameters, unless
its truth depends on them: distance, loopback or not, MTU, offload, IPv4 or
IPv6, port, size, connections, receive buffer, and what the capture keeps. It
scores these recordings and prints the parameters of wrong diagnoses. Equal
seeds give equal parameters. A recording that the scenario's proof does not
confirm is not scored, and is made again at most twice with other parameters.
This needs root.

Examples:
  lagtrace-lab score
  lagtrace-lab score --only nagle --vantage server
  lagtrace-lab score --html score.html
  lagtrace-lab score /tmp/recordings --format json -o score.json
  sudo lagtrace-lab score --fresh --scenarios packet-loss,server-think
  sudo lagtrace-lab score --fresh --seed 51 --draws 5 --jobs 2 --keep /tmp/wrong")]
pub(super) struct Options {
    /// The folder of recordings, or of a single recording [default: corpus]
    #[arg(value_name = "FOLDER", conflicts_with = "fresh")]
    folder: Option<PathBuf>,
    /// Only recordings with TEXT in their names
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The ends whose captures to diagnose
    #[arg(long, value_enum, default_value_t, value_name = "END")]
    vantage: Vantage,
    /// Make new recordings and score them
    #[arg(long)]
    fresh: bool,
    /// Record only these scenarios, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "fresh")]
    scenarios: Vec<String>,
    /// Seed of the random parameters
    #[arg(long, value_name = "N", requires = "fresh")]
    seed: Option<u64>,
    /// Number of recordings per scenario
    #[arg(long, default_value_t = 1, value_name = "N", requires = "fresh",
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    draws: u64,
    /// Number of concurrent recordings; those that depend on processor load run alone
    #[arg(long, default_value_t = 1, value_name = "N", requires = "fresh",
        value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,
    /// Folder for copies of wrongly diagnosed recordings
    #[arg(long, value_name = "FOLDER", requires = "fresh")]
    keep: Option<PathBuf>,
}

impl Options {
    fn only(&self) -> &str {
        self.only.as_deref().unwrap_or_default()
    }
}

/// The end whose captures are diagnosed. The capture of a loopback contains the packets of both
/// ends and is always diagnosed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Vantage {
    /// The client's
    Client,
    /// The server's
    Server,
    /// Both, each alone
    #[default]
    Both,
}

/// Scores the recordings. The outcome is `Found` if any diagnosis is wrong.
pub(super) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    if options.fresh {
        return run_fresh(options, console, &interrupt);
    }
    let folder = match &options.folder {
        Some(folder) => folder,
        None => default_folder()?,
    };
    let recordings = corpus::read(folder, options.only())?;
    if recordings.is_empty() {
        return Err(none(folder, options.only()));
    }
    match diagnose_all(&recordings, options.vantage, console, &interrupt)? {
        Some(cases) => conclude(&Score::of(cases), console),
        None => Ok(Outcome::Interrupted),
    }
}

fn run_fresh(options: &Options, console: &Console, interrupt: &Interrupt) -> Result<Outcome> {
    let seed = options.seed.unwrap_or_else(fresh::any_seed);
    let plan = fresh::Plan {
        scenarios: &options.scenarios,
        seed,
        draws: options.draws,
        jobs: options.jobs.into(),
    };
    let Some(fresh) = fresh::make(plan, console, interrupt)? else {
        return Ok(Outcome::Interrupted);
    };
    let recordings = corpus::read(fresh.folder(), options.only())?;
    if recordings.is_empty() && fresh.refused.is_empty() {
        return Err(none(fresh.folder(), options.only()));
    }
    let Some(cases) = diagnose_all(&recordings, options.vantage, console, interrupt)? else {
        return Ok(Outcome::Interrupted);
    };
    let wrong = cases.iter().filter(|case| case.is_wrong());
    let kept = options.keep.as_deref();
    if let Some(folder) = kept {
        fresh.keep(wrong.map(|case| &*case.recording), folder)?;
    }
    conclude(&Score::of_fresh(cases, fresh, kept), console)
}

fn default_folder() -> Result<&'static Path> {
    let folder = Path::new(CORPUS);
    if folder.is_dir() {
        return Ok(folder);
    }
    let hint = "give a folder of recordings, or make one: sudo lagtrace-lab record --all";
    Err(Failure::new(format!("there is no folder `{CORPUS}` here")).hint(hint))
}

fn none(folder: &Path, only: &str) -> Failure {
    let folder = folder.display();
    if only.is_empty() {
        let hint = format!("sudo lagtrace-lab record --all -o {folder} makes some");
        Failure::new(format!("there are no recordings in {folder}")).hint(hint)
    } else {
        Failure::new(format!("no recording in {folder} has `{only}` in its name"))
    }
}

/// Returns the cases by recording and end, and diagnoses as many captures at a time as there are
/// processors; `None` if the user requested a stop.
fn diagnose_all(
    recordings: &[Recording],
    vantage: Vantage,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Option<Vec<Case>>> {
    let ends = |recording| captures_of(recording, vantage);
    let captures: Vec<_> = recordings.iter().flat_map(ends).collect();
    let progress = console.spinner("scoring");
    let next = AtomicUsize::new(0);
    let work = || {
        let mut cases = Vec::new();
        while !interrupt.is_requested() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(recording, end, capture)) = captures.get(index) else {
                break;
            };
            progress.set_message(harmless(&recording.name));
            cases.push((index, diagnose(recording, end, capture, interrupt)));
        }
        cases
    };
    let mut cases = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(thread::ScopedJoinHandle::join);
        let cases = ended.flat_map(|cases| cases.unwrap_or_else(|panic| resume_unwind(panic)));
        cases.collect::<Vec<_>>()
    });
    cases.sort_by_key(|&(index, _)| index);
    let cases = cases.into_iter().map(|(_, case)| case);
    let cases: Option<Vec<Case>> = cases.collect::<Result<Vec<_>>>()?.into_iter().collect();
    progress.finish_and_clear();
    Ok(cases.filter(|_| !interrupt.is_requested()))
}

/// Returns the captures of a recording that are to be diagnosed.
fn captures_of(
    recording: &Recording,
    vantage: Vantage,
) -> impl Iterator<Item = (&Recording, End, &PathBuf)> {
    let captures = recording.captures.iter();
    let meant = captures.filter(move |(end, _)| !vantage.leaves_out(*end));
    meant.map(move |(end, capture)| (recording, *end, capture))
}

/// Returns the case of one capture; `None` if the user requested a stop.
fn diagnose(
    recording: &Recording,
    end: End,
    capture: &Path,
    interrupt: &Interrupt,
) -> Result<Option<Case>> {
    let files = [capture.to_owned()];
    let report = analyze::report(&files, u64::MAX, &ProgressBar::hidden(), interrupt)?;
    Ok(report.map(|report| Case::new(&recording.name, end, &recording.label, &report)))
}

impl Vantage {
    fn leaves_out(self, end: End) -> bool {
        match self {
            Self::Client => end == End::Server,
            Self::Server => end == End::Client,
            Self::Both => false,
        }
    }
}

fn conclude(score: &Score, console: &Console) -> Result<Outcome> {
    let document = match console.output().format {
        Format::Text => page::text(score, &console.style()),
        Format::Json => score.json(),
        Format::Ndjson => score.ndjson(),
    };
    let shown = || Shown {
        document: Document::of_score(score.value()),
        text: page::blocks(score),
    };
    html_page::beside(console, shown, || deliver(console, &document))?;
    Ok(if score.is_wrong() {
        Outcome::Found
    } else {
        Outcome::Clean
    })
}

#[cfg(test)]
mod tests;

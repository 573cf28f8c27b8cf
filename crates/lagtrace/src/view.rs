//! The command `lagtrace view`, which shows a report or a capture as a page in a browser.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use lagtrace_core::report::{Picture, Report};

use crate::analyze;
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::page::{self, Shown};
use crate::picture::Pictured;
use crate::render::html::Document;
use crate::saved::{self, Saved};

mod desktop;
mod place;

use place::Reader;

/// The options of `lagtrace view`.
#[derive(Debug, Args)]
#[command(after_help = "\
The page is one file without references to others, in $XDG_RUNTIME_DIR or the
folder for temporary files, readable only for its owner. Nothing is sent
anywhere. With --html FILE the page is written there and not opened. Started by
sudo, the page belongs to the user who started it, and no browser runs as root.

Examples:
  lagtrace view report.json
  lagtrace view slow.pcap
  lagtrace view client.pcap server.pcap
  lagtrace view slow.pcap --redact --html to-share.html
  lagtrace view comparison.json.gz --no-open")]
pub(crate) struct Options {
    /// A report or a comparison (JSON, or JSON compressed by gzip), or captures
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only print the path of the page
    #[arg(long)]
    no_open: bool,
}

/// Makes the page, prints its path and opens it.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let Some(shown) = shown(&options.files, console)? else {
        return Ok(Outcome::Interrupted);
    };
    if let Some(path) = &console.output().html {
        page::write(path, shown, console)?;
        return Ok(Outcome::Clean);
    }
    let reader = Reader::of_this_run();
    let mut file = place::temporary(&reader)?;
    page::write_to(file.as_file_mut(), shown, console).context("cannot write the page")?;
    let page = file.into_temp_path().keep().context("keep the page")?;
    deliver(console, &format!("{}\n", page.display()))?;
    if !options.no_open
        && let Err(reason) = desktop::open(&page, &reader)
    {
        console.note(&reason);
    }
    Ok(Outcome::Clean)
}

/// Returns what the files show; `None` if the user stopped the analysis before there was a report.
fn shown(files: &[PathBuf], console: &Console) -> Result<Option<Shown>> {
    if let [path] = files
        && is_document(path)
    {
        return Ok(Some(match saved::any(path)? {
            Saved::Report(report) => Document::of_report(&report, None).into(),
            Saved::Comparison(comparison) => {
                Document::of_comparison(&comparison, None, None).into()
            }
            Saved::Verified(both) => {
                Document::of_comparison(&both.comparison, None, Some(&both.report)).into()
            }
        }));
    }
    if let Some(path) = files.iter().find(|path| is_document(path)) {
        let failure = format!("{} is a report: it is shown alone", path.display());
        let hint = "`lagtrace compare BEFORE.json AFTER.json --html FILE` shows two reports";
        return Err(Failure::new(failure).hint(hint));
    }
    let pictured = analyzed(files, console)?;
    Ok(pictured.map(|(report, picture)| Document::of_report(&report, picture).into()))
}

/// Returns true if a file is a JSON document. A file that cannot be read is not: the analysis says
/// why.
fn is_document(path: &Path) -> bool {
    path != Path::new("-") && saved::is_document(path).unwrap_or_default()
}

fn analyzed(files: &[PathBuf], console: &Console) -> Result<Option<(Report, Option<Picture>)>> {
    let interrupt = Interrupt::listen()?;
    let progress = console.bytes("reading", 0);
    let pictured = Pictured::default();
    let report = analyze::pictured(files, &progress, &interrupt, &pictured)?;
    Ok(report.map(|report| {
        let picture = pictured.finish(&report);
        (report, picture)
    }))
}

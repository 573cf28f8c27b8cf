//! `lagtrace analyze`: captures in, diagnosis out.

use std::path::PathBuf;

use clap::Args;
use indicatif::ProgressBar;
use lagtrace_core::analyzer::{self, Analyzer};
use lagtrace_core::connections::Wanted;
use lagtrace_core::event::{Event, EventBody, Origin, Phase, PointId};
use lagtrace_core::report::Report;
use lagtrace_core::time::{ClockId, Timestamp};
use lagtrace_sources::capture::{CaptureError, FileCapture};

use crate::conclusion;
use crate::console::Console;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

mod connections;
mod input;
mod merge;

use connections::ConnectionOptions;

/// What to analyze.
#[derive(Debug, Args)]
#[command(after_help = "\
Several files are several observation points of the same traffic, such as one
capture at the client and one at the server. Files that gzip, zstd or lz4
compressed are read as they are. Damaged files are analysed as far as they go.

Examples:
  lagtrace analyze slow.pcap
  lagtrace analyze client.pcapng server.pcapng
  lagtrace analyze slow.pcap --format json -o report.json
  lagtrace analyze slow.pcap.zst
  lagtrace analyze slow.pcap --connections
  lagtrace analyze slow.pcap --connections 5 --connections-by retransmissions -v
  ssh server tcpdump -U -w - tcp port 8080 | lagtrace analyze -c 100000 -")]
pub(crate) struct Options {
    /// Capture files, pcap or pcapng, compressed or not; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Stop after COUNT TCP packets of each file
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    connections: ConnectionOptions,
}

/// Analyses the files and prints the report.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let progress = console.bytes("reading", 0);
    let limit = options.count.unwrap_or(u64::MAX);
    let wanted = options.connections.wanted(room(options.files.len()));
    match reading(&options.files, limit, &progress, &interrupt, wanted)? {
        Some(report) => options.connections.show(&report, console),
        None => Ok(Outcome::Interrupted),
    }
}

/// What `limit` packets of each file amount to; `None` if the user asked to
/// stop before there was any.
pub(crate) fn report(
    files: &[PathBuf],
    limit: u64,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<Option<Report>> {
    reading(files, limit, progress, interrupt, Wanted::default())
}

/// The same with the connections that are wanted.
fn reading(
    files: &[PathBuf],
    limit: u64,
    progress: &ProgressBar,
    interrupt: &Interrupt,
    wanted: Wanted,
) -> Result<Option<Report>> {
    let mut captures = open(files, progress, interrupt)?;
    let mut analyzer = Analyzer::new(analyzer::Options {
        connections: wanted,
        ..conclusion::options(Vec::new())
    });
    merge::drain(&mut captures, limit, interrupt, |packet| {
        analyzer.packet(packet);
    });
    progress.finish_and_clear();
    for (index, capture) in captures.iter().enumerate() {
        analyzer.observe(summary(index, files.len(), capture));
    }
    let packets: u64 = captures.iter().map(|c| c.summary().packets).sum();
    if interrupt.is_requested() {
        if packets == 0 {
            return Ok(None);
        }
        analyzer.observe(conclusion::note(
            "interrupted",
            format!("Interrupted after {packets} packets: the rest was not read."),
        ));
    }
    let names: Vec<_> = captures.iter().map(|c| c.summary().name).collect();
    let mut report = analyzer.finish();
    "analyze".clone_into(&mut report.command);
    report.subject = names.join(", ");
    connections::name_files(&mut report, &names, room(files.len()));
    report.started = conclusion::started(report.capture.as_ref().map(|c| c.start_ns));
    Ok(Some(report))
}

fn open(
    files: &[PathBuf],
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<Vec<FileCapture>> {
    let count = files.len();
    let open = |(index, path): (usize, &PathBuf)| {
        let (name, input) = input::open(path, progress, interrupt)?;
        let point = first_point(index, count);
        FileCapture::from_reader(name, input, point).map_err(refused)
    };
    files.iter().enumerate().map(open).collect()
}

/// The points of one file's interfaces follow each other, so files share the
/// numbers evenly.
fn first_point(index: usize, files: usize) -> PointId {
    PointId(u16::try_from(index * room(files)).unwrap_or(u16::MAX))
}

/// How many points each of so many files has room for.
fn room(files: usize) -> usize {
    usize::from(u16::MAX) / files.max(1)
}

fn summary(index: usize, files: usize, capture: &FileCapture) -> Event {
    let origin = Origin {
        point: first_point(index, files),
        clock: ClockId::File(u16::try_from(index).unwrap_or(u16::MAX)),
        number: 0,
    };
    Event {
        origin,
        at: Timestamp::MAX,
        phase: Phase::Baseline,
        body: EventBody::Capture(capture.summary()),
    }
}

fn refused(error: CaptureError) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

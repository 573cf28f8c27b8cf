//! The command `lagtrace capture`: captures live packets into a file, into the analysis, or both.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::decode::MAX_CAPTURED;
use lagtrace_core::observed::event::{Event, EventBody, Origin, Phase, PointId};
use lagtrace_core::observed::time::ClockId;
use lagtrace_core::views::picture::Keeps;
use lagtrace_sources::capture::{
    Arrival, CaptureError, LiveCapture, LiveOptions, LiveOutcome, Written,
};

use crate::clock;
use crate::conclusion::{self, About};
use crate::confinement::Needs;
use crate::console::Console;
use crate::duration;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::{Interrupt, LONGEST_WAIT};
use crate::words;

/// The options of `lagtrace capture`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without -w the packets are analysed as they arrive. Ctrl-C ends the capture and
prints the report. Capturing needs CAP_NET_RAW.

Examples:
  sudo lagtrace capture -i eth0 tcp port 8080
  sudo lagtrace capture -i eth0 -d 10s --format json tcp port 8080
  sudo lagtrace capture -i any -w slow.pcap -c 100000 host 10.0.0.5
  sudo lagtrace capture -i lo -w - | tshark -r -")]
pub(crate) struct Options {
    /// The interface; `any` means all interfaces
    #[arg(short, long, value_name = "IF", default_value = "any")]
    interface: String,
    /// Write the packets to FILE as pcap; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Also analyse the packets while writing them
    #[arg(long, requires = "write")]
    analyze: bool,
    /// Stop after COUNT packets
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after TIME
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_positive)]
    duration: Option<Duration>,
    /// Keep at most BYTES of each packet
    #[arg(short, long, value_name = "BYTES", default_value_t = MAX_CAPTURED)]
    #[arg(value_parser = clap::value_parser!(u32).range(64..=i64::from(MAX_CAPTURED)))]
    snapshot_length: u32,
    /// Filter for packets, in the syntax of pcap-filter(7)
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

/// Returns what a capture needs although it is confined: no connections.
pub(crate) fn needs() -> Needs {
    let mut needs = Needs::network();
    needs.scope.packets = true;
    needs.rules.ports = Some(Vec::new());
    needs
}

/// Captures until the user, the packet count or the duration ends the capture; then prints the
/// report.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let is_stdout = options.write.as_deref() == Some(Path::new("-"));
    if is_stdout && options.analyze && console.output().output.is_none() {
        let failure = Failure::new("packets and report cannot both go to standard output");
        return Err(failure.hint("write the report to a file with -o"));
    }
    if options.write.is_some() && !options.analyze && console.output().html.is_some() {
        let failure = Failure::new("without --analyze there is no report to show on a page");
        return Err(failure.hint("add --analyze, or make the page from the file afterwards"));
    }
    let interrupt = Interrupt::listen()?;
    let started = clock::now();
    let stop = Arc::new(AtomicBool::new(false));
    let capture = LiveCapture::start(&live_options(options), stop).map_err(refused)?;
    let is_drawn = console.output().is_drawn();
    let wanted = conclusion::options(Vec::new());
    let mut analyzer = conclusion::live_analyzer(wanted, is_drawn, Keeps::Latest);
    let mut outcome = follow(capture, options, console, &interrupt, &mut analyzer);
    let packets: u64 = outcome
        .summaries
        .iter()
        .map(|(_, summary)| summary.packets)
        .sum();
    let is_only_written = options.write.is_some() && !options.analyze;
    if packets == 0 && interrupt.is_requested() && is_only_written {
        return Ok(Outcome::Interrupted);
    }
    if packets == 0 && interrupt.is_requested() {
        let subject = subject(options);
        let about = About {
            command: "capture",
            subject: &subject,
            started,
        };
        return conclusion::interrupted(about, console);
    }
    tell_losses(&outcome, console);
    let written = outcome.written.take();
    let whole = written.iter().find(|written| written.fault.is_none());
    let kept_in = whole.map(|written| written.name.clone());
    let written = tell_written(written, console);
    if is_only_written {
        // Writing was the only task, so a write error is the result of the command.
        return written.map(|()| Outcome::Clean);
    }
    if let Err(failure) = written {
        console.note(&failure.to_string());
    }
    observe(outcome, &mut analyzer);
    let (mut report, picture) = analyzer.finish_with_picture();
    "capture".clone_into(&mut report.command);
    report.subject = subject(options);
    report.started = clock::started(Some(started.as_nanos()));
    if let Some(capture) = &mut report.capture {
        capture.written = kept_in;
    }
    conclusion::conclude(&report, picture, console)
}

/// Passes packets on until the capture ends.
fn follow(
    mut capture: LiveCapture,
    options: &Options,
    console: &Console,
    interrupt: &Interrupt,
    analyzer: &mut Analyzer,
) -> LiveOutcome {
    let is_analyzed = options.write.is_none() || options.analyze;
    let progress = console.spinner("capturing");
    let mut is_stopping = false;
    loop {
        progress.set_message(words::plural(capture.packets(), "packet"));
        if interrupt.is_requested() && !is_stopping {
            is_stopping = true;
            capture.stop();
        }
        match capture.next_batch(LONGEST_WAIT) {
            Arrival::Batch(batch) if is_analyzed => {
                for packet in batch.whole() {
                    analyzer.packet(&packet);
                }
            }
            Arrival::Batch(_) | Arrival::Quiet => {}
            Arrival::Ended => break,
        }
    }
    progress.finish_and_clear();
    capture.finish()
}

fn observe(outcome: LiveOutcome, analyzer: &mut Analyzer) {
    for (point, summary) in outcome.summaries {
        let origin = Origin {
            point,
            clock: ClockId::Realtime,
            number: 0,
        };
        analyzer.observe(Event {
            origin,
            at: clock::now(),
            phase: Phase::Baseline,
            body: EventBody::Capture(summary),
        });
    }
}

fn tell_losses(outcome: &LiveOutcome, console: &Console) {
    for (_, summary) in &outcome.summaries {
        if let Some(lost @ 1..) = summary.dropped {
            let lost = words::plural(lost, "packet");
            console.note(&format!(
                "{lost} were dropped on {}: use a filter, or -s 256",
                summary.name
            ));
        }
    }
}

fn tell_written(written: Option<Written>, console: &Console) -> Result<()> {
    let Some(written) = written else {
        return Ok(());
    };
    let packets = words::plural(written.packets, "packet");
    if let Some(fault) = written.fault {
        let is_readable = matches!(fault, CaptureError::Write { .. });
        let failure = Failure::from(fault);
        return Err(if is_readable {
            failure.hint(format!("the {packets} that were written can be read"))
        } else {
            failure
        });
    }
    console.note(&format!("{packets} written to {}", written.name));
    Ok(())
}

fn live_options(options: &Options) -> LiveOptions {
    LiveOptions {
        filter: (!options.filter.is_empty()).then(|| options.filter.join(" ")),
        snap_len: options.snapshot_length,
        write: options.write.clone(),
        packets: options.count,
        duration: options.duration,
        ..LiveOptions::new(&options.interface, PointId(0))
    }
}

fn subject(options: &Options) -> String {
    let mut words = vec![options.interface.clone()];
    words.extend(options.filter.iter().cloned());
    words.join(" ")
}

/// Returns the failure of a capture that could not start, with advice on how to resolve it.
pub(crate) fn refused(error: CaptureError) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

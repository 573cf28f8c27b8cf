//! The option `--annotate`, which writes the capture with comments for Wireshark.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use lagtrace_core::analyzer::Sink;
use lagtrace_core::exchange::Exchange;
use lagtrace_core::report::{EvidenceKind, ExchangeRecord, Report};
use lagtrace_sources::capture::{Comments, MAX_COMMENTS, annotate};
use lagtrace_sources::files::{self, Kind, Output, Purpose};

use super::{input, refused};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::outputs;
use crate::render;

/// Maximum number of packets that get comments.
const MAX_PACKETS: usize = 1 << 18;

/// The comments collected so far, and the file for the copy.
pub(super) struct Annotation {
    output: Output,
    comments: Arc<Mutex<Comments>>,
}

/// Opens the output. Returns an error if the file cannot be read twice.
pub(super) fn begin(files: &[PathBuf], output: &Path) -> Result<Annotation> {
    let [path] = files else {
        let failure = Failure::new("--annotate copies a single capture");
        return Err(failure.hint("give one file, from either end"));
    };
    if files::kind(path) == Kind::Other || path.as_os_str() == "-" {
        let failure = Failure::new("--annotate reads the capture twice");
        return Err(failure.hint("write the capture to a file first"));
    }
    Ok(Annotation {
        output: outputs::create(output, Purpose::Result)?,
        comments: Arc::default(),
    })
}

impl Annotation {
    /// Returns a sink that adds comments to the packets of each exchange and passes the exchange
    /// on.
    pub(super) fn sink(&self, mut next: Option<Sink>) -> Sink {
        let comments = Arc::clone(&self.comments);
        Box::new(move |exchange: &Exchange| {
            let record = ExchangeRecord::new(exchange, "", None);
            let mut comments = comments.lock().unwrap_or_else(PoisonError::into_inner);
            for (packet, text) in render::exchange_comments(&record) {
                add(&mut comments, packet, text);
            }
            if let Some(next) = &mut next {
                next(exchange);
            }
        })
    }

    /// Writes the copy; the packets that support the findings also get comments.
    pub(super) fn write(
        self,
        path: &Path,
        report: &Report,
        (progress, interrupt): (&ProgressBar, &Interrupt),
        console: &Console,
    ) -> Result<()> {
        let mut comments = self.comments.lock().unwrap_or_else(PoisonError::into_inner);
        for finding in &report.findings {
            let text = format!("lagtrace: shows {}: {}", finding.cause, finding.title);
            let wire = finding
                .evidence
                .iter()
                .filter(|e| e.kind == EvidenceKind::Wire);
            for &packet in wire.flat_map(|piece| &piece.packets) {
                add(&mut comments, packet, render::harmless(&text));
            }
        }
        let (name, input) = input::open(path, progress, interrupt)?;
        let to = self.output.path().display().to_string();
        let done = annotate(&name, input, self.output, &comments).map_err(refused)?;
        progress.finish_and_clear();
        console.note(&format!(
            "{to}: {} packets, {} comments.",
            done.packets, done.comments
        ));
        if let Some(damage) = done.damage {
            console.note(&format!("{name} was copied only partly: {damage}."));
        }
        Ok(())
    }
}

fn add(comments: &mut Comments, packet: u64, text: String) {
    if comments.len() < MAX_PACKETS || comments.contains_key(&packet) {
        let list = comments.entry(packet).or_default();
        if list.len() < MAX_COMMENTS && !list.contains(&text) {
            list.push(text);
        }
    }
}

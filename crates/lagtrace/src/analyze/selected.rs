//! The exchanges that a reader of a served page selects, read from the capture again.

use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use lagtrace_core::analyzer::{Analyzer, Sink};
use lagtrace_core::decode::Packet;
use lagtrace_core::observed::event::PointId;
use lagtrace_core::views::picture::{Listed, Selected};
use lagtrace_sources::capture::{FileCapture, Packets};

use super::merge::Merged;
use super::picture::Again;
use super::{first_point, open, processors, rounds};
use crate::conclusion;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

/// Returns the exchanges that `selected` looks for, from the captures of the page.
pub(crate) fn exchanges_of(
    selected: Selected,
    again: &Again,
    interrupt: &Interrupt,
) -> Result<Listed> {
    let files = again.files();
    let mut captures = open(files, &ProgressBar::hidden(), interrupt)?;
    let selected = Arc::new(Mutex::new(selected));
    observe(&mut captures, &selected, interrupt);
    if interrupt.is_requested() {
        return Err(Failure::new("interrupted"));
    }
    let name = |(index, capture): (usize, &FileCapture)| {
        (first_point(index, files.len()), capture.summary().name)
    };
    let names: Vec<(PointId, String)> = captures.iter().enumerate().map(name).collect();
    let selected = selected.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(selected.clone().finish(&names))
}

/// Analyses the captures without a report, and passes every exchange on.
fn observe(captures: &mut [FileCapture], selected: &Arc<Mutex<Selected>>, interrupt: &Interrupt) {
    let selected = Arc::clone(selected);
    let sink: Sink = Box::new(move |exchange| {
        let mut selected = selected.lock().unwrap_or_else(PoisonError::into_inner);
        selected.add_exchange(exchange);
    });
    let mut analyzer = Analyzer::new(conclusion::options(Vec::new())).with_sink(sink);
    let mut merged = Merged::new(captures, u64::MAX);
    let read = |packets: &mut Packets| {
        if interrupt.is_requested() {
            packets.clear()
        } else {
            merged.next(packets)
        }
    };
    rounds::run(&mut analyzer, processors(), read, None::<fn(&Packet<'_>)>);
    analyzer.close();
}

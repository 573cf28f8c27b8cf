//! Runs the analysis, and keeps its results.

use std::sync::{Arc, Mutex};

use core::time::Duration;

use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::exchange::wait::WaitKind;
use lagtrace_core::exchange::{Exchange, Outcome};
use lagtrace_core::observed::event::TargetId;
use lagtrace_core::observed::packet::PacketNumber;
use lagtrace_core::report::Report;

use crate::block::Run;
use crate::script::Item;
use crate::wire;

/// The result of the analysis of one run.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) report: Report,
    /// Descriptions of exchanges whose waits do not add up.
    pub(crate) untiled: Vec<String>,
    /// Descriptions of complete exchanges with unexplained time.
    pub(crate) unknown: Vec<String>,
    /// True if the capture contains the start of a connection.
    pub(crate) has_handshake: bool,
}

impl Observation {
    pub(crate) fn of(run: &Run, script: &[Item]) -> Result<Self, String> {
        let played = wire::play(run, script)?;
        let mut options = Options::default();
        if !played.events.is_empty() {
            options.targets.push((TargetId::Subject, wire::server()));
        }
        let lists = Arc::new(Mutex::new((Vec::new(), Vec::new())));
        let into = Arc::clone(&lists);
        let mut analyzer = Analyzer::new(options).with_sink(Box::new(move |exchange| {
            let mut lists = into.lock().expect("no thread panicked");
            lists.0.extend(misfit(exchange));
            lists.1.extend(unknown(exchange));
        }));
        for event in played.events {
            analyzer.observe(event);
        }
        let mut asides = played.asides.iter().enumerate().peekable();
        for (segment, payload) in &played.segments {
            while let Some((index, (at, aside))) = asides.next_if(|(_, a)| a.0 <= segment.at) {
                aside.observe(index, *at, &mut analyzer);
            }
            analyzer.segment(segment, payload);
        }
        for (index, (at, aside)) in asides {
            aside.observe(index, *at, &mut analyzer);
        }
        let report = analyzer.finish();
        let (untiled, unknown) = core::mem::take(&mut *lists.lock().expect("no thread panicked"));
        let has_handshake = report
            .setups
            .outcomes
            .iter()
            .any(|o| o.outcome == "established");
        Ok(Self {
            report,
            untiled,
            unknown,
            has_handshake,
        })
    }
}

fn name(exchange: &Exchange) -> String {
    format!(
        "exchange {} of {} ({}, packets {} to {})",
        exchange.id.ordinal,
        exchange.id.client,
        exchange.outcome,
        exchange.packets.first.map_or(0, PacketNumber::get),
        exchange.packets.last.map_or(0, PacketNumber::get)
    )
}

/// Returns the fault if the waits do not tile the exchange: in order, without gap or overlap, and
/// to the nanosecond.
fn misfit(exchange: &Exchange) -> Option<String> {
    if exchange.outcome == Outcome::Cut {
        return None;
    }
    let mut cursor = exchange.begin;
    for wait in &exchange.waits {
        if wait.start != cursor || wait.end < wait.start {
            return Some(format!("{}: waits overlap or leave a gap", name(exchange)));
        }
        cursor = wait.end;
    }
    if cursor != exchange.end {
        return Some(format!("{}: waits do not reach its end", name(exchange)));
    }
    let handshake = exchange.connecting.handshake.as_ref()?;
    let tiled: Duration = handshake.waits.iter().map(|wait| wait.duration()).sum();
    (tiled != handshake.latency())
        .then(|| format!("{}: its handshake is not tiled", name(exchange)))
}

fn unknown(exchange: &Exchange) -> Option<String> {
    if !matches!(exchange.outcome, Outcome::Complete(_)) {
        return None;
    }
    let unknown: Duration = exchange
        .waits
        .iter()
        .filter(|wait| wait.kind == WaitKind::Unknown)
        .map(|wait| wait.duration())
        .sum();
    (unknown > Duration::ZERO).then(|| format!("{}: {unknown:?} unknown", name(exchange)))
}

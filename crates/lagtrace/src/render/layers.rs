//! The outcome of each layer, one per line.

use lagtrace_core::report::{Layer, LayerState, Report};

use super::page::{Page, Tone, length};
use super::words;

/// Maximum width of the padded layer names, in columns.
const NAME: usize = 16;

/// Writes each layer's outcome.
pub(super) fn write(page: &mut Page, report: &Report) {
    if report.layers.is_empty() {
        return;
    }
    page.heading("Layer by layer");
    let widest = report
        .layers
        .iter()
        .map(|layer| length(&layer.layer))
        .max()
        .unwrap_or_default();
    for layer in &report.layers {
        let name = format!("{:width$}", layer.layer, width = widest.min(NAME));
        let (mark, tone) = mark(layer.state);
        let line = line(layer);
        let marker = format!("{mark} {name}");
        let text = if layer.state == LayerState::NotMeasured {
            Tone::Dim
        } else {
            Tone::Plain
        };
        page.item(2, &marker, tone, &[(text, &line)]);
    }
}

/// Returns the sign of a state, and its tone.
pub(super) fn mark(state: LayerState) -> (&'static str, Tone) {
    match state {
        LayerState::Cleared => ("✓", Tone::Good),
        LayerState::Accused => ("✗", Tone::Bad),
        LayerState::Suspected => ("?", Tone::Caution),
        LayerState::NotMeasured => ("–", Tone::Caution),
    }
}

/// Returns the outcome of a layer, followed by the reason, or by the way to allow the measurement.
pub(super) fn line(layer: &Layer) -> String {
    if layer.because.is_empty() || layer.because == layer.line {
        return words::sentence(&layer.line);
    }
    let because = layer.because.trim_end_matches('.');
    let line = layer.line.trim_end_matches('.');
    if line.ends_with(')') {
        format!("{line}; {because}.")
    } else {
        format!("{line} ({because}).")
    }
}

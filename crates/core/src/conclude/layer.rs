//! Construction of one layer of the report.

use crate::report::{Layer, LayerState};

/// Returns a layer with its state and the reason for this state.
pub(super) fn layer(
    name: &str,
    state: LayerState,
    line: String,
    because: impl Into<String>,
) -> Layer {
    Layer {
        layer: name.to_owned(),
        state,
        line,
        because: because.into(),
    }
}

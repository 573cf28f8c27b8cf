//! The tone of a piece of text, and its width.

use anstyle::{AnsiColor, Style as Color};

/// The meaning of a piece of text to the reader, shown by its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Ordinary.
    #[default]
    Plain,
    /// Important.
    Strong,
    /// Secondary.
    Dim,
    /// Healthy.
    Good,
    /// At fault.
    Bad,
    /// To be read with care.
    Caution,
}

impl Tone {
    /// Returns the colour that shows the tone.
    pub(super) fn color(self) -> Color {
        match self {
            Self::Plain => Color::new(),
            Self::Strong => Color::new().bold(),
            Self::Dim => Color::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default().bold(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Caution => AnsiColor::Yellow.on_default().bold(),
        }
    }
}

/// Returns the number of columns of a text. Wide characters count as one column. They occur only in
/// strings from outside, and misalign only their own line.
pub(crate) fn length(text: &str) -> usize {
    text.chars().count()
}

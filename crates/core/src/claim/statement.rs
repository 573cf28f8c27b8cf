//! Statements: the observations on which a claim is judged.

use crate::observed::time::nanos;
use crate::report::{Evidence, EvidenceKind};
use crate::stats::histogram::Distribution;

/// An observation, and what it says of the claim that has it. Its words are for the reader.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    stand: Stand,
    source: Source,
    words: Evidence,
}

/// The weight of an observation for or against a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// The mechanism of the cause itself was seen.
    Shows,
    /// A circumstance that fits the cause was seen.
    Fits,
    Contradicts,
}

/// The origin of a statement in a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Own,
    /// From a claim that was merged, or of the place alone: the claim is not judged on it.
    Inherited,
}

impl Statement {
    /// Returns a statement that shows the mechanism of the cause itself.
    pub(crate) fn shows(kind: EvidenceKind, text: impl Into<String>) -> Self {
        Self::fits(kind, text).shown_if(true)
    }

    /// Returns a statement on a circumstance that fits the cause.
    pub(crate) fn fits(kind: EvidenceKind, text: impl Into<String>) -> Self {
        Self {
            stand: Stand::Fits,
            source: Source::Own,
            words: Evidence {
                kind,
                shows_mechanism: false,
                text: text.into(),
                count: None,
                median_ns: None,
                packets: Vec::new(),
                display_filter: None,
                location: None,
            },
        }
    }

    /// Returns a statement with which the claim is *possible* at most. Its text continues what would
    /// overturn the claim.
    pub(crate) fn contradicts(kind: EvidenceKind, text: impl Into<String>) -> Self {
        Self {
            stand: Stand::Contradicts,
            ..Self::fits(kind, text)
        }
    }

    /// Makes it show the mechanism, or only fit the cause.
    pub(crate) fn shown_if(mut self, shows_mechanism: bool) -> Self {
        self.stand = if shows_mechanism {
            Stand::Shows
        } else {
            Stand::Fits
        };
        self
    }

    pub(crate) fn inherited(mut self) -> Self {
        self.source = Source::Inherited;
        self
    }

    pub(crate) fn count(mut self, count: u64) -> Self {
        self.words.count = Some(count);
        self
    }

    pub(crate) fn median(mut self, of: &Distribution) -> Self {
        self.words.median_ns = of.quantile(0.5).map(nanos);
        self
    }

    pub(crate) fn packets(mut self, packets: &[u64]) -> Self {
        let known = packets.iter().copied().filter(|&number| number > 0);
        self.words.packets = known.collect();
        if self.words.packets.is_empty() {
            return self;
        }
        let list: Vec<String> = self.words.packets.iter().map(u64::to_string).collect();
        self.filter(format!("frame.number in {{{}}}", list.join(", ")))
    }

    /// Sets the display filter for the packets that show the observation.
    pub(crate) fn filter(mut self, filter: String) -> Self {
        self.words.display_filter = Some(filter);
        self
    }

    pub(crate) fn at(mut self, location: Option<String>) -> Self {
        self.words.location = location;
        self
    }

    pub(crate) fn kind(&self) -> EvidenceKind {
        self.words.kind
    }

    /// Returns how often it was observed.
    pub(crate) fn observed(&self) -> Option<u64> {
        self.words.count
    }

    pub(crate) fn is_own(&self) -> bool {
        self.source == Source::Own
    }

    pub(crate) fn shows_mechanism(&self) -> bool {
        self.stand == Stand::Shows
    }

    pub(crate) fn is_against(&self) -> bool {
        self.stand == Stand::Contradicts
    }

    /// Returns the words, for the report.
    pub(crate) fn into_words(self) -> Evidence {
        Evidence {
            shows_mechanism: self.shows_mechanism(),
            ..self.words
        }
    }
}

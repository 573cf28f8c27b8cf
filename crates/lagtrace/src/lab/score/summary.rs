//! The summary of a score that was written to a file.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Error, Value};

use super::page;
use super::sum::{Confused, Together};
use crate::render::page::{Block, Page};

/// The parts of a score that are about all of its recordings.
#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    confusion: Vec<Confused>,
    together: Together,
}

impl Summary {
    /// Returns the summary of a score: one object, or a list of its parts as in
    /// `corpus/SCORE.json`. `None` if the value is something else.
    pub(crate) fn of(score: &Value) -> Option<Result<Self, Error>> {
        let Some(parts) = score.as_array() else {
            let has = |part| score.get(part).is_some();
            let is_score = has("confusion") && has("together");
            return is_score.then(|| Self::deserialize(score));
        };
        let of = |kind: &'static str| parts.iter().filter(move |part| part["type"] == kind);
        of("case").next()?;
        let confusion = of("confusion").map(Confused::deserialize);
        let confusion: Result<Vec<_>, Error> = confusion.collect();
        let together = of("together").next().map(Together::deserialize);
        let together = together.unwrap_or_else(|| Err(Error::missing_field("together")));
        Some(confusion.and_then(|confusion| {
            Ok(Self {
                confusion,
                together: together?,
            })
        }))
    }

    /// Returns the blocks of its text.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut page = Page::recording();
        page::summary(&mut page, &self.confusion, &self.together);
        page.into_blocks()
    }
}

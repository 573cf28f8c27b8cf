//! The page: one HTML file with the results of a command and the data from which its script draws
//! the other views.
//!
//! The file needs no network and no other file. What it says of the result is complete without a
//! script. Its sentences come from the same functions as those of the text, so that the two never
//! disagree.

mod blocks;
mod document;
mod example;
mod figures;
mod page;
mod redaction;
mod request;
mod rungs;
mod setup;
mod shares;
mod summary;
mod time;
mod verdict;
mod writer;

pub(crate) use document::Document;
pub(crate) use page::{Place, page, policy};
pub(crate) use redaction::Redaction;

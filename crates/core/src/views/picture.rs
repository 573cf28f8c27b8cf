//! The picture of a diagnosis: bounded data for drawing it, collected while exchanges close.
//!
//! Ladders and connections are added by a second reading of the capture ([`Detail`]). Exchanges that
//! the picture only counts are found by another one ([`Selected`]).
//!
//! Each shard has a `Collector`. Its content depends only on the set of exchanges, not on their
//! order or on the number of shards. What the figures of the services already contain is not
//! collected again: the parts of the distribution and the percentile curves are made from them.

mod about;
mod collector;
mod connection;
mod curves;
mod detail;
mod exchanges;
mod grid;
mod kept;
mod ladder;
mod parts;
mod points;
mod selected;
mod services;
mod sketch;
mod store;
#[cfg(test)]
mod tests;
mod wanted;

pub(crate) use about::About;
pub(crate) use collector::Collector;
pub use detail::Detail;
pub use selected::{ExchangeKey, Listed, PicturePart, Selected, Selection};
pub use store::Keeps;
pub(crate) use store::SegmentStore;

//! The picture of a diagnosis: bounded data for drawing it, collected while exchanges close.
//!
//! Each shard has a [`Collector`]. Its content depends only on the set of exchanges, not on their
//! order or on the number of shards. What the figures of the services already contain is not
//! collected again: the parts of the distribution and the percentile curves are made from them.

mod collector;
mod curves;
mod exchanges;
mod grid;
mod kept;
mod parts;
mod points;
mod services;
mod sketch;
#[cfg(test)]
mod tests;

pub(crate) use collector::Collector;
pub(crate) use sketch::About;

//! State that several rules use. It is gathered once for all of them.

use super::disorder::Disorders;
use super::features::Features;
use super::held::HeldSegments;
use super::loss::Losses;
use super::secured::LatencyWithSetup;
use super::silences::TimerSilences;
use super::starved::Starved;
use super::thinking::Thinking;
use super::trips::Trips;
use crate::exchange::{Exchange, Side};
use crate::stats::Merge;

/// The shared state of the rules for one service.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Gathered {
    pub(super) losses: Losses,
    pub(super) disorders: Disorders,
    /// Small parts of responses.
    pub(super) held_responses: HeldSegments,
    /// Small parts of requests.
    pub(super) held_requests: HeldSegments,
    pub(crate) trips: Trips,
    pub(crate) silences: TimerSilences,
    pub(super) bearing: LatencyWithSetup,
    pub(super) thinking: Thinking,
    /// Connections that the server never serves.
    pub(crate) starved: Starved,
}

impl Gathered {
    pub(super) fn observe(&mut self, exchange: &Exchange, features: Features) {
        if features.has_any(Losses::CONCERNS) {
            self.losses.observe(exchange);
        }
        self.losses.requests.observe(exchange);
        self.losses.hear(exchange);
        self.silences.observe(exchange);
        if features.has_any(Disorders::CONCERNS) {
            self.disorders.observe(exchange);
        }
        if features.has_any(HeldSegments::CONCERNS) {
            self.held_responses.observe(Side::Server, exchange);
            self.held_requests.observe(Side::Client, exchange);
        }
        if features.has_any(Trips::CONCERNS) {
            self.trips.observe(exchange);
        }
        self.bearing.observe(exchange);
        self.thinking.observe(exchange);
        self.starved.observe(exchange, true);
    }
}

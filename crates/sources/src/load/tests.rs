//! Plans, lanes and instants for the tests of this module.

use core::time::Duration;

use lagtrace_core::observed::event::{Phase, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::time::Timestamp;

use super::plan::{Lane, Plan, Target};
use crate::request::Request;
use crate::url::Url;

/// Returns the time `millis` milliseconds after the tests' epoch.
pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000_000) + Duration::from_millis(millis)
}

/// Returns a duration of `millis` milliseconds.
pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a lane for tests that open no connections.
pub(super) fn lane(connections: u32, experiment: Option<Experiment>) -> Lane {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 80));
    Lane {
        target: Target {
            id: TargetId::Subject,
            address,
            url: Url::at(address.ip(), address.port(), "/"),
            request: Request::default(),
        },
        phase: Phase::Baseline,
        experiment,
        connections,
    }
}

/// Returns a plan of one second without a warm-up.
pub(super) fn plan(lanes: Vec<Lane>) -> Plan {
    Plan {
        duration: ms(1000),
        warm_up: Duration::ZERO,
        ..Plan::new(lanes)
    }
}

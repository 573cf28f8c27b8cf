//! The target of a lane, and the requests that are sent to it.

use core::net::SocketAddr;

use lagtrace_core::observed::event::{Phase, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::flow::Endpoint;

use crate::request::Request;
use crate::url::Url;

/// One of several URLs to request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedUrl {
    /// The URL.
    pub url: Url,
    /// Weight relative to the other URLs.
    pub weight: u32,
}

/// Connections of the same kind to one target. Each connection belongs to one lane.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Target of the lane.
    pub target: Target,
    /// Phase in which the lane's requests are counted.
    pub phase: Phase,
    /// The experiment that makes this lane differ from others, if any.
    pub experiment: Option<Experiment>,
    /// Number of connections.
    pub connections: u32,
}

/// The target of a lane, and the request for it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The subject (the server under investigation) or its twin.
    pub id: TargetId,
    /// The address that connections are made to.
    pub address: SocketAddr,
    /// URL that determines the path and the `Host` field.
    pub url: Url,
    /// The request.
    pub request: Request,
}

impl Target {
    /// Returns the endpoint of [`address`](Self::address).
    pub fn endpoint(&self) -> Endpoint {
        self.address.into()
    }
}

//! Whom a run asks, and what.

use core::net::SocketAddr;

use lagtrace_core::observed::event::{Phase, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::flow::Endpoint;

use crate::url::Url;

/// One of several URLs that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedUrl {
    /// What is asked for.
    pub url: Url,
    /// How often beside the others.
    pub weight: u32,
}

/// Connections of one kind to one target; no connection is in two lanes.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Whom it asks.
    pub target: Target,
    /// What its requests count as.
    pub phase: Phase,
    /// What is different about it.
    pub experiment: Option<Experiment>,
    /// Its connections.
    pub connections: u32,
}

/// Whom a lane asks, and what.
#[derive(Clone, Debug)]
pub struct Target {
    /// Subject or twin.
    pub id: TargetId,
    /// The address its connections go to.
    pub address: SocketAddr,
    /// Names the path and the `Host` field.
    pub url: Url,
    /// The request's method.
    pub method: Method,
    /// Header fields as `Name: value`; each takes the place of lagtrace's own
    /// of that name.
    pub fields: Vec<String>,
    /// The request's body.
    pub body: Vec<u8>,
}

impl Target {
    /// The endpoint of [`address`](Self::address).
    pub fn endpoint(&self) -> Endpoint {
        self.address.into()
    }
}

/// A request method (RFC 9110 §9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Asks for a representation.
    #[default]
    Get,
    /// The same without its body.
    Head,
    /// Has the resource process the body.
    Post,
    /// Replaces the resource by the body.
    Put,
    /// Changes the resource by the body (RFC 5789).
    Patch,
    /// Removes the resource.
    Delete,
    /// Asks what may be asked.
    Options,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
        Self::Options,
    ];

    /// Whether its requests are expected to have content (RFC 9110 §8.6).
    pub(super) const fn has_content(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }

    /// The method of this name, which is in upper case.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }

    /// As it stands in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }
}

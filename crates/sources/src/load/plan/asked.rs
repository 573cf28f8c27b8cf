//! The target of a run, and the requests made to it.

use core::net::SocketAddr;

use lagtrace_core::observed::event::{Phase, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::flow::Endpoint;

use crate::url::Url;

/// A URL to request, among several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedUrl {
    /// The URL.
    pub url: Url,
    /// Weight relative to the other URLs.
    pub weight: u32,
}

/// Connections of one kind to one target; each connection belongs to one lane.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Target of the lane.
    pub target: Target,
    /// Phase that the lane's requests are counted in.
    pub phase: Phase,
    /// Experiment for which the lane differs from others, if any.
    pub experiment: Option<Experiment>,
    /// Number of connections.
    pub connections: u32,
}

/// The target of a lane, and the request made to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Subject or twin.
    pub id: TargetId,
    /// The address that connections are made to.
    pub address: SocketAddr,
    /// URL that determines the path and the `Host` field.
    pub url: Url,
    /// The request's method.
    pub method: Method,
    /// Header fields as `Name: value`; each replaces lagtrace's own field with that name.
    pub fields: Vec<String>,
    /// Body of the request.
    pub body: Vec<u8>,
}

impl Target {
    /// Returns the endpoint of [`address`](Self::address).
    pub fn endpoint(&self) -> Endpoint {
        self.address.into()
    }
}

/// A request method (RFC 9110 §9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Requests a representation.
    #[default]
    Get,
    /// Requests a representation without its body.
    Head,
    /// Has the resource process the body.
    Post,
    /// Replaces the resource by the body.
    Put,
    /// Changes the resource by the body (RFC 5789).
    Patch,
    /// Removes the resource.
    Delete,
    /// Requests the methods and options that are available.
    Options,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 7] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Patch,
        Self::Delete,
        Self::Options,
    ];

    /// Returns true if requests with this method are expected to have content (RFC 9110 §8.6).
    pub(super) const fn has_content(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }

    /// Returns the method with this name, in upper case.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }

    /// Returns the method's name as used in a request line.
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

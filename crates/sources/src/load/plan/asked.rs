//! The target of a lane, and the requests that are sent to it.

use core::net::SocketAddr;

use lagtrace_core::observed::event::{Phase, TargetId};
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::flow::Endpoint;

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
    /// The request's method.
    pub method: Method,
    /// Header fields in the form `Name: value`. Each replaces lagtrace's own field with the same
    /// name.
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
    /// Asks the resource to process the body.
    Post,
    /// Replaces the resource with the body.
    Put,
    /// Changes the resource according to the body (RFC 5789).
    Patch,
    /// Removes the resource.
    Delete,
    /// Requests the available methods and options.
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

    /// Returns the method with this name, which must be in upper case.
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

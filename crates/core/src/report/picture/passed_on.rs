//! Requests that a proxy passed on.

/// A request to a proxy, and the request that the proxy made to its upstream for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassedOn {
    /// The request to the proxy.
    pub asked: RequestAt,
    /// The request to the upstream, which began later.
    pub asks: RequestAt,
}

impl PassedOn {
    /// Maximum number of requests in a picture: the first ones of each proxy.
    pub const MAX: usize = 4096;
}

/// A request, by its ends and its time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestAt {
    /// Start of the exchange.
    pub start_ns: i64,
    /// The client's address and port.
    pub client: String,
    /// The server's address and port.
    pub server: String,
}

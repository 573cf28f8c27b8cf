//! What the status of a response says about the request (RFC 9110 §15).

/// The meaning of an error status, as far as it decides what helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatusMeaning {
    /// 401, 407: the request lacks valid credentials.
    Unauthenticated,
    /// 403: the client may not have this.
    Forbidden,
    /// 404, 410: there is nothing at this path.
    Missing,
    /// 405, 501: the method is not allowed there, or not known.
    Method,
    /// 421: the server does not answer for this host on this connection (§15.5.20).
    Misdirected,
    /// 429: the client sends too many requests (RFC 6585 §4).
    TooMany,
    /// All other statuses of 4xx: the request is wrong for the server.
    Rejected,
    /// 502: a gateway got no valid response from the server behind it.
    BadGateway,
    /// 503: the server is overloaded or not in service.
    Unavailable,
    /// 504: a gateway got no response in time.
    GatewayTimeout,
    /// All other statuses of 5xx: the server failed.
    Failed,
}

impl StatusMeaning {
    /// Returns the meaning of `status`; `None` if it is no error.
    pub(crate) const fn of(status: u16) -> Option<Self> {
        Some(match status {
            401 | 407 => Self::Unauthenticated,
            403 => Self::Forbidden,
            404 | 410 => Self::Missing,
            405 | 501 => Self::Method,
            421 => Self::Misdirected,
            429 => Self::TooMany,
            400..500 => Self::Rejected,
            502 => Self::BadGateway,
            503 => Self::Unavailable,
            504 => Self::GatewayTimeout,
            500.. => Self::Failed,
            _ => return None,
        })
    }

    /// Returns true if the server says that it failed itself (§15.6).
    pub(crate) const fn is_servers_fault(self) -> bool {
        matches!(
            self,
            Self::BadGateway | Self::Unavailable | Self::GatewayTimeout | Self::Failed
        )
    }
}

/// Returns true if a response with `status` is a failure for a user who expects some statuses: all
/// others are. If there are none, the statuses of errors are.
pub(crate) fn is_failure(status: u16, expected: &[u16]) -> bool {
    if expected.is_empty() {
        StatusMeaning::of(status).is_some()
    } else {
        !expected.contains(&status)
    }
}

/// Returns true if `status` asks the client to authenticate: the same request may succeed then
/// (§11.1).
pub(crate) const fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}

/// Returns true if `status` sends the client to another place (§15.4). 304 does not: the client has
/// the answer already.
pub(crate) const fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

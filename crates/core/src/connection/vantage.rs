//! The position of an observation point on a connection's path.

use core::time::Duration;

/// Maximum share of the whole round trip, as one in this many, for an end to count as being at the
/// observation point: the kernel there answers at once.
const AT_END: u32 = 10;

/// The position of an observation point on a connection's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vantage {
    /// At the client.
    Client,
    /// At the server.
    Server,
    /// Between the two ends.
    Between,
    /// Not known.
    Unknown,
}

impl Vantage {
    /// Returns the position that the minimum round trips from the point to both ends show.
    pub(crate) fn of_trips(to_client: Duration, to_server: Duration) -> Self {
        let whole = to_client + to_server;
        if to_client * AT_END <= whole {
            Self::Client
        } else if to_server * AT_END <= whole {
            Self::Server
        } else {
            Self::Between
        }
    }
}

//! Interventions that distinguish causes. The core proposes them, and the load source runs them.

use core::fmt;
use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change that lagtrace makes on its own side of the connection while a control runs in parallel
/// unchanged.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// Arm `TCP_QUICKACK` again after every read, so that our side never delays an ACK.
    QuickAck,
    /// Switch our `TCP_NODELAY` off (the load's default is on): a request sent
    /// in several writes is then subject to our own Nagle algorithm.
    ClientNagle,
    /// Send `Connection: close`. The server's FIN then releases a last segment that Nagle's
    /// algorithm would hold.
    ConnectionClose,
    /// Use a fresh connection for each request, without the header `Connection: close`.
    FreshConnection,
    /// Wait this long between a response and the next request.
    ThinkTime {
        /// The pause in nanoseconds.
        #[serde(rename = "pause_ns", with = "duration_ns")]
        #[schemars(with = "u64")]
        pause: Duration,
    },
}

impl fmt::Display for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QuickAck => f.write_str("TCP_QUICKACK armed after every read"),
            Self::ClientNagle => f.write_str("TCP_NODELAY off on our side"),
            Self::ConnectionClose => f.write_str("Connection: close"),
            Self::FreshConnection => f.write_str("a fresh connection for each request"),
            Self::ThinkTime { pause } => write!(f, "a pause of {pause:?} between requests"),
        }
    }
}

/// Durations as integer nanoseconds in JSON.
pub(crate) mod duration_ns {
    use core::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

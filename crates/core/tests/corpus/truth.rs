//! The recordings, each with the findings that it must have.

use core::ops::RangeInclusive;

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::registry::Id;

/// A recording of a scenario, with its correct diagnosis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth {
    /// Name of the recording: its scenario, its round trip, and the end at which it was captured.
    pub(crate) recording: &'static str,
    pub(crate) expected: &'static [Expected],
    /// Causes that may also be found. All other causes must not be found.
    pub(crate) allowed: &'static [Id],
    pub(crate) least_exchanges: u64,
    /// Maximum share of the time that may be unexplained.
    pub(crate) most_unknown: f64,
    /// True if the path lost nothing.
    pub(crate) is_lossless: bool,
    /// True if the recording is also tested in other containers.
    pub(crate) is_transformed: bool,
}

/// A finding that the recording must have.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) cause: Id,
    pub(crate) culprit: Owner,
    /// Cost of each affected exchange, in milliseconds.
    pub(crate) cost_ms: RangeInclusive<f64>,
}

const fn of_server(cause: Id, from_ms: f64, to_ms: f64) -> Expected {
    Expected {
        cause,
        culprit: Owner::Server,
        cost_ms: from_ms..=to_ms,
    }
}

const LOSS: Expected = Expected {
    cause: Id::PacketLoss,
    culprit: Owner::Path,
    cost_ms: 20.0..=600.0,
};

/// A recording without losses.
const fn clean(recording: &'static str, expected: &'static [Expected], least: u64) -> Truth {
    Truth {
        recording,
        expected,
        allowed: &[],
        least_exchanges: least,
        most_unknown: 0.01,
        is_lossless: true,
        is_transformed: false,
    }
}

/// A recording without losses that is also tested in other containers.
const fn varied(recording: &'static str, expected: &'static [Expected], least: u64) -> Truth {
    Truth {
        is_transformed: true,
        ..clean(recording, expected, least)
    }
}

/// A recording behind a policer. At the receiving end, some of its losses leave no trace.
const fn lossy(recording: &'static str, expected: &'static [Expected], least: u64) -> Truth {
    Truth {
        allowed: &[
            Id::PacketLoss,
            Id::RetransmissionTimeout,
            Id::FastRetransmit,
            Id::TailLossProbe,
            Id::LostRetransmission,
            Id::PathQueueing,
        ],
        most_unknown: 0.4,
        is_lossless: false,
        ..clean(recording, expected, least)
    }
}

// A delayed ACK takes 40 ms and up to a tick of 4 ms more. With a round trip, the held part arrives
// one round trip later.
const CASE_0: &[Expected] = &[of_server(Id::NagleDelayedAck, 38.0, 46.0)];
const CASE_8: &[Expected] = &[of_server(Id::NagleDelayedAck, 45.0, 55.0)];
const CASE_50: &[Expected] = &[of_server(Id::NagleDelayedAck, 86.0, 97.0)];
const SHORT_0: &[Expected] = &[of_server(Id::NagleDelayedAck, 22.0, 30.0)];
const SHORT_8: &[Expected] = &[of_server(Id::NagleDelayedAck, 28.0, 36.0)];
const SHORT_50: &[Expected] = &[of_server(Id::NagleDelayedAck, 68.0, 80.0)];
const THINK_44: &[Expected] = &[of_server(Id::ServerThink, 43.9, 50.0)];
const PAUSE_40: &[Expected] = &[of_server(Id::ServerPause, 39.9, 48.0)];
const PAUSE_44: &[Expected] = &[of_server(Id::ServerPause, 43.9, 50.0)];
const FIN: &[Expected] = &[of_server(Id::ConnectionNotReused, 7.9, 12.0)];

/// All recordings of the corpus.
pub(crate) const TRUTHS: &[Truth] = &[
    varied("latency-0ms-client", CASE_0, 10),
    clean("latency-0ms-server", CASE_0, 10),
    varied("latency-8ms-client", CASE_8, 10),
    varied("latency-8ms-server", CASE_8, 10),
    clean("latency-50ms-client", CASE_50, 10),
    clean("latency-50ms-server", CASE_50, 10),
    clean("latency-curl-8ms-client", CASE_8, 10),
    clean("latency-curl-8ms-server", CASE_8, 10),
    clean("write-write-read-8ms-client", CASE_8, 10),
    clean("write-write-read-8ms-server", CASE_8, 10),
    clean("short-delayed-ack-0ms-client", SHORT_0, 10),
    clean("short-delayed-ack-0ms-server", SHORT_0, 10),
    clean("short-delayed-ack-8ms-client", SHORT_8, 10),
    clean("short-delayed-ack-8ms-server", SHORT_8, 10),
    clean("short-delayed-ack-50ms-client", SHORT_50, 10),
    clean("short-delayed-ack-50ms-server", SHORT_50, 10),
    clean("good-0ms-client", &[], 10),
    clean("good-0ms-server", &[], 10),
    varied("good-8ms-client", &[], 10),
    varied("good-8ms-server", &[], 10),
    clean("good-50ms-client", &[], 10),
    clean("good-50ms-server", &[], 10),
    clean("think-44-0ms-client", THINK_44, 10),
    clean("think-44-0ms-server", THINK_44, 10),
    varied("think-44-8ms-client", THINK_44, 10),
    varied("think-44-8ms-server", THINK_44, 10),
    clean("think-44-50ms-client", THINK_44, 10),
    clean("think-44-50ms-server", THINK_44, 10),
    varied("pause-40-0ms-client", PAUSE_40, 10),
    clean("pause-40-0ms-server", PAUSE_40, 10),
    clean("pause-44-0ms-client", PAUSE_44, 10),
    clean("pause-44-0ms-server", PAUSE_44, 10),
    varied("pause-44-8ms-client", PAUSE_44, 10),
    varied("pause-44-8ms-server", PAUSE_44, 10),
    clean("pause-44-50ms-client", PAUSE_44, 10),
    clean("pause-44-50ms-server", PAUSE_44, 10),
    clean("nopush-8ms-client", &[], 10),
    clean("nopush-8ms-server", &[], 10),
    clean("one-segment-8ms-client", &[], 10),
    clean("one-segment-8ms-server", &[], 10),
    clean("fin-closed-8ms-client", FIN, 6),
    clean("fin-closed-8ms-server", FIN, 6),
    lossy("lossy-good-0ms-client", &[], 20),
    lossy("lossy-good-0ms-server", &[LOSS], 20),
    lossy("lossy-good-8ms-client", &[], 20),
    lossy("lossy-good-8ms-server", &[LOSS], 20),
    lossy("lossy-good-50ms-client", &[], 20),
    lossy("lossy-good-50ms-server", &[], 20),
    lossy("lossy-latency-0ms-client", CASE_0, 20),
    lossy("lossy-latency-0ms-server", CASE_0, 20),
    lossy("lossy-latency-8ms-client", CASE_8, 20),
    lossy("lossy-latency-8ms-server", CASE_8, 20),
    lossy("lossy-latency-50ms-client", CASE_50, 20),
    lossy("lossy-latency-50ms-server", CASE_50, 20),
];

/// Recordings of other protocols than HTTP/1.x, in `tests/protocols`.
pub(crate) const PROTOCOLS: [&str; 11] = [
    "http2",
    "memcached",
    "mysql",
    "postgres",
    "redis",
    "tls-1.2",
    "tls-1.2-server",
    "tls-1.2-resumed",
    "tls-1.3",
    "tls-1.3-retry",
    "tls-1.3-gnutls",
];

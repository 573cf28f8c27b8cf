//! The plan of a run: lanes, pace, duration and limits.

mod asked;
mod request;

use core::time::Duration;

pub use asked::{Lane, Target, WeightedUrl};
pub(super) use request::Prepared;

use super::LoadError;
use super::socket_options::SocketOptions;
use crate::tls::{TlsClient, TlsError, TlsPeer};
use crate::url::Url;

/// Maximum number of connections in one run.
const MAX_CONNECTIONS: u32 = 60_000;
/// Maximum number of URLs in one run.
pub(super) const MAX_URLS: usize = 1_000;
/// Maximum weight of one URL.
const MAX_WEIGHT: u32 = 1_000_000;
/// Maximum number of requests in flight on one connection.
const MAX_AT_ONCE: u32 = 1_000;
/// Maximum rate of one lane, in requests per second.
const MAX_RATE: f64 = 1_000_000.0;
/// Maximum duration of a run.
const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);

/// A run of load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Groups of connections, with their targets and requests.
    pub lanes: Vec<Lane>,
    /// URLs of one origin that are requested instead of the lanes' own URLs, alternating by weight.
    /// If empty, the lanes' own URLs are requested.
    pub urls: Vec<WeightedUrl>,
    /// Division of the time among the lanes.
    pub arrangement: Arrangement,
    /// The rule that determines when requests start.
    pub pace: Pace,
    /// Time in which requests are started and counted.
    pub duration: Duration,
    /// Time before `duration` in which requests are sent but not counted, except those that are in
    /// flight until `duration` has passed. With slices, it is rounded up to whole rounds.
    pub warm_up: Duration,
    /// Timeout for connecting and for a response.
    pub timeout: Duration,
    /// Maximum time for which requests in flight may continue after the end, if the timeout is not
    /// shorter.
    pub longest_grace: Duration,
    /// Maximum number of requests per second that each lane sends in closed loop while it is
    /// active; `None`: as many as are answered.
    pub at_most: Option<f64>,
    /// Number of threads that generate load; 0: chosen automatically.
    pub threads: usize,
    /// Maximum number of requests of each lane, answered or not; `None`: limited only by time.
    pub requests: Option<u64>,
    /// The protocol of the requests.
    pub protocol: LoadProtocol,
    /// Options of the client sockets.
    pub sockets: SocketOptions,
    /// True to set `TCP_NODELAY` on the client sockets. `Experiment::ClientNagle` leaves it off.
    pub nodelay: bool,
    /// The reports on the run.
    pub reporting: LoadReporting,
}

/// The protocol of a run's requests.
#[derive(Clone, Debug)]
pub struct LoadProtocol {
    /// True for HTTP/2, with prior knowledge or negotiated within TLS (ALPN).
    pub http2: bool,
    /// Maximum number of requests in flight on a connection: pipelined, or as streams of HTTP/2.
    pub at_once: u32,
    /// The client's side of TLS, for lanes whose URLs ask for it.
    pub tls: Option<TlsClient>,
    /// True if each connection keeps the cookies that the server sets and sends them back. A
    /// connection starts with the cookies in the `Cookie` field of its lane.
    pub keeps_cookies: bool,
}

/// The reports on a run.
#[derive(Clone, Copy, Debug)]
pub struct LoadReporting {
    /// Maximum number of requests per second that are reported individually. They are evenly
    /// selected. The slowest requests are reported in addition.
    pub samples_per_second: usize,
    /// True if packets are captured during the run. The events say so; there is no other effect.
    pub is_observed: bool,
    /// True if the kernel stamps requests, to split their time into stages. At most a thousand
    /// requests per second are stamped on each thread.
    pub stamps: bool,
}

impl Plan {
    /// Creates a plan of ten seconds in closed loop, as usual for load tools without options.
    pub fn new(lanes: Vec<Lane>) -> Self {
        Self {
            lanes,
            urls: Vec::new(),
            arrangement: Arrangement::SideBySide,
            pace: Pace::ClosedLoop,
            duration: Duration::from_secs(10),
            warm_up: Duration::from_millis(300),
            timeout: Duration::from_secs(2),
            longest_grace: Duration::from_secs(1),
            at_most: None,
            threads: 0,
            requests: None,
            protocol: LoadProtocol {
                http2: false,
                at_once: 1,
                tls: None,
                keeps_cookies: false,
            },
            sockets: SocketOptions::default(),
            nodelay: true,
            reporting: LoadReporting {
                samples_per_second: 2_000,
                is_observed: false,
                stamps: false,
            },
        }
    }

    /// Returns the TLS peer of a lane; `None` if its URL does not require TLS.
    pub(super) fn peer(&self, lane: &Lane) -> Result<Option<TlsPeer>, TlsError> {
        let url = &lane.target.url;
        let client = self.protocol.tls.as_ref().filter(|_| url.is_tls());
        client.map(|client| client.to(url.host())).transpose()
    }

    /// Returns the URLs of a lane's requests, by part number.
    pub(super) fn urls_of<'a>(&'a self, lane: &'a Lane) -> Vec<&'a Url> {
        if self.urls.is_empty() {
            vec![&lane.target.url]
        } else {
            self.urls.iter().map(|weighted| &weighted.url).collect()
        }
    }

    /// Returns the number of connections of all lanes.
    pub fn connections(&self) -> u32 {
        self.lanes
            .iter()
            .fold(0, |sum, lane| sum.saturating_add(lane.connections))
    }

    /// Returns the maximum time for which requests in flight may continue after the end.
    pub fn grace(&self) -> Duration {
        self.timeout.min(self.longest_grace)
    }

    /// Returns the number of slices that each lane gets within `duration`, and their total time.
    pub(super) fn turns(&self, duration: Duration) -> (u32, Duration) {
        let lanes = u32::try_from(self.lanes.len().max(1)).unwrap_or(u32::MAX);
        match self.arrangement {
            Arrangement::SideBySide => (1, duration),
            Arrangement::Interleaved { slice } => {
                let rounds = duration.as_secs_f64() / (slice * lanes).as_secs_f64().max(1e-9);
                (
                    rounds.ceil().clamp(1.0, f64::from(u32::MAX)) as u32,
                    duration / lanes,
                )
            }
        }
    }

    /// Returns `warm_up` rounded up to whole rounds of slices.
    pub(super) fn warm_up_in_rounds(&self) -> Duration {
        match self.arrangement {
            Arrangement::Interleaved { slice } if !self.warm_up.is_zero() => {
                let round = slice * u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
                let rounds = self.warm_up.as_nanos().div_ceil(round.as_nanos().max(1));
                round * u32::try_from(rounds).unwrap_or(u32::MAX)
            }
            _ => self.warm_up,
        }
    }

    /// Returns the counted time in which each lane can start requests.
    pub(super) fn active_time(&self) -> Duration {
        match self.arrangement {
            Arrangement::SideBySide => self.duration,
            Arrangement::Interleaved { .. } => {
                self.duration / u32::try_from(self.lanes.len().max(1)).unwrap_or(u32::MAX)
            }
        }
    }

    /// Returns the number of threads to use: at most one per connection and processor.
    pub(super) fn thread_count(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = match self.threads {
            0 => processors.min(2),
            threads => threads.min(64),
        };
        wanted.min(self.connections() as usize).max(1)
    }

    /// Returns an error if the plan cannot be run.
    pub(super) fn check(&self) -> Result<(), LoadError> {
        if self.lanes.is_empty() {
            return Err(LoadError::NoLanes);
        }
        if let Some(lane) = self.lanes.iter().position(|lane| lane.connections == 0) {
            return Err(LoadError::NoConnections { lane });
        }
        if self.protocol.tls.is_none() && self.lanes.iter().any(|lane| lane.target.url.is_tls()) {
            return Err(LoadError::NoTls);
        }
        if self.protocol.at_once == 0 || self.protocol.at_once > MAX_AT_ONCE {
            return Err(LoadError::AtOnce { most: MAX_AT_ONCE });
        }
        self.check_urls()?;
        if self.protocol.keeps_cookies && self.protocol.http2 {
            return Err(LoadError::Jar);
        }
        let is_tls = self.lanes.iter().any(|lane| lane.target.url.is_tls());
        let is_other = is_tls
            || self.protocol.http2
            || self.protocol.at_once > 1
            || self.sockets.unix.is_some();
        if self.reporting.stamps && is_other {
            return Err(LoadError::Stamps);
        }
        self.sockets
            .check(self.lanes.iter().map(|lane| lane.target.address))?;
        if self.connections() > MAX_CONNECTIONS {
            return Err(LoadError::TooManyConnections {
                wanted: self.connections(),
                most: MAX_CONNECTIONS,
            });
        }
        match self.pace {
            Pace::Rate(rate) if !(rate > 0.0 && rate <= MAX_RATE) => {
                return Err(LoadError::Rate {
                    rate,
                    most: MAX_RATE,
                });
            }
            _ => {}
        }
        let slice = match self.arrangement {
            Arrangement::Interleaved { slice } => slice,
            Arrangement::SideBySide => self.duration,
        };
        for (name, length) in [
            ("duration", self.duration),
            ("timeout", self.timeout),
            ("slice", slice),
        ] {
            if length < Duration::from_millis(1) || length > MAX_DURATION {
                return Err(LoadError::Length { name, length });
            }
        }
        if self.warm_up > MAX_DURATION {
            return Err(LoadError::Length {
                name: "warm-up",
                length: self.warm_up,
            });
        }
        Ok(())
    }
}

impl Plan {
    fn check_urls(&self) -> Result<(), LoadError> {
        if self.urls.len() > MAX_URLS {
            return Err(LoadError::TooManyUrls { most: MAX_URLS });
        }
        for WeightedUrl { url, weight } in &self.urls {
            let origin = |url: &Url| (url.is_tls(), url.authority());
            let is_of = |lane: &Lane| origin(&lane.target.url) == origin(url);
            if !self.lanes.iter().all(is_of) {
                let url = url.to_string();
                return Err(LoadError::OtherOrigin { url });
            }
            if *weight == 0 || *weight > MAX_WEIGHT {
                return Err(LoadError::Weight { most: MAX_WEIGHT });
            }
        }
        Ok(())
    }
}

/// The rule that determines when requests start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each connection sends its next request as soon as the previous one has been answered, so
    /// that a slow service gets fewer requests. The latency is measured from the sending of the
    /// request.
    ClosedLoop,
    /// Each lane starts this many requests per second while it is active, no matter how fast the
    /// service is. The latency is measured from the scheduled start.
    Rate(f64),
}

impl Pace {
    /// Returns the number of requests per second; `None` in closed loop.
    pub const fn rate(self) -> Option<f64> {
        match self {
            Self::ClosedLoop => None,
            Self::Rate(rate) => Some(rate),
        }
    }
}

/// Division of the run's time among the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// All lanes run in parallel.
    SideBySide,
    /// The lanes run one after another in slices of this length, in repeated rounds. In this way,
    /// all lanes meet the server in the same states.
    Interleaved {
        /// Maximum time without interruption in which a lane starts requests.
        slice: Duration,
    },
}

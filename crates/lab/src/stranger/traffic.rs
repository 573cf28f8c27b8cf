//! The traffic of one run, as drawn.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use crate::path::chance::Chance;
use crate::quantity::{duration, format_duration, optional_duration};

/// The traffic of one run: its programs, its faults, and its capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The seed from which everything is drawn.
    pub seed: u64,
    /// The form of the messages.
    pub framing: WireFormat,
    /// The messages.
    pub talk: Talk,
    /// The client's program.
    pub client: Habits,
    /// The server's program.
    pub server: Habits,
    /// The number of the server's workers; `None`: one for each connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
    /// The round trip of the path.
    #[serde(with = "duration")]
    pub round_trip: Duration,
    /// The capture.
    pub view: View,
    /// The faults: none, one or two.
    pub faults: Vec<Fault>,
}

/// The form of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireFormat {
    /// HTTP/1.1, with the length of each body.
    Http,
    /// JSON over HTTP/1.1 in chunks.
    Chunked,
    /// A length, a number and bytes.
    Binary,
    /// A line of text for each message.
    Lines,
    /// Lines, after one with which the server greets.
    Greeting,
}

/// The messages of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Talk {
    /// The number of connections at a time.
    pub connections: u16,
    /// True if each request has its own connection, which the client closes.
    pub is_fresh: bool,
    /// The range of a request's size, in bytes.
    pub request: (u32, u32),
    /// The range of a response's size, in bytes.
    pub response: (u32, u32),
    /// The largest number of requests.
    pub most: u32,
    /// The time after which no request begins.
    #[serde(with = "duration")]
    pub lasts: Duration,
}

/// The habits of one of the two programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Habits {
    /// The time before each message: the server's think time, the client's pause between requests.
    pub think: Spread,
    /// The number of writes for each message.
    pub parts: u16,
    /// True if Nagle's algorithm is left on.
    pub nagle: bool,
    /// The interval of messages that nobody asked for and nobody answers.
    #[serde(with = "optional_duration", default)]
    pub pushes: Option<Duration>,
}

/// The distribution of a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Spread {
    /// Always the same.
    Constant {
        /// The time.
        #[serde(with = "duration")]
        time: Duration,
    },
    /// A lognormal distribution.
    Lognormal {
        /// The median.
        #[serde(with = "duration")]
        median: Duration,
        /// The deviation of the logarithm.
        sigma: f64,
    },
    /// One of two times.
    Bimodal {
        /// The short time.
        #[serde(with = "duration")]
        short: Duration,
        /// The long time.
        #[serde(with = "duration")]
        long: Duration,
        /// The share of the long ones, 0 to 1.
        share: f64,
    },
}

/// The part of the packets that the capture keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The hosts on which packets are captured.
    pub points: Points,
    /// The number of bytes kept of each packet; `None`: all.
    pub snapshot: Option<u32>,
    /// The share of the packets that are missing at the beginning, in percent.
    pub skipped_percent: u8,
}

/// The hosts on which packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Points {
    /// The client's.
    Client,
    /// The server's.
    Server,
    /// Both, for one analysis.
    Both,
}

impl Spread {
    pub(super) fn draw(self, chance: &mut Chance) -> Duration {
        match self {
            Self::Constant { time } => time,
            Self::Lognormal { median, sigma } => {
                // A sum of uniform numbers is nearly normal, and has no tail that would outlast a run.
                let sum: f64 = (0..12).map(|_| chance.unit()).sum();
                median.mul_f64((sigma * (sum - 6.0)).exp())
            }
            Self::Bimodal { short, long, share } => {
                if chance.strikes(share) {
                    long
                } else {
                    short
                }
            }
        }
    }

    fn describe(self) -> String {
        match self {
            Self::Constant { time } => format_duration(time),
            Self::Lognormal { median, sigma } => {
                format!("lognormal {} σ {sigma:.2}", format_duration(median))
            }
            Self::Bimodal { short, long, share } => {
                let [short, long] = [short, long].map(format_duration);
                format!("{short} or {long} ({:.0} %)", share * 100.0)
            }
        }
    }
}

impl Traffic {
    /// Describes the traffic in one line.
    pub fn describe(&self) -> String {
        let talk = &self.talk;
        let mut text = format!(
            "{:?}, {} connections{}, requests {}-{} B in {}, responses {}-{} B in {}, rtt {}",
            self.framing,
            talk.connections,
            if talk.is_fresh { ", fresh" } else { "" },
            talk.request.0,
            talk.request.1,
            self.client.parts,
            talk.response.0,
            talk.response.1,
            self.server.parts,
            format_duration(self.round_trip),
        );
        let [thinks, pauses] = [&self.server, &self.client].map(|who| who.think.describe());
        write!(text, ", thinks {thinks}, client pauses {pauses}").ok();
        for (who, habits) in [("server", &self.server), ("client", &self.client)] {
            if let Some(every) = habits.pushes {
                write!(text, ", {who} pushes every {}", format_duration(every)).ok();
            }
        }
        if let Some(workers) = self.workers {
            write!(text, ", {workers} workers").ok();
        }
        write!(text, "; captured at {:?}", self.view.points).ok();
        if let Some(bytes) = self.view.snapshot {
            write!(text, ", {bytes} B of each").ok();
        }
        if self.view.skipped_percent > 0 {
            write!(text, ", first {} % missing", self.view.skipped_percent).ok();
        }
        let faults: Vec<String> = self
            .faults
            .iter()
            .map(|fault| format!("{fault:?}"))
            .collect();
        let faults = if faults.is_empty() {
            "healthy".to_owned()
        } else {
            faults.join(" + ")
        };
        write!(text, "; {faults}").ok();
        text
    }

    /// Returns the draws for one request on one side, which do not depend on other requests.
    pub(super) fn chance(&self, side: u64, id: u64) -> Chance {
        let mix = crate::path::chance::mix;
        Chance::new(mix(self.seed ^ mix(id + 1)) ^ mix(side))
    }
}

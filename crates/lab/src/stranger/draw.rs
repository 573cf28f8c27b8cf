//! Drawing of everything from a seed.

use std::time::Duration;

use super::fault::{Fault, Place};
use super::traffic::{Habits, Points, Spread, Talk, Traffic, View, WireFormat};
use crate::path::chance::{Chance, mix};

/// The round trips to draw from, in milliseconds.
const ROUND_TRIPS: [u64; 5] = [0, 1, 10, 40, 100];

/// The shares of requests to draw from for a fault that does not concern all.
const SHARES: [f64; 6] = [1.0, 1.0, 0.4, 0.05, 0.03, 0.01];

/// The time after which no request begins.
const LASTS: Duration = Duration::from_millis(2500);

/// The largest number of requests of a run.
const MOST_REQUESTS: u32 = 3000;

/// The largest number of bytes of a run's messages, so that captures stay small.
const MOST_BYTES: u32 = 16 << 20;

/// The largest message of which two parts fit into one segment.
const SHORT: u32 = 1100;

impl Traffic {
    /// Draws the traffic of one run.
    pub fn draw(seed: u64) -> Self {
        let mut dice = Draws(Chance::new(mix(seed ^ 0x5354_5241_4E47_4552)));
        let faults = dice.faults();
        let framing = dice.one(&[
            WireFormat::Http,
            WireFormat::Http,
            WireFormat::Chunked,
            WireFormat::Binary,
            WireFormat::Binary,
            WireFormat::Lines,
            WireFormat::Greeting,
        ]);
        let mut traffic = Self {
            seed,
            framing,
            talk: dice.talk(),
            client: dice.habits(framing, 0.15),
            server: dice.habits(framing, 0.3),
            workers: dice.0.strikes(0.3).then(|| dice.between(16, 32) as u16),
            round_trip: Duration::from_millis(dice.one(&ROUND_TRIPS)),
            view: dice.view(),
            faults: Vec::new(),
        };
        traffic.server.think = dice.think();
        traffic.client.think = dice.pause();
        for fault in faults {
            traffic.suffer(fault, &mut dice);
        }
        let bytes = traffic.talk.request.1 + traffic.talk.response.1;
        traffic.talk.most = MOST_REQUESTS.min(MOST_BYTES / bytes.max(1)).max(30);
        traffic
    }

    /// Adds a fault, and what the traffic needs for the fault to have an effect.
    fn suffer(&mut self, fault: Fault, dice: &mut Draws) {
        self.faults.push(fault);
        let talk = &mut self.talk;
        match fault {
            Fault::Nagle => {
                self.server.nagle = true;
                self.server.parts = 2;
                talk.response = dice.range(200, SHORT);
            }
            Fault::NagleRequest => {
                self.client.nagle = true;
                self.client.parts = 2;
                talk.request = dice.range(200, SHORT);
            }
            Fault::SlowSender { .. } => {
                self.client.parts = self.client.parts.max(2);
                talk.request.0 = talk.request.0.max(200);
                talk.request.1 = talk.request.1.max(200);
            }
            Fault::ServerPause { .. } => {
                self.server.parts = self.server.parts.max(2);
                talk.response.0 = talk.response.0.max(100);
                talk.response.1 = talk.response.1.max(100);
            }
            Fault::SlowReader { .. } => talk.response = dice.range(60_000, 300_000),
            Fault::Rate { .. } => talk.response = dice.range(8_000, 60_000),
            Fault::FewWorkers { workers } => {
                self.workers = Some(workers);
                talk.connections = talk.connections.max(4 * workers);
                let median = dice.time(4.0, 15.0);
                self.server.think = Spread::Lognormal { median, sigma: 0.3 };
                self.client.think = dice.quiet();
            }
            Fault::LostSyns { .. } => {
                talk.is_fresh = true;
                talk.connections = talk.connections.max(4);
            }
            Fault::SlowThink { .. }
            | Fault::SlowUpstream { .. }
            | Fault::Loss { .. }
            | Fault::Jitter { .. }
            | Fault::Closes => {}
        }
    }
}

/// The source of all draws of a run.
struct Draws(Chance);

impl Draws {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        let index = self.0.draw() % of.len() as u64;
        of[usize::try_from(index).unwrap_or_default()]
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.draw() % (high - low + 1)
    }

    /// Draws a number between two; every order of magnitude is equally likely.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.0.unit())
    }

    /// Draws a time between two numbers of milliseconds.
    fn time(&mut self, low: f64, high: f64) -> Duration {
        let ms = self.log(low, high);
        Duration::from_micros((ms * 1e3) as u64)
    }

    /// Draws a range of sizes: half of them have a single size.
    fn range(&mut self, low: u32, high: u32) -> (u32, u32) {
        let least = self.log(low.into(), high.into()) as u32;
        let most = if self.0.strikes(0.5) {
            least
        } else {
            (least * 3).min(high)
        };
        (least, most)
    }

    fn talk(&mut self) -> Talk {
        let request = match self.between(0, 99) {
            0..75 => self.range(10, 1000),
            75..93 => self.range(1000, 20_000),
            _ => self.range(20_000, 300_000),
        };
        let response = match self.between(0, 99) {
            0..50 => self.range(10, 1200),
            50..82 => self.range(1200, 20_000),
            _ => self.range(20_000, 300_000),
        };
        Talk {
            connections: self.log(1.0, 17.0) as u16,
            is_fresh: self.0.strikes(0.08),
            request,
            response,
            most: 0,
            lasts: LASTS,
        }
    }

    /// Draws the habits of a program that has no fault.
    fn habits(&mut self, framing: WireFormat, pushing: f64) -> Habits {
        let may_push = !matches!(framing, WireFormat::Http | WireFormat::Chunked);
        let pushes = may_push && self.0.strikes(pushing);
        Habits {
            think: Spread::Constant {
                time: Duration::ZERO,
            },
            parts: if self.0.strikes(0.3) {
                self.between(2, 4) as u16
            } else {
                1
            },
            nagle: false,
            pushes: pushes.then(|| self.time(50.0, 600.0)),
        }
    }

    fn think(&mut self) -> Spread {
        match self.between(0, 2) {
            0 => Spread::Constant {
                time: self.time(0.1, 10.0),
            },
            1 => Spread::Lognormal {
                median: self.time(0.1, 6.0),
                sigma: self.log(0.2, 1.0),
            },
            _ => Spread::Bimodal {
                short: self.time(0.1, 3.0),
                long: self.time(3.0, 20.0),
                share: self.log(0.01, 0.3),
            },
        }
    }

    fn pause(&mut self) -> Spread {
        match self.between(0, 9) {
            0..4 => self.quiet(),
            4..6 => Spread::Constant {
                time: self.time(1.0, 60.0),
            },
            _ => Spread::Lognormal {
                median: self.time(1.0, 30.0),
                sigma: self.log(0.2, 1.0),
            },
        }
    }

    /// Returns the pause of a client that asks as soon as it may.
    fn quiet(&mut self) -> Spread {
        Spread::Constant {
            time: Duration::ZERO,
        }
    }

    fn view(&mut self) -> View {
        View {
            points: self.one(&[
                Points::Client,
                Points::Client,
                Points::Client,
                Points::Server,
                Points::Server,
                Points::Server,
                Points::Both,
                Points::Both,
            ]),
            snapshot: self.0.strikes(0.35).then(|| self.between(96, 256) as u32),
            skipped_percent: if self.0.strikes(0.25) {
                self.between(2, 40) as u8
            } else {
                0
            },
        }
    }

    fn faults(&mut self) -> Vec<Fault> {
        let wanted = match self.between(0, 99) {
            0..30 => 0,
            30..75 => 1,
            _ => 2,
        };
        let mut faults: Vec<Fault> = Vec::new();
        while faults.len() < wanted {
            let fault = self.fault();
            if !faults.iter().any(|other| other.clashes(&fault)) {
                faults.push(fault);
            }
        }
        faults
    }

    fn fault(&mut self) -> Fault {
        let (share, time) = (self.one(&SHARES), self.time(5.0, 200.0));
        match self.between(0, 14) {
            0 | 1 => Fault::SlowThink { share, extra: time },
            2 => Fault::ServerPause { share, pause: time },
            3 => Fault::Nagle,
            4 => Fault::NagleRequest,
            5 => Fault::SlowReader {
                buffer: self.between(4, 32) as u32 * 1024,
                piece: self.between(4, 32) as u32 * 1024,
                pause: self.time(1.0, 10.0),
            },
            6 => Fault::SlowSender { share, pause: time },
            7 => Fault::FewWorkers {
                workers: self.between(1, 3) as u16,
            },
            8 | 9 => Fault::SlowUpstream {
                place: self.one(&[Place::SameHost, Place::OtherHost]),
                share,
                extra: time,
                is_captured: self.0.strikes(0.5),
            },
            10 => Fault::Loss {
                share: self.log(0.005, 0.03),
            },
            11 => Fault::Rate {
                bits: self.between(4, 40) * 1_000_000,
            },
            12 => Fault::Jitter {
                most: self.time(4.0, 40.0),
            },
            13 => Fault::Closes,
            _ => Fault::LostSyns {
                of: self.between(10, 40),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_draw_equal_traffic() {
        for seed in 0..50 {
            assert_eq!(Traffic::draw(seed), Traffic::draw(seed));
        }
        assert_ne!(Traffic::draw(1).describe(), Traffic::draw(2).describe());
    }

    #[test]
    fn about_a_third_is_healthy_and_no_pair_clashes() {
        let all: Vec<Traffic> = (0..2000).map(Traffic::draw).collect();
        let healthy = all
            .iter()
            .filter(|traffic| traffic.faults.is_empty())
            .count();
        assert!((500..700).contains(&healthy), "{healthy}");
        for traffic in &all {
            let [one, other] = traffic.faults[..] else {
                continue;
            };
            assert!(!one.clashes(&other), "{}", traffic.describe());
        }
    }

    #[test]
    fn drawn_traffic_is_within_its_bounds() {
        for traffic in (0..2000).map(Traffic::draw) {
            let talk = &traffic.talk;
            let told = traffic.describe();
            assert!((1..=16).contains(&talk.connections), "{told}");
            assert!(talk.request.0 >= 10 && talk.request.1 <= 300_000, "{told}");
            assert!(
                talk.response.0 >= 10 && talk.response.1 <= 300_000,
                "{told}"
            );
            let text = serde_json::to_string(&traffic).expect("it writes");
            let read: Traffic = serde_json::from_str(&text).expect("it reads");
            assert_eq!(read.describe(), told);
        }
    }
}

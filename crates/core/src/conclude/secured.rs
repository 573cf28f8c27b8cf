//! The layers of TLS: the duration of handshakes, and session resumption.

use core::time::Duration;

use super::layer::layer;
use crate::cause::evidence::{human, median};
use crate::cause::secured::{ROUND_TRIPS, version_name};
use crate::facts::Facts;
use crate::observed::event::{LoadTls, ProbeMethod, TargetId};
use crate::registry::LayerId;
use crate::report::{Finding, Layer, LayerState, counted};
use crate::stats::histogram::Distribution;

/// Time of the server beyond the round trips from which a handshake is suspect. A signature takes at
/// most a tenth of it, with keys up to RSA of 4096 bits.
const LONG: Duration = Duration::from_millis(50);

/// Returns the layers `tls` and `resumption`, if TLS was used or if a finding accuses it.
pub(super) fn layers(facts: &Facts, findings: &[Finding]) -> Vec<Layer> {
    let transport = facts.loads.transports.get(&TargetId::Subject);
    let tls = transport.and_then(|transport| transport.tls.as_ref());
    let seen = Seen {
        tls,
        full: gathered(facts, ProbeMethod::TlsFull, tls.map(|tls| &tls.full)),
        resumed: gathered(facts, ProbeMethod::TlsResumed, tls.map(|tls| &tls.resumed)),
        round_trip: facts.round_trip(TargetId::Subject),
    };
    if seen.full.is_empty() && seen.resumed.is_empty() {
        let is_accused = findings
            .iter()
            .any(|f| f.cause.cause().layer == LayerId::Tls);
        let nothing = || "no handshake of our own succeeded".to_owned();
        let line = || layer("tls", LayerState::NotMeasured, nothing(), "own handshakes");
        return is_accused.then(line).into_iter().collect();
    }
    vec![seen.handshake(), seen.resumption()]
}

/// Returns the durations of probed handshakes, which only the server and the path delay. Without
/// probes, it returns the durations of the load's handshakes.
fn gathered(facts: &Facts, method: ProbeMethod, load: Option<&Distribution>) -> Distribution {
    let probed = facts.probes_of(TargetId::Subject, method, false);
    let probed = probed.map(|group| &group.rtt).filter(|rtt| !rtt.is_empty());
    probed.or(load).cloned().unwrap_or_default()
}

/// The TLS handshakes that were measured.
struct Seen<'a> {
    tls: Option<&'a LoadTls>,
    full: Distribution,
    resumed: Distribution,
    round_trip: Option<Duration>,
}

impl Seen<'_> {
    /// Returns true if a full handshake takes much longer than its round trips.
    fn is_long(&self) -> bool {
        let full = self.full.quantile(0.5);
        full.zip(self.round_trip)
            .is_some_and(|(full, trip)| full >= trip * ROUND_TRIPS + LONG)
    }

    fn handshake(&self) -> Layer {
        let version = version_name(self.tls.map(|tls| tls.version));
        let cipher = self.tls.map_or("", |tls| tls.cipher.as_str());
        let cipher = match cipher {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        let loaded = self.tls.filter(|tls| !tls.full.is_empty());
        let loaded = loaded.map_or_else(String::new, |tls| {
            format!(
                ", {} when several connections are opened together",
                median(&tls.full)
            )
        });
        let line = match self.full.quantile(0.5) {
            Some(time) => format!(
                "{version}{cipher}: a full handshake {}{loaded}",
                human(time)
            ),
            None => format!("{version}{cipher}"),
        };
        let because = "own handshakes, from ClientHello to request";
        let state = if self.is_long() {
            LayerState::Suspected
        } else {
            LayerState::Cleared
        };
        layer("tls", state, line, because)
    }

    fn resumption(&self) -> Layer {
        let loaded = self.tls.map_or(0, |tls| tls.resumed.count());
        let of = loaded + self.tls.map_or(0, |tls| tls.full.count());
        let count = match of {
            0 => String::new(),
            of => format!(
                "; {loaded} of {} of the load resumed",
                counted(of, "handshake", "handshakes"),
            ),
        };
        let line = match self.resumed.quantile(0.5) {
            Some(time) => format!("sessions are resumed in {}{count}", human(time)),
            None => {
                format!("no session was resumed: each new connection is a full handshake{count}")
            }
        };
        let because = "own handshakes that offer earlier sessions";
        // Without resumption, only clients that connect often lose time, and a separate finding
        // reports this.
        layer("resumption", LayerState::Cleared, line, because)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_that_takes_much_longer_than_its_round_trips_is_suspect() {
        let ms = Duration::from_millis;
        let state = |full, round_trip| {
            let mut distribution = Distribution::default();
            distribution.record(full);
            let seen = Seen {
                tls: None,
                full: distribution,
                resumed: Distribution::default(),
                round_trip,
            };
            seen.handshake().state
        };
        assert_eq!(state(ms(126), Some(ms(1))), LayerState::Suspected);
        assert_eq!(state(ms(126), Some(ms(40))), LayerState::Cleared);
        assert_eq!(state(ms(12), Some(ms(1))), LayerState::Cleared);
        assert_eq!(state(ms(126), None), LayerState::Cleared);
    }
}

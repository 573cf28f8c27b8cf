//! `radio-power-save`: packets after a pause are late by a constant time, and so are handshakes,
//! which no program answers. Packets without a pause before them are not late. If a server were
//! slow after a pause, its kernel would still acknowledge the request in time, and handshakes would
//! not be slow.

use core::time::Duration;

use super::evidence::{self, human, median};
use super::wording::Wording;
use super::{Case, Conclusion, Id, trips};
use crate::claim::{Basis, Statement};
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "A device on the path sleeps when idle: the first packet after a pause waits {waking} \
              (median) until it wakes up, and packets right after it do not wait. Radios with \
              power saving do this.",
    ruled_out: &[
        (
            Id::ServerThink,
            "handshakes, which the kernel answers, are late too, and the kernel's delayed ACK, due \
             after 40 ms, did not come before the answers",
        ),
        (
            Id::PathQueueing,
            "packets that follow without a pause are as fast as usual",
        ),
    ],
    overturned_by: "a capture at the server that shows these requests arriving in time",
    fix: &[
        (
            "client",
            "iw dev wlan0 set power_save off; on a mobile network, keep the radio awake (nothing \
             else helps)",
        ),
        (
            "client",
            "send related requests together, or a packet every 100 ms while another request is \
             likely",
        ),
    ],
};

/// The wording for requests with timestamps of the client's clock.
const STAMPED: Wording = Wording {
    ruled_out: &[
        (
            Id::ServerThink,
            "the client's timestamps show that the requests were still on the path",
        ),
        WORDING.ruled_out[1],
    ],
    ..WORDING
};

/// Minimum pause after which a radio sleeps. Wi-Fi clients sleep after 100 ms, and LTE's
/// connected-mode DRX begins after 100 to 200 ms.
const PAUSE: Duration = Duration::from_millis(100);
/// The possible times until a radio is awake. Below a fifth of a Wi-Fi beacon interval, the delay
/// looks like a server's. Above LTE's longest DRX cycle plus a margin, it is not a radio.
const WAKING: core::ops::RangeInclusive<Duration> =
    Duration::from_millis(15)..=Duration::from_millis(400);
/// Maximum delay of requests without a pause, as a share of the time until the radio is awake.
const PROMPT: f64 = 0.25;
/// Maximum spread of the times until the radio is awake: this share of their median, or
/// [`LEAST_SPREAD`] if that is more.
const SPREAD: f64 = 0.25;
const LEAST_SPREAD: Duration = Duration::from_millis(5);
/// At most one in this many requests after a pause may be acknowledged before its response.
const ACKED: u64 = 10;

/// Compares requests after a pause with requests without a pause.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    tally: Tally,
    woken: Distribution,
    prompt: Distribution,
    handshakes: Distribution,
    /// Delays of requests after a pause on their way to the capture point, by the client's clock.
    stamped: Distribution,
    #[merge(least)]
    least: Option<Duration>,
    acked_first: u64,
}

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        let (Some(reply), Some(least)) = (exchange.path.reply, exchange.path.to_server) else {
            return;
        };
        // The client's timestamps show the delay before the capture point. The reply shows the
        // delay after that point.
        let asked = if trips::is_far(exchange) {
            exchange.path.queued.request
        } else {
            Duration::ZERO
        };
        let late = reply.saturating_sub(least) + asked;
        let least = least + exchange.path.to_client;
        self.least = self.least.into_iter().chain([least]).min();
        // At the capture point, the pause before a request includes the request's own delay.
        let pause = exchange.path.idle.map(|idle| idle.saturating_sub(asked));
        if pause.is_none_or(|pause| pause < PAUSE) {
            self.prompt.record(late);
            return;
        }
        self.woken.record(late);
        self.stamped.record(asked);
        self.acked_first += u64::from(exchange.path.is_acked_first);
        if WAKING.contains(&late) {
            self.tally.add(exchange, Cost::exactly(late), asked);
        }
    }

    fn observe_setup(&mut self, setup: &Setup) {
        if setup.outcome == Some(SetupOutcome::Established) && setup.syns.retransmissions == 0 {
            self.handshakes.record(setup.duration());
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let least = self.least.unwrap_or_default();
        let is_material = evidence::is_material(case, &self.tally)
            || self.is_stamped() && trips::matters_outside(case, &self.tally, least);
        // A single stall delays all packets that are in flight, so the delays must recur.
        let is_seen = is_material
            && self.tally.affected >= evidence::REPEATS
            && evidence::recurs(case, &self.tally);
        let Some(waking) = self.waking().filter(|_| is_seen) else {
            return Conclusion::Nothing;
        };
        let mut claim = evidence::claim(Id::RadioPowerSave, Owner::Path, case, &self.tally);
        if self.is_stamped() {
            claim.time.whole_ns = trips::whole_outside(case, &self.tally, least);
            // The requests' latency, as captured, does not include the delay.
            claim.time.predicted = None;
        }
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, self.seen(waking))
                .count(self.tally.affected)
                .median(&self.tally.saved),
        );
        claim.basis = Basis::new(self.tally.affected, false);
        let wording = if self.is_stamped() {
            &STAMPED
        } else {
            &WORDING
        };
        wording.tell(&mut claim, &[("waking", &human(waking))]);
        Conclusion::Claim(Box::new(claim))
    }
}

impl Rule {
    /// Returns true if the client's clock shows the delay: the requests took that long to reach the
    /// capture point.
    fn is_stamped(&self) -> bool {
        let at = |of: &Distribution| of.quantile(0.5).unwrap_or_default();
        at(&self.stamped) * 2 > at(&self.woken)
    }

    fn seen(&self, waking: Duration) -> String {
        let (pause, count) = (human(PAUSE), self.tally.affected);
        let (waking, prompt) = (human(waking), median(&self.prompt));
        if self.is_stamped() {
            format!(
                "after pauses of {pause} and more, {} came {waking} (median) later than the \
                 client's timestamps imply; requests without a pause before them were {prompt} \
                 late",
                counted(count, "request", "requests"),
            )
        } else {
            format!(
                "after pauses of {pause} and more, {} came {waking} (median) later than the path's \
                 round trip explains, and handshakes were late too ({}); answers \
                 to requests without a pause before them were {prompt} late",
                counted(count, "answer", "answers"),
                median(&self.handshakes),
            )
        }
    }

    /// Returns the time until the radio is awake; `None` if the delays are not constant enough.
    fn waking(&self) -> Option<Duration> {
        let at = |of: &Distribution, quantile| of.quantile(quantile).unwrap_or_default();
        let waking = self.woken.quantile(0.5)?;
        let prompt = self.prompt.quantile(0.5)?;
        let spread = at(&self.woken, 0.8).saturating_sub(at(&self.woken, 0.2));
        let is_waking = WAKING.contains(&waking)
            && spread <= LEAST_SPREAD.max(waking.mul_f64(SPREAD))
            && prompt <= waking.mul_f64(PROMPT)
            && (self.is_stamped() || self.is_before_the_server(waking));
        is_waking.then_some(waking)
    }

    /// Returns true if handshakes, which the kernel answers by itself, are late too. Then the delay
    /// arises before the server.
    fn is_before_the_server(&self, waking: Duration) -> bool {
        let shook = self.handshakes.quantile(0.5).unwrap_or_default();
        shook >= self.least.unwrap_or_default() + waking / 2
            && self.acked_first * ACKED <= self.woken.count()
    }
}

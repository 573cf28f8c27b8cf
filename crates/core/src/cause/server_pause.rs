//! The rule of the cause `server-pause`.

use core::time::Duration;

use super::evidence::{self, ORDINARY_WORK, human, median};
use super::held::{DELAYED, HeldSegments, may_be_released};
use super::served;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id, candidates, nagle_delayed_ack};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Exchange, Hold, HoldRelease, Side};
use crate::report::{EvidenceKind, Remark, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;
use crate::stats::merge::sum_and_max;

const WORDING: Wording = Wording {
    summary: "The server begins its response and then pauses, for {saved} in all, {share} of all request \
              time. {why}.",
    ruled_out: &[],
    overturned_by: "the server's own trace showing that the second part was written before the \
        pause",
    fix: &[
        (
            "server",
            "produce the whole response before the first write, or stream evenly",
        ),
        (
            "server",
            "find out what the handler waits for between its writes",
        ),
    ],
};

/// The sentence for pauses between parts that come at even intervals.
const RHYTHM: &str = "Its parts come at even intervals, which may be configured, requested, or the \
                      time of its work";

/// The sentence for all other pauses.
const WAITING: &str = "The delay is in the server itself or in a backend that it waits for";

/// The evidence against Nagle's algorithm, if most parts waited for no ACK.
const NO_NAGLE: Wording = Wording {
    ruled_out: &[(
        Id::NagleDelayedAck,
        "{eager} small parts left while an earlier one was unacknowledged: Nagle's algorithm is \
         off",
    )],
    ..Wording::NONE
};

/// The evidence against Nagle's algorithm, if no part left with an ACK.
const NONE_RELEASED: Wording = Wording {
    ruled_out: &[(
        Id::NagleDelayedAck,
        "none of {parts} follow-up parts left right after an acknowledgement: {late} left later \
         and {eager} before",
    )],
    ..Wording::NONE
};

/// The evidence against Nagle's algorithm, if some parts left with an ACK.
const CHANCE: Wording = Wording {
    ruled_out: &[(
        Id::NagleDelayedAck,
        "of {parts} follow-up parts only {released} left right after an acknowledgement (typically \
         {typical} after it), {late} later and {eager} before: coincidence, not cause",
    )],
    ..Wording::NONE
};

/// Minimum number of pauses in a response that can be at even intervals.
const BEATS: usize = 5;
/// The pauses of a response count as equal if they differ by at most the shortest one divided by
/// this number.
const EVEN_PART: u32 = 8;
/// The pauses of a response also count as equal if they differ by at most this time.
const UNEVEN: Duration = Duration::from_millis(2);

/// Watches pauses within responses that no ACK ended.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    /// The pauses that are certain.
    pauses: Tally,
    /// All pauses, including those that ended near an ACK. The ACK is a coincidence if Nagle's
    /// algorithm is not the reason.
    all: Tally,
    /// Number of pauses that ended near an ACK, although the server's kernel shows that the program
    /// wrote only then.
    written: u64,
    /// Number of pauses after which Nagle's algorithm held the second part. Only the server's
    /// kernel shows both times.
    then_held: u64,
    /// Number of pauses in responses whose parts came at even intervals.
    rhythmic: u64,
    /// Number of single pauses in all responses, and the longest of them.
    #[merge(with = sum_and_max)]
    single: (u64, Duration),
    /// Pauses in responses that stream events when they happen.
    streamed: Distribution,
}

impl super::Rule for Rule {
    const CONCERNS: Features =
        Features::wait(WaitKind::ServerPause).or(Features::wait(WaitKind::ResponseHeld));

    fn observe(&mut self, exchange: &Exchange) {
        if exchange.particulars.is_stream {
            // The client requested events, so it does not wait for a response.
            let paused = exchange.waited(WaitKind::ServerPause);
            self.streamed.record(paused);
            return;
        }
        // If it is unknown which side owes a response, only an ACK that released the data is
        // evidence of a hold.
        let held = if exchange.signs.doubts.is_unread {
            Duration::ZERO
        } else {
            exchange.waited(WaitKind::ResponseHeld)
        };
        let all = exchange.waited(WaitKind::ServerPause) + held;
        // The wait for the close at the end of a response is not a pause, because no data follows
        // it.
        let all = all.saturating_sub(exchange.particulars.close_wait.unwrap_or_default());
        let released = || {
            let holds = exchange.sending.holds.iter();
            holds.filter(|h| h.sender == Side::Server && may_be_released(h))
        };
        let at_once = released().filter(|hold| is_by_trip(hold));
        let all = all.saturating_sub(at_once.map(|hold| hold.held).sum());
        let late = released().filter(|hold| !is_by_trip(hold));
        let paused = all.saturating_sub(late.map(|hold| hold.held).sum());
        if paused >= ORDINARY_WORK {
            self.pauses
                .add(exchange, Cost::exactly(paused), Duration::ZERO);
        }
        let mut holds = exchange.sending.holds.iter();
        let is_written = holds.any(|hold| hold.release == HoldRelease::Written);
        self.written += u64::from(all >= ORDINARY_WORK && is_written);
        self.then_held += u64::from(all >= ORDINARY_WORK && is_then_held(exchange));
        self.rhythmic += u64::from(all >= ORDINARY_WORK && has_rhythm(exchange));
        if all >= ORDINARY_WORK {
            self.all.add(exchange, Cost::exactly(all), Duration::ZERO);
            let (count, longest) = self.single;
            let deliveries = exchange.sending.deliveries.iter();
            let served = deliveries.filter(|delivery| delivery.sender == Side::Server);
            let stalled = served.map(|delivery| delivery.stalled);
            self.single = stalled.fold((count, longest), |(count, longest), stalled| {
                let longest = longest.max(stalled.longest_pause);
                (count + u64::from(stalled.pauses), longest)
            });
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let tried = nagle_delayed_ack::follows_ack(case);
        let has_held = case.gathered.held_responses.is_by_acknowledgement() || tried == Some(true);
        let tally = if has_held { &self.pauses } else { &self.all };
        let is_told = !case.ledger.is_untold();
        if !is_told || !evidence::is_material(case, tally) || !evidence::recurs(case, tally) {
            return self.streams(case);
        }
        // The kernel held or paced the data, or the program had no processor, so it did not pause.
        if served::had_written(case, tally) || served::is_for_processor(case, tally) {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case, tally)))
    }
}

impl Rule {
    /// Returns a note on streams of events, if there is no claim.
    fn streams(&self, case: &Case<'_>) -> Conclusion {
        let count = self.streamed.count();
        if count == 0 || self.streamed.max().is_none_or(|most| most < ORDINARY_WORK) {
            return Conclusion::Nothing;
        }
        Conclusion::Note(Remark {
            id: "event-stream".to_owned(),
            text: format!(
                "{}: {} streams of events by their content type, silent for {} (median) between \
                 their parts: no user waits for events that have not happened.",
                case.endpoint,
                counted(count, "response is", "responses are"),
                median(&self.streamed),
            ),
        })
    }

    fn claim(&self, case: &Case<'_>, tally: &Tally) -> Claim {
        let mut claim = evidence::claim(Id::ServerPause, Owner::Server, case, tally);
        let (count, longest) = self.single;
        let is_summed = count > tally.affected;
        let between = if is_summed {
            format!(
                "in all between their parts ({count} pauses, the longest {})",
                human(longest)
            )
        } else {
            "between two parts".to_owned()
        };
        let text = format!(
            "{} paused for {} (median) {between}, and no acknowledgement came that could have \
             released the next part",
            counted(tally.affected, "response", "responses"),
            median(&tally.saved),
        );
        let text = match self.written {
            0 => text,
            some => format!(
                "{text}; in {some} of them an acknowledgement came just before, and the server's \
                 kernel saw the program write only then"
            ),
        };
        let text = match self.then_held {
            0 => text,
            some => format!(
                "{text}; in {some} of them the second part was then held for an acknowledgement, \
                 and only the server's kernel saw when the program had written it"
            ),
        };
        claim.evidence.push(
            Statement::shows(case.timed_by(), text)
                .count(tally.affected)
                .median(&tally.saved),
        );
        let tried = case
            .target
            .and_then(|t| nagle_delayed_ack::quick_ack(case.facts, t));
        let tried = tried.filter(|_| nagle_delayed_ack::follows_ack(case) == Some(false));
        if let Some(result) = &tried {
            let text = format!(
                "acknowledging immediately (TCP_QUICKACK) changed nothing: first to last byte {} \
                 with it, {} without",
                median(&result.treated.body),
                median(&result.control.body)
            );
            claim
                .evidence
                .push(Statement::fits(EvidenceKind::OwnSocket, text));
        }
        // Without packets and without the experiment, data that the kernel held looks the same.
        let has_look_alike = (!case.has_packets && tried.is_none())
            || case.ledger.is_relayed()
            || self.rhythmic * 2 > self.all.affected;
        claim.basis = Basis::new(tally.affected, has_look_alike);
        let why = if self.rhythmic * 2 > self.all.affected {
            RHYTHM
        } else {
            WAITING
        };
        rule_out_nagle(&mut claim, &case.gathered.held_responses);
        if case.has_packets {
            claim.candidates = candidates::of_server(case);
        }
        let saved = median(&tally.saved);
        let saved = if is_summed {
            format!(
                "{saved} (median) in all, {} at most at a time",
                human(longest)
            )
        } else {
            format!("{saved} (median) before it continues")
        };
        WORDING.tell(&mut claim, &[("saved", &saved), ("why", &why)]);
        claim
    }
}

/// Returns true if the server's kernel separated the pause from a hold that followed. No packet
/// ended such a pause.
fn is_then_held(exchange: &Exchange) -> bool {
    let pairs = exchange.waits.iter().zip(exchange.waits.iter().skip(1));
    let kinds = [WaitKind::ServerPause, WaitKind::ResponseHeld];
    let mut held = pairs.filter(|(first, then)| [first.kind, then.kind] == kinds);
    held.any(|(pause, _)| pause.released_by.is_none())
}

/// Returns true if the parts of the response came at even intervals.
fn has_rhythm(exchange: &Exchange) -> bool {
    let deliveries = exchange.sending.deliveries.iter();
    let mut served = deliveries.filter(|delivery| delivery.sender == Side::Server);
    served.any(|delivery| {
        let took = || delivery.pauses.iter().map(|pause| pause.took);
        let (least, most) = (took().min(), took().max());
        let (Some(least), Some(most)) = (least, most) else {
            return false;
        };
        delivery.pauses.len() >= BEATS && most - least <= (least / EVEN_PART).max(UNEVEN)
    })
}

/// Returns true if the response waited a round trip for an immediate ACK. This does not happen
/// repeatedly by chance, and a pause of the server would not be longer.
fn is_by_trip(hold: &Hold) -> bool {
    let is_released = matches!(
        hold.release,
        HoldRelease::Acknowledgement | HoldRelease::Timed
    );
    is_released && hold.ack_delay < DELAYED
}

/// Adds to the claim that ACKs did not release the second segments, if there were second
/// segments.
fn rule_out_nagle(claim: &mut Claim, held: &HeldSegments) {
    let released = held.released();
    let parts = released + held.late + held.eager;
    if parts == 0 {
        return;
    }
    let wording = if held.eager > released {
        &NO_NAGLE
    } else if released == 0 {
        &NONE_RELEASED
    } else {
        &CHANCE
    };
    wording.tell(
        claim,
        &[
            ("parts", &parts),
            ("released", &released),
            ("typical", &median(&held.reaction)),
            ("late", &held.late),
            ("eager", &held.eager),
        ],
    );
}

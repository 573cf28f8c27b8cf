//! Retransmitted bytes, until the receiver shows whether the retransmission was necessary.
//!
//! Seen at the sender, a retransmission alone is inconclusive: the original may have been lost, or
//! its acknowledgement, or either was merely late. The receiver's answer decides: an
//! acknowledgement that comes sooner than the path allows, or whose timestamp is older than the
//! retransmission, was for the original (RFC 3522), and a D-SACK reports that a copy was
//! unnecessary (RFC 2883, RFC 3708).

use core::time::Duration;

use crate::attribution::packet::Need;
use crate::attribution::packet::Span;
use crate::attribution::rtt::LEAST_ERROR;
use crate::observed::packet::PacketRange;
use crate::observed::time::Timestamp;

/// Maximum number of retransmissions watched at a time; more of them have a common cause.
const MAX_WATCHED: usize = 64;
/// Maximum time until a D-SACK: it comes with the next acknowledgement or never.
const LATE_WORD: Duration = Duration::from_secs(1);

/// The bytes of the sender that a segment of the receiver reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) at: Timestamp,
    /// The end of the bytes that have all arrived.
    pub(crate) ack: u64,
    /// Stretches that arrived beyond that end.
    pub(crate) sacked: &'a [Span],
    /// The stretch that arrived twice.
    pub(crate) duplicate: Option<Span>,
    /// The timestamp that the segment echoes.
    pub(crate) tsecr: Option<u32>,
    /// Minimum round trip from the observation point to the receiver.
    pub(crate) floor: Option<Duration>,
    /// True if segments sent by the receiver are missing just before this one.
    pub(crate) is_after_gap: bool,
}

/// The latest retransmissions of one sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeats {
    list: Vec<Repeat>,
    /// True if any data was ever retransmitted.
    has_any: bool,
    /// True if segments sent by the receiver went missing since the oldest pending retransmission.
    has_gap: bool,
}

#[derive(Clone, Copy, Debug)]
struct Repeat {
    number: u64,
    span: Span,
    at: Timestamp,
    tsval: Option<u32>,
    need: Need,
}

/// The retransmissions of some bytes that have not been answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) count: u32,
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// The first and the last packet.
    pub(crate) packets: PacketRange,
}

impl Repeats {
    /// Returns the retransmissions of those bytes beyond `acked` that were retransmitted most
    /// often.
    pub(crate) fn longest_unanswered(&self, acked: u64) -> Option<Run> {
        let mut open: Vec<&Repeat> = self
            .list
            .iter()
            .filter(|repeat| repeat.need == Need::Pending && repeat.span.end > acked)
            .collect();
        open.sort_by_key(|repeat| (repeat.span.start, repeat.at));
        let runs = open.chunk_by(|a, b| a.span.start == b.span.start);
        let runs = runs.filter_map(|run| {
            let (first, last) = (run.first()?, run.last()?);
            Some(Run {
                count: u32::try_from(run.len()).unwrap_or(u32::MAX),
                first: first.at,
                last: last.at,
                packets: PacketRange {
                    first: first.number,
                    last: last.number,
                },
            })
        });
        runs.max_by_key(|run| run.count)
    }

    /// Returns true if any data was ever retransmitted.
    pub(crate) fn has_any(&self) -> bool {
        self.has_any
    }

    /// Returns true if no retransmission is watched, so that an answer decides nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Watches a retransmission that was just sent as packet `number`. If its bytes had been
    /// acknowledged, `need` is [`Need::Untold`]: only a D-SACK can answer it.
    pub(crate) fn watch(
        &mut self,
        (number, at): (u64, Timestamp),
        span: Span,
        tsval: Option<u32>,
        need: Need,
    ) {
        self.has_any = true;
        if self.list.len() == MAX_WATCHED {
            self.list.remove(0);
        }
        self.list.push(Repeat {
            number,
            span,
            at,
            tsval,
            need,
        });
    }

    /// Takes in the receiver's answer; calls `tell` with the verdict on each packet.
    pub(crate) fn resolve(&mut self, answer: &Answer<'_>, mut tell: impl FnMut(u64, Need)) {
        self.has_gap |= answer.is_after_gap;
        self.weigh(answer, &mut tell);
        if let Some(duplicate) = answer.duplicate {
            self.take_back(duplicate, &mut tell);
        }
        self.list.retain(|repeat| {
            repeat.need == Need::Pending || answer.at.since(repeat.at) < LATE_WORD
        });
        self.has_gap &= self.list.iter().any(|repeat| repeat.need == Need::Pending);
    }

    /// Returns true if an echoed timestamp is older than the first retransmission of this recovery,
    /// so that the answer is to the originals (RFC 3522 §3.2).
    pub(crate) fn echoes_original(&self, tsecr: Option<u32>) -> bool {
        let mut pending = self
            .list
            .iter()
            .filter(|repeat| repeat.need == Need::Pending);
        let first = pending.next().and_then(|repeat| repeat.tsval);
        tsecr
            .zip(first)
            .is_some_and(|(echoed, first)| (echoed.wrapping_sub(first) as i32) < 0)
    }

    /// Decides which copies arrived, for bytes that the receiver had not reported before.
    fn weigh(&mut self, answer: &Answer<'_>, tell: &mut impl FnMut(u64, Need)) {
        let is_for_originals = self.echoes_original(answer.tsecr);
        for index in 0..self.list.len() {
            let Some(&repeat) = self.list.get(index) else {
                break;
            };
            let is_cumulative = answer.ack >= repeat.span.end;
            if repeat.need != Need::Pending || !(is_cumulative || answer.covers(repeat.span)) {
                continue;
            }
            let too_soon = !answer.may_be_for(repeat.at);
            // What a selective acknowledgement echoes is older.
            let is_before = is_for_originals || answer.echoes_before(repeat.tsval);
            let need = if too_soon || (is_cumulative && is_before) {
                Need::Spurious
            } else if self.has_gap {
                Need::Untold
            } else {
                Need::Needed
            };
            if let Some(repeat) = self.list.get_mut(index) {
                repeat.need = need;
            }
            tell(repeat.number, need);
        }
    }

    /// Reverses the verdict on the last copy of the bytes in `duplicate`: that copy was
    /// unnecessary.
    fn take_back(&mut self, duplicate: Span, tell: &mut impl FnMut(u64, Need)) {
        let last = self.list.iter_mut().rev().find(|repeat| {
            repeat.need != Need::Spurious
                && repeat.span.start < duplicate.end
                && repeat.span.end > duplicate.start
        });
        if let Some(repeat) = last {
            repeat.need = Need::Spurious;
            tell(repeat.number, Need::Spurious);
        }
    }

    /// Frees the memory.
    pub(crate) fn retire(&mut self) {
        self.list = Vec::new();
    }
}

impl Answer<'_> {
    fn covers(&self, span: Span) -> bool {
        self.sacked
            .iter()
            .any(|sacked| sacked.start <= span.start && sacked.end >= span.end)
    }

    /// Returns true if the answer may be to the segment that passed here at `sent`: paths are at
    /// times slightly quicker than the minimum round trip seen, and timestamps have an error.
    fn may_be_for(&self, sent: Timestamp) -> bool {
        let floor = self.floor.unwrap_or_default();
        self.at.since(sent) + LEAST_ERROR >= floor * 7 / 8
    }

    /// Returns true if the answer echoes an older timestamp than this one: it was sent before the
    /// segment with this timestamp arrived.
    fn echoes_before(&self, tsval: Option<u32>) -> bool {
        let times = self.tsecr.zip(tsval);
        times.is_some_and(|(echoed, sent)| (echoed.wrapping_sub(sent) as i32) < 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn span(start: u64, end: u64) -> Span {
        Span { start, end }
    }

    /// An answer `ms` after the retransmission on a path of 20 ms.
    fn answer(ms: i64, ack: u64) -> Answer<'static> {
        Answer {
            at: at(ms),
            ack,
            sacked: &[],
            duplicate: None,
            tsecr: None,
            floor: Some(Duration::from_millis(20)),
            is_after_gap: false,
        }
    }

    /// Returns the verdicts on bytes 0 to 100, retransmitted at 0 ms with timestamp 50.
    fn told(answers: &[Answer<'_>]) -> Vec<Need> {
        let mut repeats = Repeats::default();
        repeats.watch((7, at(0)), span(0, 100), Some(50), Need::Pending);
        let mut told = Vec::new();
        for answer in answers {
            repeats.resolve(answer, |number, need| {
                assert_eq!(number, 7);
                told.push(need);
            });
        }
        told
    }

    #[test]
    fn of_several_copies_an_answer_needs_none_that_is_newer_than_its_echo() {
        let told = |tsecr| {
            let mut repeats = Repeats::default();
            for (number, ms, tsval) in [(7, 0, 50), (8, 30, 80), (9, 60, 110)] {
                repeats.watch((number, at(ms)), span(0, 100), Some(tsval), Need::Pending);
            }
            let mut told = Vec::new();
            let answer = Answer {
                tsecr,
                ..answer(90, 100)
            };
            repeats.resolve(&answer, |_, need| told.push(need));
            told
        };
        let (needed, spurious) = (Need::Needed, Need::Spurious);
        assert_eq!(told(Some(80)), [needed, needed, spurious]);
        assert_eq!(told(Some(110)), [needed; 3]);
        assert_eq!(told(Some(20)), [spurious; 3]);
        assert_eq!(told(None), [needed; 3]);
    }

    #[test]
    fn an_answer_after_a_round_trip_says_it_was_needed() {
        assert_eq!(told(&[answer(21, 100)]), [Need::Needed]);
        assert_eq!(told(&[answer(21, 99)]), []);
    }

    #[test]
    fn an_answer_that_is_too_soon_or_echoes_an_older_stamp_is_for_the_original() {
        assert_eq!(told(&[answer(9, 100)]), [Need::Spurious]);
        let stamped = |tsecr| Answer {
            tsecr: Some(tsecr),
            ..answer(30, 100)
        };
        assert_eq!(told(&[stamped(49)]), [Need::Spurious]);
        assert_eq!(told(&[stamped(50)]), [Need::Needed]);
    }

    #[test]
    fn a_duplicate_report_takes_it_back() {
        let doubled = Answer {
            duplicate: Some(span(0, 100)),
            ..answer(21, 100)
        };
        assert_eq!(told(&[doubled]), [Need::Needed, Need::Spurious]);
        let later = Answer {
            duplicate: Some(span(0, 100)),
            ..answer(40, 100)
        };
        assert_eq!(
            told(&[answer(21, 100), later]),
            [Need::Needed, Need::Spurious]
        );
    }

    #[test]
    fn where_the_receivers_word_is_missing_nothing_is_said() {
        let after_gap = Answer {
            is_after_gap: true,
            ..answer(40, 100)
        };
        assert_eq!(told(&[after_gap]), [Need::Untold]);
    }

    #[test]
    fn selective_acknowledgements_answer_too_and_echo_another_stamp() {
        let sacked = [span(0, 200)];
        let selective = Answer {
            sacked: &sacked,
            tsecr: Some(10),
            ..answer(21, 0)
        };
        assert_eq!(told(&[selective]), [Need::Needed]);
    }

    #[test]
    fn bytes_acknowledged_before_their_copy_need_none() {
        let mut repeats = Repeats::default();
        repeats.watch((7, at(0)), span(0, 100), Some(50), Need::Untold);
        let mut told = Vec::new();
        repeats.resolve(&answer(21, 200), |number, need| told.push((number, need)));
        assert!(repeats.has_any() && told.is_empty(), "{told:?}");
        let doubled = Answer {
            duplicate: Some(span(0, 100)),
            ..answer(30, 200)
        };
        repeats.resolve(&doubled, |number, need| told.push((number, need)));
        assert_eq!(told, [(7, Need::Spurious)]);
    }

    #[test]
    fn on_a_short_path_an_answer_is_not_too_soon_by_what_stamps_stray() {
        let soon = |micros: i64| Answer {
            at: Timestamp::from_nanos(micros * 1_000),
            floor: Some(Duration::from_micros(40)),
            ..answer(0, 100)
        };
        assert_eq!(told(&[soon(5)]), [Need::Needed]);
        let farther = Answer {
            floor: Some(Duration::from_millis(2)),
            ..soon(1_500)
        };
        assert_eq!(told(&[farther]), [Need::Spurious]);
    }
}

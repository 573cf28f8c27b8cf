//! Turns of live connections as the kernel of one end timed them: the bytes that came, and those
//! that the program sent for them.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::stats::histogram::Distribution;

/// A turn of a connection at the end that answers: from the first byte that came to the last that
/// was sent before more came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSpan {
    /// The answering end.
    pub local: Endpoint,
    /// The asking end.
    pub remote: Endpoint,
    /// The thread that read it; `None` where none did while it was watched.
    pub program: Option<Program>,
    /// Time of the first byte's arrival: as the device's driver handed it over where the kernel
    /// stamped that, else as `delivered`.
    pub arrived: Timestamp,
    /// Time when the network stack took it up; `None` where that was not looked at.
    pub entered: Option<Timestamp>,
    /// Time when TCP got the first byte.
    pub delivered: Timestamp,
    /// Time when TCP got the last byte.
    pub delivered_last: Timestamp,
    /// Time when the program had first read something of it.
    pub read: Option<Timestamp>,
    /// Time when its first write returned.
    pub written: Option<Timestamp>,
    /// Time when its last write returned.
    pub written_last: Option<Timestamp>,
    /// Time when TCP sent the first byte of the answer.
    pub sent: Timestamp,
    /// Time when TCP sent the last byte of the answer.
    pub sent_last: Timestamp,
    /// The answer's way through the queueing disciplines behind TCP; `None` where that was not
    /// looked at.
    pub departure: Option<Departure>,
    /// Time when the kernel last dropped something of the request for want of memory in its socket;
    /// `None` where it did not, or that was not looked at.
    pub refused: Option<Timestamp>,
    /// Number of times that the program wrote.
    pub writes: u32,
    /// The parts of the answer that Nagle's algorithm held back.
    pub held: Held,
    /// Times of the thread that read and answered it; `None` where that was not looked at, or
    /// another thread answered.
    pub thread: Option<ThreadTimes>,
    /// The service that the thread asked meanwhile; `None` where it is not known to have asked any
    /// for this request.
    pub asked: Option<Asked>,
}

/// Times of a thread while a request was with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTimes {
    /// Time ready to run and without a processor before it read: the latest such times (of 20 µs
    /// and more), so at least this.
    pub queued_unread: Duration,
    /// Time ready to run and without a processor from its first read to its last write, all of it.
    pub queued: Duration,
    /// The part of `queued_unread` after which it got a processor that had been
    /// idle, and was not kept off it by a quota.
    pub waking_unread: Duration,
    /// The part of `queued` after which it got a processor that had been idle, and was not kept off
    /// it by a quota.
    pub waking: Duration,
    /// Time asleep from its first read to its last write.
    pub slept: Duration,
}

/// The departure of an answer from its host. What a container's own interface hands on to the
/// host's is not followed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// Time when the device's driver got the last of it.
    pub at: Timestamp,
    /// The time that its first segment lay in queueing disciplines, beyond the time until which the
    /// socket's pacing kept it (`skb->tstamp`). Nothing of the same answer was before it.
    pub first_queued: Duration,
    /// The time that its last segment lay in queueing disciplines, likewise.
    pub queued: Duration,
}

/// Another service that was asked for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The address of the service; `None` for what has no address (a Unix socket), and for what is
    /// addressed message by message.
    pub whom: Option<Endpoint>,
    /// The time from asking to having read something of the answer, all times added up.
    pub time: Duration,
}

/// A stage of a turn, by which its time is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// After arrival, before the network stack takes it up: softirqs are late.
    Backlog,
    /// On its way through the stack to TCP: filters, routing, the program's own
    /// hold on the socket.
    Stack,
    /// In the socket's queue.
    Unread,
    /// The program's thread ready to run, and its processor waking from idleness.
    WakeUp,
    /// Ready to run, and without a processor that others have.
    RunQueue,
    /// Between its first read and its last write, at work as far as is known.
    Program,
    /// Between its first read and its last write, and asleep.
    Waiting,
    /// Held by Nagle's algorithm.
    Held,
    /// Waiting for windows, pacing and the rest.
    Sending,
    /// Sent by TCP, and in the queueing disciplines before the device's driver.
    Qdisc,
}

/// Written bytes that stayed unsent although windows had room: less than a
/// segment, with something unacknowledged and `TCP_NODELAY` off
/// (`net/ipv4/tcp_output.c: tcp_nagle_check()`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Number of times in this turn.
    pub times: u32,
    /// Number of those times at which something arrived between the write and the sending.
    pub after_arrival: u32,
    /// The time from the write to the device, added up.
    pub total: Duration,
    /// The longest of these times.
    pub longest: Duration,
}

/// A thread that reads and writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Program {
    /// Process id, as the host's own namespace numbers it.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The thread's `comm`.
    pub name: String,
}

impl RequestSpan {
    /// The names of each [`Stage`], in their order.
    pub(crate) const STAGES: [&'static str; 10] = [
        "backlog",
        "stack",
        "unread",
        "wake-up",
        "run-queue",
        "program",
        "waiting",
        "held",
        "sending",
        "qdisc",
    ];

    /// Returns the time from the first byte that came to the last that left.
    pub fn duration(&self) -> Duration {
        self.left().since(self.arrived)
    }

    /// Returns the time when the last of the answer left the host, as far as that was looked at.
    pub fn left(&self) -> Timestamp {
        let departure = self.departure.map(|departure| departure.at);
        departure.map_or(self.sent_last, |at| at.max(self.sent_last))
    }

    /// Returns the times of the stages, in the order of [`Stage`]; they add up to the duration.
    /// `None` without a read or a write, as of a turn that was under way when watching began.
    ///
    /// What went to the device while the program was still writing counts as
    /// the program's time but for what Nagle's algorithm held.
    pub fn stages(&self) -> Option<[Duration; 10]> {
        let delivered = self.delivered.max(self.arrived).min(self.sent_last);
        let read = self.read?.max(delivered).min(self.sent_last);
        let written = self.written_last?.max(read).min(self.sent_last);
        let lying = read.since(delivered);
        let rest = self.sent_last.since(read);
        let held = self.held.total.min(rest);
        // A write may be held while the next one is being made.
        let after_writing = self.sent_last.since(written);
        let sending = after_writing.saturating_sub(held);
        let inside = rest.saturating_sub(held).saturating_sub(sending);
        let leaving = self.left().since(self.sent_last.max(self.arrived));
        let queued = self.departure.map(|departure| departure.queued);
        let in_qdisc = queued.unwrap_or_default().min(leaving);
        let thread = self.thread.unwrap_or_default();
        let queued_unread = thread.queued_unread.min(lying);
        let queued = thread.queued.min(inside);
        let slept = thread.slept.min(inside - queued);
        let waking = thread.waking_unread.min(queued_unread) + thread.waking.min(queued);
        let entered = self.entered.unwrap_or(self.arrived);
        let entered = entered.max(self.arrived).min(delivered);
        Some([
            entered.since(self.arrived),
            delivered.since(entered),
            lying - queued_unread,
            waking,
            queued_unread + queued - waking,
            inside - queued - slept,
            slept,
            held,
            sending + leaving - in_qdisc,
            in_qdisc,
        ])
    }
}

/// Totals of watching.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchTally {
    /// Latency of every turn of every watched connection: at most an eighth too long.
    pub latency: Distribution,
    /// Number of connections met.
    pub connections: u64,
    /// Share of the turns that were handed up one by one, 0 to 1.
    pub sampled_share: f64,
    /// Number of observations lost for want of room.
    pub lost_records: u64,
    /// Number of connections not followed for want of room.
    pub lost_connections: u64,
    /// Processor time of the programs in the kernel, where it was counted.
    pub cost: Option<Duration>,
    /// Throttling of the watched programs' control groups meanwhile by their quotas; `None` where
    /// they have none, or that cannot be read.
    pub throttling: Option<Throttling>,
    /// Processor time that the hypervisor gave to others meanwhile, of all
    /// processors together (`steal` of `/proc/stat`); `None` where that cannot
    /// be read.
    pub stolen: Option<Duration>,
    /// Packets of the watched ports that this host dropped, by the kernel's
    /// reason (`enum skb_drop_reason` without its prefix).
    pub drops: Vec<(String, u64)>,
}

/// Control groups that had used up their processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    /// Number of periods (`nr_throttled` of `cpu.stat`).
    pub periods: u64,
    /// Time summed over processors (`throttled_usec`).
    pub time: Duration,
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_nanos(micros * 1000)
    }

    fn turn() -> RequestSpan {
        let end = |port| Endpoint::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        RequestSpan {
            local: end(80),
            remote: end(40_000),
            program: None,
            arrived: at(0),
            entered: Some(at(5)),
            delivered: at(20),
            delivered_last: at(20),
            read: Some(at(100)),
            written: Some(at(300)),
            written_last: Some(at(400)),
            sent: at(310),
            sent_last: at(40_400),
            departure: Some(Departure {
                at: at(41_000),
                first_queued: Duration::ZERO,
                queued: Duration::from_micros(450),
            }),
            refused: None,
            writes: 2,
            held: Held {
                times: 1,
                after_arrival: 1,
                total: Duration::from_micros(39_900),
                longest: Duration::from_micros(39_900),
            },
            thread: Some(ThreadTimes {
                queued_unread: Duration::from_micros(30),
                queued: Duration::from_micros(50),
                waking_unread: Duration::from_micros(20),
                waking: Duration::ZERO,
                slept: Duration::from_micros(200),
            }),
            asked: None,
        }
    }

    #[test]
    fn stages_tile_the_turn() {
        let micros = |stages: [Duration; 10]| stages.map(|stage| stage.as_micros());
        let turn = turn();
        assert_eq!(
            turn.stages().map(micros),
            Some([5, 15, 50, 20, 60, 50, 200, 39_900, 250, 450])
        );
        assert_eq!(
            turn.stages().unwrap_or_default().iter().sum::<Duration>(),
            turn.duration()
        );
    }

    #[test]
    fn no_order_of_stamps_breaks_the_tiling() {
        let stamps = [-5, 0, 50, 400, 90_000];
        for read in stamps {
            for written_last in stamps {
                for held in [0, 100, 1_000_000] {
                    let mut turn = turn();
                    turn.read = Some(at(read));
                    turn.written_last = Some(at(written_last));
                    turn.held.total = Duration::from_micros(held);
                    for delivered in stamps {
                        turn.delivered = at(delivered);
                        for left in stamps {
                            turn.departure = Some(Departure {
                                at: at(left),
                                first_queued: Duration::ZERO,
                                queued: Duration::from_micros(held),
                            });
                            let stages = turn.stages().unwrap_or_default();
                            assert_eq!(stages.iter().sum::<Duration>(), turn.duration());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_was_not_read_or_written_has_no_stages() {
        let mut unread = turn();
        unread.read = None;
        assert_eq!(unread.stages(), None);
        let mut unwritten = turn();
        unwritten.written_last = None;
        assert_eq!(unwritten.stages(), None);
    }
}

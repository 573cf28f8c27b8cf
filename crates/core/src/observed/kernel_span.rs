//! Turns of live connections, as timed by the kernel of the answering end. A turn consists of the
//! bytes that arrived and the bytes that the program sent in reply.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::stats::histogram::Distribution;

/// A turn of a connection at the answering end: from the first byte that arrived to the last byte
/// sent before more arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSpan {
    /// The answering end.
    pub local: Endpoint,
    /// The requesting end.
    pub remote: Endpoint,
    /// The thread that read the request; `None` if no read was observed.
    pub program: Option<Program>,
    /// Time of the first byte's arrival: when the device's driver passed on its packet, if the
    /// kernel took that timestamp; otherwise the same as `delivered`.
    pub arrived: Timestamp,
    /// Time when the network stack took up the packet with the first byte; `None` if that was not
    /// observed.
    pub entered: Option<Timestamp>,
    /// Time when TCP received the first byte.
    pub delivered: Timestamp,
    /// Time when TCP received the last byte.
    pub delivered_last: Timestamp,
    /// Time when the program had read the first part of the request.
    pub read: Option<Timestamp>,
    /// Time when the program's first write returned.
    pub written: Option<Timestamp>,
    /// Time when the program's last write returned.
    pub written_last: Option<Timestamp>,
    /// Time when TCP sent the first byte of the answer.
    pub sent: Timestamp,
    /// Time when TCP sent the last byte of the answer.
    pub sent_last: Timestamp,
    /// The answer's path through the queueing disciplines after TCP; `None` if that was not
    /// observed.
    pub departure: Option<Departure>,
    /// Time when the kernel last dropped a part of the request because the socket had no memory
    /// left. `None` if no drop was observed.
    pub refused: Option<Timestamp>,
    /// Number of times that the program wrote.
    pub writes: u32,
    /// The parts of the answer that Nagle's algorithm held back.
    pub held: KernelHold,
    /// Times of the thread that read and answered the request; `None` if they were not observed, or
    /// if another thread answered.
    pub thread: Option<ThreadTimes>,
    /// The service that the thread called during the request, and waited for longest if it called
    /// several; `None` if it is not known to have called one for this request.
    pub asked: Option<Asked>,
}

/// Times of a thread while it handled a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTimes {
    /// Time for which the thread was runnable without a processor before it read the request. Only
    /// the latest such periods of at least 20 µs are counted, so this is a lower bound.
    pub queued_unread: Duration,
    /// Total time for which the thread was runnable without a processor, from its first read to its
    /// last write.
    pub queued: Duration,
    /// The part of `queued_unread` that ended on a processor that had been idle, and in which no
    /// quota throttled the thread.
    pub waking_unread: Duration,
    /// The part of `queued` that ended on a processor that had been idle, and in which no quota
    /// throttled the thread.
    pub waking: Duration,
    /// Time for which the thread slept, from its first read to its last write.
    pub slept: Duration,
}

/// The departure of an answer from its host. A packet that leaves a container is not followed
/// beyond the container's own interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// Time when the device's driver received the last segment of the answer.
    pub at: Timestamp,
    /// Time for which the answer's first segment waited in queueing disciplines after the departure
    /// time that the socket's pacing had set (`skb->tstamp`). No other segment of the answer was
    /// ahead of it.
    pub first_queued: Duration,
    /// Time for which the answer's last segment waited in queueing disciplines, counted as for
    /// `first_queued`.
    pub queued: Duration,
}

/// Another service that was called for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The address of the service. `None` for a Unix socket, and for a socket that names the
    /// destination in each message.
    pub whom: Option<Endpoint>,
    /// The total time from each call of this service to the first read of its answer, and of connecting.
    pub time: Duration,
    /// The part of it for which SYNs or datagrams got no answer: until they were given up, sent again,
    /// or answered only then.
    #[serde(default)]
    pub silent: Duration,
    /// The part of it that the sockets' round trips take: for each call the smallest one that its
    /// socket measured, at most the call's time. It may contain the service's own time if no ACK came
    /// before an answer. Zero if it is not known, or for a Unix socket.
    #[serde(default)]
    pub way: Duration,
    /// Number of calls.
    #[serde(default)]
    pub calls: u32,
    /// Number of connections that were made for them.
    #[serde(default)]
    pub connections: u32,
}

/// A stage of a turn. The stages divide the turn's time among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From arrival until the network stack takes the packet up; long if softirqs are late.
    Backlog,
    /// In the network stack before TCP: filters, routing, the program's own lock on the socket.
    Stack,
    /// In the socket's queue.
    Unread,
    /// The program's thread is runnable, and its processor is leaving an idle state.
    WakeUp,
    /// The thread is runnable, but without a processor, because others use it.
    RunQueue,
    /// Between the thread's first read and its last write, not asleep.
    Program,
    /// Between the thread's first read and its last write, asleep.
    Waiting,
    /// Held by Nagle's algorithm.
    Held,
    /// Waiting for windows, pacing and other limits.
    Sending,
    /// Sent by TCP, but still in the queueing disciplines before the device's driver.
    Qdisc,
}

/// Bytes that were written but stayed unsent although windows had room: less than a segment, with
/// data unacknowledged and `TCP_NODELAY` off (`net/ipv4/tcp_output.c: tcp_nagle_check()`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelHold {
    /// Number of such holds in this turn.
    pub times: u32,
    /// Number of these holds in which something arrived between the write and the sending.
    pub after_arrival: u32,
    /// The total time from the writes until the data reached the device.
    pub total: Duration,
    /// The longest of these times.
    pub longest: Duration,
}

/// A thread that reads requests and writes answers.
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

    /// Returns the time from the first byte that arrived to the last that left.
    pub fn duration(&self) -> Duration {
        self.left().since(self.arrived)
    }

    /// Returns the time when the last segment of the answer left the host, or when TCP sent it if
    /// the departure was not observed.
    pub fn left(&self) -> Timestamp {
        let departure = self.departure.map(|departure| departure.at);
        departure.map_or(self.sent_last, |at| at.max(self.sent_last))
    }

    /// Returns the times of the stages, in the order of [`Stage`]; they add up to the duration.
    /// `None` without a read or a write, as in a turn that was in progress when watching began.
    ///
    /// Time in which data reached the device while the program was still writing counts as the
    /// program's time. Time in which Nagle's algorithm held data does not.
    pub fn stages(&self) -> Option<[Duration; 10]> {
        let delivered = self.delivered.max(self.arrived).min(self.sent_last);
        let read = self.read?.max(delivered).min(self.sent_last);
        let written = self.written_last?.max(read).min(self.sent_last);
        let lying = read.since(delivered);
        let rest = self.sent_last.since(read);
        let held = self.held.total.min(rest);
        // A write can be held while the program makes the next one.
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

/// Totals over the time for which the kernel was watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchTally {
    /// Latency of every turn of every watched connection, at most 12.5 % too high.
    pub latency: Distribution,
    /// Number of connections seen.
    pub connections: u64,
    /// Share of the turns that the kernel passed to this program individually, 0 to 1; 1 if it chose
    /// no sample, although those under way at the ends of the watch are counted only.
    pub sampled_share: f64,
    /// Share of HTTP/2's traffic that was examined, 0 to 1; `None` if there was none. Its requests
    /// are not turns, and are in no other figure of the kernel.
    #[serde(default)]
    pub stream_share: Option<f64>,
    /// Number of TLS handshakes whose segments came without payload, so that they look like requests
    /// there. The kernel, which read them, counts them as none.
    #[serde(default)]
    pub unread_tls_handshakes: u64,
    /// Number of observations lost because a buffer was full.
    pub lost_records: u64,
    /// Number of connections not followed because a table was full.
    pub lost_connections: u64,
    /// Processor time of the eBPF programs, if it was counted.
    pub cost: Option<Duration>,
    /// Throttling of the watched programs' control groups by their quotas while they were watched;
    /// `None` if they have no quotas, or if it cannot be read.
    pub throttling: Option<Throttling>,
    /// Processor time that the hypervisor gave to others while watching, over all processors
    /// (`steal` of `/proc/stat`); `None` if it cannot be read.
    pub stolen: Option<Duration>,
    /// Packets of the watched ports that this host dropped, by the kernel's drop reason (`enum
    /// skb_drop_reason` without its prefix).
    pub drops: Vec<(String, u64)>,
    /// True if the segments of all handshakes were reported: also SYNs that were ignored.
    #[serde(default)]
    pub sees_handshakes: bool,
}

/// Throttling of control groups that had used up their processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    /// Number of periods with throttling (`nr_throttled` of `cpu.stat`).
    pub periods: u64,
    /// Time of throttling, summed over processors (`throttled_usec`).
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
            held: KernelHold {
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

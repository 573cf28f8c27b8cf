//! Packets are taken in by rounds, on one thread or several.
//!
//! In a round each shard of the analyzer takes the packets of its own flows
//! from one batch while the next one is read and dealt out. Whoever is free
//! takes the next of these tasks, so any number of threads shares them, and
//! what comes of it is the same: each shard sees its packets in their order,
//! and what closed is told between the rounds, in the order in which it did.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::{mem, thread};

use lagtrace_core::analyzer::{Admission, Analyzer, Entrance, Worker};
use lagtrace_core::decode::Packet;
use lagtrace_core::segment::Segment;
use lagtrace_sources::capture::Packets;

/// Hands the packets that `read` leaves in its argument, until it leaves none,
/// to the analyzer, and each segment to `watch` after what closed with it was
/// told.
pub(super) fn run(
    analyzer: &mut Analyzer,
    threads: NonZeroUsize,
    mut read: impl FnMut(&mut Packets) + Send,
    mut watch: Option<impl FnMut(&Segment)>,
) {
    if threads == NonZeroUsize::MIN {
        return alone(analyzer, read, watch);
    }
    let (entrance, workers) = analyzer.split();
    let rounds = Rounds::new(&mut read, entrance, workers);
    let helpers = (threads.get() - 1).min(rounds.shards.len());
    thread::scope(|scope| {
        let (done, dones) = channel();
        let starts: Vec<Sender<()>> = (0..helpers)
            .map(|_| {
                let (start, starts) = channel();
                let (rounds, done) = (&rounds, done.clone());
                scope.spawn(move || help(rounds, &starts, &done));
                start
            })
            .collect();
        drop(done);
        loop {
            // A helper that is gone has panicked, as this thread does when the
            // scope ends.
            if starts.iter().any(|start| start.send(()).is_err()) {
                return;
            }
            rounds.work();
            if starts.iter().any(|_| dones.recv().is_err()) || !rounds.turn(&mut watch) {
                return;
            }
        }
    });
}

fn help<R: FnMut(&mut Packets)>(rounds: &Rounds<'_, R>, starts: &Receiver<()>, done: &Sender<()>) {
    while starts.recv().is_ok() {
        rounds.work();
        if done.send(()).is_err() {
            return;
        }
    }
}

fn alone(
    analyzer: &mut Analyzer,
    mut read: impl FnMut(&mut Packets),
    mut watch: Option<impl FnMut(&Segment)>,
) {
    let mut packets = Packets::default();
    loop {
        read(&mut packets);
        if packets.is_empty() {
            return;
        }
        for (packet, payload) in packets.iter() {
            match packet {
                Packet::Tcp(segment, _) => {
                    analyzer.segment(segment, payload);
                    if let Some(watch) = &mut watch {
                        watch(segment);
                    }
                }
                Packet::Udp(header, _) => analyzer.datagram(header, payload),
                other => analyzer.packet(other),
            }
        }
    }
}

/// What the threads share.
struct Rounds<'a, R> {
    /// The next task: to read, or a shard's share of the batch.
    task: AtomicUsize,
    batch: RwLock<Batch>,
    reader: Mutex<Reader<'a, R>>,
    shards: Vec<Mutex<Share<'a>>>,
}

/// Packets of a round.
#[derive(Default)]
struct Batch {
    packets: Packets,
    /// The number of the first one less one.
    before: u64,
    is_last: bool,
}

/// Reads the next round's packets and deals them out.
struct Reader<'a, R> {
    read: &'a mut R,
    entrance: &'a mut Entrance,
    next: Batch,
    /// For each shard.
    dealt: Vec<Vec<Dealt>>,
}

/// A packet of a shard: its place in the batch.
struct Dealt {
    index: usize,
    /// `None` if it is no segment.
    admission: Option<Admission>,
}

/// A shard and what it has to do in a round.
struct Share<'a> {
    worker: Worker<'a>,
    dealt: Vec<Dealt>,
}

impl<'a, R: FnMut(&mut Packets)> Rounds<'a, R> {
    fn new(read: &'a mut R, entrance: &'a mut Entrance, workers: Vec<Worker<'a>>) -> Self {
        let dealt = workers.iter().map(|_| Vec::new()).collect();
        let share = |worker| {
            Mutex::new(Share {
                worker,
                dealt: Vec::new(),
            })
        };
        Self {
            task: AtomicUsize::new(0),
            batch: RwLock::default(),
            shards: workers.into_iter().map(share).collect(),
            reader: Mutex::new(Reader {
                read,
                entrance,
                next: Batch::default(),
                dealt,
            }),
        }
    }

    /// Does what is left to do of the round.
    fn work(&self) {
        let batch = self.batch.read().unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.task.fetch_add(1, Ordering::Relaxed) {
                0 if batch.is_last => {}
                0 => lock(&self.reader).read(),
                task => match self.shards.get(task - 1) {
                    Some(share) => lock(share).work(&batch),
                    None => return,
                },
            }
        }
    }

    /// Ends the round that all have done their work of; whether there is
    /// another one.
    fn turn(&self, watch: &mut Option<impl FnMut(&Segment)>) -> bool {
        let mut batch = self.batch.write().unwrap_or_else(PoisonError::into_inner);
        let mut reader = lock(&self.reader);
        let reader = &mut *reader;
        for (share, dealt) in self.shards.iter().zip(&mut reader.dealt) {
            let mut share = lock(share);
            reader.entrance.gather(&mut share.worker);
            mem::swap(&mut share.dealt, dealt);
        }
        tell(reader.entrance, &batch, watch);
        mem::swap(&mut *batch, &mut reader.next);
        self.task.store(0, Ordering::Relaxed);
        !reader.next.is_last
    }
}

/// Tells what closed with the packets of `batch`.
fn tell(entrance: &mut Entrance, batch: &Batch, watch: &mut Option<impl FnMut(&Segment)>) {
    let mut last = batch.before;
    for (packet, _) in batch.packets.iter() {
        last += 1;
        if let (Some(watch), Packet::Tcp(segment, _)) = (watch.as_mut(), packet) {
            entrance.deliver(last);
            watch(segment);
        }
    }
    entrance.deliver(last);
}

impl<R: FnMut(&mut Packets)> Reader<'_, R> {
    fn read(&mut self) {
        let Batch {
            packets,
            before,
            is_last,
        } = &mut self.next;
        *before = self.entrance.packets();
        (self.read)(packets);
        *is_last = packets.is_empty();
        for (index, (packet, payload)) in packets.iter().enumerate() {
            let (shard, admission) = match packet {
                Packet::Tcp(segment, _) => {
                    let admission = self.entrance.segment(segment, payload);
                    (admission.shard(), Some(admission))
                }
                Packet::Icmp(error) => (self.entrance.icmp(error), None),
                Packet::Udp(header, _) => {
                    self.entrance.datagram(header, payload);
                    continue;
                }
                Packet::Neighbour(step) => {
                    self.entrance.neighbour(step);
                    continue;
                }
                Packet::Other => continue,
            };
            if let Some(dealt) = self.dealt.get_mut(shard) {
                dealt.push(Dealt { index, admission });
            }
        }
    }
}

impl Share<'_> {
    fn work(&mut self, batch: &Batch) {
        for Dealt { index, admission } in self.dealt.drain(..) {
            match (batch.packets.at(index), admission) {
                (Some((Packet::Tcp(segment, _), payload)), Some(admission)) => {
                    self.worker.segment(segment, payload, admission);
                }
                (Some((Packet::Icmp(error), _)), _) => self.worker.icmp(error),
                _ => {}
            }
        }
        if batch.is_last {
            self.worker.close();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

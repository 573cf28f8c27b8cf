//! Processing of packets on one or several threads.
//!
//! Packets are read and distributed in rounds of one batch each. Every shard of the analyzer
//! processes the packets of its own flows, batch by batch. The results that a batch completed are
//! delivered when all shards have processed the batch. Any free thread takes the next task that is
//! due. No shard waits for another shard or for the reader, which is some rounds ahead. The result
//! is still the same for any number of threads: each shard sees its packets in order, and
//! results are delivered batch by batch, in the order in which they were completed.
//!
//! A thread alone works in the same way: the code of each task, and each shard's connections, stay
//! in the processor's caches for a whole batch.

mod progress;

use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::{mem, thread};

use lagtrace_core::analyzer::{Analyzer, ClosedBatch, Ingress, Routed, Worker};
use lagtrace_core::decode::Packet;
use lagtrace_sources::capture::Packets;

use progress::{AHEAD, Progress, Task};

/// Passes the packets from `read` to the analyzer. `read` puts the next packets into its argument,
/// and leaves it empty at the end. Passes each segment and ICMP error to `watch` after the results
/// that it completed were delivered.
pub(super) fn run(
    analyzer: &mut Analyzer,
    threads: NonZeroUsize,
    mut read: impl FnMut(&mut Packets) + Send,
    mut watch: Option<impl FnMut(&Packet<'_>)>,
) {
    let (ingress, workers) = analyzer.split();
    let helpers = (threads.get() - 1).min(workers.len());
    // What is read ahead waits for other threads; a thread alone would only displace it from the
    // processor's caches, and delay what a live input shows.
    let ahead = if helpers == 0 { 1 } else { AHEAD };
    let rounds = Rounds::new(&mut read, ingress, workers, ahead);
    thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|| rounds.work(None::<fn(&Batch, &mut Ingress)>));
        }
        rounds.work(Some(|batch: &Batch, ingress: &mut Ingress| {
            tell(ingress, batch, &mut watch);
        }));
    });
}

/// The state shared by the threads.
struct Rounds<'a, R> {
    progress: Mutex<Progress>,
    /// Signalled when another task may have become due.
    changed: Condvar,
    /// The batches of the rounds in progress; a round's index is its number modulo the length.
    batches: Vec<RwLock<Batch>>,
    reader: Mutex<Reader<'a, R>>,
    workers: Vec<Mutex<Worker<'a>>>,
}

/// The packets of a round.
#[derive(Default)]
struct Batch {
    packets: Packets,
    /// The number of packets before the first packet of the batch.
    before: u64,
    /// True if there are no packets because all were read.
    is_last: bool,
    /// The share of each shard.
    shares: Vec<Mutex<Share>>,
}

/// The work of one shard in a round, and its results.
#[derive(Default)]
struct Share {
    dealt: Vec<Dealt>,
    closed: ClosedBatch,
}

/// A packet of a shard: its index in the batch.
struct Dealt {
    index: usize,
    /// The shard and the number that the ingress assigned to a segment; `None` for other packets.
    routed: Option<Routed>,
}

/// The reader, which reads packets and distributes them to the shards.
struct Reader<'a, R> {
    read: &'a mut R,
    ingress: &'a mut Ingress,
}

impl<'a, R: FnMut(&mut Packets)> Rounds<'a, R> {
    fn new(
        read: &'a mut R,
        ingress: &'a mut Ingress,
        workers: Vec<Worker<'a>>,
        ahead: usize,
    ) -> Self {
        let batch = |_| {
            let shares = workers.iter().map(|_| Mutex::default()).collect();
            RwLock::new(Batch {
                shares,
                ..Batch::default()
            })
        };
        Self {
            progress: Mutex::new(Progress::new(workers.len(), ahead)),
            changed: Condvar::new(),
            batches: (0..ahead).map(batch).collect(),
            reader: Mutex::new(Reader { read, ingress }),
            workers: workers.into_iter().map(Mutex::new).collect(),
        }
    }

    /// Performs tasks until all are done. Only one thread has `tell`, the function that delivers
    /// results.
    fn work(&self, mut tell: Option<impl FnMut(&Batch, &mut Ingress)>) {
        let _alarm = Alarm(self);
        while let Some(task) = self.next(tell.is_some()) {
            let slot = &self.batches[task.round() % self.batches.len()];
            let is_last = match task {
                Task::Read(_) => {
                    let mut batch = slot.write().unwrap_or_else(PoisonError::into_inner);
                    lock(&self.reader).read(&mut batch);
                    batch.is_last
                }
                Task::Take { shard, .. } => {
                    let batch = slot.read().unwrap_or_else(PoisonError::into_inner);
                    batch.take(shard, &mut lock(&self.workers[shard]));
                    batch.is_last
                }
                Task::Tell(_) => {
                    let batch = slot.read().unwrap_or_else(PoisonError::into_inner);
                    if let Some(tell) = &mut tell {
                        tell(&batch, lock(&self.reader).ingress);
                    }
                    batch.is_last
                }
            };
            lock(&self.progress).finish(task, is_last);
            self.changed.notify_all();
        }
    }

    /// Waits for the next due task; `None` when all tasks are done.
    fn next(&self, tells: bool) -> Option<Task> {
        let mut progress = lock(&self.progress);
        loop {
            if progress.is_done(tells) {
                return None;
            }
            if let Some(task) = progress.begin(tells) {
                return Some(task);
            }
            let woken = self.changed.wait(progress);
            progress = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A guard that makes the other threads end when its thread panics, so that the threads' scope ends
/// too.
struct Alarm<'a, 'b, R>(&'a Rounds<'b, R>);

impl<R> Drop for Alarm<'_, '_, R> {
    fn drop(&mut self) {
        if thread::panicking() {
            lock(&self.0.progress).give_up();
            self.0.changed.notify_all();
        }
    }
}

impl<R: FnMut(&mut Packets)> Reader<'_, R> {
    fn read(&mut self, batch: &mut Batch) {
        batch.before = self.ingress.packets();
        (self.read)(&mut batch.packets);
        batch.is_last = batch.packets.is_empty();
        for (index, (packet, payload)) in batch.packets.iter().enumerate() {
            let (shard, routed) = match packet {
                Packet::Tcp(segment, _) => {
                    let routed = self.ingress.segment(segment, payload);
                    (routed.shard(), Some(routed))
                }
                Packet::Icmp(error) => (self.ingress.icmp(error), None),
                Packet::Udp(header, _) => {
                    self.ingress.datagram(header, payload);
                    continue;
                }
                Packet::Echo(echo) => {
                    self.ingress.echo(echo);
                    continue;
                }
                Packet::Neighbour(step) => {
                    self.ingress.neighbour(step);
                    continue;
                }
                Packet::Other => continue,
            };
            if let Some(share) = batch.shares.get_mut(shard) {
                let share = share.get_mut().unwrap_or_else(PoisonError::into_inner);
                share.dealt.push(Dealt { index, routed });
            }
        }
    }
}

impl Batch {
    /// Processes the packets of a shard.
    fn take(&self, shard: usize, worker: &mut Worker<'_>) {
        let mut share = lock(&self.shares[shard]);
        for Dealt { index, routed } in share.dealt.drain(..) {
            match (self.packets.at(index), routed) {
                (Some((Packet::Tcp(segment, _), payload)), Some(routed)) => {
                    worker.segment(segment, payload, routed);
                }
                (Some((Packet::Icmp(error), _)), _) => worker.icmp(error),
                _ => {}
            }
        }
        if self.is_last {
            worker.close();
        }
        share.closed = worker.take_closed();
    }
}

/// Delivers the results that were completed by the packets of `batch`.
fn tell(ingress: &mut Ingress, batch: &Batch, watch: &mut Option<impl FnMut(&Packet<'_>)>) {
    for share in &batch.shares {
        ingress.gather(mem::take(&mut lock(share).closed));
    }
    let mut last = batch.before;
    for (packet, _) in batch.packets.iter() {
        last += 1;
        if let (Some(watch), Packet::Tcp(..) | Packet::Icmp(_)) = (watch.as_mut(), packet) {
            ingress.deliver(last);
            watch(packet);
        }
    }
    ingress.deliver(last);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

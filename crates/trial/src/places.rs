//! The limited number of places for live tests of a process.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::available_parallelism;

/// Number of places per processor. It is more than one because most tests mostly wait.
const ON_EACH_PROCESSOR: usize = 3;
/// Number of places taken by a test that computes, or measures: those of one processor.
const BUSY: usize = ON_EACH_PROCESSOR;

/// The share of the machine that a test takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// A single place, for a test that mostly waits.
    Place,
    /// The places of one processor, for a test that computes, or measures a computation.
    Busy,
    /// All places.
    Machine,
}

/// The existing and taken places, and the queue of waiting tests.
#[derive(Debug)]
pub(crate) struct Places {
    count: usize,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The waiting tests. Those that need all places come last, so that the machine is emptied once for
/// all of them; all others are served in order of arrival.
#[derive(Debug, Default)]
struct Queue {
    next_ticket: u64,
    /// The tickets of the waiting tests, those with [`Share::Machine`] marked.
    waiting: BTreeSet<(bool, u64)>,
    taken: usize,
}

/// Places that become free when this value is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    places: &'a Places,
    count: usize,
}

impl Places {
    /// Returns the places of this process.
    pub(crate) fn of_this_process() -> &'static Self {
        static PLACES: OnceLock<Places> = OnceLock::new();
        PLACES.get_or_init(|| {
            let processors = available_parallelism().map_or(1, usize::from);
            Places::on(processors)
        })
    }

    fn on(processors: usize) -> Self {
        Self {
            count: processors * ON_EACH_PROCESSOR,
            queue: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits for a share of the machine.
    pub(crate) fn take(&self, share: Share) -> Taken<'_> {
        let count = match share {
            Share::Place => 1,
            Share::Busy => BUSY,
            Share::Machine => self.count,
        };
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = (share == Share::Machine, queue.next_ticket);
        queue.next_ticket += 1;
        queue.waiting.insert(ticket);
        let mut queue = self
            .changed
            .wait_while(queue, |queue| {
                queue.waiting.first() != Some(&ticket) || queue.taken + count > self.count
            })
            .unwrap_or_else(PoisonError::into_inner);
        queue.waiting.remove(&ticket);
        queue.taken += count;
        drop(queue);
        self.changed.notify_all();
        Taken {
            places: self,
            count,
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let queue = self.places.queue.lock();
        queue.unwrap_or_else(PoisonError::into_inner).taken -= self.count;
        self.places.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn no_more_run_side_by_side_than_there_are_places_and_who_wants_all_is_alone() {
        let (places, taken) = (Places::on(2), AtomicUsize::new(0));
        let most = AtomicUsize::new(0);
        thread::scope(|scope| {
            for number in 0..40 {
                let (places, taken, most) = (&places, &taken, &most);
                scope.spawn(move || {
                    let (share, count) = [
                        (Share::Place, 1),
                        (Share::Busy, 3),
                        (Share::Machine, 6),
                        (Share::Place, 1),
                    ][number % 4];
                    let _taken = places.take(share);
                    let now = taken.fetch_add(count, Ordering::SeqCst) + count;
                    most.fetch_max(now, Ordering::SeqCst);
                    thread::yield_now();
                    let beside = taken.fetch_sub(count, Ordering::SeqCst) - count;
                    assert!(share != Share::Machine || (now, beside) == (6, 0));
                });
            }
        });
        assert!(most.into_inner() <= 6);
        assert_eq!(places.queue.into_inner().expect("unpoisoned").taken, 0);
    }

    #[test]
    fn who_wants_all_comes_after_those_who_came_later() {
        let (places, (served, order)) = (Places::on(2), mpsc::channel());
        let taken = places.take(Share::Machine);
        thread::scope(|scope| {
            for (number, share) in [Share::Machine, Share::Busy, Share::Place]
                .into_iter()
                .enumerate()
            {
                let (places, served) = (&places, served.clone());
                scope.spawn(move || {
                    let _taken = places.take(share);
                    served.send(share).expect("somebody listens");
                });
                // Only when a test waits, the next comes.
                while places.queue.lock().expect("unpoisoned").waiting.len() <= number {
                    thread::yield_now();
                }
            }
            drop(taken);
        });
        assert_eq!(order.try_iter().last(), Some(Share::Machine));
    }
}

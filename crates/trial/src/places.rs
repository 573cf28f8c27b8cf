//! The places in which live tests of a process run.

use std::sync::{Condvar, Mutex, PoisonError};

/// How many live tests run side by side.
const PLACES: usize = 2;

/// The places that are taken, and who waits for one.
#[derive(Debug, Default)]
pub(crate) struct Places {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Tests are served in the order in which they came, so that one that wants all places is
/// not overtaken for ever by those that want one.
#[derive(Debug, Default)]
struct Queue {
    next_ticket: u64,
    now_served: u64,
    taken: usize,
}

/// Places that are free again when this value goes.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    places: &'a Places,
    count: usize,
}

impl Places {
    /// The places of this process.
    pub(crate) fn of_this_process() -> &'static Self {
        static PLACES: Places = Places {
            queue: Mutex::new(Queue {
                next_ticket: 0,
                now_served: 0,
                taken: 0,
            }),
            changed: Condvar::new(),
        };
        &PLACES
    }

    /// Waits for a place, or for all of them.
    pub(crate) fn take(&self, all: bool) -> Place<'_> {
        let count = if all { PLACES } else { 1 };
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        let mut queue = self
            .changed
            .wait_while(queue, |queue| {
                queue.now_served != ticket || queue.taken + count > PLACES
            })
            .unwrap_or_else(PoisonError::into_inner);
        queue.now_served += 1;
        queue.taken += count;
        drop(queue);
        self.changed.notify_all();
        Place {
            places: self,
            count,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let queue = self.places.queue.lock();
        queue.unwrap_or_else(PoisonError::into_inner).taken -= self.count;
        self.places.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn as_many_run_side_by_side_as_there_are_places_and_who_wants_all_is_alone() {
        let (places, running) = (Places::default(), AtomicUsize::new(0));
        let most = AtomicUsize::new(0);
        thread::scope(|scope| {
            for number in 0..30 {
                let (places, running, most) = (&places, &running, &most);
                scope.spawn(move || {
                    let wants_all = number % 3 == 0;
                    let _place = places.take(wants_all);
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    thread::yield_now();
                    let beside = running.fetch_sub(1, Ordering::SeqCst) - 1;
                    assert!(!wants_all || (now, beside) == (1, 0), "{now} {beside}");
                });
            }
        });
        assert!(most.into_inner() <= PLACES);
        assert_eq!(places.queue.into_inner().expect("unpoisoned").taken, 0);
    }
}

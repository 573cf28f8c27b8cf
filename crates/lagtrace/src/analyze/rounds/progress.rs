//! The progress of the rounds, and the next task that is due.

/// Maximum number of rounds in progress on several threads: one that the slowest shard has not
/// processed yet, one for the other shards during that time, and one that is being read.
pub(super) const AHEAD: usize = 3;

/// A task of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Reads the packets of a round and distributes them.
    Read(usize),
    /// Processes a shard's packets of a round.
    Take { shard: usize, round: usize },
    /// Delivers the results that were completed by a round's packets.
    Tell(usize),
}

impl Task {
    pub(super) fn round(self) -> usize {
        match self {
            Self::Read(round) | Self::Take { round, .. } | Self::Tell(round) => round,
        }
    }
}

/// The tasks that are done and those in progress.
#[derive(Debug)]
pub(super) struct Progress {
    /// Maximum number of rounds in progress.
    ahead: usize,
    /// The number of rounds read, including the last one.
    read: usize,
    is_all_read: bool,
    /// The number of rounds whose results were delivered.
    told: usize,
    /// True while a thread reads or delivers; both depend on the order of packets.
    is_entrance_busy: bool,
    shards: Vec<Shard>,
    has_failed: bool,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    /// The number of rounds that the shard has processed.
    taken: usize,
    is_busy: bool,
}

impl Progress {
    pub(super) fn new(shards: usize, ahead: usize) -> Self {
        Self {
            ahead,
            read: 0,
            is_all_read: false,
            told: 0,
            is_entrance_busy: false,
            shards: vec![Shard::default(); shards],
            has_failed: false,
        }
    }

    /// Returns true if there will be no further task for a thread; `tells` is true if the thread
    /// may deliver results.
    pub(super) fn is_done(&self, tells: bool) -> bool {
        let done = if tells { self.told } else { self.taken() };
        self.has_failed || (self.is_all_read && done == self.read)
    }

    /// Starts the due task, if there is one. Delivering comes first, because it makes room for the
    /// next round; then reading, because it creates work for the other threads.
    pub(super) fn begin(&mut self, tells: bool) -> Option<Task> {
        let is_free = !self.is_entrance_busy;
        if tells && is_free && self.told < self.taken() {
            self.is_entrance_busy = true;
            return Some(Task::Tell(self.told));
        }
        if is_free && !self.is_all_read && self.read - self.told < self.ahead {
            self.is_entrance_busy = true;
            return Some(Task::Read(self.read));
        }
        let read = self.read;
        let is_due = |(_, shard): &(usize, &mut Shard)| !shard.is_busy && shard.taken < read;
        let shards = self.shards.iter_mut().enumerate().filter(is_due);
        let (shard, due) = shards.min_by_key(|(_, shard)| shard.taken)?;
        due.is_busy = true;
        let round = due.taken;
        Some(Task::Take { shard, round })
    }

    /// Marks a task as done; `is_last` is true if its round is the last one.
    pub(super) fn finish(&mut self, task: Task, is_last: bool) {
        match task {
            Task::Read(_) => {
                self.read += 1;
                self.is_all_read = is_last;
                self.is_entrance_busy = false;
            }
            Task::Take { shard, .. } => {
                let shard = &mut self.shards[shard];
                shard.taken += 1;
                shard.is_busy = false;
            }
            Task::Tell(_) => {
                self.told += 1;
                self.is_entrance_busy = false;
            }
        }
    }

    /// Records that a thread has failed, so that other threads do not wait for it.
    pub(super) fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// Returns the number of rounds that all shards have processed.
    fn taken(&self) -> usize {
        let taken = self.shards.iter().map(|shard| shard.taken);
        taken.min().unwrap_or(self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shard_waits_for_another_nor_for_the_reading() {
        let mut progress = Progress::new(2, AHEAD);
        let read = progress.begin(true);
        assert_eq!(read, Some(Task::Read(0)));
        assert_eq!(progress.begin(true), None);
        progress.finish(Task::Read(0), false);
        assert_eq!(progress.begin(true), Some(Task::Read(1)));
        assert_eq!(
            progress.begin(false),
            Some(Task::Take { shard: 0, round: 0 })
        );
        progress.finish(Task::Read(1), false);
        progress.finish(Task::Take { shard: 0, round: 0 }, false);
        assert_eq!(progress.begin(true), Some(Task::Read(2)));
        assert_eq!(
            progress.begin(true),
            Some(Task::Take { shard: 1, round: 0 })
        );
        assert_eq!(
            progress.begin(true),
            Some(Task::Take { shard: 0, round: 1 })
        );
    }

    #[test]
    fn a_round_is_told_once_all_have_taken_it_and_makes_room_for_another() {
        let mut progress = Progress::new(1, AHEAD);
        for round in 0..AHEAD {
            assert_eq!(progress.begin(false), Some(Task::Read(round)));
            progress.finish(Task::Read(round), round + 1 == AHEAD);
        }
        for round in 0..AHEAD {
            let take = Task::Take { shard: 0, round };
            assert_eq!(progress.begin(false), Some(take));
            assert_eq!(progress.begin(false), None);
            progress.finish(take, round + 1 == AHEAD);
            assert_eq!(progress.begin(true), Some(Task::Tell(round)));
            assert!(!progress.is_done(true));
            progress.finish(Task::Tell(round), false);
        }
        assert!(progress.is_done(true) && progress.is_done(false));
    }
}

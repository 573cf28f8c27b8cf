//! How far the rounds are, and what is due next.

/// Rounds under way at most: one that the slowest shard is still to take, one
/// for the others meanwhile, and one that is read.
pub(super) const AHEAD: usize = 3;

/// Something that one thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// To read and deal out the packets of a round.
    Read(usize),
    /// A shard is to take its share of them.
    Take { shard: usize, round: usize },
    /// To tell what closed with them.
    Tell(usize),
}

impl Task {
    pub(super) fn round(self) -> usize {
        match self {
            Self::Read(round) | Self::Take { round, .. } | Self::Tell(round) => round,
        }
    }
}

/// What was done and what is being done.
#[derive(Debug)]
pub(super) struct Progress {
    /// Rounds read, the last one included.
    read: usize,
    is_all_read: bool,
    /// Rounds that were told of.
    told: usize,
    /// Somebody reads or tells: both are about the order of packets.
    is_entrance_busy: bool,
    shards: Vec<Shard>,
    has_failed: bool,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    /// Rounds whose packets it has taken.
    taken: usize,
    is_busy: bool,
}

impl Progress {
    pub(super) fn new(shards: usize) -> Self {
        Self {
            read: 0,
            is_all_read: false,
            told: 0,
            is_entrance_busy: false,
            shards: vec![Shard::default(); shards],
            has_failed: false,
        }
    }

    /// Whether nothing will be due any more, for one who `tells` or not.
    pub(super) fn is_done(&self, tells: bool) -> bool {
        let done = if tells { self.told } else { self.taken() };
        self.has_failed || (self.is_all_read && done == self.read)
    }

    /// Begins what is due, if anything: to tell goes first, as it makes room
    /// for the next round, then to read, which makes work for the others.
    pub(super) fn begin(&mut self, tells: bool) -> Option<Task> {
        let is_free = !self.is_entrance_busy;
        if tells && is_free && self.told < self.taken() {
            self.is_entrance_busy = true;
            return Some(Task::Tell(self.told));
        }
        if is_free && !self.is_all_read && self.read - self.told < AHEAD {
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

    /// A task is done, of the last round or not.
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

    /// A thread has failed: the others are not to wait for it.
    pub(super) fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// Rounds that all shards have taken.
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
        let mut progress = Progress::new(2);
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
        let mut progress = Progress::new(1);
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

//! Stretches of time in which hosts were busy with some activity.

use core::net::IpAddr;

use crate::observed::time::Timestamp;
use crate::stats::Merge;

/// The earliest stretches of time, by host.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::settle)]
pub(crate) struct Stretches {
    #[merge(extend)]
    list: Vec<(Timestamp, Timestamp, IpAddr)>,
}

/// Maximum number of stretches of one kind kept for a service.
const MAX_STRETCHES: usize = 1024;

impl Stretches {
    pub(crate) fn add(&mut self, host: IpAddr, begin: Timestamp, end: Timestamp) {
        self.list.push((begin, end, host));
        if self.list.len() >= 2 * MAX_STRETCHES {
            self.settle();
        }
    }

    /// Returns the number of stretches within which one of `others` on the same host begins and
    /// ends.
    pub(crate) fn enclosing(&self, others: &Self) -> u64 {
        let encloses = |&&(begin, end, host): &&(Timestamp, Timestamp, IpAddr)| {
            let mut others = others.list.iter();
            others.any(|&(from, to, other)| other == host && from >= begin && to <= end)
        };
        self.list.iter().filter(encloses).count() as u64
    }

    /// Returns true if a stretch of this host (of any host if `None`) overlaps the time from
    /// `begin` to `end`.
    pub(crate) fn meet(&self, host: Option<IpAddr>, begin: Timestamp, end: Timestamp) -> bool {
        let mut list = self.list.iter();
        list.any(|&(from, to, of)| host.is_none_or(|host| host == of) && from < end && to > begin)
    }

    /// Returns the number of stretches kept.
    pub(crate) fn count(&self) -> u64 {
        self.list.len() as u64
    }

    fn settle(&mut self) {
        self.list.sort_unstable();
        self.list.truncate(MAX_STRETCHES);
    }
}

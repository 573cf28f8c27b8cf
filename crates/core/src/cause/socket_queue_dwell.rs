//! `socket-queue-dwell`: only the server's own kernel tells it from a program
//! that thinks.

use super::evidence::fix;
use super::served::{self, Place};
use super::{Case, Conclusion, Id, one_thread};
use crate::report::Finding;

/// Requests that lie in the sockets' queues while the program is elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let found = served::finding(Id::SocketQueueDwell, case, |place| place == Place::Unread);
        found.map(|(finding, _)| told(finding, case)).into()
    }
}

fn told(mut finding: Finding, case: &Case<'_>) -> Finding {
    finding.summary += " in the socket's queue: the kernel has the request, and the program does \
                        not read it yet. What it does instead is what to look for.";
    finding.overturned_by =
        "`Recv-Q` in `ss -tn` on the server at 0 while requests wait".to_owned();
    finding.fix = vec![
        one_thread::fix_for(
            case,
            "where workers or threads serve requests and all of them are busy: a larger number",
        ),
        fix(
            "server",
            "nothing that blocks in an event loop: disk, names, locks, long computing",
        ),
        fix(
            "server",
            "let a pool that reads only at intervals, or only when a worker is free, read at once",
        ),
    ];
    finding
}

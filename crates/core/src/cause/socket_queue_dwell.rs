//! `socket-queue-dwell`: only the server's own kernel can distinguish it from a program that
//! thinks.

use super::served::{self, Place};
use super::wording::Wording;
use super::{Case, Conclusion, Id, one_thread};
use crate::report::Finding;

const WORDING: Wording = Wording {
    summary: " in the socket's queue: the kernel has the request, and the program does not read it \
        yet. What it does instead is what to look for.",
    ruled_out: &[],
    overturned_by: "`Recv-Q` in `ss -tn` on the server at 0 while requests wait",
    fix: &[
        ("server", "{change}"),
        (
            "server",
            "nothing that blocks in an event loop: disk, names, locks, long computing",
        ),
        (
            "server",
            "let a pool that reads only at intervals, or only when a worker is free, read at once",
        ),
    ],
};

/// The change at a server that may have several workers or threads.
const MORE_WORKERS: &str =
    "where workers or threads serve requests and all of them are busy: a larger number";

/// Watches requests that wait in the sockets' queues while the program is busy elsewhere.
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
    let change = one_thread::change_for(case, MORE_WORKERS);
    WORDING.tell(&mut finding, &[("change", &change)]);
    finding
}

//! `socket-queue-dwell`: only the server's own kernel distinguishes it from a program that thinks.

use super::served::{self, Place};
use super::settings::Measured;
use super::wording::Wording;
use super::{Case, Conclusion, Id, capacity, one_thread};
use crate::report::Finding;

const WORDING: Wording = Wording {
    summary: " in the socket's queue: the kernel has the request, but the program has not read it \
              yet. Find out what the program does instead.",
    ruled_out: &[],
    overturned_by: "`Recv-Q` in `ss -tn` on the server at 0 while requests wait",
    fix: &[
        ("server", "{change}"),
        (
            "server",
            "no blocking calls in an event loop: disk, name lookups, locks, long computations",
        ),
        (
            "server",
            "if a pool reads only at intervals, or only when a worker is free, make it read \
             immediately",
        ),
    ],
};

/// The change at a server that can have several workers or threads.
const MORE_WORKERS: &str = "if all workers or threads are busy: more of them";

/// Watches requests that wait in the sockets' queues while the program does something else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let found = served::finding(Id::SocketQueueDwell, case, |place| place == Place::Unread);
        found.map(|(finding, _)| told(finding, case)).into()
    }

    fn measured(&self, case: &Case<'_>) -> Measured {
        Measured {
            served: capacity::at_limit(case).map(|capacity| capacity.served()),
            ..Measured::default()
        }
    }
}

fn told(mut finding: Finding, case: &Case<'_>) -> Finding {
    let change = one_thread::change_for(case, MORE_WORKERS);
    WORDING.tell(&mut finding, &[("change", &change)]);
    finding
}

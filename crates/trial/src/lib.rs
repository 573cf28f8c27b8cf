//! Live tests, each run once while the machine is watched for stalls.
//!
//! The measurements of a live test go wrong if the machine itself does not run: a virtual machine
//! whose processors are taken away, or processors that are busy with other work. Repeating a test
//! until it passes would hide this, and would also hide a wrong program. Therefore a test runs
//! once, and its failure counts, unless threads of this crate measured that the machine stalled for
//! longer than the test tolerates. In that case the test is *void*: it neither passed nor failed,
//! and is reported on standard error and counted.
//!
//! ```
//! # use std::time::Duration;
//! lagtrace_trial::live("a_request_takes_what_the_server_takes")
//!     .standstill(Duration::from_millis(50))
//!     .run(|| assert_eq!(1 + 1, 2));
//! ```
//!
//! - A pass counts as a pass, whatever the machine did.
//! - A failure without a stall is a failure. A test that sets no limit is never void.
//! - Set the limit to the longest stall that the test's verdict tolerates, and not lower: one stall
//!   of 5 ms does not explain a wrong verdict about a load of 3 s.
//!
//! Live tests of a process run in parallel, at most three on each processor. A test that is
//! [`busy`](Live::busy) has a processor's three places, and a test that is [`alone`](Live::alone)
//! takes the whole machine. Such tests run after all others that wait. Run the tests with several
//! times as many threads as there are processors, because most of them wait.
//!
//! If `LAGTRACE_VOID_LOG` names a file, each test appends `run NAME` when it begins,
//! `took SECONDS NAME` when it has ended, and `void NAME REASON` if it is void. The log can be used
//! to count runs and void tests and to find the longest test. A void test also appends a line
//! `again`, with the folder, the program and the test's full name, separated by tabs: whoever has the
//! log can run that test again, once the machine is quiet.

mod log;
mod machine;
mod places;
mod ports;
mod seed;
mod watcher;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

pub use machine::Standstill;
pub use ports::{RefusingPort, free_port, free_ports};
pub use seed::seed;

use machine::Machine;
use places::{Places, Share};
use watcher::{RunQueue, Watched};

thread_local! {
    /// The threads that are watched for the live test that runs on this thread.
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// A live test that has not run yet.
#[derive(Clone, Copy)]
#[must_use = "it runs with `run`"]
pub struct Live<'a> {
    name: &'a str,
    of_machine: Share,
    at_once: Option<Duration>,
    share: Option<f64>,
    own: Option<&'a dyn Fn() -> Option<String>>,
}

/// The outcome of a live test.
#[derive(Debug)]
pub enum Outcome {
    /// The test's body completed.
    Passed,
    /// The body failed, and the machine had stalled; holds the reason.
    Void(String),
    /// The body failed; holds its panic.
    Failed(Box<dyn Any + Send>),
}

/// Returns a live test with this name, which mostly waits and is never void.
pub fn live(name: &str) -> Live<'_> {
    Live {
        name,
        of_machine: Share::Place,
        at_once: None,
        share: None,
        own: None,
    }
}

impl<'a> Live<'a> {
    /// Marks the test as taking the places of one processor, because it computes, or measures a
    /// computation.
    pub fn busy(mut self) -> Self {
        self.of_machine = Share::Busy;
        self
    }

    /// Prevents every other live test of this process from running at the same time.
    pub fn alone(mut self) -> Self {
        self.of_machine = Share::Machine;
        self
    }

    /// Sets the maximum single stall that the test tolerates: if the machine stalled for at least
    /// this time, a failure is void.
    pub fn standstill(mut self, at_once: Duration) -> Self {
        self.at_once = Some(at_once);
        self
    }

    /// Sets the maximum share of the test's time, 0 to 1, for which the machine may stall in total.
    /// From this share on, a failure is void. The total includes stalls of at least
    /// [`Standstill::LEAST`], or the stolen time if that is longer. In a crowd
    /// ([`Standstill::CROWD`]), the machine also counts as stalled, because every thread waits
    /// while others run.
    pub fn share(mut self, share: f64) -> Self {
        self.share = Some(share);
        self
    }

    /// Sets the test's own check, which runs after a failure. If it returns a reason why the
    /// measurement was impossible, the failure is void.
    pub fn void_if(mut self, measure: &'a dyn Fn() -> Option<String>) -> Self {
        self.own = Some(measure);
        self
    }

    /// Runs the test's body once, on the calling thread.
    ///
    /// # Panics
    ///
    /// With the panic of the body, if the machine had not stalled. Also panics if the log cannot be
    /// written or the machine cannot be watched.
    pub fn run(self, body: impl FnOnce()) {
        log::run(self.name);
        match self.judge(body) {
            Outcome::Passed => {}
            Outcome::Void(reason) => log::void(self.name, &reason),
            Outcome::Failed(panic) => resume_unwind(panic),
        }
    }

    /// Runs the test's body once and returns the outcome.
    pub fn judge(self, body: impl FnOnce()) -> Outcome {
        let _place = Places::of_this_process().take(self.of_machine);
        let machine = Machine::watch();
        WATCHED.set(Some(machine.watched()));
        let begun = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(body));
        WATCHED.set(None);
        log::took(self.name, begun.elapsed());
        let standstill = machine.standstill();
        match ended {
            Ok(()) => Outcome::Passed,
            Err(panic) => match self.excuse(&standstill) {
                Some(reason) => Outcome::Void(format!(
                    "{standstill} ({reason}); it had failed with: {}",
                    message(&*panic)
                )),
                None => Outcome::Failed(panic),
            },
        }
    }

    /// Returns the reason why a failure is void; `None` if the failure counts.
    fn excuse(&self, standstill: &Standstill) -> Option<String> {
        let longest = standstill.longest.max(standstill.waited);
        let at_once = self.at_once.filter(|&limit| longest >= limit);
        let share = self.share.filter(|&limit| standstill.share() >= limit);
        at_once
            .map(|limit| format!("the limit is {} ms at once", limit.as_millis()))
            .or_else(|| share.map(|limit| format!("the limit is {:.0} % in all", limit * 100.0)))
            .or_else(|| self.own.and_then(|measure| measure()))
    }
}

/// Makes the waits of a process for a processor count like those of the thread of the live test that
/// runs on the calling thread: the machine can keep a server from running although it lets the test
/// run. Of a process with several threads, the main thread is watched. Outside live tests, and once
/// the process has ended, this has no effect.
pub fn watch_server(pid: u32) {
    WATCHED.with_borrow(|watched| {
        if let Some(watched) = watched {
            watched.add(RunQueue::of_process(pid));
        }
    });
}

/// Returns the first line of a panic's message.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.and_then(|text| text.lines().next())
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standstill(longest_ms: u64, waited_ms: u64, in_all_ms: u64, stolen_ms: u64) -> Standstill {
        Standstill {
            longest: Duration::from_millis(longest_ms),
            waited: Duration::from_millis(waited_ms),
            in_all: Duration::from_millis(in_all_ms),
            stolen: Duration::from_millis(stolen_ms),
            crowd: 1.0,
            elapsed: Duration::from_secs(1),
            processors: 2,
        }
    }

    fn is_excused(live: Live<'_>, standstill: &Standstill) -> bool {
        live.excuse(standstill).is_some()
    }

    #[test]
    fn a_test_without_a_limit_is_never_void() {
        let still = standstill(900, 900, 900, 900);
        assert!(!is_excused(live("test"), &still));
    }

    #[test]
    fn only_what_reaches_the_limit_excuses() {
        let limited = live("test").standstill(Duration::from_millis(50));
        assert!(!is_excused(limited, &standstill(49, 49, 900, 900)));
        assert!(is_excused(limited, &standstill(50, 0, 50, 0)));
        assert!(is_excused(limited, &standstill(0, 50, 0, 0)));
        let shared = live("test").share(0.1);
        assert!(!is_excused(shared, &standstill(99, 99, 99, 0)));
        assert!(is_excused(shared, &standstill(5, 5, 100, 0)));
        // The stolen time of two processors in one second: the limit is 10 % of 2,000 ms.
        assert!(!is_excused(shared, &standstill(0, 0, 0, 199)));
        assert!(is_excused(shared, &standstill(0, 0, 0, 200)));
    }

    #[test]
    fn threads_stand_still_in_a_crowd_and_not_beside_a_few_others() {
        let among = |crowd| Standstill {
            crowd,
            ..standstill(0, 0, 0, 0)
        };
        let limited = live("test").share(0.5);
        assert!(!is_excused(limited, &among(Standstill::CROWD * 0.99)));
        assert!(is_excused(limited, &among(Standstill::CROWD)));
        assert!(!is_excused(live("test"), &among(20.0)));
        let at_once = live("test").standstill(Duration::from_millis(1));
        assert!(!is_excused(at_once, &among(20.0)));
    }

    #[test]
    fn a_measure_of_the_tests_own_excuses_where_it_names_a_reason() {
        let still = standstill(0, 0, 0, 0);
        assert!(!is_excused(live("test").void_if(&|| None), &still));
        let reason = || Some("nothing was idle".to_owned());
        assert!(is_excused(live("test").void_if(&reason), &still));
    }

    #[test]
    fn the_reason_tells_the_figures_and_the_failure() {
        let limited = live("test").standstill(Duration::ZERO);
        let outcome = limited.judge(|| panic!("one is not two\nleft: 1"));
        match outcome {
            Outcome::Void(reason) => {
                assert!(reason.contains("ms at once"), "{reason}");
                assert!(reason.ends_with("failed with: one is not two"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

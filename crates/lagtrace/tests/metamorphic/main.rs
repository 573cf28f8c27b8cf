//! Changes of a capture that must not change its diagnosis: the recordings of `corpus/` in other
//! formats, at other times, with other hosts, or with parts left out.
//!
//! The tests apply every change to a sample of the captures, and the changes that add time to each
//! healthy capture. `METAMORPHIC_SEED` selects another sample. With `METAMORPHIC_WHOLE=1`, every
//! change is applied to every capture, and the outcomes are printed (`./figures metamorphic`).
#![allow(clippy::print_stdout)]

mod capture;
mod change;
mod clock;
mod corpus;
mod delay;
mod draw;
mod exceptions;
mod identity;
mod outcome;
mod packet;
mod part;
mod place;
mod size;

use std::process::ExitCode;
use std::sync::Arc;

use change::Change;
use corpus::{Subject, subjects};
use draw::Draw;
use libtest_mimic::{Arguments, Trial};
use outcome::{Outcome, outcomes, tell};

/// The default seed of the sample and of its changes.
const SEED: u64 = 7;
/// The number of captures in the sample.
const SAMPLE: usize = 24;

fn main() -> ExitCode {
    let seed = std::env::var("METAMORPHIC_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let subjects = subjects();
    if std::env::var("METAMORPHIC_WHOLE").is_ok_and(|value| value == "1") {
        return whole(&subjects, seed);
    }
    let subjects = Arc::new(subjects);
    let trial = |index: usize, name: String, changes: fn(&Change) -> bool| {
        let subjects = Arc::clone(&subjects);
        Trial::test(name, move || {
            let outcomes = outcomes(&subjects[index], &subjects, seed, changes);
            let faults: Vec<_> = outcomes.iter().filter_map(Outcome::fault).collect();
            if faults.is_empty() {
                Ok(())
            } else {
                Err(faults.join("\n").into())
            }
        })
    };
    let name = |index: usize| subjects[index].name.clone();
    let all = sample(subjects.len(), seed).into_iter();
    let all = all.map(|index| trial(index, name(index), |change| !change.adds_time));
    // Changes that add time are possible only for healthy captures. They are fast, so all healthy
    // captures get them.
    let healthy = (0..subjects.len()).filter(|&index| subjects[index].is_healthy());
    let delayed = healthy.map(|index| {
        let name = format!("{}, later", name(index));
        trial(index, name, |change| change.adds_time)
    });
    let trials = all.chain(delayed).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Returns the indexes of a sample of the captures. They are evenly spaced and begin at a random
/// one.
fn sample(count: usize, seed: u64) -> Vec<usize> {
    let begin = Draw::new(seed, "sample").part();
    let place = |number: usize| ((number as f64 + begin) * count as f64 / SAMPLE as f64) as usize;
    (0..SAMPLE)
        .map(place)
        .filter(|&index| index < count)
        .collect()
}

/// Applies every change to every capture, on all processors.
fn whole(subjects: &[Subject], seed: u64) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes = std::thread::scope(|scope| {
        let share = |first: usize| {
            let mine = subjects.iter().skip(first).step_by(threads);
            scope.spawn(move || -> Vec<Outcome> {
                mine.flat_map(|subject| outcomes(subject, subjects, seed, |_| true))
                    .collect()
            })
        };
        let shares: Vec<_> = (0..threads).map(share).collect();
        let joined = shares
            .into_iter()
            .map(|share| share.join().expect("no change panics"));
        joined.flatten().collect::<Vec<_>>()
    });
    if tell(&outcomes) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

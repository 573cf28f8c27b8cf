//! Changes of a capture that must not change its diagnosis: the recordings of `corpus/` in other
//! formats, at other times, with other hosts, or with parts left out.
//!
//! The tests draw a sample of the captures and apply a quarter of the changes to each, and the changes
//! that add time to each healthy capture. `METAMORPHIC_SEED` selects another sample; what the changes
//! themselves draw is the same each time, so that each sample is a part of one whole. With
//! `METAMORPHIC_WHOLE=1`, every change is applied to every capture, what they draw depends on the
//! seed, and the outcomes are printed (`./figures metamorphic`). The sample does not depend on the
//! commit, because the whole has outcomes that are known to be wrong and are not mended yet.
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

use change::{CHANGES, Change};
use corpus::{Subject, subjects};
use draw::Draw;
use libtest_mimic::{Arguments, Trial};
use outcome::{Outcome, outcomes, tell};

/// The seed of the sample, unless another is given, and of what the changes draw in it.
const SEED: u64 = 7;
/// The number of captures in the sample.
const SAMPLE: usize = 100;
/// Each capture of the sample gets every fourth change, from a random one.
const EVERY: usize = 4;

fn main() -> ExitCode {
    let seed = std::env::var("METAMORPHIC_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("drawn from METAMORPHIC_SEED={seed}");
    let subjects = subjects();
    if std::env::var("METAMORPHIC_WHOLE").is_ok_and(|value| value == "1") {
        return whole(&subjects, seed);
    }
    let subjects = Arc::new(subjects);
    let trial = |index: usize, name: String, changes: Vec<&'static Change>| {
        let subjects = Arc::clone(&subjects);
        Trial::test(name, move || {
            let outcomes = outcomes(&subjects[index], &subjects, SEED, &changes);
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
    let all = all.map(|index| trial(index, name(index), quarter(&subjects[index].name, seed)));
    // Changes that add time are possible only for healthy captures. They are fast, so all healthy
    // captures get them.
    let healthy = (0..subjects.len()).filter(|&index| subjects[index].is_healthy());
    let delayed = healthy.map(|index| {
        let name = format!("{}, later", name(index));
        let changes = CHANGES.iter().filter(|change| change.adds_time);
        trial(index, name, changes.collect())
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

/// Returns every fourth change, of those that add no time, from a random one.
fn quarter(name: &str, seed: u64) -> Vec<&'static Change> {
    let begin = Draw::new(seed, name).from(0, EVERY as i64 - 1) as usize;
    let changes = CHANGES.iter().filter(|change| !change.adds_time);
    changes.skip(begin).step_by(EVERY).collect()
}

/// Applies every change to every capture, on all processors.
fn whole(subjects: &[Subject], seed: u64) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes = std::thread::scope(|scope| {
        let share = |first: usize| {
            let mine = subjects.iter().skip(first).step_by(threads);
            scope.spawn(move || -> Vec<Outcome> {
                let changes: Vec<_> = CHANGES.iter().collect();
                mine.flat_map(|subject| outcomes(subject, subjects, seed, &changes))
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

//! Tests on recordings of the demonstration's scenario and of look-alikes, captured at either end
//! and over several distances. Each recording has its own tests, selected by its name: `cargo test
//! -p lagtrace-core --test corpus latency-8ms`.
#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

mod books;
mod diagnosis;
mod missing;
mod reading;
mod rewriting;
mod stamps;
mod truth;

use std::collections::BTreeSet;
use std::path::Path;

use libtest_mimic::{Arguments, Failed, Trial};
use truth::{PROTOCOLS, TRUTHS};

fn main() {
    let mut trials = vec![
        Trial::test("recordings_are_those_of_the_list", || {
            let truths = TRUTHS.iter().map(|truth| truth.recording);
            is_whole("tests/corpus/recordings", truths.collect())
        }),
        Trial::test("protocols_are_those_of_the_list", || {
            is_whole("tests/protocols", PROTOCOLS.iter().copied().collect())
        }),
    ];
    trials.extend(diagnosis::trials());
    trials.extend(missing::trials());
    trials.extend(stamps::trials());
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Makes a test that passes if `faults` returns an empty list.
fn trial(name: String, faults: impl FnOnce() -> Vec<String> + Send + 'static) -> Trial {
    Trial::test(name, || {
        let faults = faults();
        match faults.len() {
            0 => Ok(()),
            count => Err(format!("{count} faults:\n{}", faults.join("\n")).into()),
        }
    })
}

/// Checks that the captures in this folder are exactly those in the list.
fn is_whole(folder: &str, list: BTreeSet<&str>) -> Result<(), Failed> {
    let mut there = BTreeSet::new();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))? {
        let file = entry?.file_name().into_string().unwrap_or_default();
        there.extend(file.strip_suffix(".pcap").map(str::to_owned));
    }
    let lost = list.iter().filter(|name| !there.contains(**name));
    let lost = lost.map(|name| format!("{folder}/{name}.pcap is gone"));
    let more = there.iter().filter(|name| !list.contains(name.as_str()));
    let more = more.map(|name| format!("{folder}/{name}.pcap is not in the list"));
    let faults: Vec<String> = lost.chain(more).collect();
    if list.is_empty() || !faults.is_empty() {
        return Err(format!("{} of {}:\n{}", there.len(), list.len(), faults.join("\n")).into());
    }
    Ok(())
}

//! Conversations of recordings, damaged, and the inputs that `fuzz/corpus` keeps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lagtrace_core::decode::Packet;
use libtest_mimic::{Failed, Trial};

use crate::draw::Draw;
use crate::mutation::damaged;
use crate::protocols::{KINDS, Kind};
use crate::{Seed, analyzer, conversation, decode, survives};

/// The maximum number of conversations that are damaged for each protocol.
const MAX_TALKS: usize = 60;
/// The maximum length of a conversation. Of longer ones, the beginning is used.
const MAX_LEN: usize = 3000;
/// Of this many recordings, one becomes a seed for reports.
const RECORDINGS_PER_REPORT: usize = 8;

/// Returns a trial for each protocol.
pub(crate) fn trials(seeds: &[Seed], seed: u64, rounds: u64) -> Vec<Trial> {
    let make = |kind: &'static Kind| {
        let mut talks = conversations(kind, seeds);
        talks.extend(kept(kind.name).into_iter().map(|(_, bytes)| bytes));
        let talks: Arc<[Vec<u8>]> = talks.into();
        Trial::test(format!("protocol {}", kind.name), move || {
            try_talks(kind, &talks, seed, rounds)
        })
    };
    let kept = Trial::test("kept inputs", try_kept);
    KINDS.iter().map(make).chain([kept]).collect()
}

/// Returns conversations of a protocol, from recordings as different as possible.
fn conversations(kind: &Kind, seeds: &[Seed]) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    for seed in seeds {
        // One connection of a recording is like the others.
        let talks = kind.conversations(&seed.name, &seed.bytes).into_iter();
        found.extend(talks.take(2).map(|mut talk| {
            talk.truncate(MAX_LEN);
            talk
        }));
    }
    let step = found.len().div_ceil(MAX_TALKS).max(1);
    found.into_iter().step_by(step).collect()
}

fn try_talks(kind: &Kind, talks: &[Vec<u8>], seed: u64, rounds: u64) -> Result<(), Failed> {
    let mut draw = Draw::new(seed);
    for (number, talk) in talks.iter().enumerate() {
        for round in 0..=rounds {
            let bytes = match round {
                0 => talk.clone(),
                _ => damaged(talk, &talks[draw.below(talks.len())], &mut draw),
            };
            let name = format!("{number}-{round}");
            survives(
                kind.name,
                || conversation::check(kind, &bytes),
                &bytes,
                &name,
            )?;
        }
    }
    Ok(())
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// Returns the inputs of a fuzz target that are kept, with their names.
fn kept(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(corpus().join(target)).into_iter().flatten();
    let mut kept: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("its entry").path();
            let bytes = fs::read(&path).expect("a file");
            (path.display().to_string(), bytes)
        })
        .collect();
    kept.sort();
    kept
}

fn try_kept() -> Result<(), Failed> {
    for (name, bytes) in kept("decode") {
        survives("decoder", || decode::check(&bytes), &bytes, &name)?;
    }
    for (name, bytes) in kept("analyzer") {
        survives("analyzer", || analyzer::check(&bytes), &bytes, &name)?;
    }
    Ok(())
}

/// Writes the inputs with which the fuzz targets begin, in a folder for each target.
pub(crate) fn write_seeds(folder: &Path, seeds: &[Seed]) -> io::Result<()> {
    let put = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(folder.join(target))?;
        fs::write(folder.join(target).join(name.replace('/', "-")), bytes)
    };
    for seed in seeds {
        put("decode", &seed.name, &seed.bytes)?;
        put("analyzer", &seed.name, &seed.bytes)?;
    }
    for seed in seeds.iter().step_by(RECORDINGS_PER_REPORT) {
        let packets = |visit: &mut dyn FnMut(&Packet<'_>)| {
            analyzer::for_each_packet(&seed.bytes, visit);
        };
        let (report, _) = analyzer::analyse(packets, 1);
        put("report", &seed.name, &serde_json::to_vec(&report)?)?;
    }
    for kind in &KINDS {
        for (number, talk) in conversations(kind, seeds).iter().enumerate() {
            put(kind.name, &number.to_string(), talk)?;
        }
    }
    Ok(())
}

//! Hostile bytes: passes each recording, and randomly damaged copies of it, through the decoder and
//! the analysis. Equal seeds give equal damage; `./figures fuzz` searches for hours with other damage.
//!
//! `LAGTRACE_SEED` selects other damage, and `HOSTILE_ROUNDS` sets the number of copies.
//! `HOSTILE_WRITE` names a folder: seeds for the fuzz targets are written there, and nothing is
//! tested.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it reads recordings, and says what is drawn"
)]

mod analyzer;
mod conversation;
mod decode;
mod draw;
mod mutation;
mod protocols;
mod talks;

use std::fs::{self, File};
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use draw::Draw;
use flate2::read::GzDecoder;
use libtest_mimic::{Arguments, Failed, Trial};
use mutation::damaged;

/// The number of bytes of each recording that are used. They contain a few exchanges. With fewer
/// bytes, more damage can be tried in the same time.
const SEED_BYTES: u64 = 4000;
const SEED: u64 = 20;
/// Number of damaged copies of each recording.
const ROUNDS: u64 = 20;

/// The folders of recordings, relative to the repository's root.
const FOLDERS: [&str; 5] = [
    "corpus",
    "crates/core/tests/corpus/recordings",
    "crates/core/tests/protocols",
    "crates/core/tests/quic",
    "crates/sources/tests/captures",
];

/// The beginning of a capture.
pub(crate) struct Seed {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

fn main() {
    let arguments = Arguments::from_args();
    let [seed, rounds] = [("LAGTRACE_SEED", SEED), ("HOSTILE_ROUNDS", ROUNDS)].map(number);
    let seeds: Arc<[Seed]> = seeds().into();
    if let Some(folder) = std::env::var_os("HOSTILE_WRITE") {
        return talks::write_seeds(Path::new(&folder), &seeds).expect("the folder takes files");
    }
    println!(
        "{rounds} damages of each of {} captures, drawn from LAGTRACE_SEED={seed}",
        seeds.len()
    );
    let trials = (0..seeds.len()).map(|index| {
        let all = Arc::clone(&seeds);
        Trial::test(seeds[index].name.clone(), move || {
            try_damages(&all, index, seed, rounds)
        })
    });
    let talks = talks::trials(&seeds, seed, rounds);
    libtest_mimic::run(&arguments, trials.chain(talks).collect()).exit();
}

fn number((variable, otherwise): (&str, u64)) -> u64 {
    let said = std::env::var(variable).ok();
    said.map_or(otherwise, |said| said.parse().expect("a number"))
}

/// Returns the beginnings of all recordings, sorted by name.
fn seeds() -> Vec<Seed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seeds = Vec::new();
    for folder in FOLDERS {
        for path in captures(&root.join(folder)) {
            let name = path.strip_prefix(&root).expect("it is within").display();
            let bytes = beginning(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
            seeds.push(Seed {
                name: name.to_string(),
                bytes,
            });
        }
    }
    seeds.sort_by(|a, b| a.name.cmp(&b.name));
    seeds
}

/// Returns the captures in a folder and its subfolders.
fn captures(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder);
    for entry in entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("its entry").path();
        if path.is_dir() {
            found.extend(captures(&path));
        } else if path.to_string_lossy().contains(".pcap") {
            found.push(path);
        }
    }
    found
}

fn beginning(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        GzDecoder::new(file)
            .take(SEED_BYTES)
            .read_to_end(&mut bytes)?;
    } else {
        file.take(SEED_BYTES).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Tests the capture as it is, and then with damage. Bytes that fail are written to a file.
fn try_damages(seeds: &[Seed], index: usize, seed: u64, rounds: u64) -> Result<(), Failed> {
    let own = &seeds[index].bytes;
    try_one(own, &seeds[index].name, 0)?;
    let mut draw = Draw::new(seed ^ (index as u64) << 32);
    for round in 1..=rounds {
        let other = &seeds[draw.below(seeds.len())].bytes;
        let bytes = damaged(own, other, &mut draw);
        try_one(&bytes, &seeds[index].name, round)?;
    }
    Ok(())
}

fn try_one(bytes: &[u8], name: &str, round: u64) -> Result<(), Failed> {
    for (what, check) in [
        ("decoder", decode::check as fn(&[u8])),
        ("analyzer", analyzer::check),
    ] {
        survives(what, || check(bytes), bytes, &format!("{name}-{round}"))?;
    }
    Ok(())
}

/// Runs a check of these bytes. If it fails, they are written to a file.
pub(crate) fn survives(
    what: &str,
    check: impl FnOnce(),
    bytes: &[u8],
    name: &str,
) -> Result<(), Failed> {
    if catch_unwind(AssertUnwindSafe(check)).is_ok() {
        return Ok(());
    }
    let file = format!("{what}-{}", name.replace('/', "-"));
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    fs::write(&path, bytes)?;
    Err(format!("the {what} failed: see {}", path.display()).into())
}

//! The score of each committed recording, compared with `corpus/SCORE.json`, so that a diff shows
//! any change. To accept a change, run `UPDATE_SCORE=1 cargo test -p lagtrace --test score`.
//!
//! `SCORE.json` is also the list of recordings. If a recording or a part of it is missing, the test
//! with its name fails. The corpus is scored once for all tests; if only some are selected by name,
//! each scores its own recording.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

/// The hint on how to accept a change.
const HINT: &str = "if that was meant: UPDATE_SCORE=1 cargo test -p lagtrace --test score";

/// The files in a recording's folder: one of each line must exist.
const FILES: [&[&str]; 3] = [
    &["truth.json"],
    &["client.pcap.gz", "client.pcapng.gz"],
    &["server.pcap.gz", "server.pcapng.gz"],
];
/// The files of a recording in which client and server are one host: one of each line must exist.
const FILES_OF_ONE_HOST: [&[&str]; 2] =
    [&["truth.json"], &["loopback.pcap.gz", "loopback.pcapng.gz"]];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::from_args();
    let is_update = std::env::var("UPDATE_SCORE").is_ok_and(|value| value == "1");
    if is_update && !arguments.list {
        fs::write(score_file(), whole(&scored(&corpus())?))?;
    }
    let committed = Arc::new(Committed::read()?);
    let is_part = arguments.filter.is_some() || !arguments.skip.is_empty();
    let mut names: BTreeSet<String> = committed.cases.keys().cloned().collect();
    names.extend(folders()?);
    let mut trials = Vec::new();
    for name in names {
        let committed = Arc::clone(&committed);
        trials.push(Trial::test(name.clone(), move || {
            scores_as_committed(&name, &committed, is_part)
        }));
    }
    trials.push(Trial::test("totals", move || totals(&committed)));
    libtest_mimic::run(&arguments, trials).exit();
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

fn score_file() -> PathBuf {
    corpus().join("SCORE.json")
}

/// Returns the folders of the corpus. A hidden folder is a recording that is not finished, or whose
/// recorder was killed.
fn folders() -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(corpus())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() && !name.starts_with('.') {
            names.push(name);
        }
    }
    Ok(names)
}

/// The score of the whole corpus.
struct Scored {
    lines: Vec<String>,
    /// The lines of each recording.
    cases: BTreeMap<String, Vec<String>>,
}

/// Returns the score of the corpus, which is made once.
fn scored_corpus() -> Result<&'static Scored, Failed> {
    static SCORE: OnceLock<Result<Scored, String>> = OnceLock::new();
    let score = || -> Result<Scored, Box<dyn Error>> {
        let lines = scored(&corpus())?;
        let cases = cases(lines.iter().map(String::as_str))?;
        Ok(Scored { lines, cases })
    };
    let score = SCORE.get_or_init(|| score().map_err(|error| error.to_string()));
    Ok(score.as_ref()?)
}

/// Returns the lines of the score of a folder, each a JSON object.
fn scored(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lagtrace-lab"));
    command.args(["score", "--format", "ndjson"]).arg(folder);
    let output = command.output()?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{}: {said}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Returns the content of the file with these lines.
fn whole(lines: &[String]) -> String {
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// Returns the name of the recording, if the line is a case.
fn case_of(line: &str) -> Result<Option<String>, serde_json::Error> {
    let value: Value = serde_json::from_str(line)?;
    let name = value["recording"].as_str().map(str::to_owned);
    Ok(name.filter(|_| value["type"] == "case"))
}

/// Returns the lines of each recording.
fn cases<'a>(
    lines: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, Vec<String>>, Box<dyn Error>> {
    let mut cases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines {
        if let Some(name) = case_of(line).map_err(|error| format!("{error}: {line}"))? {
            cases.entry(name).or_default().push(line.to_owned());
        }
    }
    Ok(cases)
}

/// The committed score.
struct Committed {
    text: String,
    /// The lines of each recording.
    cases: BTreeMap<String, Vec<String>>,
}

impl Committed {
    fn read() -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(score_file())?;
        let lines = text.lines().map(|line| line.trim_end_matches(','));
        let cases = cases(lines.filter(|line| line.starts_with('{')))
            .map_err(|error| format!("SCORE.json: {error}"))?;
        if cases.is_empty() {
            Err("corpus/SCORE.json names no recording".into())
        } else {
            Ok(Self { text, cases })
        }
    }
}

/// Checks that the recording exists and is complete, and that the diagnoses at its ends are the
/// committed ones. The recording is scored alone if only a part of the tests runs (`is_part`).
fn scores_as_committed(name: &str, committed: &Committed, is_part: bool) -> Result<(), Failed> {
    let folder = corpus().join(name);
    if !folder.is_dir() {
        return Err(format!("corpus/{name} is gone; {HINT}").into());
    }
    let missing = |wanted: &[&[&'static str]]| {
        let is_there = |files: &&&[&'static str]| files.iter().any(|f| folder.join(f).is_file());
        wanted.iter().find(|files| !is_there(files)).map(|f| f[0])
    };
    if let (Some(file), Some(_)) = (missing(&FILES), missing(&FILES_OF_ONE_HOST)) {
        return Err(format!("corpus/{name} has no {file}").into());
    }
    let Some(wanted) = committed.cases.get(name) else {
        return Err(format!("corpus/SCORE.json does not name it; {HINT}").into());
    };
    let alone;
    let found = if is_part {
        alone = cases(scored(&folder)?.iter().map(String::as_str))?;
        alone.get(name)
    } else {
        scored_corpus()?.cases.get(name)
    };
    let found = found.ok_or("it has no score")?;
    if found != wanted {
        let (wanted, found) = (wanted.join("\n"), found.join("\n"));
        return Err(format!("was:\n{wanted}\nis:\n{found}\n{HINT}").into());
    }
    Ok(())
}

/// Checks the file as a whole, with the totals of all recordings.
fn totals(committed: &Committed) -> Result<(), Failed> {
    let found = &scored_corpus()?.lines;
    if whole(found) == committed.text {
        return Ok(());
    }
    let mut changed = Vec::new();
    for line in found {
        if case_of(line)?.is_none() && !committed.text.contains(line.as_str()) {
            changed.push(line.as_str());
        }
    }
    let changed = changed.join("\n");
    Err(format!("corpus/SCORE.json is stale; other than there:\n{changed}\n{HINT}").into())
}

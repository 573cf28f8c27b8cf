//! Folders of recordings: one folder each, with the captures and their label.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use lagtrace_lab::Label;

use super::case::End;
use crate::failure::{Failure, Result};

/// The name of the label's file.
const LABEL: &str = "truth.json";

/// The supported version of the label's format.
const SCHEMA: u32 = 1;

/// A recording: its label, and the captures of each end.
#[derive(Debug)]
pub(super) struct Recording {
    /// The name of the recording's folder.
    pub(super) name: String,
    pub(super) label: Label,
    pub(super) captures: Vec<(End, PathBuf)>,
}

/// Returns the recordings in a folder whose names contain `only`, sorted by name. If the folder is
/// itself a recording, it is the only one.
pub(super) fn read(folder: &Path, only: &str) -> Result<Vec<Recording>> {
    let folders = if folder.join(LABEL).is_file() {
        vec![folder.to_owned()]
    } else {
        entries(folder)?
            .into_iter()
            .filter(|path| path.is_dir())
            .collect()
    };
    let mut recordings = Vec::new();
    for folder in folders {
        let name = file_name(&folder);
        // A hidden folder is a recording that is not finished, or whose recorder was killed.
        if !name.starts_with('.') && name.contains(only) {
            recordings.push(recording(name, &folder)?);
        }
    }
    Ok(recordings)
}

fn recording(name: String, folder: &Path) -> Result<Recording> {
    let file = folder.join(LABEL);
    let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let label: Label = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a label of a recording", file.display()))?;
    if label.schema != SCHEMA {
        let (file, schema) = (file.display(), label.schema);
        let told = format!("{file} is of schema {schema}; this program reads {SCHEMA}");
        return Err(Failure::new(told));
    }
    let files = entries(folder)?;
    let capture = |end: End| {
        let start = format!("{}.pcap", end.name());
        let file = files
            .iter()
            .find(|file| file_name(file).starts_with(&start));
        file.map(|file| (end, file.clone()))
    };
    let captures: Vec<_> = End::ALL.into_iter().filter_map(capture).collect();
    if captures.is_empty() {
        let told = format!(
            "{} contains none of client.pcap*, server.pcap* and loopback.pcap*",
            folder.display()
        );
        return Err(Failure::new(told));
    }
    Ok(Recording {
        name,
        label,
        captures,
    })
}

/// Returns the entries of a folder, sorted by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
        entries.collect()
    };
    let mut paths = read().with_context(|| format!("cannot read {}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().map(OsStr::to_string_lossy);
    name.unwrap_or_default().into_owned()
}

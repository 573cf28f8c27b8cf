//! The packets of a picture's examples, read from the capture a second time.

use std::fs;
use std::path::PathBuf;

use indicatif::ProgressBar;
use lagtrace_core::report::{Picture, Remark, Report};
use lagtrace_core::views::picture::Detail;
use lagtrace_sources::capture::Packets;

use super::merge::Merged;
use super::open;
use crate::conclusion;
use crate::failure::Result;
use crate::interrupt::Interrupt;

/// Adds the packets of the report's examples to the picture. `files` and `limit` are those of the
/// analysis that made the report. Adds nothing if the input cannot be read again, such as a pipe. If
/// a file has become unreadable meanwhile, a note of the report says so.
pub(super) fn add_packets(
    files: &[PathBuf],
    limit: u64,
    report: &mut Report,
    picture: &mut Picture,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) {
    if let Err(failure) = read_again(files, limit, report, picture, progress, interrupt) {
        report.notes.push(Remark {
            id: "examples-not-read".to_owned(),
            text: format!("The page shows no packets of the examples: {failure}."),
        });
    }
}

/// Reads until all examples are complete.
fn read_again(
    files: &[PathBuf],
    limit: u64,
    report: &Report,
    picture: &mut Picture,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<()> {
    let files = analysed(files, report);
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|about| about.is_file());
    let Some(mut detail) = Detail::wanted(report, conclusion::seed()) else {
        return Ok(());
    };
    if !files.iter().all(is_file) {
        return Ok(());
    }
    let mut captures = open(&files, progress, interrupt)?;
    let mut merged = Merged::new(&mut captures, limit);
    let mut packets = Packets::default();
    while !detail.is_complete() && !interrupt.is_requested() {
        merged.next(&mut packets);
        if packets.is_empty() {
            break;
        }
        for (segment, _) in packets.segments() {
            detail.observe_segment(segment);
        }
    }
    progress.finish_and_clear();
    detail.finish(picture);
    Ok(())
}

/// Returns the files whose packets the report counts: of two captures of the same connections, only
/// that of the clients' side.
fn analysed(files: &[PathBuf], report: &Report) -> Vec<PathBuf> {
    let client = report.joined.as_ref().map(|joined| &joined.client_capture);
    let is_meant =
        |path: &&PathBuf| client.is_none_or(|client| path.display().to_string() == *client);
    files.iter().filter(is_meant).cloned().collect()
}

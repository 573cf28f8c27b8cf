//! The packets of a picture's examples, read from the capture a second time.

use std::fs;
use std::path::PathBuf;

use indicatif::ProgressBar;
use lagtrace_core::report::{Exemplar, Picture, Remark, Report};
use lagtrace_core::views::picture::Detail;
use lagtrace_sources::capture::Packets;

use super::merge::Merged;
use super::{open, unread};
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

/// Returns a picture of the packets of one exchange of the report.
pub(crate) fn packets_of(
    exchange: &Exemplar,
    files: &[PathBuf],
    report: &Report,
    interrupt: &Interrupt,
) -> Result<Picture> {
    let (files, _) = unread::part(files, interrupt)?;
    let mut picture = Picture::default();
    if let Some(detail) = Detail::of_exchange(exchange, conclusion::seed()) {
        let files = analysed(&files, report);
        let progress = ProgressBar::hidden();
        read(detail, &files, u64::MAX, &mut picture, &progress, interrupt)?;
    }
    Ok(picture)
}

/// Returns true if all are files, which can be read a second time.
pub(crate) fn are_files(files: &[PathBuf]) -> bool {
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|about| about.is_file());
    files.iter().all(is_file)
}

fn read_again(
    files: &[PathBuf],
    limit: u64,
    report: &Report,
    picture: &mut Picture,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<()> {
    let files = analysed(files, report);
    match Detail::wanted(report, conclusion::seed()) {
        Some(detail) if are_files(&files) => {
            read(detail, &files, limit, picture, progress, interrupt)
        }
        _ => Ok(()),
    }
}

/// Reads until all examples are complete.
fn read(
    mut detail: Detail,
    files: &[PathBuf],
    limit: u64,
    picture: &mut Picture,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut captures = open(files, progress, interrupt)?;
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
pub(super) fn analysed(files: &[PathBuf], report: &Report) -> Vec<PathBuf> {
    let client = report.joined.as_ref().map(|joined| &joined.client_capture);
    let is_meant =
        |path: &&PathBuf| client.is_none_or(|client| path.display().to_string() == *client);
    files.iter().filter(is_meant).cloned().collect()
}

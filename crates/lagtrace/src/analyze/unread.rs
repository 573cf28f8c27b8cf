//! Handling of files that cannot be read, if other files can be.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use lagtrace_core::observed::event::PointId;
use lagtrace_core::report::Remark;
use lagtrace_sources::capture::FileCapture;
use lagtrace_sources::files::{self, Kind};

use super::{input, refused};
use crate::failure::Result;
use crate::interrupt::Interrupt;

/// Returns the files that are captures, and a remark for each other file with the reason why it is
/// not one.
///
/// # Errors
/// The error of the first file, if no file can be read.
pub(super) fn part(
    files: &[PathBuf],
    interrupt: &Interrupt,
) -> Result<(Vec<PathBuf>, Vec<Remark>)> {
    let (mut readable, mut unread) = (Vec::new(), Vec::new());
    let mut failure = None;
    for path in files {
        match check(path, files.len(), interrupt) {
            Ok(()) => readable.push(path.clone()),
            Err(error) => {
                unread.push(Remark {
                    id: "file-not-read".to_owned(),
                    text: format!("{error}: left out"),
                });
                failure.get_or_insert(error);
            }
        }
    }
    match failure {
        Some(failure) if readable.is_empty() => Err(failure),
        _ => Ok((readable, unread)),
    }
}

/// Checks the beginning of a file. A file that cannot be read twice is not checked. A single file
/// is not checked either, because its error is reported as the error of the command.
fn check(path: &Path, files: usize, interrupt: &Interrupt) -> Result<()> {
    if files == 1 || files::kind(path) == Kind::Other || path.as_os_str() == "-" {
        return Ok(());
    }
    let (name, input) = input::open(path, &ProgressBar::hidden(), interrupt)?;
    FileCapture::from_reader(name, input, PointId(0)).map_err(refused)?;
    Ok(())
}

//! Files that cannot be read beside others that can.

use std::fs;
use std::path::PathBuf;

use indicatif::ProgressBar;
use lagtrace_core::observed::event::PointId;
use lagtrace_core::report::Remark;
use lagtrace_sources::capture::FileCapture;

use super::{input, refused};
use crate::failure::Result;
use crate::interrupt::Interrupt;

/// Returns the files that are captures, and remarks on why each of the others is none.
///
/// # Errors
/// The first file's error, where none can be read.
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

/// Checks the beginning of a file. A file that cannot be read twice is not checked, nor is an only
/// file, whose error is the command's.
fn check(path: &PathBuf, files: usize, interrupt: &Interrupt) -> Result<()> {
    let may_be_opened = fs::metadata(path).is_ok_and(|about| !about.is_file());
    if files == 1 || may_be_opened || path.as_os_str() == "-" {
        return Ok(());
    }
    let (name, input) = input::open(path, &ProgressBar::hidden(), interrupt)?;
    FileCapture::from_reader(name, input, PointId(0)).map_err(refused)?;
    Ok(())
}

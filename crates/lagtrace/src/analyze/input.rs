//! Files and standard input, read with a progress display until Ctrl-C.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use indicatif::ProgressBar;
use lagtrace_sources::files;
use rustix::event::{PollFd, PollFlags, poll};

use crate::failure::Result;
use crate::interrupt::{Interrupt, LONGEST_POLL};

/// An input that ends when the user requests a stop, even if it is a pipe without data.
pub(super) struct Input {
    file: File,
    progress: ProgressBar,
    interrupt: Interrupt,
}

/// Opens `path`, or standard input for `-`, and returns its name as well.
pub(super) fn open(
    path: &Path,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<(String, Input)> {
    let (name, file) = if path == Path::new("-") {
        let input = files::standard_input().context("read standard input")?;
        ("standard input".to_owned(), input)
    } else {
        let name = path.display().to_string();
        let file = files::open(path).with_context(|| format!("cannot read {name}"))?;
        (name, file)
    };
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    progress.inc_length(len);
    let input = Input {
        file,
        progress: progress.clone(),
        interrupt: interrupt.clone(),
    };
    Ok((name, input))
}

/// Opens a file and returns the part with these bytes.
pub(super) fn open_part(
    path: &Path,
    bytes: Range<u64>,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<io::Take<Input>> {
    let reading = || format!("cannot read {}", path.display());
    let mut file = files::open(path).with_context(reading)?;
    file.seek(SeekFrom::Start(bytes.start))
        .with_context(reading)?;
    let len = bytes.end.saturating_sub(bytes.start);
    progress.inc_length(len);
    let input = Input {
        file,
        progress: progress.clone(),
        interrupt: interrupt.clone(),
    };
    Ok(input.take(len))
}

/// Returns true if packets may be added to the input while it is read.
pub(super) fn is_live(inputs: &[PathBuf]) -> bool {
    !files::are_regular(inputs.iter().map(PathBuf::as_path))
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.interrupt.is_requested() {
            let mut ready = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut ready, Some(&LONGEST_POLL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => {
                    let len = self.file.read(buffer)?;
                    self.progress.inc(len as u64);
                    return Ok(len);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }
}

//! The packets of a picture's examples, read from the capture a second time.

use std::path::PathBuf;

use indicatif::ProgressBar;
use lagtrace_core::report::{Exemplar, Picture, Remark, Report};
use lagtrace_core::views::picture::Detail;
use lagtrace_sources::capture::{FileCapture, Packets};

use super::merge::Merged;
use super::{input, open};
use crate::conclusion;
use crate::failure::Result;
use crate::interrupt::Interrupt;

/// The captures of an analysis, whose packets can be read again.
pub(crate) struct Again {
    /// The files whose packets the report counts.
    files: Vec<PathBuf>,
    /// Maximum number of TCP packets read from each file.
    limit: u64,
    /// The only file, if the analysis kept its landmarks.
    only: Option<FileCapture>,
}

impl Again {
    /// Creates the reader of captures that were analysed: `files` and `limit` are those of the
    /// analysis.
    pub(super) fn new(
        files: &[PathBuf],
        limit: u64,
        report: &Report,
        mut captures: Vec<FileCapture>,
    ) -> Self {
        let is_only = captures.len() == 1;
        Self {
            files: analysed(files, report),
            limit,
            only: captures.pop().filter(|_| is_only),
        }
    }

    /// Returns the files whose packets the report counts.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns true if the captures can be read again.
    pub(crate) fn is_of_files(&self) -> bool {
        !input::is_live(&self.files)
    }

    /// Adds the packets of the report's examples to the picture. Adds nothing if the input cannot
    /// be read again, such as a pipe. If a file has become unreadable meanwhile, a note of the
    /// report says so.
    pub(super) fn add_packets(
        &mut self,
        report: &mut Report,
        picture: &mut Picture,
        progress: &ProgressBar,
        interrupt: &Interrupt,
    ) {
        let detail = Detail::wanted(report, conclusion::seed());
        let Some(detail) = detail.filter(|_| self.is_of_files()) else {
            return;
        };
        if let Err(failure) = self.read(detail, picture, progress, interrupt) {
            report.notes.push(Remark {
                id: "examples-not-read".to_owned(),
                text: format!("The page shows no packets of the examples: {failure}."),
            });
        }
    }

    /// Returns a picture of the packets of one exchange of the report.
    pub(crate) fn packets_of(
        &mut self,
        exchange: &Exemplar,
        interrupt: &Interrupt,
    ) -> Result<Picture> {
        let mut picture = Picture::default();
        if let Some(detail) = Detail::of_exchange(exchange, conclusion::seed()) {
            self.read(detail, &mut picture, &ProgressBar::hidden(), interrupt)?;
        }
        Ok(picture)
    }

    /// Reads until all examples are complete.
    fn read(
        &mut self,
        mut detail: Detail,
        picture: &mut Picture,
        progress: &ProgressBar,
        interrupt: &Interrupt,
    ) -> Result<()> {
        if !self.read_parts(&mut detail, progress, interrupt)? {
            self.read_all(&mut detail, progress, interrupt)?;
        }
        progress.finish_and_clear();
        detail.finish(picture);
        Ok(())
    }

    /// Reads the parts that contain the examples' connections. Returns false, and reads nothing, if
    /// they are not known.
    fn read_parts(
        &mut self,
        detail: &mut Detail,
        progress: &ProgressBar,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let (Some(capture), [path]) = (&mut self.only, self.files.as_slice()) else {
            return Ok(false);
        };
        let sieve = detail.sieve();
        let Some(ranges) = capture.ranges(&sieve) else {
            return Ok(false);
        };
        let mut packets = Packets::default();
        for (begin, bytes) in ranges {
            let input = input::open_part(path, bytes, progress, interrupt)?;
            if !capture.resume(begin, input) {
                return Ok(false);
            }
            observe(detail, &mut packets, interrupt, |packets| {
                capture.next_sifted(packets, &sieve);
            });
        }
        Ok(true)
    }

    fn read_all(
        &self,
        detail: &mut Detail,
        progress: &ProgressBar,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let mut captures = open(&self.files, progress, interrupt)?;
        let mut merged = Merged::new(&mut captures, self.limit);
        let sieve = detail.sieve();
        observe(detail, &mut Packets::default(), interrupt, |packets| {
            merged.next_sifted(packets, &sieve);
        });
        Ok(())
    }
}

/// Passes packets on until all examples are complete, or none are left.
fn observe(
    detail: &mut Detail,
    packets: &mut Packets,
    interrupt: &Interrupt,
    mut read: impl FnMut(&mut Packets),
) {
    while !detail.is_complete() && !interrupt.is_requested() {
        read(packets);
        if packets.is_empty() {
            break;
        }
        for (segment, _) in packets.segments() {
            detail.observe_segment(segment);
        }
    }
}

/// Returns the files whose packets the report counts: of two captures of the same connections, only
/// that of the clients' side.
fn analysed(files: &[PathBuf], report: &Report) -> Vec<PathBuf> {
    let client = report.joined.as_ref().map(|joined| &joined.client_capture);
    let is_meant =
        |path: &&PathBuf| client.is_none_or(|client| path.display().to_string() == *client);
    files.iter().filter(is_meant).cloned().collect()
}

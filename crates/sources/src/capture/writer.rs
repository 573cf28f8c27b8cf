//! Writing of packets into a nanosecond pcap file.

use std::io::{self, Write as _};
use std::path::Path;

use lagtrace_core::decode::{LinkType, MAX_CAPTURED, Record};

use super::CaptureError;
use crate::files::{Output, Purpose};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
/// Number of buffered bytes at which the buffer is written to the file.
const BLOCK: usize = 256 * 1024;

/// The result of writing a capture file.
#[derive(Debug)]
pub struct Written {
    /// The file's name.
    pub name: String,
    /// Number of packets in the file.
    pub packets: u64,
    /// The error that ended the writing early; `None` if all packets were written, or if the reader
    /// of the pipe has exited.
    pub fault: Option<CaptureError>,
}

/// A capture file that is being written. If the disk is full, the file is cut after its last whole
/// record.
pub(super) struct PcapWriter {
    name: String,
    output: Output,
    /// Whole records that have not been written yet.
    waiting: Vec<u8>,
    packets: u64,
    /// Number of bytes in the file.
    position: u64,
}

impl PcapWriter {
    /// Creates the file at `path`, or takes standard output for `-`.
    pub(super) fn create(path: &Path, link: LinkType) -> Result<Self, CaptureError> {
        let is_stdout = path == Path::new("-");
        let (name, output) = if is_stdout {
            ("standard output".to_owned(), Output::standard())
        } else {
            // Readers such as Wireshark and `tail` follow a capture while it grows.
            let output = Output::create(path, Purpose::Stream);
            (path.display().to_string(), output)
        };
        let output = output.map_err(|source| {
            let name = name.clone();
            CaptureError::Create { name, source }
        })?;
        let mut writer = Self {
            name,
            output,
            waiting: Vec::with_capacity(BLOCK + MAX_CAPTURED as usize),
            packets: 0,
            position: 0,
        };
        writer.waiting.extend(file_header(link));
        writer.flush().map_err(|source| writer.fault(source))?;
        Ok(writer)
    }

    /// Adds a packet. A packet without a timestamp is left out.
    pub(super) fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        let Some(at) = record.at else {
            return Ok(());
        };
        let nanos = at.as_nanos();
        let seconds = nanos.div_euclid(1_000_000_000) as u32;
        let fraction = nanos.rem_euclid(1_000_000_000) as u32;
        let captured = u32::try_from(record.bytes.len()).unwrap_or(u32::MAX);
        for word in [seconds, fraction, captured, record.original_len] {
            self.waiting.extend(word.to_le_bytes());
        }
        self.waiting.extend_from_slice(record.bytes);
        self.packets += 1;
        if self.waiting.len() >= BLOCK {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes the buffered records.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut written = 0;
        while let Some(rest) = self.waiting.get(written..).filter(|rest| !rest.is_empty()) {
            match self.output.write(rest) {
                Ok(0) => return self.give_up(written, io::ErrorKind::WriteZero.into()),
                Ok(len) => written += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.give_up(written, error),
            }
        }
        self.position += written as u64;
        self.waiting.clear();
        Ok(())
    }

    /// Writes the buffered records, waits until all are stored, and returns the result.
    pub(super) fn finish(mut self) -> Written {
        if let Err(fault) = self.flush() {
            return self.into_written(Some(fault));
        }
        let Self {
            name,
            output,
            packets,
            ..
        } = self;
        let stored = output.commit().err();
        let fault = stored.map(|source| CaptureError::Store {
            name: name.clone(),
            source,
        });
        Written {
            name,
            packets,
            fault,
        }
    }

    /// Returns the result after `fault` ended the writing.
    pub(super) fn into_written(self, fault: Option<io::Error>) -> Written {
        let fault = fault.filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        Written {
            fault: fault.map(|source| self.fault(source)),
            name: self.name,
            packets: self.packets,
        }
    }

    fn fault(&self, source: io::Error) -> CaptureError {
        CaptureError::Write {
            name: self.name.clone(),
            packets: self.packets,
            source,
        }
    }

    /// Counts the whole records among the first `written` bytes of `waiting`, and truncates the
    /// file after them. A pipe cannot be truncated and ends within a record.
    fn give_up(&mut self, written: usize, error: io::Error) -> io::Result<()> {
        let (whole, lost) = whole_records(&self.waiting, written, self.position == 0);
        self.packets -= lost;
        self.position += whole as u64;
        self.waiting.clear();
        // The packets are lost anyway: the error that is returned is the first one.
        let _ = self.output.truncate(self.position);
        Err(error)
    }
}

/// Returns how many of the first `written` bytes form whole records, and the number of records that
/// are not completely within those bytes.
fn whole_records(bytes: &[u8], written: usize, has_file_header: bool) -> (usize, u64) {
    let mut begin = if has_file_header { FILE_HEADER } else { 0 };
    let (mut whole, mut lost) = (begin.min(written), 0);
    while let Some(header) = bytes.get(begin..begin + RECORD_HEADER) {
        let captured = header.get(8..).and_then(|rest| rest.first_chunk());
        let captured = captured.map_or(0, |raw| u32::from_le_bytes(*raw));
        begin += RECORD_HEADER + captured as usize;
        if begin <= written {
            whole = begin;
        } else {
            lost += 1;
        }
    }
    (whole, lost)
}

fn file_header(link: LinkType) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    let words = [
        0xa1b2_3c4d,
        0x0004_0002,
        0,
        0,
        MAX_CAPTURED,
        u32::from(link.0),
    ];
    for (to, word) in header.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&u32::to_le_bytes(word));
    }
    header
}

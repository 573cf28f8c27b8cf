//! Decompression of captures while they are read.
//!
//! Accepts any stream. If the first bytes are those of a known format, returns the decompressed
//! contents. Memory is limited by the formats' windows, no matter how large a stream claims to be.
//! If a stream is damaged or ends early, all data before that point is returned before the error.

mod gzip;
mod lz4;
mod zstd;

use std::io::{self, BufReader, Read};

use thiserror::Error;

/// Number of compressed bytes in one read.
const BLOCK: usize = 256 * 1024;

/// Bytes read ahead: enough to recognize any format, even an unsupported one.
const AHEAD: usize = 512;

/// Length of the longest magic number that is checked here, in bytes.
const MAGIC: usize = 4;

/// A boxed input stream.
pub(crate) type Input = Box<dyn Read + Send>;

/// A compressed input: the bytes already read ahead, followed by the remaining input.
type Whole = BufReader<io::Chain<io::Cursor<Vec<u8>>, Input>>;

/// A supported compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
    Lz4,
}

/// An error in a compressed input.
#[derive(Debug, Error)]
enum Fault {
    /// The input ends before the stream does.
    #[error("its {0} stream ends early")]
    Cut(&'static str),
    /// The stream is malformed.
    #[error("its {0} stream is damaged: {1}")]
    Damaged(&'static str, String),
    /// The stream ends properly, but the bytes that follow are not another stream.
    #[error("the data after its {0} stream is not another one")]
    Trailing(&'static str),
}

/// Returns the input itself, or its decompressed contents.
///
/// # Errors
/// Returns an error if the first bytes of the input cannot be read.
pub(crate) fn decompressed(input: Input) -> io::Result<Input> {
    Ok(undo(input)?.0)
}

/// Returns what [`decompressed`] returns, and true if the input is compressed.
///
/// # Errors
/// Returns the same errors as [`decompressed`].
pub(super) fn undo(mut input: Input) -> io::Result<(Input, bool)> {
    let begin = read_ahead(&mut input)?;
    let compression = Compression::recognize(&begin);
    let whole = io::Cursor::new(begin).chain(input);
    let Some(compression) = compression else {
        return Ok((Box::new(whole), false));
    };
    let whole = BufReader::with_capacity(BLOCK, whole);
    let content: Input = match compression {
        Compression::Gzip => Box::new(gzip::Members::new(whole)),
        Compression::Zstd => Box::new(zstd::Frames::new(whole)?),
        Compression::Lz4 => Box::new(lz4::Frames::new(whole)),
    };
    Ok((content, true))
}

/// Reads the first bytes of the input: at least [`MAGIC`] bytes unless the input is shorter.
fn read_ahead(input: &mut Input) -> io::Result<Vec<u8>> {
    let mut begin = vec![0; AHEAD];
    let mut len = 0;
    while len < MAGIC {
        match input.read(&mut begin[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    begin.truncate(len);
    Ok(begin)
}

impl Compression {
    fn recognize(begin: &[u8]) -> Option<Self> {
        match begin {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // A skippable frame, with which parallel zstd begins its output, is zstd too (RFC 8878
            // §3.1.2).
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            _ => None,
        }
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        let kind = match fault {
            Fault::Cut(_) => io::ErrorKind::UnexpectedEof,
            Fault::Damaged(..) | Fault::Trailing(_) => io::ErrorKind::InvalidData,
        };
        Self::new(kind, fault)
    }
}

/// Turns an unexpected end of the input into [`Fault::Cut`]; other errors stay as they are.
fn cut_or(format: &'static str, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Cut(format).into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests;

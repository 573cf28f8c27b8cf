//! Compressed captures, undone as they are read.
//!
//! In: any input. Out: what it holds, decompressed if its first bytes say so.
//! Memory is bounded by the formats' windows, whatever a stream claims to
//! unpack to. All that stands before a damage or an early end is handed out
//! before the error that says so.

mod gzip;
mod lz4;
mod zstd;

use std::io::{self, BufReader, Read};

use thiserror::Error;

/// How much compressed input is read at once.
const BLOCK: usize = 256 * 1024;

/// How much is read ahead: enough to tell what it is, even if it is nothing
/// that is read here.
const AHEAD: usize = 512;

/// As many bytes as the magic numbers have that are looked for here.
const MAGIC: usize = 4;

/// An input of any kind.
pub(crate) type Input = Box<dyn Read + Send>;

/// What a compressed input begins with, read ahead, and the rest of it.
type Whole = BufReader<io::Chain<io::Cursor<Vec<u8>>, Input>>;

/// A compression that is undone here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
    Lz4,
}

/// What is wrong with a compressed input.
#[derive(Debug, Error)]
enum Fault {
    /// The input ends before the stream does.
    #[error("its {0} stream ends early")]
    Cut(&'static str),
    /// The stream says something impossible.
    #[error("its {0} stream is damaged: {1}")]
    Damaged(&'static str, String),
    /// The stream ends as it should, and what follows is no other.
    #[error("what follows its {0} stream is none")]
    Trailing(&'static str),
}

/// The input itself, or what it decompresses to.
///
/// # Errors
/// When its first bytes cannot be read.
pub(crate) fn undo(mut input: Input) -> io::Result<Input> {
    let begin = read_ahead(&mut input)?;
    let compression = Compression::recognize(&begin);
    let whole = io::Cursor::new(begin).chain(input);
    let Some(compression) = compression else {
        return Ok(Box::new(whole));
    };
    let whole = BufReader::with_capacity(BLOCK, whole);
    Ok(match compression {
        Compression::Gzip => Box::new(gzip::Members::new(whole)),
        Compression::Zstd => Box::new(zstd::Frames::new(whole)?),
        Compression::Lz4 => Box::new(lz4::Frames::new(whole)),
    })
}

/// The first bytes, [`MAGIC`] at least unless there are fewer.
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
            // A skippable frame, which parallel zstd begins with, is one too (RFC 8878 §3.1.2).
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

/// An end of the input within what had to follow is an early end.
fn cut_or(format: &'static str, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Cut(format).into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests;

//! Zstandard: frames, one after the other (RFC 8878).

use std::io::{self, BufRead, Read};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use super::{Fault, Whole};

const FORMAT: &str = "zstd";

/// Number of bytes of a frame that the decoder needs before it can report how many more it needs.
const HEADER: usize = 5;

/// Reads all frames of an input as one.
///
/// The library accepts windows of up to 128 MiB, the maximum that it decodes without an explicit
/// option (`ZSTD_WINDOWLOG_LIMIT_DEFAULT`).
pub(super) struct Frames {
    input: Whole,
    decoder: Decoder<'static>,
    /// Number of bytes to give to the decoder next. They end with the current block, so that data
    /// from blocks before damage is not lost.
    wanted: usize,
    /// True if a frame was begun and has not ended.
    is_within: bool,
}

impl Frames {
    pub(super) fn new(input: Whole) -> io::Result<Self> {
        Ok(Self {
            input,
            decoder: Decoder::new()?,
            wanted: HEADER,
            is_within: false,
        })
    }
}

impl Read for Frames {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while !to.is_empty() {
            let from = self.input.fill_buf()?;
            let is_over = from.is_empty();
            if is_over && !self.is_within {
                break;
            }
            let from = from.get(..self.wanted).unwrap_or(from);
            let mut from = InBuffer::around(from);
            let mut out = OutBuffer::around(&mut *to);
            let hint = self.decoder.run(&mut from, &mut out).map_err(damaged)?;
            let (consumed, produced) = (from.pos(), out.pos());
            self.input.consume(consumed);
            self.is_within = hint > 0;
            self.wanted = if hint > 0 { hint } else { HEADER };
            if produced > 0 {
                return Ok(produced);
            }
            if is_over && self.is_within {
                return Err(Fault::Cut(FORMAT).into());
            }
        }
        Ok(0)
    }
}

/// Converts an error of the library, which describes damage only as text.
fn damaged(error: io::Error) -> io::Error {
    Fault::Damaged(FORMAT, error.to_string()).into()
}

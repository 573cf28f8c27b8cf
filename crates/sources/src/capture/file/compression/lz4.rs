//! LZ4: frames, one after the other (LZ4 Frame Format 1.6).

use std::io::{self, Read};

use lz4_flex::frame::FrameDecoder;

use super::{Fault, Whole};

const FORMAT: &str = "lz4";

/// Reads all frames of an input as one.
pub(super) struct Frames {
    /// The decoder; `None` once everything was read.
    decoder: Option<FrameDecoder<Watched>>,
    /// True if a frame has begun and not ended. The first frame is known to exist; whether another
    /// one follows is unknown until some of it is read.
    is_within: bool,
}

/// An input that records whether its end was reached. The decoder itself mistakes an end of input
/// between two blocks for the end of the frame.
struct Watched {
    input: Whole,
    is_over: bool,
}

impl Frames {
    pub(super) fn new(input: Whole) -> Self {
        let is_over = false;
        Self {
            decoder: Some(FrameDecoder::new(Watched { input, is_over })),
            is_within: true,
        }
    }
}

impl Read for Frames {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = self.decoder.as_mut().filter(|_| !to.is_empty()) {
            let read = decoder.read(to).map_err(fault)?;
            if read > 0 {
                self.is_within = true;
                return Ok(read);
            }
            let is_over = decoder.get_ref().is_over;
            if is_over && self.is_within {
                return Err(Fault::Cut(FORMAT).into());
            }
            // The frame has ended. The next frame may have another block size, so it needs a new
            // decoder.
            let input = self.decoder.take().map(FrameDecoder::into_inner);
            self.decoder = input.filter(|_| !is_over).map(FrameDecoder::new);
            self.is_within = false;
        }
        Ok(0)
    }
}

impl Read for Watched {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read(to) {
                // The decoder would lose its position if an interruption reached it.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) if !to.is_empty() => {
                    self.is_over = true;
                    return Ok(0);
                }
                result => return result,
            }
        }
    }
}

fn fault(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Cut(FORMAT).into(),
        // An error of the decoder; all others come from the operating system.
        _ if error
            .get_ref()
            .is_some_and(|inner| inner.is::<lz4_flex::frame::Error>()) =>
        {
            Fault::Damaged(FORMAT, error.to_string()).into()
        }
        _ => error,
    }
}

//! Detection of the end of a chunked body (RFC 9112 §7.1).

use super::NotHttp;

/// Maximum bytes of chunk extensions and trailers in one body.
const MAX_EXTRA_LEN: usize = 64 * 1024;

/// A parser that follows a chunked body up to the line feed after its trailers.
#[derive(Debug, Default)]
pub(super) struct ChunkedBody {
    state: State,
    /// Number of bytes in extensions and trailers so far.
    extra_len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first digit of a chunk size.
    #[default]
    SizeStart,
    /// Within the digits of a size, with the size so far.
    Size(u64),
    /// After the digits of a size, before the end of the line.
    Extension(u64),
    /// After the carriage return of a size line.
    SizeEnd(u64),
    /// Within chunk data, with the number of bytes that are still missing.
    Data(u64),
    /// After chunk data, before its line end.
    DataEnd,
    /// After the carriage return that follows chunk data.
    DataEndReturn,
    /// At the start of a trailer line.
    TrailerStart,
    /// After a carriage return at the start of a trailer line.
    LastReturn,
    /// Within a trailer line.
    Trailer,
    Complete,
}

impl ChunkedBody {
    /// Processes the next bytes; returns the number of bytes that belong to the body.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<usize, NotHttp> {
        let mut used = 0;
        while self.state != State::Complete {
            let rest = bytes.get(used..).unwrap_or_default();
            let Some(&byte) = rest.first() else { break };
            used += match self.state {
                State::Data(left) => self.skip_data(left, rest.len()),
                state => {
                    self.state = self.next(state, byte)?;
                    1
                }
            };
        }
        Ok(used)
    }

    /// Returns true if the last byte of the body was seen.
    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    fn skip_data(&mut self, left: u64, available: usize) -> usize {
        let taken = available.min(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left - taken as u64;
        self.state = if left == 0 {
            State::DataEnd
        } else {
            State::Data(left)
        };
        taken
    }

    fn next(&mut self, state: State, byte: u8) -> Result<State, NotHttp> {
        Ok(match (state, byte) {
            (State::SizeStart, _) => State::Size(hex(byte).ok_or(NotHttp)?),
            (State::Size(size) | State::Extension(size) | State::SizeEnd(size), b'\n') => {
                after_size(size)
            }
            (State::Size(size) | State::Extension(size), b'\r') => State::SizeEnd(size),
            (State::Size(size), b';' | b' ' | b'\t') => State::Extension(size),
            (State::Size(size), _) => {
                let digit = hex(byte).ok_or(NotHttp)?;
                State::Size(size.checked_mul(16).ok_or(NotHttp)? | digit)
            }
            (State::Extension(_), _) => self.count_extra(state)?,
            (State::DataEnd, b'\r') => State::DataEndReturn,
            (State::DataEnd | State::DataEndReturn, b'\n') => State::SizeStart,
            (State::TrailerStart | State::LastReturn, b'\n') => State::Complete,
            (State::TrailerStart, b'\r') => State::LastReturn,
            (State::Trailer, b'\n') => State::TrailerStart,
            (State::TrailerStart | State::Trailer, _) => self.count_extra(State::Trailer)?,
            _ => return Err(NotHttp),
        })
    }

    fn count_extra(&mut self, next: State) -> Result<State, NotHttp> {
        self.extra_len += 1;
        if self.extra_len > MAX_EXTRA_LEN {
            return Err(NotHttp);
        }
        Ok(next)
    }
}

fn after_size(size: u64) -> State {
    if size == 0 {
        State::TrailerStart
    } else {
        State::Data(size)
    }
}

fn hex(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

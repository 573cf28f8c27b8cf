//! gzip: members of deflated data, one after the other (RFC 1952).

use std::io::{self, BufRead, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::{Fault, Whole, cut_or};

const FORMAT: &str = "gzip";

/// The only compression method that is defined.
const DEFLATED: u8 = 8;

/// Flags of a member's header (RFC 1952 §2.3.1).
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// Reads all members of an input as one.
pub(super) struct Members {
    input: Whole,
    inflate: Decompress,
    /// Checksum of the current member's data so far.
    crc: Crc,
    place: Place,
}

/// The position in the input.
enum Place {
    /// At a member's header.
    Header,
    /// Within a member's deflated data.
    Data,
    /// At damaged data, after all data before the damage was returned.
    Broken,
    /// At a member's trailer, which holds checksum and length.
    Trailer,
    /// After a member.
    Between,
    /// After the last member.
    End,
}

impl Members {
    pub(super) fn new(input: Whole) -> Self {
        Self {
            input,
            inflate: Decompress::new(false),
            crc: Crc::new(),
            place: Place::Header,
        }
    }

    /// Skips a member's header.
    fn begin_member(&mut self) -> io::Result<()> {
        let header: [u8; 10] = self.take()?;
        let flags = header[3];
        if header[..2] != [0x1f, 0x8b] || header[2] != DEFLATED || flags & RESERVED != 0 {
            return Err(damaged("an impossible header"));
        }
        if flags & EXTRA != 0 {
            let length = u64::from(u16::from_le_bytes(self.take()?));
            let passed = io::copy(&mut (&mut self.input).take(length), &mut io::sink())?;
            if passed < length {
                return Err(Fault::Cut(FORMAT).into());
            }
        }
        for text in [NAME, COMMENT] {
            if flags & text != 0 {
                self.skip_text()?;
            }
        }
        if flags & HEADER_CRC != 0 {
            let _: [u8; 2] = self.take()?;
        }
        self.inflate.reset(false);
        self.crc.reset();
        self.place = Place::Data;
        Ok(())
    }

    /// Skips a zero-terminated string.
    fn skip_text(&mut self) -> io::Result<()> {
        while self.take::<1>()? != [0] {}
        Ok(())
    }

    /// Decompresses some of the current member's data; returns 0 at its end.
    fn inflate(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let from = self.input.fill_buf()?;
            let is_over = from.is_empty();
            let (consumed, produced) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(from, to, FlushDecompress::None);
            let consumed = self.inflate.total_in() - consumed;
            let produced = self.inflate.total_out() - produced;
            // These casts lose nothing: both numbers are lengths of slices.
            let (consumed, produced) = (consumed as usize, produced as usize);
            self.input.consume(consumed);
            self.crc.update(to.get(..produced).unwrap_or_default());
            match status {
                Err(_) => self.place = Place::Broken,
                Ok(Status::StreamEnd) => self.place = Place::Trailer,
                Ok(_) if produced == 0 && is_over => return Err(Fault::Cut(FORMAT).into()),
                Ok(_) if produced == 0 => continue,
                Ok(_) => {}
            }
            return Ok(produced);
        }
    }

    /// Compares a member's trailer with its data.
    fn end_member(&mut self) -> io::Result<()> {
        let [sum, length] = [self.take()?, self.take()?].map(u32::from_le_bytes);
        if (sum, length) != (self.crc.sum(), self.crc.amount()) {
            return Err(damaged("its checksum does not match its content"));
        }
        self.place = Place::Between;
        Ok(())
    }

    /// Checks for another member, which may follow zero padding (as on tapes).
    fn seek_member(&mut self) -> io::Result<()> {
        match self.input.fill_buf()? {
            [] => self.place = Place::End,
            [0, ..] => self.input.consume(1),
            [0x1f, ..] => self.place = Place::Header,
            _ => return Err(Fault::Trailing(FORMAT).into()),
        }
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input
            .read_exact(&mut bytes)
            .map_err(|error| cut_or(FORMAT, error))?;
        Ok(bytes)
    }
}

impl Read for Members {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while !to.is_empty() {
            match self.place {
                Place::Header => self.begin_member()?,
                Place::Data => match self.inflate(to)? {
                    0 => {}
                    produced => return Ok(produced),
                },
                Place::Broken => return Err(damaged("its content is not compressed with deflate")),
                Place::Trailer => self.end_member()?,
                Place::Between => self.seek_member()?,
                Place::End => break,
            }
        }
        Ok(0)
    }
}

fn damaged(how: &str) -> io::Error {
    Fault::Damaged(FORMAT, how.to_owned()).into()
}

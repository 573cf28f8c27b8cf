//! `autocorking`: a note, never a claim. While an earlier segment is still in the device's queue,
//! the kernel merges small writes. It holds nothing back when that queue is empty
//! (`tcp_should_autocork()` in `net/ipv4/tcp.c`).

use super::evidence::REPEATS;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::Exchange;
use crate::report::{Remark, count, counted};
use crate::stats::Merge;

/// Counts responses whose small writes left in one segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rule {
    responses: u64,
    writes: u64,
    segments: u64,
    /// The size of the smallest write, in bytes.
    write: u64,
}

impl Merge for Rule {
    fn merge(&mut self, other: Self) {
        let Self {
            responses,
            writes,
            segments,
            write,
        } = other;
        // Without a response, there is no write either.
        self.write = match self.responses {
            0 => write,
            _ if responses == 0 => self.write,
            _ => self.write.min(write),
        };
        self.responses += responses;
        self.writes += writes;
        self.segments += segments;
    }
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::PACKING;

    fn observe(&mut self, exchange: &Exchange) {
        if let Some(gathered) = exchange.response.packing.gathered {
            self.merge(Self {
                responses: 1,
                writes: gathered.writes,
                segments: gathered.segments,
                write: gathered.write,
            });
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if self.responses < REPEATS {
            return Conclusion::Nothing;
        }
        Conclusion::Note(Remark {
            id: Id::Autocorking.to_string(),
            text: format!(
                "{}: {} written in pieces of {}; the server's kernel merged {} writes into {} \
                 while its device was busy. No segment waited for an ACK, so this costs nothing; larger \
                 writes would save the server the work.",
                case.endpoint,
                counted(self.responses, "response was", "responses were"),
                counted(self.write, "byte", "bytes"),
                count(self.writes),
                counted(self.segments, "segment", "segments"),
            ),
        })
    }
}

//! The forms in which exchanges are written one by one, as they close.

use std::io::{self, Write};

use lagtrace_core::report::{ExchangeRecord, PassedOn, Report};

use super::har::Har;
use super::ndjson::ndjson;
use super::perfetto::Perfetto;
use crate::{json, words};

/// A writer of exchanges in one form, with its state.
#[derive(Debug)]
pub(crate) enum Encoder {
    /// One JSON object per line; the lines of the report follow.
    Lines,
    /// An HTTP archive.
    Har(Har),
    /// A Perfetto trace.
    Perfetto(Perfetto),
}

impl Encoder {
    /// Writes what comes before the exchanges.
    pub(crate) fn begin(&self, to: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Har(har) => har.begin(to),
            Self::Lines | Self::Perfetto(_) => Ok(()),
        }
    }

    /// Writes an exchange. Those of a connection come in the order in which they ended.
    pub(crate) fn exchange(
        &mut self,
        record: &ExchangeRecord,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        match self {
            Self::Lines => {
                json::write(to, record)?;
                to.write_all(b"\n")
            }
            Self::Har(har) => har.exchange(record, to),
            Self::Perfetto(trace) => trace.exchange(record, to),
        }
    }

    /// Writes what comes after the exchanges. `passed_on` are those that a proxy passed on.
    pub(crate) fn end(
        &mut self,
        report: &Report,
        passed_on: &[PassedOn],
        to: &mut dyn Write,
    ) -> io::Result<()> {
        match self {
            Self::Lines => to.write_all(ndjson(report).as_bytes()),
            Self::Har(har) => har.end(to),
            Self::Perfetto(trace) => trace.end(passed_on, to),
        }
    }

    /// Returns a remark on exchanges that the form cannot hold, out of those `seen`.
    pub(crate) fn remark(&self, seen: u64) -> Option<String> {
        let (left_out, why) = match self {
            Self::Lines => return None,
            Self::Har(har) => (har.left_out(), "they are not HTTP in clear text"),
            Self::Perfetto(trace) => (trace.left_out(), "too many others overlap with them"),
        };
        let seen = words::plural(seen, "exchange");
        (left_out > 0).then(|| format!("{left_out} of {seen} were left out, because {why}."))
    }
}

//! Single exchanges: streamed as they close, or the most costly ones in a table.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use lagtrace_core::analyzer::Sink;
use lagtrace_core::decode::Packet;
use lagtrace_core::exchange::Exchange;
use lagtrace_core::observed::flow::{FlowKey, Transport};
use lagtrace_core::report::{ConnectionRecord, ExchangeRecord};
use lagtrace_core::views::connections::ConnectionSink;
use lagtrace_core::views::stream_numbers::StreamNumbers;
use serde_json::json;

use super::condition::{Condition, Field};
use crate::delivery::Lines;
use crate::render::Encoder;

/// The single exchanges that the user requested. The listing is shared between the analyzer, which
/// passes exchanges to it, and the reader, which numbers connections.
#[derive(Clone)]
pub(crate) struct Listing {
    state: Arc<Mutex<State>>,
}

struct State {
    files: Vec<(String, StreamNumbers)>,
    /// The number of observation points that each file can have.
    points: usize,
    /// True if packet numbers refer to a capture file.
    is_of_files: bool,
    condition: Option<Condition>,
    seen: u64,
    met: u64,
    to: Target,
}

/// The destination of exchanges.
pub(crate) enum Target {
    /// Exchanges that are written immediately.
    Stream {
        /// The output.
        to: Box<Lines>,
        /// The form in which exchanges are written.
        encoder: Encoder,
        /// True if each exchange must be flushed because a reader waits for it.
        is_live: bool,
        /// The error that stopped the output.
        fault: Option<io::Error>,
    },
    /// A table of the exchanges with the largest values of a field.
    Most {
        /// The field.
        by: Field,
        /// Maximum number of exchanges to keep.
        limit: usize,
        /// The exchanges kept so far: the largest value first, and equal values in the order of
        /// their arrival, which is the second number.
        kept: BTreeMap<(Reverse<u64>, u64), ExchangeRecord>,
        /// The number of exchanges that were taken.
        taken: u64,
    },
}

/// The result of a listing.
pub(crate) struct Listed {
    /// The number of exchanges that closed.
    pub(super) seen: u64,
    /// The number of exchanges that satisfy the condition.
    pub(super) met: u64,
    /// The destination of the exchanges.
    pub(super) to: Target,
}

impl Target {
    pub(super) fn most(by: Field, limit: usize) -> Self {
        Self::Most {
            by,
            limit,
            kept: BTreeMap::new(),
            taken: 0,
        }
    }

    pub(super) fn stream(mut to: Lines, encoder: Encoder, is_live: bool) -> Self {
        let fault = encoder.begin(&mut to).err();
        Self::Stream {
            to: Box::new(to),
            encoder,
            is_live,
            fault,
        }
    }
}

impl Listing {
    /// Returns a listing of exchanges in files with these names, each with `points` observation
    /// points.
    pub(super) fn new(
        names: Vec<String>,
        points: usize,
        condition: Option<Condition>,
        to: Target,
    ) -> Self {
        let numbers = |name| (name, StreamNumbers::new(crate::conclusion::seed()));
        let state = State {
            files: names.into_iter().map(numbers).collect(),
            points: points.max(1),
            is_of_files: true,
            condition,
            seen: 0,
            met: 0,
            to,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Returns a listing of exchanges that are watched live and are in no file. They are written
    /// when they are [flushed](Self::flush).
    pub(crate) fn of_watch(to: Lines, encoder: Encoder) -> Self {
        let points = usize::from(u16::MAX) + 1;
        let listing = Self::new(
            vec!["kernel".to_owned()],
            points,
            None,
            Target::stream(to, encoder, false),
        );
        listing.with(|state| state.is_of_files = false);
        listing
    }

    /// Writes the exchanges collected so far.
    pub(crate) fn flush(&self) {
        self.with(|state| {
            if let Target::Stream { to, fault, .. } = &mut state.to
                && fault.is_none()
            {
                *fault = to.flush().err();
            }
        });
    }

    /// Returns the sink for the analyzer's exchanges.
    pub(crate) fn sink(&self) -> Sink {
        let listing = self.clone();
        Box::new(move |exchange| listing.with(|state| state.take(exchange)))
    }

    /// Returns true if exchanges and connections are written as lines immediately.
    pub(super) fn writes_lines(&self) -> bool {
        self.with(|state| state.to.has_lines())
    }

    /// Returns the sink for the analyzer's connections.
    pub(super) fn connection_sink(&self) -> ConnectionSink {
        let listing = self.clone();
        Box::new(move |record| listing.with(|state| state.connection(record)))
    }

    /// Assigns Wireshark's stream number to the connection of a segment that the analyzer has
    /// processed, or of a segment that an ICMP error quotes.
    pub(super) fn number(&self, packet: &Packet<'_>) {
        let point = match packet {
            Packet::Tcp(segment, _) => segment.point,
            Packet::Icmp(error) => error.point,
            Packet::Udp(..) | Packet::Echo(_) | Packet::Neighbour(_) | Packet::Other => return,
        };
        self.with(|state| {
            let file = usize::from(point.0) / state.points;
            let Some((_, numbers)) = state.files.get_mut(file) else {
                return;
            };
            match packet {
                Packet::Tcp(segment, _) => numbers.number_segment(segment),
                Packet::Icmp(error) => numbers.take_quoted(error),
                Packet::Udp(..) | Packet::Echo(_) | Packet::Neighbour(_) | Packet::Other => None,
            };
        });
    }

    /// Returns true if the output has failed, for example because its reader has exited.
    pub(crate) fn has_failed(&self) -> bool {
        self.with(|state| matches!(&state.to, Target::Stream { fault: Some(_), .. }))
    }

    /// Returns the result after the analyzer has finished.
    pub(crate) fn finish(self) -> Listed {
        self.with(|state| Listed {
            seen: state.seen,
            met: state.met,
            to: std::mem::replace(&mut state.to, Target::most(Field::Cost, 0)),
        })
    }

    fn with<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        run(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn connection(&mut self, record: &ConnectionRecord) {
        if !self.to.has_lines() {
            return;
        }
        let file = usize::from(record.point) / self.points;
        let mut line = json!(record);
        line["type"] = json!("connection");
        line["capture"] = json!(self.files.get(file).map(|(name, _)| name));
        self.to.write(|_, to| writeln!(to, "{line}"));
    }

    fn take(&mut self, exchange: &Exchange) {
        let file = usize::from(exchange.id.point.0) / self.points;
        let (flow, _) = FlowKey::new(Transport::Tcp, exchange.id.client, exchange.id.server);
        let Some((name, numbers)) = self.files.get(file) else {
            return;
        };
        let mut record = ExchangeRecord::new(exchange, name, numbers.of(&flow));
        if !self.is_of_files {
            record = record.without_packets();
        }
        self.seen += 1;
        let is_meant = self.condition.as_ref().is_none_or(|c| c.holds(&record));
        if is_meant {
            self.met += 1;
            self.to.take(record);
        }
    }
}

impl Target {
    fn has_lines(&self) -> bool {
        let encoder = match self {
            Self::Stream { encoder, .. } => Some(encoder),
            Self::Most { .. } => None,
        };
        matches!(encoder, Some(Encoder::Lines))
    }

    /// Writes to the stream, unless it has failed.
    fn write(&mut self, run: impl FnOnce(&mut Encoder, &mut dyn Write) -> io::Result<()>) {
        let Self::Stream {
            to,
            encoder,
            is_live,
            fault: fault @ None,
        } = self
        else {
            return;
        };
        let written = run(encoder, to);
        *fault = match written {
            Ok(()) if *is_live => to.flush().err(),
            written => written.err(),
        };
    }

    fn take(&mut self, record: ExchangeRecord) {
        match self {
            Self::Stream { .. } => self.write(|encoder, to| encoder.exchange(&record, to)),
            Self::Most {
                by,
                limit,
                kept,
                taken,
            } => {
                let rank = (Reverse(by.number(&record).unwrap_or_default()), *taken);
                *taken += 1;
                let is_least = || kept.last_key_value().is_none_or(|(last, _)| *last < rank);
                if kept.len() >= *limit && is_least() {
                    return;
                }
                kept.insert(rank, record);
                if kept.len() > *limit {
                    kept.pop_last();
                }
            }
        }
    }
}

//! The option `--stream N`: one connection in full.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use indicatif::ProgressBar;
use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::exchange::Exchange;
use lagtrace_core::observed::flow::FlowKey;
use lagtrace_core::observed::segment::Segment;
use lagtrace_core::report::ExchangeRecord;
use lagtrace_core::views::stream_numbers::StreamNumbers;
use lagtrace_core::views::stream_view::{Bytes, Samples, WaySamples};
use lagtrace_sources::capture::Comments;
use serde_json::{Value, json};

use super::{conclusion, open_one};
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::render::{self, Plot, Stream};

/// Maximum number of packets of one connection that are kept.
const MAX_SEGMENTS: usize = 1 << 20;

/// Maximum number of exchanges of one connection that are kept.
const MAX_EXCHANGES: usize = 1 << 16;

/// A view of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum View {
    /// The packets of each exchange between client and server, with the wait of the finding marked
    Ladder,
    /// Both directions' bytes as text, as Wireshark follows a stream
    Text,
    /// Both directions' bytes as hexadecimal numbers
    Hex,
    /// Round trips over time
    RoundTrip,
    /// Bytes in flight over time
    InFlight,
    /// Receive windows over time
    Window,
}

/// Reads the file and shows its connection `number`.
pub(super) fn run(
    path: &Path,
    number: u64,
    views: &[View],
    limit: u64,
    progress: &ProgressBar,
    interrupt: &Interrupt,
    console: &Console,
) -> Result<Outcome> {
    let stream = read(path, number, limit, progress, interrupt)?;
    progress.finish_and_clear();
    let document = match console.output().format {
        Format::Text => text(&stream, views, console),
        Format::Json => format!("{:#}\n", document(&stream, path)),
        Format::Ndjson => format!("{}\n", document(&stream, path)),
    };
    deliver(console, &document)?;
    Ok(Outcome::Clean)
}

fn text(stream: &Stream, views: &[View], console: &Console) -> String {
    let style = console.style();
    let mut text = render::stream_head(stream);
    for view in views {
        text.push_str(&match view {
            View::Ladder => render::ladders(stream, &style),
            View::Text => render::bytes(stream, false),
            View::Hex => render::bytes(stream, true),
            View::RoundTrip => render::over_time(stream, Plot::RoundTrip, &style),
            View::InFlight => render::over_time(stream, Plot::InFlight, &style),
            View::Window => render::over_time(stream, Plot::Window, &style),
        });
    }
    text
}

/// Returns all data that the views show, except the bytes.
fn document(stream: &Stream, path: &Path) -> Value {
    let name = path.display().to_string();
    let record = |x: &Exchange| ExchangeRecord::new(x, &name, Some(stream.number));
    let exchanges: Vec<ExchangeRecord> = stream.exchanges.iter().map(record).collect();
    let way = |way: &WaySamples| {
        let trips = way.round_trips.iter();
        let trips: Vec<(i64, u128)> = trips.map(|(at, d)| (at.as_nanos(), d.as_nanos())).collect();
        let pairs = |list: &[(lagtrace_core::observed::time::Timestamp, u64)]| -> Vec<(i64, u64)> {
            list.iter()
                .map(|(at, value)| (at.as_nanos(), *value))
                .collect()
        };
        json!({
            "round_trips_ns": trips,
            "in_flight": pairs(&way.in_flight),
            "windows": pairs(&way.windows),
        })
    };
    let [client, server] = &stream.samples;
    json!({
        "stream": stream.number,
        "client": stream.client.to_string(),
        "server": stream.server.to_string(),
        "packets": stream.segments.len(),
        "is_cut": stream.is_cut,
        "exchanges": exchanges,
        "comments": stream.comments,
        "samples": {"client": way(client), "server": way(server)},
    })
}

fn read(
    path: &Path,
    number: u64,
    limit: u64,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<Stream> {
    let mut capture = open_one(0, &[path.to_owned()], progress, interrupt)?;
    capture.keep_comments();
    let exchanges: Arc<Mutex<Vec<Exchange>>> = Arc::default();
    let sink = Arc::clone(&exchanges);
    let mut analyzer = Analyzer::new(conclusion::options(Vec::new())).with_sink(Box::new(
        move |exchange: &Exchange| {
            let mut list = sink.lock().unwrap_or_else(PoisonError::into_inner);
            // One more shows that there are more.
            if list.len() <= MAX_EXCHANGES {
                list.push(exchange.clone());
            }
        },
    ));
    let mut numbers = StreamNumbers::new(conclusion::seed());
    let (mut bytes, mut samples) = (Bytes::default(), Samples::default());
    let mut segments: Vec<Segment> = Vec::new();
    let mut is_cut = false;
    for _ in 0..limit {
        let Some((segment, payload)) = capture.next_segment_and(|error| {
            numbers.take_quoted(error);
        }) else {
            break;
        };
        if interrupt.is_requested() {
            break;
        }
        if numbers.number_segment(&segment) != Some(number) {
            continue;
        }
        if segments.len() == MAX_SEGMENTS {
            is_cut = true;
            break;
        }
        analyzer.segment(&segment, payload);
        bytes.observe_segment(&segment, payload);
        samples.observe_segment(&segment);
        segments.push(segment);
    }
    let Some(flow) = segments.first().map(|segment| segment.flow) else {
        return Err(absent(number, numbers.count()));
    };
    analyzer.finish();
    let mut exchanges =
        std::mem::take(&mut *exchanges.lock().unwrap_or_else(PoisonError::into_inner));
    is_cut |= exchanges.len() > MAX_EXCHANGES;
    exchanges.truncate(MAX_EXCHANGES);
    let said = |segment: &Segment| {
        let said = capture.comments(segment.number);
        (!said.is_empty()).then(|| (segment.number, said.to_vec()))
    };
    let comments = segments.iter().filter_map(said).collect();
    let stream = assemble(number, flow, segments, (bytes, samples), exchanges, is_cut);
    Ok(Stream { comments, ..stream })
}

fn assemble(
    number: u64,
    flow: FlowKey,
    segments: Vec<Segment>,
    (bytes, samples): (Bytes, Samples),
    mut exchanges: Vec<Exchange>,
    is_cut: bool,
) -> Stream {
    exchanges.sort_by_key(|exchange| (exchange.begin, exchange.id.ordinal));
    // If there are exchanges, they show reliably which end is the client.
    let asking = exchanges.first().map(|exchange| exchange.id.client);
    let up = match asking {
        Some(client) if client == flow.ends().0 => {
            lagtrace_core::observed::flow::Direction::Forward
        }
        Some(_) => lagtrace_core::observed::flow::Direction::Backward,
        None => samples.client(),
    };
    let is_turned = up != samples.client();
    let [one, other] = samples.finish();
    let (turns, has_more) = bytes.finish();
    Stream {
        number,
        client: flow.source(up),
        server: flow.destination(up),
        up,
        segments,
        turns,
        samples: if is_turned {
            [other, one]
        } else {
            [one, other]
        },
        exchanges,
        comments: Comments::new(),
        is_cut: is_cut || has_more,
    }
}

fn absent(number: u64, count: u64) -> Failure {
    let failure = Failure::new(format!("the capture has no TCP stream {number}"));
    match count.checked_sub(1) {
        None => failure.hint("it contains no TCP connection"),
        Some(last) => failure.hint(format!(
            "its streams are 0 to {last}, as Wireshark's tcp.stream"
        )),
    }
}

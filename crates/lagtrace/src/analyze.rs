//! The command `lagtrace analyze`, which diagnoses captures.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use lagtrace_core::analyzer::Sink;
use lagtrace_core::decode::Packet;
use lagtrace_core::observed::event::{
    CaptureSummary, Event, EventBody, Note, Origin, Phase, PointId,
};
use lagtrace_core::observed::time::{ClockId, Timestamp};
use lagtrace_core::report::{Picture, Report};
use lagtrace_core::views::picture::Keeps;
use lagtrace_sources::capture::{CaptureError, FileCapture, Packets};

use crate::clock;
use crate::conclusion::{self, About};
use crate::console::Console;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::render::html;
use crate::{delivery, page};

mod annotate;
pub(crate) mod condition;
mod connections;
mod input;
mod joint;
pub(crate) mod listing;
mod merge;
pub(crate) mod picture;
mod pieces;
mod rounds;
pub(crate) mod selected;
pub(crate) mod show;
mod stream;
mod undecoded;
mod unread;

use annotate::Annotation;
use condition::{Condition, Field};
use connections::ConnectionOptions;
use joint::Joint;
use listing::{Listing, Target};
use merge::Merged;
use picture::Again;
use stream::View;

const HELP: &str = "\
Files that continue each other (as from tcpdump -C or -G) are read as one
capture, in any order. Files that overlap, or that do not continue each other,
are separate captures. Two captures of the same connections, such as one from
the client and one from the server, are compared: clock offset, delay and loss
in each direction, and the host or direction in which the time passed. gzip,
zstd and lz4 files are read directly. Damaged files are analysed as far as they
are readable.

--format ndjson prints each exchange as it completes, one JSON object per line
(schema: exchange-1.json, with the documentation), and the lines of the report
at the end. --format har writes the HTTP exchanges for browsers' network panels,
--format perfetto all exchanges with their waits for ui.perfetto.dev; both
without the report.

A condition combines tests with `and`, `or`, `not` and parentheses. A test is a
field, then one of = != < <= > >=, or ~ (contains) or !~ (does not contain), and
a value:
  durations  latency, cost (latency without network transit and transfer), setup (of its
             connection); the parts of the latency: resolve, connect,
             request-transfer, request-pause, request-held, round-trip,
             server-think, response-transfer, server-pause, response-held,
             window-full, recovery, behind, unknown; the time by owner:
             client-time, server-time, path-time, resolver-time, proxy-time,
             unknown-time
  numbers    status, bytes (of the response), packet (any packet of it), stream
             (Wireshark's tcp.stream), ordinal (in its connection, from 0),
             losses (repaired in it)
  text       request (`GET /path`), outcome, capture (the file)
  addresses  client, server: 10.0.0.2:80, 10.0.0.2, :80, [::1]:80

Examples:
  lagtrace analyze slow.pcap
  lagtrace analyze client.pcapng server.pcapng
  lagtrace analyze slow.pcap --format json -o report.json
  lagtrace analyze slow.pcap --html slow.html
  lagtrace analyze slow.pcap.zst
  lagtrace analyze slow.pcap --connections
  lagtrace analyze slow.pcap --connections 5 --connections-by retransmissions -v
  lagtrace analyze rotated.pcap*
  lagtrace analyze slow.pcap --exchanges 10 --sort server-think
  lagtrace analyze slow.pcap --where 'latency>50ms and request~\"/api\"'
  lagtrace analyze slow.pcap --format ndjson --where 'server=:80 and status!=200'
  lagtrace analyze slow.pcap --format perfetto -o slow.pftrace
  lagtrace analyze slow.pcap --annotate commented.pcapng
  lagtrace analyze slow.pcap --stream 3
  lagtrace analyze slow.pcap --stream 3 --show text
  lagtrace analyze slow.pcap --stream 3 --show round-trip,in-flight,window
  ssh server tcpdump -U -w - tcp port 8080 | lagtrace analyze -c 100000 -";

/// The default number of exchanges that are listed.
const LISTED: u32 = 20;

/// The options of `lagtrace analyze`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// Capture files, pcap, pcapng or snoop, compressed or not; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Stop after COUNT TCP packets of each file
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Use COUNT threads (more than five do not help); the result does not depend on it
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Follow at most COUNT connections at a time (default: 49,152); beyond that, those idle longest
    /// are dropped, and the report says so
    #[arg(long, value_name = "COUNT")]
    max_connections: Option<NonZeroUsize>,
    /// List the COUNT most costly exchanges instead of the report
    #[arg(
        long,
        value_name = "COUNT",
        num_args = 0..=1,
        require_equals = false,
        default_missing_value = "20",
        value_parser = clap::value_parser!(u32).range(1..=100_000),
        help_heading = "Exchanges"
    )]
    exchanges: Option<u32>,
    /// List only exchanges that match CONDITION (see below)
    #[arg(long = "where", value_name = "CONDITION", help_heading = "Exchanges")]
    condition: Option<Condition>,
    /// Sort by FIELD, a duration or number (see below), largest first; default: cost
    #[arg(
        long,
        value_name = "FIELD",
        value_parser = condition::field_to_sort_by,
        help_heading = "Exchanges"
    )]
    sort: Option<Field>,
    /// Write a copy of the capture as pcapng, with packet comments that Wireshark displays
    #[arg(long, value_name = "FILE", conflicts_with = "stream")]
    annotate: Option<PathBuf>,
    /// Show one connection in full: Wireshark's tcp.stream NUMBER
    #[arg(
        long,
        value_name = "NUMBER",
        conflicts_with_all = ["exchanges", "condition", "sort"],
        help_heading = "One connection"
    )]
    stream: Option<u64>,
    /// Views to print; separate several by commas
    #[arg(
        long,
        value_name = "VIEW",
        value_enum,
        value_delimiter = ',',
        default_value = "ladder",
        requires = "stream",
        help_heading = "One connection"
    )]
    show: Vec<View>,
    #[command(flatten)]
    connections: ConnectionOptions,
}

/// Analyses the files and prints the report, or the part of it that the user requested.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let progress = console.bytes("reading", 0);
    let limit = options.count.unwrap_or(u64::MAX);
    if let Some(number) = options.stream {
        let [path] = options.files.as_slice() else {
            let failure = Failure::new("--stream shows a connection of a single file");
            return Err(failure.hint("each file numbers its connections separately: give one file"));
        };
        if console.output().html.is_some() {
            let failure = Failure::new("there is no page of a single connection");
            return Err(failure.hint("leave out --stream, or --html"));
        }
        let views = &options.show;
        return stream::run(path, number, views, limit, &progress, &interrupt, console);
    }
    let started = clock::now();
    let begin = |output: &PathBuf| annotate::begin(&options.files, output);
    let annotation = options.annotate.as_ref().map(begin).transpose()?;
    let listing = options.listing(console)?;
    let watch = Watch {
        is_drawn: console.output().is_drawn(),
        has_page: console.output().html.is_some(),
        listing: listing.as_ref(),
        annotation: annotation.as_ref(),
        connections: options.connections,
    };
    let (files, unread) = unread::part(&options.files, &interrupt)?;
    unread.iter().for_each(|remark| console.note(&remark.text));
    let bounds = Bounds {
        limit,
        threads: options.threads.unwrap_or_else(processors),
        max_connections: options.max_connections,
    };
    let report = reading(&files, bounds, &progress, &interrupt, watch)?;
    let Some(Analysed {
        mut report,
        mut picture,
        ..
    }) = report
    else {
        let names = options.files.iter().map(|file| file.display().to_string());
        let about = About {
            command: "analyze",
            subject: &names.collect::<Vec<_>>().join(", "),
            started,
        };
        return conclusion::interrupted(about, console);
    };
    report.notes.extend(unread);
    if let (Some(annotation), [path]) = (annotation, options.files.as_slice()) {
        let reader = (&progress, &interrupt);
        annotation.write(path, &report, reader, console)?;
    }
    if listing.is_some() && console.output().html.is_some() {
        console
            .note("the list has the exchanges that were asked for, the page has the whole capture");
    }
    let Some(listing) = listing else {
        return options.connections.show(&report, picture, console);
    };
    let passed_on = show::passed_on(picture.as_mut());
    let shown = || html::Document::of_report(&report, picture);
    page::beside(console, shown, || {
        show::listed(listing.finish(), &report, &passed_on, console)
    })?;
    Ok(Outcome::of(&report))
}

impl Options {
    /// Returns the listing of single exchanges that the user requested; `None` if only the report
    /// was requested.
    fn listing(&self, console: &Console) -> Result<Option<Listing>> {
        let is_table = self.exchanges.is_some() || self.condition.is_some() || self.sort.is_some();
        let to = match console.output().form.encoder() {
            Some(encoder) => {
                let is_live = input::is_live(&self.files);
                Target::stream(delivery::open(console, is_live)?, encoder, is_live)
            }
            None if is_table => Target::most(
                self.sort.unwrap_or(Field::Cost),
                self.exchanges.unwrap_or(LISTED) as usize,
            ),
            None => return Ok(None),
        };
        let names = self.files.iter().map(|path| path.display().to_string());
        let points = room(self.files.len());
        let condition = self.condition.clone();
        Ok(Some(Listing::new(names.collect(), points, condition, to)))
    }
}

/// Returns the report on the first `limit` TCP packets of each file; `None` if the user stopped the
/// analysis before there was a report.
pub(crate) fn report(
    files: &[PathBuf],
    limit: u64,
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<Option<Report>> {
    let bounds = Bounds {
        limit,
        threads: NonZeroUsize::MIN,
        max_connections: None,
    };
    let read = reading(files, bounds, progress, interrupt, Watch::default())?;
    Ok(read.map(|read| read.report))
}

/// The result of an analysis.
pub(crate) struct Analysed {
    pub(crate) report: Report,
    /// The picture, if one was requested.
    pub(crate) picture: Option<Picture>,
    /// The captures, to read packets of single exchanges.
    pub(crate) again: Again,
}

/// Analyses captures with the threads of this machine, and makes a picture; `None` if the user
/// stopped the analysis before there was a report.
pub(crate) fn pictured(
    files: &[PathBuf],
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<Option<Analysed>> {
    let (files, unread) = unread::part(files, interrupt)?;
    let bounds = Bounds {
        limit: u64::MAX,
        threads: processors(),
        max_connections: None,
    };
    let watch = Watch {
        is_drawn: true,
        has_page: true,
        ..Watch::default()
    };
    let mut read = reading(&files, bounds, progress, interrupt, watch)?;
    if let Some(read) = &mut read {
        read.report.notes.extend(unread);
    }
    Ok(read)
}

/// The limits of the analysis.
#[derive(Clone, Copy)]
struct Bounds {
    /// Maximum number of TCP packets read from each file.
    limit: u64,
    threads: NonZeroUsize,
    /// Maximum number of connections followed at the same time.
    max_connections: Option<NonZeroUsize>,
}

/// Returns the default number of threads: one per processor, but at most four, because more do not
/// make the analysis faster.
fn processors() -> NonZeroUsize {
    const MOST: NonZeroUsize = NonZeroUsize::new(4).expect("four is not zero");
    thread::available_parallelism().map_or(NonZeroUsize::MIN, |count| count.min(MOST))
}

/// The receivers of exchanges and connections, which get each one when it closes.
#[derive(Clone, Copy, Default)]
struct Watch<'a> {
    /// True if the analyzer makes a picture.
    is_drawn: bool,
    /// True if the picture is for a page, which shows packets of examples.
    has_page: bool,
    listing: Option<&'a Listing>,
    annotation: Option<&'a Annotation>,
    /// The connections to collect.
    connections: ConnectionOptions,
}

impl Watch<'_> {
    /// Returns one sink that passes exchanges to all receivers; `None` if there are no receivers.
    fn sink(&self, joint: Option<&Joint>) -> Option<Sink> {
        let mut sink = self.listing.map(Listing::sink);
        if let Some(annotation) = self.annotation {
            sink = Some(annotation.sink(sink));
        }
        match joint {
            Some(joint) => Some(joint.sink(sink)),
            None => sink,
        }
    }
}

/// Analyses like [`report`], and passes exchanges to the receivers in `watch`.
fn reading(
    files: &[PathBuf],
    bounds: Bounds,
    progress: &ProgressBar,
    interrupt: &Interrupt,
    watch: Watch<'_>,
) -> Result<Option<Analysed>> {
    let began = Instant::now();
    let limit = bounds.limit;
    let joint = Joint::recognise(files, limit, progress, interrupt)?;
    let mut captures = match &joint {
        Some(joint) => vec![open_one(joint.client(), files, progress, interrupt)?],
        None => open(files, progress, interrupt)?,
    };
    if watch.has_page {
        captures.iter_mut().for_each(FileCapture::keep_landmarks);
    }
    let listing = watch.listing;
    let most = bounds.max_connections.map(NonZeroUsize::get);
    let mut analyzer = watch
        .connections
        .analyzer(files.len(), most, listing, watch.is_drawn);
    if let Some(sink) = watch.sink(joint.as_ref()) {
        analyzer = analyzer.with_sink(sink);
    }
    if let Some(joint) = &joint {
        let far_side = joint.far_side(files, bounds, progress, interrupt)?;
        analyzer = analyzer.with_far_side(far_side);
    }
    // A live input is shown as it arrives, and only a single thread analyses without delay. It cannot
    // be read again for the packets of examples.
    let threads = if input::is_live(files) {
        if watch.has_page {
            analyzer = analyzer.with_packets(Keeps::Latest);
        }
        NonZeroUsize::MIN
    } else {
        bounds.threads
    };
    let mut merged = Merged::new(&mut captures, limit);
    let read = |packets: &mut Packets| {
        if interrupt.is_requested() {
            packets.clear()
        } else {
            merged.next(packets)
        }
    };
    let number = listing.map(|listing| {
        |packet: &Packet<'_>| {
            listing.number(packet);
            if listing.has_failed() {
                interrupt.request();
            }
        }
    });
    rounds::run(&mut analyzer, threads, read, number);
    let assumed = merged.notes();
    progress.finish_and_clear();
    let summaries: Vec<CaptureSummary> = match &joint {
        Some(joint) => joint.summaries().to_vec(),
        None => captures.iter().map(FileCapture::summary).collect(),
    };
    let packets: u64 = summaries.iter().map(|summary| summary.packets).sum();
    undecoded::refuse(&summaries)?;
    let names: Vec<_> = summaries
        .iter()
        .map(|summary| summary.name.clone())
        .collect();
    for (index, summary) in summaries.into_iter().enumerate() {
        analyzer.observe(observed(index, files.len(), summary));
    }
    for Note { id, text } in assumed {
        analyzer.observe(conclusion::note(&id, text));
    }
    let is_cut_short = interrupt.is_requested() && !input::is_live(files);
    if interrupt.is_requested() {
        if packets == 0 {
            return Ok(None);
        }
        analyzer.observe(conclusion::note(
            "interrupted",
            format!("Interrupted after {packets} packets; the rest was not read."),
        ));
    }
    let (mut report, mut picture) = analyzer.finish_with_picture();
    report.joined = joint.and_then(|joint| joint.conclude());
    "analyze".clone_into(&mut report.command);
    report.subject = names.join(", ");
    connections::name_files(&mut report, &names, room(files.len()));
    let start = report.capture.as_ref().and_then(|capture| capture.start_ns);
    report.started = start.map_or(String::new(), |at| clock::started(Some(at)));
    if is_cut_short {
        report.interrupt(began.elapsed());
    }
    let mut again = Again::new(files, limit, &report, captures);
    if let Some(picture) = picture.as_mut().filter(|_| watch.has_page) {
        again.add_packets(&mut report, picture, progress, interrupt);
    }
    Ok(Some(Analysed {
        report,
        picture,
        again,
    }))
}

fn open(
    files: &[PathBuf],
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<Vec<FileCapture>> {
    let all = 0..files.len();
    all.map(|index| open_one(index, files, progress, interrupt))
        .collect()
}

fn open_one(
    index: usize,
    files: &[PathBuf],
    progress: &ProgressBar,
    interrupt: &Interrupt,
) -> Result<FileCapture> {
    let path = files.get(index).map_or(Path::new("-"), PathBuf::as_path);
    let (name, input) = input::open(path, progress, interrupt)?;
    let point = first_point(index, files.len());
    FileCapture::from_reader(name, input, point).map_err(refused)
}

/// Returns the first observation point of a file. The points of one file's interfaces are
/// consecutive, so the files share the available numbers evenly.
fn first_point(index: usize, files: usize) -> PointId {
    PointId(u16::try_from(index * room(files)).unwrap_or(u16::MAX))
}

/// Returns the number of observation points that each file can have.
fn room(files: usize) -> usize {
    usize::from(u16::MAX) / files.max(1)
}

fn observed(index: usize, files: usize, summary: CaptureSummary) -> Event {
    let origin = Origin {
        point: first_point(index, files),
        clock: ClockId::File(u16::try_from(index).unwrap_or(u16::MAX)),
        number: 0,
    };
    Event {
        origin,
        at: Timestamp::MAX,
        phase: Phase::Baseline,
        body: EventBody::Capture(summary),
    }
}

fn refused(error: CaptureError) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

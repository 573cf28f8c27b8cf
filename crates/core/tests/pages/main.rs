//! Tests of the causes' pages: each trace on a page must lead to the findings that it states. Each
//! page has its own tests: `cargo test -p lagtrace-core --test pages NAME`.
//!
//! The traces of a page under `src/cause/` are fenced blocks that begin with `` ```trace ``. Each
//! is a small capture with the expected result, in a notation like packetdrill's and tcpdump's. A
//! block is read line by line, and `#` begins a comment.
//!
//! **Expected result.** The findings must be those of the `expect:` lines, in that order, and no
//! others:
//! ```text
//! expect: ID [culprit=server] [verdict=strong] [place=strong] [cost=51ms±1ms] [p50=9ms±1ms] [affected=7] [configured=FILE:LINE|no]
//! expect: note ID           a note, and no finding
//! expect: nothing           no finding on any cause
//! may: ID …                 these findings are also allowed; `unknown` allows waits of unknown kind
//! expect-not: ID …          excludes these findings; without any `expect:`, all others are allowed
//! ```
//! `cost` is the mean per affected exchange, and `p50` the predicted median. `configured` is the place of the setting that is
//! evidence. Three things are always checked: the waits of each exchange add up to it exactly, no
//! complete exchange has a wait of unknown kind, and (for round trips of 1 ms or more) the report
//! gives the right position of the capture point.
//!
//! **Settings.** Each combination of the listed values is one run:
//! ```text
//! seen-at client, server, middle      the position of the capture point
//! rtt 0ms, 8ms, 50ms                  the round trip between client and server
//! mss 1460                            the MSS of both ends
//! timestamps on                       TCP timestamps in milliseconds; off by default
//! for pause in 36ms..52ms step 2ms    a variable; or a list: in 36ms, 44ms
//! ```
//!
//! **Segments**, one per line, with the time at which the capture point sees them:
//! ```text
//! [LABEL:] TIME  C > S  FLAGS [PAYLOAD] [OPTION …]
//! ```
//! - `TIME` is `+SUM`, counted from the line before, or `@LABEL+SUM`, counted from the line with
//!   that label. `@start` is the start of the trace.
//! - A `SUM` adds and subtracts terms such as `40ms`, `0.2ms`, `8us`, the variable of a `for`,
//!   `rtt`, `2*rtt` and `rtt/2`. In `i*3ms`, `i` is the number of earlier repetitions of the
//!   innermost block. `40ms..44ms` is a random time in this range; it differs in each repetition,
//!   and is the same in each run. `server` and `client` stand for the round trip from the capture
//!   point to that end, plus 5 µs for its kernel: the time until an immediate answer from there.
//! - `FLAGS` are tcpdump's: `S`, `S.`, `.`, `P.`, `F.`, `FP.`, `R`, `R.`.
//!
//! `PAYLOAD` is one of these:
//! - `GET /path [len 77] [host NAME] [close]`: a request. `len` is the length of the head in bytes.
//! - `POST /path len 150 [body 300] [expect]`: a request whose head announces a body of this
//!   length; `expect` adds `Expect: 100-continue`.
//! - `200 len 238 [body 569] [close] [location /path]`: a response. Without `body`, it lasts until
//!   the connection closes. `ocsp` and `events` set the content type of OCSP and of server-sent
//!   events, and `gzip` the content encoding.
//! - `data 569`, `text WORDS`: other bytes.
//! - `tls WORDS`, `http2 WORDS`: the records of `tls.rs` or the frames of `http2.rs`, separated by
//!   commas.
//! - A `len` of `238+569` puts 569 bytes of the body into the head's segment.
//! - `bytes FROM..TO` sends only this part of the payload.
//!
//! Sequence numbers, ACK numbers and IP identifications follow from the segments that were sent and
//! had arrived by then. An `OPTION` changes this:
//! - `again LABEL` repeats the bytes of that segment, and `part N` only the first N of them. `copy
//!   LABEL` is a copy of the packet itself.
//! - `sack LABEL` reports that segment as received after missing data, and `dsack LABEL` as
//!   received twice. `ack LABEL` acknowledges data only up to the end of that segment. `alien`
//!   acknowledges a number that was never sent.
//! - `late SUM`: the segment passes the capture point later by this time. `queued SUM`: it waited
//!   in a queue before the capture point for this part of its time.
//! - `lost`: it was lost before the capture point. `lost-behind`: it was lost after it. `unseen`:
//!   it arrived, but the capture does not contain it.
//! - `unless LABEL`: it is not sent if that segment reached its sender first.
//! - `win N` is the window in bytes. `ttl N` is the TTL. `no-id` leaves out the IP identification.
//!   `ipv6` uses the IPv6 addresses of the same hosts.
//! - `at-port N` uses another port of the server. `from-port N` uses another port of the client,
//!   with new sequence numbers.
//!
//! **Groups of lines.** `handshake [TIME]` stands for the three segments that open a connection.
//! `repeat N { … }` repeats a block N times. `connections N every SUM { … }` plays the block on
//! each of N connections, which begin at this interval. `legs N every SUM { … }` does the same for
//! connections from the server's host to another server. The round trip to that server is written
//! into the times.
//!
//! **Packets before connections**, with the time at which the capture point sees them:
//! ```text
//! TIME ask ID A|AAAA NAME [by-server] [port N] [of N | tcp | mdns | llmnr]
//! TIME tell ID A|AAAA NAME [by-server] [port N] [of N | tcp | mdns | llmnr] ADDRESS … | none | nxdomain | truncated
//! TIME arp ask|tell
//! TIME ping|pong NUMBER
//! TIME icmp unreachable CODE [ping NUMBER] [itself]
//! ```
//! `ask` and `tell` are a DNS query and its response. The resolver is 10.77.0.53, with `of N` it is
//! 10.77.0.N, and `mdns` and `llmnr` use the multicast addresses of the link. The client asks, or,
//! with `by-server`, the server. The server is
//! 10.77.0.2 and fd77::2. `arp` concerns the server's hardware address. A ping goes from the client
//! to the server. The ICMP error is about the connection's SYN or about the ping; a router sends
//! it, or the server itself.
//!
//! **Other observations.** They make the server the target of a run:
//! ```text
//! probe tcp-syn|tcp-connect|http-fresh|http-kept-alive ANSWER [x N] [rtt SUM] [loaded] [repeated N]
//! load baseline [paced] [x N] [latency SUM] [body SUM] [status N] [failed KIND N]
//! request [x N] [first-byte SUM] [gap SUM] [end SUM]
//! experiment quickack x N control body SUM treated body SUM
//! socket server [nodelay on|off] [x N] [holding N]
//! setting tcp_nodelay|listen.backlog|… VALUE at FILE:LINE
//! called accept [nodelay|sndbuf|deferred] [x N]
//! called set TCP_NODELAY|TCP_CORK|SO_SNDBUF|SO_RCVBUF VALUE [sent N] [x N]
//! counter NAME N [shared]
//! listener N of N
//! resolved NAME SUM
//! address ADDRESS silence|refused x N
//! kernel [thread N] [backlog SUM] [stack SUM] [unread SUM] [wake-up SUM] [run-queue SUM] [program SUM] [slept SUM] [qdisc SUM] [refused SUM] [asked SUM] [throttled N SUM] [stolen SUM]
//! processors others N
//! ```
//! - `kernel` is a request that arrived at that time, as the server's own kernel timed it. `asked`
//!   is the time of its call to 10.77.0.9:5432. `refused` is the time from the drop of its first
//!   segment until the request was complete. `throttled` is the number of quota periods in which
//!   its control group was throttled, and their total time.
//! - `processors` are those of the host, all busy, with the share of programs that belong neither to
//!   the server nor to lagtrace, in percent.
//! - `shared` is a counter of the network namespace that the client shares with the server.
//! - `listener` is the accept queue of the server's listener: places that are used, and their limit.
//! - `called` is a system call of the server on each of its N connections; `sent` bytes went before
//!   it.
//! - `address` is another address of the server's name, and what each of N attempts at it met.
//! - `loaded` probes are sent while the load above them runs. All others are sent before it.
//! - `ANSWER` is `open`, `refused`, `silence`, `closed`, `not-http`, `status N` or `unreachable
//!   TYPE/CODE`.
//! - `KIND` is `refused`, `connect-timeout`, `unreachable`, `timeout`, `reset`, `closed` or
//!   `not-http`.

#![allow(
    clippy::disallowed_methods,
    reason = "tests look which pages there are"
)]

mod aside;
mod block;
#[path = "../corpus/books.rs"]
mod books;
mod event;
mod expectation;
mod http2;
mod observation;
mod script;
mod sum;
mod tls;
mod wire;

use std::path::Path;

use block::Block;
use lagtrace_core::cause;
use lagtrace_core::registry::Cause;
use lagtrace_core::report::Report;
use libtest_mimic::{Arguments, Failed, Trial};

/// The headings that a page must have, in this order.
const SECTIONS: [&str; 8] = [
    "## What happens",
    "## In a capture",
    "## On a live host",
    "## Look-alikes",
    "## What to change",
    "## Constants",
    "## Limits",
    "## Traces",
];

fn main() {
    let mut trials = vec![Trial::test("no_page_is_without_its_cause", all_pages)];
    for cause in cause::all() {
        trials.extend(of_page(cause));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Returns the tests of one cause's page.
fn of_page(cause: &'static Cause) -> [Trial; 3] {
    let trial = |what: &str, test: fn(&Cause) -> Result<(), Failed>| {
        Trial::test(format!("{what}::{}", cause.id), move || test(cause))
    };
    [
        trial("traces_lead_to_what_they_say", traces),
        trial("has_a_trace_of_it_and_a_look_alike", both_sides),
        trial("has_the_sections_that_people_look_for", sections),
    ]
}

/// Checks that each page belongs to a cause. Other pages would never be read.
fn all_pages() -> Result<(), Failed> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cause");
    let mut pages = 0;
    for entry in std::fs::read_dir(folder)? {
        let file = entry?.file_name().into_string().unwrap_or_default();
        if let Some(id) = file.strip_suffix(".md") {
            let cause: Result<lagtrace_core::registry::Id, _> = id.parse();
            cause.map_err(|_| format!("{file} is the page of no cause"))?;
            pages += 1;
        }
    }
    let causes = cause::all().len();
    if pages != causes {
        return Err(format!("{pages} pages for {causes} causes").into());
    }
    Ok(())
}

/// Returns the whole page. The program contains it without the traces.
fn page(cause: &Cause) -> std::io::Result<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cause");
    std::fs::read_to_string(format!("{folder}/{}.md", cause.id))
}

/// Returns the trace blocks of a page, each with the number of its first line.
fn blocks(cause: &Cause) -> Result<Vec<(usize, Block)>, Failed> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in page(cause)?.lines().enumerate() {
        match (&mut open, line.trim_end()) {
            (None, "```trace") => open = Some((index + 1, String::new())),
            (Some(_), "```") => found.extend(open.take()),
            (Some((_, text)), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    if let Some((line, _)) = open {
        return Err(format!("{}.md:{line}: a trace block is not closed", cause.id).into());
    }
    let parsed = found.into_iter().map(|(line, text)| {
        let block = Block::parse(&text).map_err(|error| format!("{}.md:{line}: {error}", cause.id));
        Ok((line, block?))
    });
    parsed.collect()
}

/// Checks that each run of each block has the result that the block states.
fn traces(cause: &Cause) -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for (line, block) in blocks(cause)? {
        for run in block.runs() {
            let place = format!("{}.md:{line}, {run}", cause.id);
            match run.play(&block.script) {
                Ok(observed) => {
                    write_report(&format!("{}-{line}-{run}", cause.id), &observed.report);
                    let faults = block.expectation.check(&run, &observed);
                    wrong.extend(faults.iter().map(|fault| format!("{place}: {fault}")));
                }
                Err(error) => wrong.push(format!("{place}: {error}")),
            }
        }
    }
    match wrong.len() {
        0 => Ok(()),
        runs => Err(format!("{runs} runs came out otherwise:\n{}", wrong.join("\n")).into()),
    }
}

/// Writes a report to the folder `LAGTRACE_PAGES`, if it is set: `scripts/golden` compares them.
fn write_report(name: &str, report: &Report) {
    if let Some(folder) = std::env::var_os("LAGTRACE_PAGES") {
        let path = Path::new(&folder).join(format!("{}.json", name.replace('/', "-")));
        let text = serde_json::to_string_pretty(report).expect("a report is JSON");
        std::fs::write(path, text).expect("the folder can be written to");
    }
}

/// Checks that at least one trace shows the cause, and at least one is a look-alike.
fn both_sides(cause: &Cause) -> Result<(), Failed> {
    let blocks = blocks(cause)?;
    let expectations = || blocks.iter().map(|(_, block)| &block.expectation);
    if !expectations().any(|expectation| expectation.names(cause.id.as_str())) {
        return Err("no trace shows it".into());
    }
    if !expectations().any(|expectation| expectation.excludes(cause.id.as_str())) {
        return Err("no trace is a look-alike that must not be taken for it".into());
    }
    Ok(())
}

fn sections(cause: &Cause) -> Result<(), Failed> {
    let page = page(cause)?;
    if !page.starts_with(&format!("# {}\n", cause.id)) {
        return Err("its title is not its name".into());
    }
    let mut rest = page.as_str();
    for section in SECTIONS {
        let found = rest.find(&format!("\n{section}\n"));
        let at = found.ok_or_else(|| format!("`{section}` is not in its place"))?;
        rest = &rest[at..];
    }
    Ok(())
}

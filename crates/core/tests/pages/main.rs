//! Every cause's page is checked: the traces on it must lead to what they say.
//! Each page has tests of its own: `cargo test -p lagtrace-core --test pages NAME`.
//!
//! A page under `src/cause/` holds fenced blocks that begin with `` ```trace ``.
//! Each is a small capture in a notation after packetdrill's and tcpdump's,
//! with what the analysis must make of it. A block is read line by line; `#`
//! begins a comment.
//!
//! **What must come out.** The findings must be those that `expect:` names, in
//! that order, and no others:
//! ```text
//! expect: ID [culprit=server] [verdict=strong] [place=strong] [cost=51ms±1ms] [affected=7] [configured=FILE:LINE|no]
//! expect: note ID           a note, and no finding of its own
//! expect: nothing           no cause at all
//! may: ID …                 findings that are welcome besides; `unknown`: waits of unknown kind
//! expect-not: ID …          without any `expect:` the only thing that counts
//! ```
//! The cost is the mean of an affected exchange; `configured` is the place of a setting that is
//! evidence. Always checked besides: the
//! waits of each exchange add up to it exactly, none of a whole one is unknown, and
//! the analysis tells where the point stands (of round trips from 1 ms on).
//!
//! **The setting.** Each combination of the listed values is a run of its own:
//! ```text
//! seen-at client, server, middle
//! rtt 0ms, 8ms, 50ms
//! mss 1460                            of both ends
//! timestamps on                       TCP's, in milliseconds; off unless said
//! for pause in 36ms..52ms step 2ms    or a list: in 36ms, 44ms
//! ```
//!
//! **Segments**, one a line, with the time at which the point stamps them:
//! ```text
//! [LABEL:] TIME  C > S  FLAGS [PAYLOAD] [OPTION …]
//! ```
//! - `TIME` is `+SUM`, after the line before, or `@LABEL+SUM`, after the line
//!   with that label; `@start` is the trace's beginning. A sum adds and subtracts terms such as `40ms`, `0.2ms`,
//!   `8us`, a `for`'s variable, `rtt`, `2*rtt`, `rtt/2`, `i*3ms` (`i`: how often
//!   the innermost block was repeated before), `40ms..44ms` (some time
//!   in that stretch, another each time and the same in each run), and `server` or `client`: the travel
//!   from the point to that end and back with a kernel's 5 µs, so the time of
//!   an immediate answer from there, wherever the point stands.
//! - `FLAGS` are tcpdump's: `S`, `S.`, `.`, `P.`, `F.`, `FP.`, `R`, `R.`.
//! - `PAYLOAD` is one of `GET /path [len 77] [host NAME] [close]`, `POST /path len 150
//!   [body 300] [expect]` (the head's length, and the body's, which it
//!   announces; `Expect: 100-continue`), `200 len 238 [body 569] [close]
//!   [location /path]` (a response's status line; without `body`
//!   it lasts until the connection closes; `ocsp` gives it that type, `gzip` that coding, `events`
//!   the type of server-sent events),
//!   `data 569`, `text WORDS`. A `len` of
//!   `238+569` carries as many bytes of the body with the head. `tls WORDS`: the
//!   records that `tls.rs` knows, joined by commas, and `http2 WORDS` the frames
//!   of `http2.rs`; `bytes FROM..TO` takes a part
//!   of what the line would carry.
//! - Sequence numbers, acknowledgements and IP identifications follow from
//!   what was sent and what had arrived by then. `again LABEL` repeats that
//!   segment's bytes, `part N` only the first of them; `copy LABEL` is that packet itself once more;
//!   `sack LABEL` reports that
//!   segment beyond missing data, `dsack LABEL` that it came twice; `late SUM` has it arrive that much later than its time;
//!   `queued SUM`: so much of its time it stood in a queue before the point;
//!   `lost`: it got lost before the point; `lost-behind`: after it; `unseen`:
//!   the capture missed it; `ack LABEL`: acknowledges up to that segment, no
//!   more; `alien`: acknowledges something else; `win N`: the window in bytes;
//!   `ttl N`; `no-id`; `ipv6`: between the same hosts' other addresses; `at-port
//!   N`: of another service of the server; `from-port N`: of the client, which
//!   begins anew there; `unless LABEL`: is not sent if that line's segment
//!   reached its sender first.
//!
//! `handshake [TIME]` stands for the three segments that open a connection;
//! `repeat N { … }` for a block written `N` times; `connections N every SUM
//! { … }` for a block on each of `N` connections that start this far apart;
//! `legs N every SUM { … }` the same from the server's host to another server,
//! whose distance is written out.
//!
//! **What comes before connections**, with the time at which the point sees it:
//! ```text
//! TIME ask ID A|AAAA NAME [port N] [of N | tcp | mdns | llmnr]
//! TIME tell ID A|AAAA NAME [port N] [of N | tcp | mdns | llmnr] ADDRESS … | none | nxdomain | truncated
//! TIME arp ask|tell
//! TIME ping|pong NUMBER
//! TIME icmp unreachable CODE [ping NUMBER]
//! ```
//! Queries go to a resolver at 10.77.0.53, to that at 10.77.0.N, or to the link's multicast addresses; the server is 10.77.0.2 and fd77::2.
//! The client asks for the server's hardware address; the ICMP error speaks of
//! the connection's SYN, or of that ping, as a router says it. The client pings the server.
//!
//! **What else was observed**, which makes the server the run's target:
//! ```text
//! probe tcp-syn|tcp-connect|http-fresh|http-kept-alive ANSWER [x N] [rtt SUM] [loaded] [repeated N]
//! load baseline [paced] [x N] [latency SUM] [body SUM] [status N] [failed KIND N]
//! request [x N] [first-byte SUM] [gap SUM] [end SUM]
//! experiment quickack x N control body SUM treated body SUM
//! socket server [nodelay on|off] [x N] [holding N]
//! setting tcp_nodelay|listen.backlog|… VALUE at FILE:LINE
//! called accept [nodelay|sndbuf|deferred] [x N]
//! called set TCP_NODELAY|TCP_CORK|SO_SNDBUF|SO_RCVBUF VALUE [sent N] [x N]
//! counter NAME N
//! resolved NAME SUM
//! kernel [backlog SUM] [stack SUM] [unread SUM] [wake-up SUM] [run-queue SUM] [program SUM] [slept SUM] [qdisc SUM] [refused SUM] [asked SUM] [throttled N SUM] [stolen SUM]
//! ```
//! `kernel` is a turn that came at that time, by the server's own kernel; what it
//! asked is at 10.77.0.9:5432, `refused` says how long
//! after its first segment was dropped the request had come whole, and its group was throttled in N periods.
//! `called` is a system call of the server on each of its N connections; `sent` bytes went before it.
//! `loaded` probes are sent while the load above them runs, others before it.
//! `ANSWER` is `open`, `refused`, `silence`, `closed`, `not-http`, `status N`
//! or `unreachable TYPE/CODE`; `KIND` is `refused`, `connect-timeout`,
//! `unreachable`, `timeout`, `reset`, `closed` or `not-http`.

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

use block::Block;
use lagtrace_core::cause;
use lagtrace_core::registry::Cause;
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

/// Checks that each page belongs to a cause: a page that no cause names is never read.
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

/// Returns the trace blocks of a page, each with the line it begins at.
fn blocks(cause: &Cause) -> Result<Vec<(usize, Block)>, Failed> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in cause.page.lines().enumerate() {
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

/// Checks that every run of every block comes out as the block says.
fn traces(cause: &Cause) -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for (line, block) in blocks(cause)? {
        for run in block.runs() {
            let place = format!("{}.md:{line}, {run}", cause.id);
            match run.play(&block.script) {
                Ok(observed) => {
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

/// Checks that one trace shows the cause, and one only looks like it.
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
    if !cause.page.starts_with(&format!("# {}\n", cause.id)) {
        return Err("its title is not its name".into());
    }
    let mut rest = cause.page;
    for section in SECTIONS {
        let found = rest.find(&format!("\n{section}\n"));
        let at = found.ok_or_else(|| format!("`{section}` is not in its place"))?;
        rest = &rest[at..];
    }
    Ok(())
}

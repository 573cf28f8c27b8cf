//! The limits of the core's lists, and what drives each past its limit. A new limit needs a row.
//!
//! Lists of at most [`SHORT`] items need none: to look through all of one for each packet costs less
//! than the packet itself, and the test of the whole would show if it did not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};

use crate::drivers::DRIVERS;

/// Length of a list that is short.
const SHORT: u64 = 128;

/// The driver that makes a list longer, or the reason why there is none.
enum Reach {
    /// Traffic, as this driver makes it.
    By(&'static str),
    /// Only what is named here, which no traffic can multiply; or a test elsewhere.
    Not(&'static str),
}

use Reach::{By, Not};

const OWN: Reach = Not("our own load, probes and routes, which the command line limits");
const FILE: Reach = Not("a file's blocks: tests/command/files/expensive of the command");
const MESSAGE: Reach = Not("the bytes of one message: tests/command/files/linear of the command");
const REUSE: Reach = Not("memory that is reused, taken from its end");

/// The limits above [`SHORT`]: the file in `src`, the name, and what reaches it.
const LIMITS: &[(&str, &str, Reach)] = &[
    (
        "analyzer/local.rs",
        "MAX_ADDRESSES",
        Not("a map that is looked up by its key, and never gone through"),
    ),
    (
        "analyzer/peers.rs",
        "MAX",
        Not("a map that is looked up by its key, and never gone through"),
    ),
    (
        "analyzer/services.rs",
        "MAX_SERVICES",
        By("ended-by-server"),
    ),
    ("analyzer/shard.rs", "MAX_FLOWS", By("turns-by-port")),
    ("attribution.rs", "MAX_SPARE", REUSE),
    ("attribution/drops.rs", "MAX_SLOTS", By("needless-repeats")),
    ("attribution/packet_record.rs", "MAX_PACKETS", By("pieces")),
    ("attribution/packet_record.rs", "MAX_SPARE_PACKETS", REUSE),
    (
        "cause/behind/tie.rs",
        "MAX_TRIED",
        Not("the calls within one request, gone through once in the end"),
    ),
    (
        "cause/calls.rs",
        "MAX_CALLS",
        Not("lists that have limits of their own, joined once in the end"),
    ),
    (
        "cause/connection_not_reused.rs",
        "MAX_UNFINISHED",
        By("unanswered-by-port"),
    ),
    (
        "cause/dns_slow_resolver.rs",
        "MAX_LOOKUPS",
        By("query-answers"),
    ),
    (
        "cause/path_member_fault.rs",
        "MAX_CONNECTIONS",
        By("ended-by-port"),
    ),
    ("cause/policer.rs", "MAX_SLOTS", By("days")),
    (
        "cause/port_exhaustion.rs",
        "MAX_CLIENTS",
        By("ended-by-client"),
    ),
    (
        "cause/port_exhaustion.rs",
        "MAX_CONNECTIONS",
        By("ended-by-port"),
    ),
    (
        "cause/stale_keep_alive.rs",
        "MAX_INSTANTS",
        By("idle-by-client"),
    ),
    ("cause/starved.rs", "MOST", By("times")),
    ("cause/starved.rs", "MOST_STRETCHES", By("days")),
    ("cause/trips.rs", "MAX_SAMPLES", By("times")),
    ("conclude/bootstrap.rs", "MOST_ENTRIES", OWN),
    ("conclude/bootstrap.rs", "MOST_SECONDS", OWN),
    ("connection/pairing.rs", "MAX_OPEN", By("opened")),
    (
        "connection/pairing/http2/flow_control.rs",
        "MAX_CREDITS",
        By("updates"),
    ),
    (
        "connection/pairing/http2/flow_control.rs",
        "MAX_HELD",
        By("updates"),
    ),
    (
        "connection/pairing/http2/messages.rs",
        "MAX_RESTS",
        Not("rests of one stream, only appended"),
    ),
    ("connection/stream.rs", "MAX_PENDING", By("islands")),
    ("connection/stream.rs", "MAX_STRETCHES", By("islands")),
    (
        "connection/table.rs",
        "MAX_CONNECTIONS",
        By("silent-by-port"),
    ),
    ("connection/table/copies.rs", "MOST", By("repeats")),
    ("decode/fragment.rs", "MAX_PIECES", By("fragments-of-one")),
    ("decode/pcapng.rs", "MAX_INTERFACES", FILE),
    ("decode/pcapng/aside.rs", "MAX_BYTES", FILE),
    (
        "decode/pieces.rs",
        "MAX_FLOWS",
        Not("a hash table of flows, in files that continue each other"),
    ),
    ("facts.rs", "MAX_ENTRIES", OWN),
    ("facts/host.rs", "MAX_HOSTS", By("ended-by-server")),
    ("facts/icmp_errors.rs", "MAX_ALIVE", By("pinged")),
    ("facts/icmp_errors.rs", "MAX_OPEN", By("pings")),
    ("facts/icmp_errors.rs", "MAX_PAIRS", By("errors-by-flow")),
    ("facts/icmp_errors.rs", "MAX_WORDS", By("errors-by-router")),
    ("facts/kernel_spans.rs", "MAX_ACTS", By("passages")),
    ("facts/kernel_spans.rs", "MAX_SERVICES", By("turns-by-port")),
    ("facts/load.rs", "MAX_CLUSTERS", OWN),
    ("facts/load.rs", "MAX_PHASES", OWN),
    ("facts/load.rs", "MAX_SAMPLES", OWN),
    ("facts/load.rs", "MAX_SILENCES", OWN),
    ("facts/load.rs", "MAX_URLS", OWN),
    ("facts/socket_samples.rs", "MAX_SOCKETS", OWN),
    (
        "facts/sockets.rs",
        "MAX_SOCKETS",
        Not("sockets of this host, of which each survey has a new list"),
    ),
    ("facts/sweep.rs", "MAX_STEPS", OWN),
    (
        "facts/syscalls.rs",
        "MAX_SOCKETS",
        Not("calls of programs on this host"),
    ),
    (
        "facts/syscalls/log.rs",
        "MAX_CALLS",
        Not("calls of programs on this host"),
    ),
    ("preconnect/chain.rs", "MAX_QUESTIONS", By("link-questions")),
    (
        "preconnect/elsewhere.rs",
        "MAX_ATTEMPTS",
        By("refused-by-port"),
    ),
    ("preconnect/lookup.rs", "MAX_LOOKUPS", By("query-clients")),
    (
        "preconnect/lookup.rs",
        "MAX_RESOLVERS",
        By("query-resolvers"),
    ),
    (
        "preconnect/lookup/times.rs",
        "MAX_DONE",
        By("query-answers"),
    ),
    (
        "preconnect/lookup/times.rs",
        "MAX_OPEN",
        By("query-resolvers"),
    ),
    (
        "preconnect/lookup/resolver.rs",
        "MAX_RESOLVERS",
        By("query-resolvers"),
    ),
    (
        "preconnect/lookup/resolver.rs",
        "MAX_WAITED",
        By("query-names"),
    ),
    ("preconnect/neighbour.rs", "MAX_SEARCHES", By("neighbours")),
    ("protocol/dns.rs", "MAX_NAME", MESSAGE),
    ("protocol/http.rs", "MAX_TARGET", MESSAGE),
    ("protocol/http/messages.rs", "MAX_CHUNK_LINE", MESSAGE),
    ("protocol/http/messages.rs", "MAX_HEAD", MESSAGE),
    ("protocol/http/repeated.rs", "MAX_LENGTH", MESSAGE),
    ("protocol/http2/hpack.rs", "MAX_PATH", MESSAGE),
    ("protocol/quic.rs", "MAX_FLOWS", By("quic")),
    ("report/picture/passed_on.rs", "MAX", By("passed-on")),
    ("route/tally.rs", "MAX_FLOWS", OWN),
    ("route/tally.rs", "MAX_NAMES", OWN),
    (
        "service/kernel_join/passages.rs",
        "MAX_PASSAGES",
        By("passages"),
    ),
    ("service/kernel_join/waiting.rs", "MAX_TURNS", By("turns")),
    ("service/kernel_join/waiting.rs", "MAX_WATCHED", By("turns")),
    ("service/left.rs", "MOST", By("unanswered-by-port")),
    ("service/stretches.rs", "MAX_STRETCHES", By("days")),
    ("service/tally.rs", "MAX_INTERVALS", By("days")),
    (
        "service/tcp_handshakes.rs",
        "MAX_TRIES",
        By("unaccepted-by-client"),
    ),
    ("service.rs", "MAX_LATE", By("unanswered-by-port")),
    ("service/timeline.rs", "MAX_MOMENTS", By("times")),
    ("service/timeline/late.rs", "MAX_LATE", By("times")),
    ("service/timeline/late.rs", "MAX_STRETCHES", By("days")),
    ("stats/histogram.rs", "MOST_PAIRS", OWN),
    ("views/connections.rs", "MAX_FLOWS", By("ended-by-port")),
    ("views/picture/connection.rs", "MAX_POINTS", By("days")),
    ("views/picture/grid.rs", "MAX_CELLS", By("targets")),
    ("views/picture/grid.rs", "MAX_RECENT", By("times")),
    ("views/picture/points.rs", "MAX_POINTS", By("targets")),
    (
        "views/picture/selected.rs",
        "MOST",
        Not("examples of a report"),
    ),
    (
        "views/picture/services.rs",
        "MAX_SERVERS",
        By("ended-by-server"),
    ),
    ("views/picture/store.rs", "MOST_BYTES", By("pieces")),
    ("views/stream_numbers.rs", "MAX_FLOWS", By("numbers")),
    (
        "views/stream_view/bytes.rs",
        "MAX_BYTES",
        By("viewed-turns"),
    ),
    (
        "views/stream_view/bytes.rs",
        "MAX_WAITING",
        By("viewed-islands"),
    ),
    (
        "views/stream_view/samples.rs",
        "MAX_SAMPLES",
        By("viewed-pieces"),
    ),
    ("views/tracker.rs", "MAX_OUTSTANDING", By("viewed-repeats")),
    ("views/two_point.rs", "MAX_SIGHTINGS", By("joined-pieces")),
    (
        "views/two_point/place.rs",
        "MAX_STEPS",
        Not("steps of one exchange; each leaves crossings behind"),
    ),
];

/// Returns the trial that compares the table with the sources.
pub(crate) fn trial() -> Trial {
    Trial::test(
        "every limit has a row, and no row is without a limit",
        compare,
    )
}

fn compare() -> Result<(), Failed> {
    let known: BTreeSet<(String, String)> = LIMITS
        .iter()
        .map(|(file, name, _)| ((*file).to_owned(), (*name).to_owned()))
        .collect();
    let all = limits();
    let drivers: BTreeSet<&str> = DRIVERS.iter().map(|driver| driver.name).collect();
    let mut faults: Vec<String> = Vec::new();
    for (file, name) in all.difference(&known) {
        faults.push(format!("{file}: {name} has no row in {}", file!()));
    }
    for (file, name) in known.difference(&all) {
        faults.push(format!("{file} has no {name} above {SHORT}"));
    }
    for (file, name, reach) in LIMITS {
        match reach {
            By(driver) if !drivers.contains(driver) => {
                faults.push(format!("{file}: {name} names {driver}, which is no driver"));
            }
            By(_) => {}
            Not(why) => assert!(!why.is_empty()),
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("\n").into())
    }
}

/// Returns the limits above [`SHORT`] in the sources of the core: file and name.
fn limits() -> BTreeSet<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut limits = BTreeSet::new();
    for path in files(&root) {
        let text = fs::read_to_string(&path).expect("a source file");
        let code = text.split("#[cfg(test)]\nmod tests {").next();
        let file = path.strip_prefix(&root).expect("it is within").display();
        for line in code.unwrap_or_default().lines() {
            limits.extend(limit(line).map(|name| (file.to_string(), name.to_owned())));
        }
    }
    limits
}

/// Returns the name in a line that defines a limit above [`SHORT`].
fn limit(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("const ")?;
    let (name, value) = rest.split_once(": usize = ")?;
    let is_meant =
        name == "MAX" || name == "MOST" || name.starts_with("MAX_") || name.starts_with("MOST_");
    let is_short = value
        .trim_end_matches(';')
        .replace('_', "")
        .parse()
        .is_ok_and(|value: u64| value <= SHORT);
    (is_meant && !is_short).then_some(name)
}

/// Returns all Rust files below a folder, without tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the source");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let all = paths.flat_map(|path| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    let is_product = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs")
    };
    all.filter(is_product).collect()
}

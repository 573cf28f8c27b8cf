//! The drivers: each turns a key into traffic that makes some lists longer.

mod connections;
mod frames;
mod kernel;
mod messages;
mod others;
mod streams;
mod views;

use crate::subject::Subject;

const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: example\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// The head of a response that does not end.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 900000000\r\n\r\n";

/// A kind of traffic.
pub(crate) struct Driver {
    pub(crate) name: &'static str,
    /// The number of keys at which the longest of its lists is full.
    pub(crate) keys: u32,
    /// Prepares a subject that is going to be fed this many keys.
    pub(crate) begin: fn(u32) -> Box<dyn Subject>,
}

const fn driver(name: &'static str, keys: u32, begin: fn(u32) -> Box<dyn Subject>) -> Driver {
    Driver { name, keys, begin }
}

/// All drivers.
pub(crate) const DRIVERS: &[Driver] = &[
    driver("islands", 1_024, streams::islands),
    driver("pieces", 1_024, streams::pieces),
    driver("acknowledged-pieces", 2_048, streams::acknowledged_pieces),
    driver("reported-pieces", 2_048, streams::reported_pieces),
    driver("slow-pieces", 1_024, streams::slow_pieces),
    driver("request-pieces", 2_048, streams::request_pieces),
    driver("both-ways", 2_048, streams::both_ways),
    driver("one-way", 1_024, streams::one_way),
    driver("records", 2_048, streams::records),
    driver("acknowledgements", 2_048, streams::acknowledgements),
    driver("windows", 2_048, streams::windows),
    driver("repeats", 2_048, streams::repeats),
    driver("needless-repeats", 1_024, streams::needless_repeats),
    driver("reports", 2_048, streams::reports),
    driver("revealed", 2_048, streams::revealed),
    driver("missed", 2_048, streams::missed),
    driver("fins", 2_048, streams::fins),
    driver("syns", 2_048, streams::syns),
    driver("syn-repeats", 2_048, streams::syn_repeats),
    driver("resets", 2_048, streams::resets),
    driver("times", 2_048, streams::times),
    driver("days", 1_024, streams::days),
    driver("clocks", 2_048, streams::clocks),
    driver("identifications", 2_048, streams::identifications),
    driver("points", 512, streams::points),
    driver("ended-by-port", 2_048, connections::ended_by_port),
    driver("ended-by-client", 2_048, connections::ended_by_client),
    driver("ended-by-server", 2_048, connections::ended_by_server),
    driver("ended-by-service", 2_048, connections::ended_by_service),
    driver("idle-by-client", 2_048, connections::idle_by_client),
    driver("unanswered-by-port", 2_048, connections::unanswered_by_port),
    driver(
        "unanswered-by-server",
        2_048,
        connections::unanswered_by_server,
    ),
    driver("silent-by-port", 2_048, connections::silent_by_port),
    driver(
        "unaccepted-by-client",
        2_048,
        connections::unaccepted_by_client,
    ),
    driver(
        "unaccepted-by-server",
        2_048,
        connections::unaccepted_by_server,
    ),
    driver("refused-by-port", 2_048, connections::refused_by_port),
    driver("refused-by-client", 2_048, connections::refused_by_client),
    driver("passed-on", 2_048, connections::passed_on),
    driver("requests", 1_024, messages::requests),
    driver("commands", 1_024, messages::commands),
    driver("responses", 1_024, messages::responses),
    driver("long-responses", 1_024, messages::long_responses),
    driver("targets", 2_048, messages::targets),
    driver("opened", 1_024, frames::opened),
    driver("answered", 1_024, frames::answered),
    driver("data", 500, frames::data),
    driver("empty-data", 500, frames::empty_data),
    driver("together", 1_024, frames::together),
    driver("updates", 500, frames::updates),
    driver("settings", 500, frames::settings),
    driver("repeated-settings", 500, frames::repeated_settings),
    driver("stream-resets", 1_024, frames::resets),
    driver("goodbyes", 500, frames::goodbyes),
    driver("opened-and-reset", 1_024, frames::opened_and_reset),
    driver("fragments-of-one", 2_048, others::fragments_of_one),
    driver("fragments-of-many", 2_048, others::fragments_of_many),
    driver("query-ids", 2_048, others::query_ids),
    driver("query-names", 2_048, others::query_names),
    driver("query-clients", 2_048, others::query_clients),
    driver("query-resolvers", 2_048, others::query_resolvers),
    driver("link-questions", 1_024, others::link_questions),
    driver("query-answers", 2_048, others::query_answers),
    driver("neighbours", 2_048, others::neighbours),
    driver("searches", 2_048, others::searches),
    driver("errors-by-flow", 2_048, others::errors_by_flow),
    driver("errors-by-router", 2_048, others::errors_by_router),
    driver("pings", 2_048, others::pings),
    driver("pinged", 2_048, others::pinged),
    driver("quic", 2_048, others::quic),
    driver("turns", 8_192, kernel::turns),
    driver("turns-by-port", 2_048, kernel::turns_by_port),
    driver("passages", 8_192, kernel::passages),
    driver("passages-by-port", 8_192, kernel::passages_by_port),
    driver("upstreams", 2_048, kernel::upstreams),
    driver("viewed-pieces", 2_048, views::viewed_pieces),
    driver("viewed-islands", 2_048, views::viewed_islands),
    driver("viewed-turns", 2_048, views::viewed_turns),
    driver("viewed-repeats", 2_048, views::viewed_repeats),
    driver("numbers", 2_048, views::numbers),
    driver("joined-pieces", 2_048, views::joined_pieces),
    driver("joined-copies", 2_048, views::joined_copies),
    driver("joined-overlaps", 2_048, views::joined_overlaps),
];

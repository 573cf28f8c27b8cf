//! The results of watching the server's kernel, for the report.

use std::collections::BTreeMap;

use super::kernel_join;
use crate::cause::service::Service;
use crate::facts::{Facts, ServiceTurns, Turns};
use crate::observed::flow::Endpoint;
use crate::observed::kernel_span::{RequestSpan, WatchTally};
use crate::observed::time::nanos;
use crate::report::{
    AskedService, CountOf, Dropped, Figures, Remark, Stage, Throttled, Watch, WatchedService,
    counted,
};

/// Returns the watched services; `None` if nothing was watched.
pub(super) fn watch(turns: &Turns, services: &BTreeMap<Endpoint, Service>) -> Option<Watch> {
    let tally = turns.tally.as_ref()?;
    Some(Watch {
        latency_ns: latency(turns, tally),
        connections: tally.connections,
        sampled_share: tally.sampled_share,
        lost_records: tally.lost_records,
        lost_connections: tally.lost_connections,
        cost_ns: tally
            .cost
            .map(|cost| u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX)),
        throttling: tally.throttling.map(|throttling| Throttled {
            periods: throttling.periods,
            time_ns: u64::try_from(throttling.time.as_nanos()).unwrap_or(u64::MAX),
        }),
        stolen_ns: tally
            .stolen
            .map(|stolen| u64::try_from(stolen.as_nanos()).unwrap_or(u64::MAX)),
        drops: tally
            .drops
            .iter()
            .map(|(reason, packets)| Dropped {
                reason: reason.clone(),
                packets: *packets,
            })
            .collect(),
        services: turns
            .services
            .iter()
            .map(|(&at, turns)| service(at, turns, services.get(&at)))
            .collect(),
    })
}

/// Returns the latency of all watched requests: those that the kernel timed, and those of
/// connections on which requests overtake each other, which packets show. If neither is known, it is
/// that of the requests recorded in detail.
fn latency(turns: &Turns, tally: &WatchTally) -> Figures {
    let mut all = tally.latency.clone();
    all.merge(&turns.streams);
    if all.is_empty() {
        let each = turns.services.values();
        each.for_each(|service| all.merge(&service.latency));
    }
    Figures::from(&all)
}

fn service(at: Endpoint, turns: &ServiceTurns, whole: Option<&Service>) -> WatchedService {
    let stages = RequestSpan::STAGES.iter().zip(&turns.stages);
    WatchedService {
        service: at.to_string(),
        programs: turns
            .programs
            .iter()
            .map(|(name, pid)| format!("{name}[{pid}]"))
            .collect(),
        turns: turns.turns,
        latency_ns: Figures::from(&turns.latency),
        stages: stages
            .map(|(name, took)| Stage {
                name: (*name).to_owned(),
                time_ns: Figures::from(took),
            })
            .collect(),
        threaded: turns.threaded,
        asked: turns
            .asked
            .iter()
            .map(|(whom, calls)| AskedService {
                service: whom.map(|whom| whom.to_string()),
                time_ns: Figures::from(&calls.time),
                calls: calls.calls,
                connections: calls.connections,
                way_ns: nanos(calls.way) / (calls.calls + calls.connections).max(1),
                silent_ns: nanos(calls.silent),
            })
            .collect(),
        released_by_arrival: CountOf {
            count: turns.after_arrival,
            of: turns.holds,
        },
        joined: whole.and_then(|whole| kernel_join::joined(&whole.served)),
    }
}

/// Returns true if a watch saw each segment of the handshakes. Otherwise it knows of connections only
/// when they are made.
pub(super) fn sees_handshakes(facts: &Facts) -> bool {
    let tally = facts.turns.tally.as_ref();
    tally.is_some_and(|tally| tally.sees_handshakes)
}

/// Returns the remark on attempts to connect that a watch knows only by count, because it did not
/// see the handshakes.
fn overflows(facts: &Facts) -> Option<Remark> {
    let overflows = facts.listen_overflows();
    (overflows > 0 && !sees_handshakes(facts)).then(|| Remark {
        id: "watch-overflows".to_owned(),
        text: format!(
            "This host found an accept queue full {}: the kernel then ignores a SYN, and the client \
             waits for a second or more until it repeats it. This watch did not see which \
             connections did: their time begins when they are made. A watch of the port alone (-p) \
             shows it, unless the rate is high; so does a capture.",
            counted(overflows, "time", "times"),
        ),
    })
}

/// Returns the remarks on observations that were lost or left out.
pub(super) fn remarks(facts: &Facts) -> Vec<Remark> {
    let turns = &facts.turns;
    let Some(tally) = &turns.tally else {
        return Vec::new();
    };
    let mut list: Vec<Remark> = overflows(facts).into_iter().collect();
    let mut say = |id: &str, text: String| {
        list.push(Remark {
            id: id.to_owned(),
            text,
        })
    };
    if tally.lost_records > 0 {
        say(
            "watch-lost",
            format!(
                "The kernel reported more than lagtrace could process: {} missing. The affected \
                 exchanges are left out or cut.",
                counted(tally.lost_records, "observation is", "observations are"),
            ),
        );
    }
    if tally.lost_connections > 0 {
        let text = format!(
            "{} not followed: there were too many at the same time.",
            counted(tally.lost_connections, "connection was", "connections were"),
        );
        say("watch-connections-lost", text);
    }
    if tally.sampled_share > 0.0 && tally.sampled_share < 1.0 {
        let counted = if tally.latency.is_empty() {
            ""
        } else {
            "; the latency figures include all of them"
        };
        let text = format!(
            "Because of the high rate, only {:.1} % of the requests were examined in \
             detail{counted}.",
            tally.sampled_share * 100.0
        );
        say("watch-sampled", text);
    }
    if let Some(share) = tally.stream_share.filter(|share| *share < 1.0) {
        let text = format!(
            "Because of the high rate, only {:.1} % of the HTTP/2 traffic was examined; the \
             figures contain only the requests in it.",
            share * 100.0
        );
        say("watch-streams-sampled", text);
    }
    if tally.unread_tls_handshakes > 0 {
        let text = format!(
            "Without payload, packets do not tell the flights of TLS handshakes from requests. \
             {} among the requests that were examined in detail, so their number is too high and \
             most of them are quicker than a request; what the kernel counted contains none.",
            counted(
                tally.unread_tls_handshakes,
                "handshake is",
                "handshakes are"
            ),
        );
        say("watch-tls-unread", text);
    }
    if turns.has_passages && !turns.has_streams {
        let text = "Connections with HTTP/2 were watched, but their requests could not be read in \
                    what the kernel passed on, and are not counted. That takes payload from the \
                    beginning of a request on, and a kernel 6.12 or later.";
        say("watch-streams-unread", text.to_owned());
    }
    list
}

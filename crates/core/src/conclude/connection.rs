//! The record of a TCP connection in the report.

use crate::attribution::rtt::RoundTrip;
use crate::connection;
use crate::connection::facts::end::{EcnMarks, End, Rare};
use crate::connection::facts::spell::Spell;
use crate::connection::facts::{ConnectionFacts, system};
use crate::connection::{Parting, Watched};
use crate::observed::flow::Direction;
use crate::observed::time::Timestamp;
use crate::observed::time::nanos;
use crate::report::{
    Acknowledgements, CongestionMarks, ConnectionEnd, ConnectionRecord, ConnectionSide, Delays,
    Handshake, InitialWindow, Lost, Retransmissions, RoundTripFigures, Spells, SystemFacts,
    Vantage, WindowFigures,
};

/// Returns the record of a connection that has ended or is no longer tracked.
pub(crate) fn connection_record(watched: &Watched) -> ConnectionRecord {
    let facts = &watched.facts;
    let client = watched.client.unwrap_or(Direction::Forward);
    let (asker, answerer) = (facts.end(client), facts.end(client.reverse()));
    let has_both = asker.sent.segments > 0 && answerer.sent.segments > 0;
    ConnectionRecord {
        protocol: "tcp".to_owned(),
        point: watched.point.0,
        capture: String::new(),
        stream: facts.stream.map(u64::from),
        client: watched.end(client).to_string(),
        server: watched.end(client.reverse()).to_string(),
        begin_seen: asker.syn.is_some() || answerer.syn.is_some(),
        start_ns: facts.first.as_nanos(),
        duration_ns: nanos(watched.last_seen.since(facts.first)),
        first_packet: facts.first_packet,
        last_packet: facts.last_packet,
        vantage: vantage(watched, asker, answerer),
        handshake: handshake(facts),
        end: end(watched, client),
        exchanges: has_both.then_some(u64::from(facts.exchanges)),
        lost: (facts.exchanges > 0).then(|| lost(facts)),
        timestamps: asker
            .carries_timestamps()
            .zip(answerer.carries_timestamps())
            .map(|(a, b)| a && b),
        sack: sack(asker, answerer),
        window_scaling: both_offer(asker, answerer, |end| {
            end.syn.map(|syn| syn.window_scale.is_some())
        }),
        client_side: side(watched, client),
        server_side: side(watched, client.reverse()),
        quic: None,
    }
}

/// Returns true if both ends offer an option, so that it is in use; false if one of them does not;
/// `None` if an offer is not known.
fn both_offer(one: &End, other: &End, offers: impl Fn(&End) -> Option<bool>) -> Option<bool> {
    match (offers(one), offers(other)) {
        (Some(true), Some(true)) => Some(true),
        (Some(false), _) | (_, Some(false)) => Some(false),
        _ => None,
    }
}

fn sack(one: &End, other: &End) -> Option<bool> {
    let is_used = |end: &End| end.rare().is_some_and(|rare| rare.sacks > 0);
    if is_used(one) || is_used(other) {
        Some(true)
    } else {
        both_offer(one, other, |end| end.syn.map(|syn| syn.sack_permitted))
    }
}

/// Returns the position of the capture point. The round trips to both ends show it. If they are not
/// known, it is at the end whose packets have passed no router (by their TTL).
fn vantage(watched: &Watched, client: &End, server: &End) -> Vantage {
    let by = |place: &str, what: &str| Vantage {
        place: Some(place.to_owned()),
        known_by: Some(what.to_owned()),
    };
    match watched.vantage {
        connection::Vantage::Client => by("client", "round-trips"),
        connection::Vantage::Server => by("server", "round-trips"),
        connection::Vantage::Between => by("between", "round-trips"),
        connection::Vantage::Unknown => match (is_next_door(client), is_next_door(server)) {
            (Some(true), Some(false)) => by("client", "ttl"),
            (Some(false), Some(true)) => by("server", "ttl"),
            (Some(false), Some(false)) => by("between", "ttl"),
            _ => Vantage::default(),
        },
    }
}

fn is_next_door(end: &End) -> Option<bool> {
    system::system(end).hops.map(|hops| hops == 0)
}

fn handshake(facts: &ConnectionFacts) -> Option<Handshake> {
    let opening = &facts.opening;
    opening.was_seen().then(|| Handshake {
        took_ns: opening.whole().map(nanos),
        to_server_ns: opening.to_server().map(nanos),
        to_client_ns: opening.to_client().map(nanos),
        syn_retransmissions: opening.repeated().map(u64::from),
    })
}

fn end(watched: &Watched, client: Direction) -> ConnectionEnd {
    let facts = &watched.facts;
    let (how, by) = match (facts.reset_by, facts.fin_by, watched.parting) {
        (Some(by), _, _) => ("reset", Some(by)),
        (_, Some(by), _) => ("fin", Some(by)),
        (.., Parting::Idle) => ("idle", None),
        (.., Parting::Crowded) => ("given-up", None),
        (.., Parting::Succeeded) => ("reopened", None),
        (.., Parting::CaptureEnded) => ("open", None),
    };
    let name = |direction| {
        if direction == client {
            "client"
        } else {
            "server"
        }
    };
    ConnectionEnd {
        how: how.to_owned(),
        by: by.map(|direction| name(direction).to_owned()),
    }
}

fn lost(facts: &ConnectionFacts) -> Lost {
    let lost = &facts.lost;
    Lost {
        total_ns: lost.total(),
        client_ns: lost.client_ns,
        server_ns: lost.server_ns,
        path_ns: lost.path_ns,
        unknown_ns: lost.unknown_ns,
    }
}

fn side(watched: &Watched, direction: Direction) -> ConnectionSide {
    let facts = &watched.facts;
    let (own, peer) = (facts.end(direction), facts.end(direction.reverse()));
    let has_both = own.sent.segments > 0 && peer.sent.segments > 0;
    let last = watched.last_seen;
    let in_flight = own.most_in_flight.filter(|_| has_both).map(u64::from);
    ConnectionSide {
        packets: u64::from(own.sent.segments),
        bytes: own.sent.bytes,
        data_packets: u64::from(own.sent.data_segments),
        unseen_bytes: (peer.sent.segments > 0).then(|| watched.unseen(direction)),
        mss: own.syn.and_then(|syn| syn.mss),
        window_scale: own.syn.and_then(|syn| syn.window_scale),
        in_flight_max: in_flight,
        // Data in the opposite direction is addressed to this end.
        round_trip: round_trip(own, watched.trip(direction.reverse())),
        window: own.window.map(|(min, max)| WindowFigures {
            min: u64::from(min),
            max: u64::from(max),
        }),
        zero_window: own
            .has_timestamps
            .map(|_| spells(own, last, |rare| &rare.zero_window)),
        full_window: peer
            .window
            .filter(|_| own.sent.segments > 0)
            .map(|_| spells(own, last, |rare| &rare.full_window)),
        retransmissions: (own.sent.segments > 0).then(|| retransmissions(own, facts)),
        acknowledgements: (own.sent.segments > 0).then(|| acknowledgements(own)),
        congestion: EcnMarks::are_meant([own.ecn_marks, peer.ecn_marks]).then(|| CongestionMarks {
            marked: u64::from(own.ecn_marks.marked),
            echoed: u64::from(own.ecn_marks.echoed),
        }),
        initial_window: initial_window(own, peer),
        system: system_facts(own),
    }
}

fn spells(end: &End, last: Timestamp, which: impl Fn(&Rare) -> &Spell) -> Spells {
    let Some(rare) = end.rare() else {
        return Spells::default();
    };
    let spell = which(rare);
    Spells {
        count: u64::from(spell.times),
        total_ns: nanos(spell.total(last)),
    }
}

fn round_trip(end: &End, trip: RoundTrip) -> Option<RoundTripFigures> {
    let min_ns = nanos(trip.floor()?);
    let samples = end.replies.count();
    let method = match samples {
        0 => "handshake",
        _ => "sequence-numbers",
    };
    Some(RoundTripFigures {
        method: method.to_owned(),
        samples: u64::from(samples.max(1)),
        min_ns,
        median_ns: end.replies.median_ns().map(|ns| ns.max(min_ns)),
        p95_ns: end.replies.quantile_ns(0.95).map(|ns| ns.max(min_ns)),
    })
}

fn retransmissions(end: &End, facts: &ConnectionFacts) -> Retransmissions {
    let rare = end.rare();
    let count = |which: fn(&Rare) -> u32| rare.map_or(0, |rare| u64::from(which(rare)));
    // Packets show how a loss was detected only within exchanges.
    let told = |which: fn(&Rare) -> u32| (facts.exchanges > 0).then(|| count(which));
    Retransmissions {
        repeated: u64::from(end.sent.repeats),
        repeated_bytes: end.sent.repeated_bytes,
        lost_before: u64::from(end.sent.fills.resent),
        overtaken: u64::from(end.sent.fills.overtaken),
        overtaken_by_bytes: rare.map(|rare| rare.reordering).filter(|&bytes| bytes > 0),
        filled: u64::from(end.sent.fills.untold),
        copies: count(|rare| rare.copies),
        spurious: count(|rare| rare.spurious),
        fast: told(|rare| rare.fast),
        timeout: told(|rare| rare.timeouts),
        tail_loss_probe: told(|rare| rare.tail_loss_probes),
        lost_again: told(|rare| rare.lost_again),
        least_timeout_ns: rare.and_then(|rare| rare.least_timeout).map(nanos),
        probes: u64::from(end.sent.probes),
    }
}

fn acknowledgements(end: &End) -> Acknowledgements {
    let rare = end.rare();
    let count = |which: fn(&Rare) -> u32| rare.map_or(0, |rare| u64::from(which(rare)));
    let delayed = (end.replies.count() > 0).then(|| Delays {
        count: count(|rare| rare.delayed_acks.count()),
        median_ns: rare.and_then(|rare| rare.delayed_acks.median_ns()),
    });
    Acknowledgements {
        bare: u64::from(end.sent.bare_acks),
        duplicate: count(|rare| rare.duplicate_acks),
        sacks: count(|rare| rare.sacks),
        d_sacks: count(|rare| rare.d_sacks),
        delayed,
    }
}

fn initial_window(own: &End, peer: &End) -> Option<InitialWindow> {
    let (bytes, is_least) = own.initial_window()?;
    let offered = |end: &End| end.syn.and_then(|syn| syn.mss).map(u64::from);
    let mss = offered(own).into_iter().chain(offered(peer)).min()?;
    let stamps = match own.carries_timestamps() {
        Some(true) => crate::observed::tcp::TCPOLEN_TSTAMP_ALIGNED,
        _ => 0,
    };
    let full = mss.saturating_sub(u64::from(stamps)).max(1);
    Some(InitialWindow {
        bytes: u64::from(bytes),
        segments: u64::from(bytes).div_ceil(full),
        is_least,
    })
}

fn system_facts(end: &End) -> SystemFacts {
    let system = system::system(end);
    SystemFacts {
        looks_like: system.name.map(str::to_owned),
        because: system.because,
        initial_ttl: system.initial_ttl,
        hops: system.hops,
        timestamp_tick_ns: system.tick_ns,
        option_order: system.option_order,
    }
}

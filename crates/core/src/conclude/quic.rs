//! The record of a QUIC flow in the report. Encrypted fields stay unknown.

use core::time::Duration;

use crate::connection;
use crate::observed::side::PerSide;
use crate::observed::time::nanos;
use crate::protocol::quic::{QuicFlow, Sent};
use crate::report::{
    ConnectionEnd, ConnectionRecord, ConnectionSide, Handshake, QuicFacts, RoundTripFigures,
    Vantage,
};
use crate::stats::sample::Sample;

/// Returns the record of a QUIC flow.
pub(crate) fn quic_record(flow: &QuicFlow) -> ConnectionRecord {
    let PerSide { client, server } = flow.sent;
    let [to_client, to_server] = flow.spin_trips();
    let spins = flow.spins();
    ConnectionRecord {
        protocol: "quic".to_owned(),
        point: flow.point.0,
        stream: flow.stream.map(u64::from),
        client: flow.client.to_string(),
        server: flow.server.to_string(),
        begin_seen: true,
        start_ns: flow.first.as_nanos(),
        duration_ns: nanos(flow.last.since(flow.first)),
        first_packet: flow.packets.first,
        last_packet: flow.packets.last,
        vantage: vantage(flow),
        handshake: Some(Handshake {
            took_ns: flow.handshake().map(nanos),
            to_server_ns: flow.to_server().map(nanos),
            to_client_ns: flow.to_client().map(nanos),
            syn_retransmissions: Some(u64::from(flow.repeated_initials())),
        }),
        // CONNECTION_CLOSE is encrypted, so the capture does not show how the connection ended.
        end: ConnectionEnd {
            how: "unknown".to_owned(),
            by: None,
        },
        client_side: side(client, trips(flow.to_client(), to_client, spins)),
        server_side: side(server, trips(flow.to_server(), to_server, spins)),
        quic: Some(QuicFacts {
            version: format!("{:#010x}", flow.version),
            retries: u64::from(flow.retries),
            version_negotiations: u64::from(flow.negotiations),
            zero_rtt: flow.has_zero_rtt,
            spins,
        }),
        ..ConnectionRecord::default()
    }
}

fn vantage(flow: &QuicFlow) -> Vantage {
    let Some((server, client)) = flow.to_server().zip(flow.to_client()) else {
        return Vantage::default();
    };
    let place = match connection::Vantage::of_trips(client, server) {
        connection::Vantage::Client => "client",
        connection::Vantage::Server => "server",
        connection::Vantage::Between | connection::Vantage::Unknown => "between",
    };
    Vantage {
        place: Some(place.to_owned()),
        known_by: Some("round-trips".to_owned()),
    }
}

fn side(seen: Sent, round_trip: Option<RoundTripFigures>) -> ConnectionSide {
    ConnectionSide {
        packets: seen.datagrams,
        bytes: seen.bytes,
        data_packets: seen.datagrams,
        round_trip,
        ..ConnectionSide::default()
    }
}

/// Returns the round-trip times from the spin bit or, if the spin bit cannot be used, the
/// handshake's round-trip time.
fn trips(handshake: Option<Duration>, spin: &Sample, spins: bool) -> Option<RoundTripFigures> {
    let least = handshake.map(nanos);
    if !spins || spin.count() == 0 {
        return least.map(|min_ns| RoundTripFigures {
            method: "handshake".to_owned(),
            samples: 1,
            min_ns,
            median_ns: None,
            p95_ns: None,
        });
    }
    let min_ns = least.into_iter().chain(spin.quantile_ns(0.0)).min()?;
    Some(RoundTripFigures {
        method: "spin-bit".to_owned(),
        samples: u64::from(spin.count()),
        min_ns,
        median_ns: spin.median_ns(),
        p95_ns: spin.quantile_ns(0.95),
    })
}

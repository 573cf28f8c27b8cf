//! Fields of an exchange that can be used in conditions.

use std::net::{IpAddr, SocketAddr};

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::report::ExchangeRecord;

use super::{Operator, Value};

/// A field of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The whole duration.
    Latency,
    /// The duration minus propagation and transmission.
    Cost,
    /// The time that establishing the connection took.
    Setup,
    /// The time spent in waits of one kind.
    Wait(WaitKind),
    /// The time attributed to an owner.
    Time(Owner),
    /// The HTTP status.
    Status,
    /// The bytes of the response.
    Bytes,
    /// The packets of the exchange, from the first to the last.
    Packet,
    /// Wireshark's index of the connection (`tcp.stream`).
    Stream,
    /// The index of the exchange on its connection.
    Ordinal,
    /// The number of losses that were repaired during the exchange.
    Losses,
    /// The request, such as `GET /path`.
    Request,
    /// The outcome: `200`, `reset`, `given up by the client` …
    Outcome,
    /// The capture file.
    Capture,
    /// The client's end.
    Client,
    /// The server's end.
    Server,
}

/// The type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Duration,
    Number,
    Text,
    End,
}

/// All fields by name.
pub(crate) const FIELDS: [(&str, Field); 34] = [
    ("latency", Field::Latency),
    ("cost", Field::Cost),
    ("setup", Field::Setup),
    ("status", Field::Status),
    ("bytes", Field::Bytes),
    ("packet", Field::Packet),
    ("stream", Field::Stream),
    ("ordinal", Field::Ordinal),
    ("losses", Field::Losses),
    ("request", Field::Request),
    ("outcome", Field::Outcome),
    ("capture", Field::Capture),
    ("client", Field::Client),
    ("server", Field::Server),
    ("client-time", Field::Time(Owner::Client)),
    ("server-time", Field::Time(Owner::Server)),
    ("path-time", Field::Time(Owner::Path)),
    ("resolver-time", Field::Time(Owner::Resolver)),
    ("proxy-time", Field::Time(Owner::Proxy)),
    ("unknown-time", Field::Time(Owner::Unknown)),
    ("resolve", Field::Wait(WaitKind::Resolve)),
    ("connect", Field::Wait(WaitKind::Connect)),
    ("request-transfer", Field::Wait(WaitKind::RequestTransfer)),
    ("request-pause", Field::Wait(WaitKind::RequestPause)),
    ("request-held", Field::Wait(WaitKind::RequestHeld)),
    ("round-trip", Field::Wait(WaitKind::RoundTrip)),
    ("server-think", Field::Wait(WaitKind::ServerThink)),
    ("response-transfer", Field::Wait(WaitKind::ResponseTransfer)),
    ("server-pause", Field::Wait(WaitKind::ServerPause)),
    ("response-held", Field::Wait(WaitKind::ResponseHeld)),
    ("window-full", Field::Wait(WaitKind::WindowFull)),
    ("recovery", Field::Wait(WaitKind::Recovery)),
    ("behind", Field::Wait(WaitKind::Behind)),
    ("unknown", Field::Wait(WaitKind::Unknown)),
];

impl Field {
    /// Returns the field with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let found = FIELDS.iter().find(|(known, _)| *known == name);
        // Every kind of wait is a field, by its name in reports.
        let wait = || serde_json::from_value(name.into()).ok().map(Self::Wait);
        found.map(|&(_, field)| field).or_else(wait)
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Latency | Self::Cost | Self::Setup | Self::Wait(_) | Self::Time(_) => {
                Kind::Duration
            }
            Self::Request | Self::Outcome | Self::Capture => Kind::Text,
            Self::Client | Self::Server => Kind::End,
            _ => Kind::Number,
        }
    }

    /// Returns true if the field is a duration or a number.
    pub(super) fn is_number(self) -> bool {
        matches!(self.kind(), Kind::Duration | Kind::Number)
    }

    /// Returns the field's value in `record` as a number, for comparison or sorting; `None` if it
    /// has none.
    pub(crate) fn number(self, record: &ExchangeRecord) -> Option<u64> {
        let exchange = &record.exchange;
        let sum = |is_meant: &dyn Fn(WaitKind, Owner) -> bool| {
            let waits = exchange.waits.iter();
            let meant = waits.filter(|wait| is_meant(wait.kind, wait.owner));
            Some(meant.fold(0, |sum: u64, wait| sum.saturating_add(wait.duration_ns)))
        };
        match self {
            Self::Latency => Some(exchange.latency_ns),
            Self::Cost => Some(record.cost_ns),
            Self::Setup => record.setup_ns,
            Self::Wait(kind) => sum(&|its, _| its == kind),
            Self::Time(owner) => sum(&|_, its| its == owner),
            Self::Status => record.status.map(u64::from),
            Self::Bytes => Some(record.response_bytes),
            Self::Packet => exchange.first_packet,
            Self::Stream => record.stream,
            Self::Ordinal => Some(record.ordinal.into()),
            Self::Losses => Some(record.recoveries.len() as u64),
            _ => None,
        }
    }

    /// Returns true if the field in `record` and `value` satisfy `operator`.
    pub(super) fn test(self, record: &ExchangeRecord, operator: Operator, value: &Value) -> bool {
        let exchange = &record.exchange;
        match (self, value) {
            (Self::Packet, Value::Number(number)) => packet(record, operator, *number),
            (Self::Request, Value::Text(text)) => words(&exchange.request, operator, text),
            (Self::Outcome, Value::Text(text)) => words(&exchange.outcome, operator, text),
            (Self::Capture, Value::Text(text)) => words(&record.capture, operator, text),
            (Self::Client, Value::End(addr, port)) => is_end(&exchange.client, *addr, *port),
            (Self::Server, Value::End(addr, port)) => is_end(&exchange.server, *addr, *port),
            (_, Value::Number(number)) => self
                .number(record)
                .is_some_and(|own| compare(own, operator, *number)),
            _ => false,
        }
    }
}

fn compare(own: u64, operator: Operator, value: u64) -> bool {
    match operator {
        Operator::Equal => own == value,
        Operator::Less => own < value,
        Operator::AtMost => own <= value,
        Operator::More => own > value,
        Operator::AtLeast => own >= value,
        Operator::Contains => false,
    }
}

/// Compares the packets of an exchange with a number. `=` holds if the packet is within the
/// exchange; any other operator must hold for all packets of the exchange.
fn packet(record: &ExchangeRecord, operator: Operator, number: u64) -> bool {
    let ends = record
        .exchange
        .first_packet
        .zip(record.exchange.last_packet);
    ends.is_some_and(|(first, last)| match operator {
        Operator::Equal => (first..=last).contains(&number),
        Operator::Less | Operator::AtMost => compare(last, operator, number),
        _ => compare(first, operator, number),
    })
}

fn words(own: &str, operator: Operator, text: &str) -> bool {
    match operator {
        Operator::Contains => own.contains(text),
        _ => own == text,
    }
}

fn is_end(own: &str, addr: Option<IpAddr>, port: Option<u16>) -> bool {
    let own: Result<SocketAddr, _> = own.parse();
    own.is_ok_and(|own| {
        addr.is_none_or(|addr| addr.to_canonical() == own.ip())
            && port.is_none_or(|port| port == own.port())
    })
}

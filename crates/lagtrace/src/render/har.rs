//! HTTP exchanges as a HAR log (HTTP Archive 1.2), for browsers' network panels.
//!
//! Times that HAR has no field for are in fields that begin with an underscore, as its
//! specification allows. Headers and bodies are not in the log, because the analysis keeps none.

use std::io::{self, Write};

use lagtrace_core::exchange::wait::WaitKind;
use lagtrace_core::report::{ExchangeRecord, WaitSpan};
use serde_json::{Value, json};

use crate::clock;

/// The value of fields that HAR requires and the analysis does not keep.
const UNKNOWN: &str = "x-unknown";

/// A log that is being written.
#[derive(Debug, Default)]
pub(crate) struct Har {
    entries: u64,
    /// Number of exchanges that are not HTTP, or whose request could not be read.
    left_out: u64,
}

/// The phases of an entry in milliseconds, in the order in which they are added up to its `time`.
#[derive(Debug, Default, PartialEq)]
struct Timings {
    blocked: f64,
    dns: Option<f64>,
    connect: Option<f64>,
    send: f64,
    wait: f64,
    receive: f64,
}

impl Har {
    /// Writes what comes before the entries.
    pub(crate) fn begin(&self, to: &mut dyn Write) -> io::Result<()> {
        let creator = json!({"name": "lagtrace", "version": env!("CARGO_PKG_VERSION")});
        write!(
            to,
            "{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"entries\":["
        )
    }

    /// Writes an exchange, if it is HTTP.
    pub(crate) fn exchange(
        &mut self,
        record: &ExchangeRecord,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        let Some(entry) = entry(record) else {
            self.left_out += 1;
            return Ok(());
        };
        let separator = if self.entries == 0 { "\n" } else { ",\n" };
        self.entries += 1;
        write!(to, "{separator}{entry}")
    }

    /// Writes what comes after the entries.
    pub(crate) fn end(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(b"\n]}}\n")
    }

    /// Returns the number of exchanges that are not in the log.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Returns the entry of an exchange; `None` if it is not HTTP.
fn entry(record: &ExchangeRecord) -> Option<Value> {
    let exchange = &record.exchange;
    let (method, target) = exchange.request.split_once(' ')?;
    let is_method = !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase());
    if !is_method || !(target.starts_with('/') || target == "*") {
        return None;
    }
    let timings = Timings::of(record);
    let (address, _) = exchange.server.rsplit_once(':')?;
    Some(json!({
        "startedDateTime": clock::moment(exchange.start_ns.saturating_sub_unsigned(timings.before_ns(record))),
        "time": timings.total(),
        "request": {
            "method": method,
            "url": format!("http://{}{target}", exchange.server),
            "httpVersion": UNKNOWN,
            "cookies": [], "headers": [], "queryString": query(target),
            "headersSize": -1, "bodySize": -1,
        },
        "response": {
            "status": record.status.unwrap_or_default(),
            "statusText": "",
            "httpVersion": UNKNOWN,
            "cookies": [], "headers": [],
            "content": {"size": record.response_bytes, "mimeType": UNKNOWN},
            "redirectURL": "", "headersSize": -1, "bodySize": -1,
            "_error": record.status.is_none().then_some(&exchange.outcome),
        },
        "cache": {},
        "timings": timings.to_json(),
        "serverIPAddress": address.trim_matches(['[', ']']),
        "connection": exchange.client,
        "_waits": exchange.waits,
        "_packets": [exchange.first_packet, exchange.last_packet],
    }))
}

/// Returns the parameters in a request's target, as they were sent.
fn query(target: &str) -> Vec<Value> {
    let query = target.split_once('?').map(|(_, query)| query);
    let parameters = query.into_iter().flat_map(|query| query.split('&'));
    let pair = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        json!({"name": name, "value": value})
    };
    parameters.map(pair).collect()
}

impl Timings {
    fn of(record: &ExchangeRecord) -> Self {
        let mut timings = Self {
            connect: record.setup_ns.map(millis),
            ..Self::default()
        };
        // The response begins with the first wait that only a response can have.
        let begins = |wait: &WaitSpan| {
            matches!(
                wait.kind,
                WaitKind::ResponseTransfer | WaitKind::ServerPause | WaitKind::ResponseHeld
            )
        };
        let waits = &record.exchange.waits;
        let answered = waits.iter().position(begins).unwrap_or(waits.len());
        for (index, wait) in waits.iter().enumerate() {
            let took = millis(wait.duration_ns);
            match wait.kind {
                WaitKind::Resolve => *timings.dns.get_or_insert_default() += took,
                WaitKind::Connect => *timings.connect.get_or_insert_default() += took,
                WaitKind::Behind if index < answered => timings.blocked += took,
                WaitKind::RequestTransfer | WaitKind::RequestPause | WaitKind::RequestHeld => {
                    timings.send += took;
                }
                _ if index < answered => timings.wait += took,
                _ => timings.receive += took,
            }
        }
        timings
    }

    /// Returns the time before the request's first byte that the entry includes.
    fn before_ns(&self, record: &ExchangeRecord) -> u64 {
        record.setup_ns.unwrap_or_default()
    }

    fn total(&self) -> f64 {
        let before = self.blocked + self.dns.unwrap_or_default() + self.connect.unwrap_or_default();
        before + self.send + self.wait + self.receive
    }

    /// Returns the timings as HAR has them: -1 stands for a phase that does not apply.
    fn to_json(&self) -> Value {
        json!({
            "blocked": self.blocked,
            "dns": self.dns.unwrap_or(-1.0),
            "connect": self.connect.unwrap_or(-1.0),
            "ssl": -1,
            "send": self.send,
            "wait": self.wait,
            "receive": self.receive,
        })
    }
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

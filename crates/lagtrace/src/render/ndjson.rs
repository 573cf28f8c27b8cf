//! Newline-delimited JSON: one object per line.

use lagtrace_core::report::{Exchanges, Report, SocketCalls};
use serde_json::{Value, json};

/// Serializes a report as newline-delimited JSON: one object per line, told apart by
/// its `type` field (keys are sorted), the other fields as in the report's schema.
/// The lines are in this order:
///
/// | `type` | how many | fields |
/// |---|---|---|
/// | `report` | one | `schema`, `command`, `subject`, `started`, `findings` (their number) |
/// | `overall` | one, or none | as there |
/// | `finding` | each | as in `findings`, root cause first |
/// | `layer` | each | as in `layers` |
/// | `account` | each service | as there |
/// | `exchanges` | each target | `target` (`subject`, `twin`) and as in `exchanges`, without `slowest` |
/// | `slow-exchange` | each | `target` and as in `exchanges.slowest` |
/// | `setups`, `load`, `sweep`, `capture`, `watch`, `joined`, `route` | one, or none | as there |
/// | `connection` | each listed | as in `connections.list` |
/// | `calls` | one, or none | as there, without its lists |
/// | `service-setting`, `called-socket` | each | as in `calls.services`, `calls.sockets` |
/// | `phase`, `experiment`, `probe`, `hop`, `sockets`, `socket` (as in `live`), `limit`, `setting`, `counter`, `note` | each | as there |
///
/// `details` is left out: it is bulky, and contained in the document form.
pub(crate) fn ndjson(report: &Report) -> String {
    let mut lines = Lines::default();
    lines.add("report", head(report));
    lines.add("overall", json!(report.overall));
    lines.each("finding", &json!(report.findings));
    lines.each("layer", &json!(report.layers));
    lines.each("account", &json!(report.account));
    exchanges(&mut lines, "subject", Some(&report.exchanges));
    exchanges(&mut lines, "twin", report.twin.as_ref());
    lines.add("setups", json!(report.setups));
    lines.add("load", json!(report.load));
    lines.add("sweep", json!(report.sweep));
    lines.add("capture", json!(report.capture));
    lines.add("watch", json!(report.watch));
    lines.add("joined", json!(report.joined));
    let connections = report.connections.as_ref();
    lines.each("connection", &json!(connections.map(|c| &c.list)));
    calls(&mut lines, report.calls.as_ref());
    lines.each("phase", &json!(report.phases));
    lines.each("experiment", &json!(report.experiments));
    lines.each("probe", &json!(report.probes));
    lines.add("route", json!(report.route));
    lines.each("hop", &json!(report.hops));
    lines.each("sockets", &json!(report.sockets));
    lines.each("socket", &json!(report.live));
    lines.each("limit", &json!(report.limits));
    lines.each("setting", &json!(report.configuration));
    lines.each("counter", &json!(report.counters));
    lines.each("note", &json!(report.notes));
    lines.text
}

fn calls(lines: &mut Lines, calls: Option<&SocketCalls>) {
    let Some(calls) = calls else { return };
    let mut sum = json!(calls);
    if let Some(fields) = sum.as_object_mut() {
        fields.remove("services");
        fields.remove("sockets");
    }
    lines.add("calls", sum);
    lines.each("service-setting", &json!(calls.services));
    lines.each("called-socket", &json!(calls.sockets));
}

fn head(report: &Report) -> Value {
    json!({
        "schema": report.schema,
        "command": report.command,
        "subject": report.subject,
        "started": report.started,
        "findings": report.findings.len(),
    })
}

fn exchanges(lines: &mut Lines, target: &str, exchanges: Option<&Exchanges>) {
    let Some(exchanges) = exchanges else {
        return;
    };
    let aim = |mut value: Value| {
        value["target"] = json!(target);
        value
    };
    let mut summary = aim(json!(exchanges));
    if let Value::Object(fields) = &mut summary {
        fields.remove("slowest");
    }
    lines.add("exchanges", summary);
    for slow in &exchanges.slowest {
        lines.add("slow-exchange", aim(json!(slow)));
    }
}

/// The lines written so far.
#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    /// Adds an object of the given `type`; nothing for `null`.
    fn add(&mut self, kind: &str, value: Value) {
        if let Value::Object(mut fields) = value {
            fields.insert("type".to_owned(), json!(kind));
            self.text.push_str(&Value::Object(fields).to_string());
            self.text.push('\n');
        }
    }

    /// Adds each object of a list.
    fn each(&mut self, kind: &str, list: &Value) {
        for value in list.as_array().into_iter().flatten() {
            self.add(kind, value.clone());
        }
    }
}

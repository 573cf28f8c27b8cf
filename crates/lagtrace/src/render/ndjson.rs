//! Newline-delimited JSON: one object per line.

use lagtrace_core::report::{Exchanges, Report};
use serde_json::{Value, json};

/// Serializes a report as newline-delimited JSON: one object per line. The field `type` says what a
/// line contains; its other fields are those of the report's schema, with sorted keys. In the
/// table, "as there" means: as in the report's field or list of the same name. The lines are in
/// this order:
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
/// | `phase`, `experiment`, `probe`, `hop`, `sockets`, `socket` (as in `live`), `limit`, `setting`, `counter`, `note` | each | as there |
///
/// `details` is left out: it is long, and the document form contains it.
pub(crate) fn ndjson(report: &Report) -> String {
    // The compiler reports a new field that is not listed here.
    let Report {
        schema: _,
        command: _,
        subject: _,
        started: _,
        overall,
        capture,
        joined,
        phases,
        setups,
        connections,
        load,
        sweep,
        exchanges,
        twin,
        probes,
        route,
        hops,
        sockets,
        live,
        watch,
        limits,
        counters,
        configuration,
        experiments,
        layers,
        findings,
        account,
        notes,
        details: _,
    } = report;
    let mut lines = Lines::default();
    lines.add("report", head(report));
    lines.add("overall", json!(overall));
    lines.each("finding", &json!(findings));
    lines.each("layer", &json!(layers));
    lines.each("account", &json!(account));
    add_exchanges(&mut lines, "subject", Some(exchanges));
    add_exchanges(&mut lines, "twin", twin.as_ref());
    lines.add("setups", json!(setups));
    lines.add("load", json!(load));
    lines.add("sweep", json!(sweep));
    lines.add("capture", json!(capture));
    lines.add("watch", json!(watch));
    lines.add("joined", json!(joined));
    lines.each("connection", &json!(connections.as_ref().map(|c| &c.list)));
    lines.each("phase", &json!(phases));
    lines.each("experiment", &json!(experiments));
    lines.each("probe", &json!(probes));
    lines.add("route", json!(route));
    lines.each("hop", &json!(hops));
    lines.each("sockets", &json!(sockets));
    lines.each("socket", &json!(live));
    lines.each("limit", &json!(limits));
    lines.each("setting", &json!(configuration));
    lines.each("counter", &json!(counters));
    lines.each("note", &json!(notes));
    lines.text
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

fn add_exchanges(lines: &mut Lines, target: &str, exchanges: Option<&Exchanges>) {
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

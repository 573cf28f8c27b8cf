//! Newline-delimited JSON: one object per line.

use lagtrace_core::report::{Exchanges, Report};
use serde_json::{Value, json};

use crate::json::tree;

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
/// | `setups`, `load`, `capacity`, `processors`, `sent`, `sweep`, `capture`, `watch`, `joined`, `route` | one, or none | as there |
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
        took_ns: _,
        overall,
        capture,
        joined,
        phases,
        setups,
        connections,
        load,
        capacity,
        processors,
        sent,
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
    lines.add("overall", tree(overall));
    lines.each("finding", &tree(findings));
    lines.each("layer", &tree(layers));
    lines.each("account", &tree(account));
    add_exchanges(&mut lines, "subject", Some(exchanges));
    add_exchanges(&mut lines, "twin", twin.as_ref());
    lines.add("setups", tree(setups));
    lines.add("load", tree(load));
    lines.add("capacity", tree(capacity));
    lines.add("processors", tree(processors));
    lines.add("sent", tree(sent));
    lines.add("sweep", tree(sweep));
    lines.add("capture", tree(capture));
    lines.add("watch", tree(watch));
    lines.add("joined", tree(joined));
    lines.each("connection", &tree(&connections.as_ref().map(|c| &c.list)));
    lines.each("phase", &tree(phases));
    lines.each("experiment", &tree(experiments));
    lines.each("probe", &tree(probes));
    lines.add("route", tree(route));
    lines.each("hop", &tree(hops));
    lines.each("sockets", &tree(sockets));
    lines.each("socket", &tree(live));
    lines.each("limit", &tree(limits));
    lines.each("setting", &tree(configuration));
    lines.each("counter", &tree(counters));
    lines.each("note", &tree(notes));
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
    let mut summary = aim(tree(exchanges));
    if let Value::Object(fields) = &mut summary {
        fields.remove("slowest");
    }
    lines.add("exchanges", summary);
    for slow in &exchanges.slowest {
        lines.add("slow-exchange", aim(tree(slow)));
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

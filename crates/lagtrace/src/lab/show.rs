//! The command `lagtrace-lab show`, which describes the parts of a scenario in words.

use std::fmt::Write as _;
use std::time::Duration;

use lagtrace_lab::path::PathSpec;
use lagtrace_lab::scenario::{HostSpec, ServiceWithout};
use lagtrace_lab::server::{Nginx, Server};
use lagtrace_lab::{Scenario, Service};
use serde::Serialize;
use serde_json::{Map, Value};

use super::truth;
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::output::Format;
use crate::words;

/// The width of the column with the name of a line.
const NAMES: usize = 14;

/// Prints a scenario: its path, its hosts, and each of its services with its load, its proofs, and
/// the truth.
pub(super) fn show(scenario: &Scenario, console: &Console) -> Result<Outcome> {
    let document = match console.output().format {
        Format::Text => text(scenario),
        Format::Json => format!("{:#}\n", value(scenario)),
        Format::Ndjson => format!("{}\n", value(scenario)),
    };
    deliver(console, &document)?;
    Ok(Outcome::Clean)
}

fn text(scenario: &Scenario) -> String {
    let mut text = format!("{}: {}\n\n", scenario.name, scenario.title);
    let round_trip = match scenario.path.round_trip {
        Duration::ZERO => "as short as this machine allows".to_owned(),
        time => words::time(time),
    };
    line(&mut text, "round trip", &round_trip);
    let default = PathSpec {
        round_trip: scenario.path.round_trip,
        ..PathSpec::default()
    };
    parts(
        &mut text,
        "path",
        changed(value(&scenario.path), &value(&default)),
    );
    let host = value(HostSpec::default());
    for (name, spec) in [("client", &scenario.client), ("server", &scenario.server)] {
        parts(&mut text, name, changed(value(spec), &host));
    }
    parts(&mut text, "switched off", value(&scenario.without));
    for each in &scenario.services {
        service(&mut text, scenario, each);
    }
    text
}

fn service(text: &mut String, scenario: &Scenario, service: &Service) {
    let role = if service.name == scenario.target {
        " (the case)"
    } else if Some(&service.name) == scenario.control.as_ref() {
        " (its healthy twin)"
    } else {
        ""
    };
    writeln!(text, "\n{} on port {}{role}", service.name, service.port).ok();
    line(text, "server", &server(&service.server));
    for (name, part) in others(service) {
        line(text, &name.replace('_', " "), &spoken(&part));
    }
    line(text, "load", &service.load.describe());
    if let Some(without) = &service.without {
        let mut parts = changed(value(without), &value(ServiceWithout::default()));
        if let Some(off) = &without.server {
            parts["server"] = Value::String(server(off));
        }
        line(text, "switched off", &spoken(&parts));
    }
    for proof in &service.proof {
        line(text, "shown by", &proof.describe());
    }
    for said in truth::describe(&service.truth) {
        writeln!(text, "  {said}").ok();
    }
}

/// Describes a server's settings that differ from the default of its kind.
fn server(server: &Server) -> String {
    let default = match server {
        Server::Nginx(_) => value(Server::Nginx(Nginx::default())),
        Server::Own(_) => value(Server::Own(Box::default())),
        _ => Value::Null,
    };
    spoken(&changed(value(server), &default))
}

/// Returns the settings of a service that are not printed on their own line.
fn others(service: &Service) -> Map<String, Value> {
    const OWN_LINES: [&str; 7] = [
        "name", "port", "server", "load", "truth", "proof", "without",
    ];
    let Value::Object(mut parts) = value(service) else {
        return Map::new();
    };
    parts.retain(|name, _| !OWN_LINES.contains(&name.as_str()));
    parts
}

/// Writes a line for each part.
fn parts(text: &mut String, name: &str, value: Value) {
    if let Value::Object(parts) = value {
        for (part, value) in parts {
            let said = format!("{} {}", part.replace('_', " "), spoken(&value));
            line(text, name, &said);
        }
    }
}

fn line(text: &mut String, name: &str, said: &str) {
    if !said.trim().is_empty() {
        writeln!(text, "  {name:NAMES$} {said}").ok();
    }
}

fn value(part: impl Serialize) -> Value {
    serde_json::to_value(part).expect("scenarios have string keys only")
}

/// Returns the parts of a value that differ from the default. The part `kind` is always included.
fn changed(value: Value, default: &Value) -> Value {
    let (Value::Object(parts), Value::Object(defaults)) = (&value, default) else {
        return value;
    };
    if parts.get("kind") != defaults.get("kind") {
        return value;
    }
    let mut kept = Map::new();
    for (name, part) in parts {
        match defaults.get(name) {
            Some(default) if default == part && name != "kind" => {}
            Some(default) => {
                kept.insert(name.clone(), changed(part.clone(), default));
            }
            None => {
                kept.insert(name.clone(), part.clone());
            }
        }
    }
    Value::Object(kept)
}

/// Returns a value in words: `nginx, tcp nodelay no, answer page`.
fn spoken(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            let all: Vec<_> = all.iter().map(nested).collect();
            all.join(", ")
        }
        Value::Object(parts) => {
            let kind = parts.get("kind").map(spoken);
            let rest = parts.iter().filter(|(name, _)| *name != "kind");
            let rest = rest.map(|(name, part)| (name.replace('_', " "), nested(part)));
            let rest = rest.filter(|(_, said)| !said.is_empty());
            let all: Vec<_> = kind
                .into_iter()
                .chain(rest.map(|(name, said)| format!("{name} {said}")))
                .collect();
            all.join(", ")
        }
    }
}

/// Returns a nested value in words, in brackets if it has parts.
fn nested(value: &Value) -> String {
    match (value, spoken(value)) {
        (Value::Object(_), said) if !said.is_empty() => format!("({said})"),
        (Value::Array(all), said) if all.iter().any(|one| one.is_array() || one.is_object()) => {
            format!("[{said}]")
        }
        (_, said) => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_scenario_can_be_told() {
        for scenario in Scenario::all().expect("the scenarios are well-formed") {
            let text = text(&scenario);
            assert!(text.contains(" (the case)"), "{text}");
            assert!(text.contains("to be found: "), "{text}");
        }
    }

    #[test]
    fn what_is_as_always_is_not_told() {
        let scenario = Scenario::by_name("nagle-delayed-ack").expect("a shipped scenario");
        let text = text(&scenario);
        assert!(text.contains("nginx, tcp nodelay no\n"), "{text}");
        assert!(text.contains("switched off   server nginx\n"), "{text}");
        assert!(
            !text.contains("cubic") && !text.contains("access log"),
            "{text}"
        );
    }
}

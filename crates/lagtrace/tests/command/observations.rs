//! The option `--observations` of `diagnose`: together with the packets, the file contains
//! everything that the report is based on.

use lagtrace_core::observed::event::Event;
use lagtrace_core::report::Report;
use serde_json::Value;

use super::program::{lagtrace, notes};
use super::replay::Run;
use super::server::{OK, Server};

/// The options of a short run with little load, which does not slow down other programs.
const SHORT: [&str; 9] = [
    "-q", "-c", "2", "-d", "1s", "--rate", "50", "--format", "json",
];

#[test]
fn a_report_can_be_made_again_of_what_was_kept() {
    let server = Server::start(OK);
    let folder = tempfile::tempdir().unwrap();
    let [observations, packets] = ["kept.ndjson", "kept.pcap"].map(|name| folder.path().join(name));
    let keep = |option: &str, path: &std::path::Path| {
        [option.to_owned(), path.to_str().unwrap().to_owned()]
    };
    let mut arguments = vec!["diagnose".to_owned(), server.url()];
    arguments.extend(keep("--observations", &observations));
    arguments.extend(keep("--write", &packets));
    let run = lagtrace(arguments.iter().map(String::as_str).chain(SHORT));
    let told: Report = serde_json::from_str(&run.stdout).unwrap();
    assert!(told.exchanges.count > 20, "{:#?}", told.exchanges);

    let kept = Run::read(&observations, &packets);
    for line in kept.observations.iter().skip(1) {
        let event: Event = serde_json::from_value(line.clone()).unwrap();
        assert_eq!(serde_json::to_value(&event).unwrap(), *line);
    }
    let again = kept.report();
    let [mut told, again] = [told, again].map(|report| serde_json::to_value(report).unwrap());
    // Only the run that wrote the packets names their file.
    assert!(told["capture"]["written"].is_string());
    told["capture"].as_object_mut().unwrap().remove("written");
    for (name, part) in told.as_object().unwrap() {
        assert_eq!(again[name], *part, "{name}");
    }
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_report() {
    let server = Server::start(OK);
    let full = ["diagnose", &server.url(), "--observations", "/dev/full"];
    let report: Value = lagtrace(full.into_iter().chain(SHORT)).json();
    let why = notes(&report);
    assert!(why.contains(&"observations-not-kept"), "{why:?}");
    assert!(report["exchanges"]["count"].as_u64().unwrap() > 20);
}

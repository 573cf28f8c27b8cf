//! Tests of the complete views, rendered from recorded runs of `lagtrace diagnose`.
//! The runs are analysed again, so that every sentence comes from the current rules.
//! The output for captures alone is tested in `tests/cli/analyze.trycmd`.

mod contradictions;
mod hostile;
mod numbers;
mod page;
mod renderers;
#[path = "../../tests/runs/replay.rs"]
mod replay;
mod screens;

use std::fs;
use std::path::Path;

use lagtrace_core::registry::Id;
use lagtrace_core::report::{Report, Verdict};
use lagtrace_core::views::compare::{Comparison, Judgement, LatencyFigure, Outcome, compare};
use serde_json::Value;

use replay::Run;

use super::{Length, Style, comparison, comparison_json, json, ndjson, text};

/// The recorded runs: a faulty service, the faulty service beside its healthy twin, the service
/// after the fix, and a port on which no program listens.
const RUNS: [&str; 4] = ["faulty", "twin", "fixed", "refused"];

const PLAIN: Style = Style {
    width: 96,
    color: false,
    ascii: false,
    length: Length::Screen,
};

/// The style of the whole report.
const FULL: Style = Style {
    length: Length::Full,
    ..PLAIN
};

/// Reads a recorded run.
fn recorded(name: &str) -> Run {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs");
    let folder = runs.join(name);
    Run::read(
        &folder.join("observations.ndjson.gz"),
        &folder.join("packets.pcap.gz"),
    )
}

/// Returns the report of a recorded run, analysed again.
fn replayed(name: &str) -> Report {
    recorded(name).report()
}

/// Compares a view with its golden file. If `UPDATE_LETTERS` is 1, the file is rewritten first.
fn check(name: &str, view: &str) {
    let file = format!("tests/letters/{name}.txt");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
    if std::env::var("UPDATE_LETTERS").is_ok_and(|value| value == "1") {
        fs::write(&path, view).expect("the folder of letters can be written");
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == view,
        "{file} differs; if the new text is right, run `UPDATE_LETTERS=1 cargo test -p lagtrace \
         render` and commit it. New text:\n{view}"
    );
}

/// Each run still shows the fault for which it was recorded; otherwise the golden files would prove
/// little.
#[test]
fn runs_are_what_they_are_called() {
    let found = |name| {
        let report = replayed(name);
        let findings = report.findings.into_iter();
        findings
            .map(|finding| (finding.cause, finding.verdict))
            .collect::<Vec<_>>()
    };
    let nagle = [(Id::NagleDelayedAck, Verdict::Proven)];
    assert_eq!(found("faulty"), nagle);
    assert_eq!(found("twin"), nagle);
    assert_eq!(found("fixed"), []);
    let refused = (Id::ConnectionRefused, Verdict::Strong);
    assert_eq!(found("refused"), [refused]);
}

#[test]
fn screens_read_as_committed() {
    for name in RUNS {
        check(&format!("{name}-screen"), &text(&replayed(name), &PLAIN));
    }
    let brief = Style {
        length: Length::Brief,
        ..PLAIN
    };
    check("faulty-brief", &text(&replayed("faulty"), &brief));
    let narrow = Style { width: 60, ..PLAIN };
    check("twin-screen-narrow", &text(&replayed("twin"), &narrow));
}

#[test]
fn letters_read_as_committed() {
    for name in RUNS {
        check(name, &text(&replayed(name), &FULL));
    }
    let narrow = Style { width: 70, ..FULL };
    check("twin-narrow", &text(&replayed("twin"), &narrow));
}

#[test]
fn comparisons_read_as_committed() {
    let [faulty, _, fixed, refused] = RUNS.map(replayed);
    let pairs = [
        ("compare-fixed", compare(&faulty, &fixed)),
        ("compare-broken", compare(&fixed, &refused)),
    ];
    for (name, pair) in pairs {
        check(name, &comparison(&pair, &FULL));
        check(&format!("{name}-screen"), &comparison(&pair, &PLAIN));
    }
}

/// Where the median says nothing, the first line names the figure that does.
#[test]
fn a_comparison_begins_with_what_decides_it() {
    let fixed = replayed("fixed");
    let mut pair = compare(&fixed, &fixed);
    pair.outcome = Outcome::Worse;
    pair.failures.judgement = Judgement::Worse;
    let opening = |pair: &Comparison| {
        let text = comparison(pair, &PLAIN);
        text.lines().next().map(str::to_owned).unwrap_or_default()
    };
    assert!(
        opening(&pair).contains(", failed 0 % → 0 %."),
        "{}",
        opening(&pair)
    );
    for change in &mut pair.latency {
        if change.figure == LatencyFigure::P99 {
            change.judgement = Judgement::Worse;
        }
    }
    assert!(opening(&pair).contains(", p99 "), "{}", opening(&pair));
}

#[test]
fn lines_of_json_read_as_committed() {
    check("twin-ndjson", &ndjson(&replayed("twin")));
}

#[test]
fn nothing_from_outside_reaches_the_terminal() {
    let report = hostile::report();
    for length in [Length::Screen, Length::Full] {
        let shown = text(&report, &Style { length, ..PLAIN });
        let is_bad = |&c: &char| c != '\n' && (c.is_control() || hostile::UNSEEN.contains(&c));
        assert_eq!(shown.chars().find(is_bad), None, "{shown}");
        assert!(shown.contains("evil"), "{shown}");
    }
    let shown = text(&report, &FULL);
    assert!(shown.matches("evil").count() > 10, "{shown}");
    assert!(
        shown.contains("GET /]0;owned\\u{9b}2J\\u{202e}evil"),
        "{shown}"
    );
    let color = Style {
        color: true,
        ..FULL
    };
    let colored = text(&report, &color);
    assert!(colored.contains("evil") && colored.contains("\u{1b}["));
    assert!(!colored.contains("\u{1b}]") && !colored.contains('\u{7}'));
    assert!(!ndjson(&report).contains('\u{1b}'));
}

#[test]
fn colour_adds_nothing_but_colour() {
    for name in RUNS {
        let report = replayed(name);
        for style in [PLAIN, FULL] {
            let color = Style {
                color: true,
                ..style
            };
            let colored = text(&report, &color);
            assert!(colored.contains('\u{1b}'));
            assert_eq!(without_color(&colored), text(&report, &style));
        }
    }
}

/// Returns `text` without SGR sequences.
fn without_color(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    // Coloured padding at the ends of lines is not trimmed by the page, so it is trimmed here.
    plain
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

#[test]
fn lines_keep_to_the_width() {
    for name in RUNS {
        let report = replayed(name);
        for width in [1, 72, 96, 500] {
            let limit = width.clamp(40, 120);
            let shown = text(&report, &Style { width, ..FULL });
            let wide: Vec<&str> = shown
                .lines()
                .filter(|line| line.chars().count() > limit && line.trim().contains(' '))
                .collect();
            assert!(width < 72 || wide.is_empty(), "{wide:#?}");
        }
    }
}

#[test]
fn every_report_is_as_its_schema_says() {
    let schema = include_str!("../../../../schema/report-2.json");
    let schema: Value = serde_json::from_str(schema).expect("the committed schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the committed schema is valid");
    let reports = RUNS.map(replayed).into_iter();
    for report in reports.chain([hostile::report(), Report::default()]) {
        let value: Value = serde_json::from_str(&json(&report)).expect("JSON");
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let read: Report = serde_json::from_value(value).expect("a report");
        assert_eq!(read, report);
    }
    let mut wrong = serde_json::to_value(replayed("faulty")).expect("JSON");
    wrong["findings"][0]["verdict"] = Value::from("certain");
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn every_comparison_is_as_its_schema_says() {
    let schema = include_str!("../../../../schema/comparison-1.json");
    let schema: Value = serde_json::from_str(schema).expect("the committed schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the committed schema is valid");
    let compared = compare(&replayed("faulty"), &replayed("fixed"));
    let value: Value = serde_json::from_str(&comparison_json(&compared)).expect("JSON");
    assert!(validator.is_valid(&value));
}

#[test]
fn an_empty_report_claims_nothing() {
    let shown = text(&Report::default(), &PLAIN);
    assert!(shown.starts_with("No request was measured"), "{shown}");
}

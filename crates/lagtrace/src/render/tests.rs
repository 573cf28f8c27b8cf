//! The views as a reader gets them.

use std::fs;
use std::path::Path;

use lagtrace_core::compare::compare;
use lagtrace_core::report::Report;
use serde_json::Value;

use super::{Style, comparison, comparison_json, json, ndjson, samples, text};

const PLAIN: Style = Style {
    width: 96,
    color: false,
    verbose: false,
};

/// Compares a view with its committed text, or writes it when asked to.
fn check(name: &str, view: &str) {
    let file = format!("src/render/letters/{name}.txt");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
    if std::env::var("UPDATE_LETTERS").is_ok_and(|value| value == "1") {
        fs::write(&path, view).expect("the directory of letters can be written");
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == view,
        "{file} differs; if the new text is right, run `UPDATE_LETTERS=1 cargo test -p lagtrace \
         render` and commit it. New text:\n{view}"
    );
}

#[test]
fn letters_read_as_committed() {
    check("faulty", &text(&samples::faulty(), &PLAIN));
    check("healthy", &text(&samples::healthy(), &PLAIN));
    check("unreachable", &text(&samples::unreachable(), &PLAIN));
    check("two-findings", &text(&samples::two_findings(), &PLAIN));
    let verbose = Style {
        width: 70,
        color: false,
        verbose: true,
    };
    check("faulty-verbose-narrow", &text(&samples::faulty(), &verbose));
}

#[test]
fn comparisons_read_as_committed() {
    let fixed = compare(&samples::faulty(), &samples::healthy());
    check("compare-fixed", &comparison(&fixed, &PLAIN));
    let broken = compare(&samples::healthy(), &samples::unreachable());
    check("compare-broken", &comparison(&broken, &PLAIN));
}

#[test]
fn lines_of_json_read_as_committed() {
    check("faulty-ndjson", &ndjson(&samples::faulty()));
}

#[test]
fn nothing_from_outside_reaches_the_terminal() {
    for verbose in [false, true] {
        let style = Style {
            width: 96,
            color: false,
            verbose,
        };
        let shown = text(&samples::hostile(), &style);
        let bad = shown
            .chars()
            .find(|&c| c != '\n' && (c.is_control() || c == '\u{202e}'));
        assert_eq!(bad, None, "{shown}");
    }
    let colored = text(
        &samples::hostile(),
        &Style {
            width: 96,
            color: true,
            verbose: true,
        },
    );
    assert!(!colored.contains("\u{1b}]") && !colored.contains('\u{7}'));
    let lines = ndjson(&samples::hostile());
    assert!(!lines.contains('\u{1b}'));
}

#[test]
fn colour_adds_nothing_but_colour() {
    let colored = text(
        &samples::faulty(),
        &Style {
            color: true,
            ..PLAIN
        },
    );
    assert!(colored.contains('\u{1b}'));
    assert_eq!(anstyle_free(&colored), text(&samples::faulty(), &PLAIN));
}

/// `text` without SGR sequences.
fn anstyle_free(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    // Padding before an end of line is trimmed only where it is not coloured.
    plain
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

#[test]
fn lines_keep_to_the_width() {
    for width in [1, 72, 96, 500] {
        let style = Style {
            width,
            color: false,
            verbose: false,
        };
        let limit = width.clamp(40, 120);
        let shown = text(&samples::healthy(), &style);
        let wide: Vec<&str> = shown
            .lines()
            .filter(|line| line.chars().count() > limit && line.trim().contains(' '))
            .collect();
        assert!(width < 72 || wide.is_empty(), "{wide:#?}");
    }
}

#[test]
fn every_report_is_as_its_schema_says() {
    let schema = include_str!("../../../../schema/report-1.json");
    let schema: Value = serde_json::from_str(schema).expect("the committed schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the committed schema is valid");
    let reports = [
        samples::faulty(),
        samples::healthy(),
        samples::unreachable(),
        samples::two_findings(),
        samples::hostile(),
        Report::default(),
    ];
    for report in reports {
        let value: Value = serde_json::from_str(&json(&report)).expect("JSON");
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let read: Report = serde_json::from_value(value).expect("a report");
        assert_eq!(read, report);
    }
    let mut wrong = serde_json::to_value(samples::faulty()).expect("JSON");
    wrong["findings"][0]["verdict"] = Value::from("certain");
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn every_comparison_is_as_its_schema_says() {
    let schema = include_str!("../../../../schema/comparison-1.json");
    let schema: Value = serde_json::from_str(schema).expect("the committed schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the committed schema is valid");
    let compared = compare(&samples::faulty(), &samples::healthy());
    let value: Value = serde_json::from_str(&comparison_json(&compared)).expect("JSON");
    assert!(validator.is_valid(&value));
}

#[test]
fn an_empty_report_claims_nothing() {
    let shown = text(&Report::default(), &PLAIN);
    assert!(shown.starts_with("No request was measured"), "{shown}");
}

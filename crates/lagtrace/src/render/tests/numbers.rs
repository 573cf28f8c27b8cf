//! Documents whose numbers are as large as they can be through all renderers.

use std::collections::BTreeMap;

use lagtrace_core::report::Report;
use lagtrace_core::views::compare::compare;
use serde::Deserialize as _;
use serde_json::Value;

use super::{FULL, PLAIN, RUNS, replayed};
use crate::page::{Shown, made_with};
use crate::render::html::{Document, Place};
use crate::render::{self, Length, Style};

/// The largest numbers that a field may hold.
const LARGEST: [u64; 4] = [u64::MAX, i64::MAX as u64, u32::MAX as u64, u16::MAX as u64];

/// Collects the places of all whole numbers in a document.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(number) if number.is_u64() => found.push(path.to_owned()),
        Value::Array(list) => {
            for (index, part) in list.iter().enumerate() {
                numbers(part, &format!("{path}/{index}"), found);
            }
        }
        Value::Object(parts) => {
            for (name, part) in parts {
                numbers(part, &format!("{path}/{name}"), found);
            }
        }
        _ => {}
    }
}

/// The largest number that each field can hold, by its place without the indices of lists.
#[derive(Default)]
struct Limits(BTreeMap<String, Option<u64>>);

impl Limits {
    /// Sets the numbers at these places to the largest ones with which the document is still a
    /// report.
    fn enlarge(&mut self, document: &mut Value, places: &[String]) {
        for place in places {
            let field: String = place
                .split('/')
                .filter(|part| part.parse::<u64>().is_err())
                .collect();
            let limit = self
                .0
                .entry(field)
                .or_insert_with(|| largest(document, place));
            if let (Some(number), Some(value)) = (*limit, document.pointer_mut(place)) {
                *value = number.into();
            }
        }
    }
}

/// Returns the largest number with which the document is still a report; `None` if there is none.
fn largest(document: &Value, place: &str) -> Option<u64> {
    let mut changed = document.clone();
    LARGEST.into_iter().find(|&number| {
        if let Some(value) = changed.pointer_mut(place) {
            *value = number.into();
        }
        Report::deserialize(&changed).is_ok()
    })
}

fn show(report: &Report) {
    for length in [Length::Brief, Length::Screen, Length::Full] {
        render::text(report, &Style { length, ..PLAIN });
    }
    for part in [render::load, render::probes, render::live] {
        part(report, &FULL);
    }
    render::route_csv(report);
    render::ndjson(report);
    page(Document::of_report(report, None).into());
    let comparison = compare(report, report);
    render::comparison(&comparison, &FULL);
    page(Document::of_comparison(&comparison, Some(report), Some(report)).into());
}

fn page(shown: Shown) {
    made_with(None, shown, Place::File);
}

/// A sum of numbers from a document saturates: this profile panics at an overflow.
#[test]
fn numbers_of_any_size_are_shown() {
    let mut limits = Limits::default();
    for run in RUNS {
        let whole: Value =
            serde_json::from_str(&render::json(&replayed(run))).expect("a report is JSON");
        let mut places = Vec::new();
        numbers(&whole, "", &mut places);
        assert!(places.len() > 40, "{run}: {} numbers", places.len());
        // All of them, and each of several parts of them alone.
        for parts in [1, 2] {
            for part in 0..parts {
                let some = places.iter().skip(part).step_by(parts).cloned();
                let mut document = whole.clone();
                limits.enlarge(&mut document, &some.collect::<Vec<_>>());
                show(&serde_json::from_value(document).expect("still a report"));
            }
        }
    }
}

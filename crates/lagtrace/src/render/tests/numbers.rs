//! Documents whose numbers are as large as they can be through all renderers.

use lagtrace_core::report::Report;
use lagtrace_core::views::compare::compare;
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

/// Sets the numbers at these places to the largest one with which the document is still a report.
fn enlarge(document: &mut Value, places: &[String], largest: &[u64]) {
    let Some((&number, smaller)) = largest.split_first() else {
        return;
    };
    let mut changed = document.clone();
    for place in places {
        if let Some(value) = changed.pointer_mut(place) {
            *value = number.into();
        }
    }
    if serde_json::from_value::<Report>(changed.clone()).is_ok() {
        *document = changed;
    } else if let [_] = places {
        enlarge(document, places, smaller);
    } else {
        let (one, other) = places.split_at(places.len() / 2);
        enlarge(document, one, largest);
        enlarge(document, other, largest);
    }
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
                enlarge(&mut document, &some.collect::<Vec<_>>(), &LARGEST);
                show(&serde_json::from_value(document).expect("still a report"));
            }
        }
    }
}

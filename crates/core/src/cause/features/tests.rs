//! Test that rules see all exchanges that matter to them. It uses the recordings of all scenarios
//! of the lab.

#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::*;
use crate::analyzer::{Analyzer, Options};
use crate::cause::Rules;
use crate::decode::{self, Container, Found};
use crate::observed::event::PointId;

/// All features.
const ALL: Features = Features(u64::MAX);

/// Returns the recordings of the corpus, from both ends.
fn recordings() -> Vec<PathBuf> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let entries = fs::read_dir(&corpus).expect("the corpus");
    let folders = entries.map(|entry| entry.expect("its entry").path());
    let mut files: Vec<PathBuf> = folders
        .filter(|path| path.is_dir())
        .flat_map(|folder| fs::read_dir(folder).expect("a recording's folder"))
        .map(|entry| entry.expect("its entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    files.sort();
    files
}

/// Returns the exchanges of a recording, in the order in which they closed.
fn exchanges(path: &Path) -> Vec<Exchange> {
    let file = fs::File::open(path).expect("a recording");
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(BufReader::new(file));
    decoder.read_to_end(&mut bytes).expect("gzip");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    let mut analyzer = Analyzer::new(Options::default()).with_sink(Box::new(move |exchange| {
        into.lock().expect("no panic").push(exchange.clone());
    }));
    let (mut container, mut rest) = (Container::new(), bytes.as_slice());
    loop {
        let step = container.next(rest);
        rest = &rest[step.consumed..];
        let Found::Record(record) = step.found else {
            break;
        };
        analyzer.packet(&decode::packet(&record, PointId(0)));
    }
    analyzer.finish();
    let mut seen = seen.lock().expect("no panic");
    std::mem::take(&mut *seen)
}

/// Returns the state of all rules after `exchange` with `features`.
fn held(exchange: &Exchange, features: Features) -> Rules {
    let mut rules = Rules::default();
    rules.show(&[exchange], &[features]);
    rules
}

/// Returns the shape of an exchange: its outcome, the kinds of its waits and the lengths of its
/// lists. Exchanges of equal shape are tested once.
fn shape(exchange: &Exchange) -> impl Ord + use<> {
    let kinds: Vec<_> = exchange.waits.iter().map(|wait| wait.kind).collect();
    let lists = [
        exchange.loss.recoveries.len(),
        exchange.sending.holds.len(),
        exchange.sending.deliveries.len(),
    ];
    (exchange.outcome, kinds, lists)
}

/// Returns the name of the first rule whose states differ. In the text of all rules, the state of
/// each follows its name.
fn differing(one: &Rules, other: &Rules) -> Option<String> {
    if format!("{one:?}") == format!("{other:?}") {
        return None;
    }
    let (one, other) = (format!("{one:#?}"), format!("{other:#?}"));
    let same = one.lines().zip(other.lines()).take_while(|(a, b)| a == b);
    let is_rule = |line: &&str| line.starts_with("    ") && !line.starts_with("     ");
    let until = other.lines().take(same.count() + 1);
    Some(until.filter(is_rule).last().unwrap_or_default().to_owned())
}

/// Tests that no exchange changes the state of a rule unless it has a feature that the rule
/// declares.
#[test]
fn rules_are_asked_about_all_that_concerns_them() {
    let mut shown = 0;
    for path in recordings() {
        let mut shapes = BTreeSet::new();
        for exchange in exchanges(&path) {
            if shapes.insert(shape(&exchange)) {
                let asked = held(&exchange, Features::of(&exchange));
                let all = held(&exchange, ALL);
                let place = format!("{}, packets {:?}", path.display(), exchange.packets);
                assert_eq!(differing(&asked, &all), None, "{place}");
                shown += 1;
            }
        }
    }
    assert!(shown > 1_000, "{shown} exchanges");
}

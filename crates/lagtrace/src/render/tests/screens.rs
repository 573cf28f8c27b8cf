//! Tests of the first screen's limits and contents, on recordings of the corpus.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use indicatif::ProgressBar;
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Finding, Remark, Report, RequestsSent};
use lagtrace_core::views::compare::compare;

use crate::analyze;
use crate::interrupt::Interrupt;
use crate::render::groups::groups;
use crate::render::{Length, Style, comparison, experiments, healthy, text, verdict, words};

use super::{PLAIN, RUNS, replayed};

/// Interval at which the captures are sampled: 5 is every fifth.
const STRIDE: usize = 5;
/// Widths of terminals, in columns.
const WIDTHS: [usize; 4] = [40, 60, 80, 100];
/// Minimum width with room for the first finding in a brief page: its title, its cost, one change.
const SURE: usize = 60;
/// A width with room for the beginning of each line.
const WHOLE: usize = 80;
/// Number of characters that identify a remark.
const BEGINNING: usize = 40;

/// Returns the paths in a folder, sorted.
fn within(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the corpus can be read");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    paths
}

/// The report on each capture of the corpus, by the capture's path, sorted.
pub(super) static CORPUS: LazyLock<Vec<(String, Report)>> = LazyLock::new(|| {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let folders = within(&corpus).into_iter().filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| within(&folder));
    let captures = files.filter(|path| path.extension().is_some_and(|ending| ending == "gz"));
    let interrupt = Interrupt::listen().expect("signals can be handled");
    let read = |path: PathBuf| {
        let name = path.display().to_string();
        let report = analyze::report(&[path], u64::MAX, &ProgressBar::hidden(), &interrupt);
        (
            name,
            report.expect("it can be read").expect("not interrupted"),
        )
    };
    captures.map(read).collect()
});

/// Returns the reports of a sample of the captures and of the recorded runs, by name.
fn reports() -> Vec<(String, Report)> {
    let captures = CORPUS.iter().step_by(STRIDE).cloned();
    let runs = RUNS.iter().map(|name| ((*name).to_owned(), replayed(name)));
    captures.chain(runs).collect()
}

/// Returns a report with at most `causes` causes, and with notes and layers of all reports.
fn of_all(reports: &[(String, Report)], causes: usize) -> Report {
    let all = || reports.iter().map(|(_, report)| report);
    let mut findings: Vec<Finding> = Vec::new();
    for finding in all().flat_map(Report::causes) {
        let is_new = findings.iter().all(|other| other.cause != finding.cause);
        if is_new && findings.len() < causes {
            findings.push(finding.clone());
        }
    }
    let notes = all().flat_map(|report| report.notes.clone());
    let layers = all().flat_map(|report| report.layers.clone());
    Report {
        findings,
        notes: notes.take(20).collect(),
        layers: layers.take(20).collect(),
        ..replayed("faulty")
    }
}

/// Returns the maximum number of lines of a report's page.
fn limit(report: &Report) -> usize {
    let findings = groups(report).len() + report.places().count();
    match findings {
        0 if healthy::is_healthy(report) => 12,
        0 => 20,
        1 => 40,
        2..5 => 35 + 5 * findings,
        _ => 60,
    }
}

/// Asserts that a page has at most `most` lines, none wider than `width`.
fn measure(name: &str, page: &str, most: usize, width: usize) {
    let lines = page.lines().count();
    assert!(
        lines <= most,
        "{name}, {width} columns: {lines} lines, not {most}:\n{page}"
    );
    let wide = page.lines().find(|line| line.chars().count() > width);
    assert_eq!(wide, None, "{name}, {width} columns:\n{page}");
}

fn shown(report: &Report, length: Length, width: usize) -> String {
    let style = Style {
        width,
        length,
        ..PLAIN
    };
    text(report, &style)
}

/// Asserts what holds for every page: the first line is the verdict, no line is cut, no share is
/// above 100 %, and in ASCII the page keeps to its width.
fn reads_well(name: &str, report: &Report, length: Length) {
    let page = shown(report, length, 100);
    let verdict = match report.causes().next() {
        Some(first) => verdict::headline(first)[0].1.clone(),
        None => healthy::opening(report).1.to_owned(),
    };
    let begins: String = verdict.chars().take(BEGINNING).collect();
    assert!(
        page.starts_with(&begins),
        "{name} without {begins:?}:\n{page}"
    );
    let cut = page.lines().find(|line| line.ends_with('…'));
    assert_eq!(cut, None, "{name}:\n{page}");
    for share in page.split(" %").filter_map(last_number) {
        assert!(share <= 100.0, "{name}: {share} %:\n{page}");
    }
    let style = Style {
        width: 100,
        length,
        ascii: true,
        ..PLAIN
    };
    let plain = text(report, &style);
    assert!(plain.is_ascii(), "{name}:\n{plain}");
    measure(name, &plain, plain.lines().count(), 100);
}

/// Returns the number at the end of a text, if there is one.
fn last_number(text: &str) -> Option<f64> {
    let begin = text.rfind(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    let number = begin.map_or(text, |at| &text[at..]);
    let digits: String = number
        .chars()
        .filter(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    digits.parse().ok()
}

/// Asserts that the first finding, its owner and what to do about it are on the page.
fn tells_the_first(name: &str, report: &Report, page: &str) {
    let Some(first) = report.findings.first() else {
        return;
    };
    let words: Vec<_> = page.split_whitespace().collect();
    let said = words.join(" ").to_lowercase();
    let fix = first.fix.iter().chain(&first.next).next();
    let fix = fix.expect("something to change or to measure");
    // A finding that only locates time already names the owner.
    let owner = if first.locates {
        ""
    } else {
        words::owner(first.culprit)
    };
    for part in [&verdict::gist(first), owner, &fix.r#where] {
        let is_there = said.contains(&part.to_lowercase());
        assert!(is_there, "{name} without {part:?}:\n{page}");
    }
}

/// Asserts that the page leaves out nothing that a reader must know: other findings, and the number
/// of remarks for which there was no room.
fn leaves_nothing_out(name: &str, report: &Report, page: &str) {
    let words: Vec<_> = page.split_whitespace().collect();
    let said = words.join(" ").to_lowercase();
    for finding in &report.findings {
        let gist = verdict::gist(finding);
        let start: String = gist.chars().take(BEGINNING).collect();
        let start = start.to_lowercase();
        assert!(said.contains(&start), "{name} without {start:?}:\n{page}");
    }
    let is_there = |note: &Remark| {
        let start: String = note.text.chars().take(BEGINNING).collect();
        said.contains(&start.to_lowercase())
    };
    let free = |note: &Remark| note.id.parse::<Id>().is_ok_and(|id| id.cause().is_free);
    let all_there = report.notes.iter().all(|note| is_there(note) || free(note));
    assert!(all_there || said.contains("more remark"), "{name}:\n{page}");
}

/// Asserts that the screen and the brief page of a report keep to their limits.
fn keeps_to_its_lines(name: &str, report: &Report) {
    for width in WIDTHS {
        let screen = shown(report, Length::Screen, width);
        // Narrower screens break more lines, and those of names and paths.
        let most = limit(report) + if width >= SURE { 0 } else { 6 };
        measure(name, &screen, most, width);
        let brief = shown(report, Length::Brief, width);
        let few = if width >= SURE { 12 } else { usize::MAX };
        measure(name, &brief, few, width);
        if width >= SURE {
            tells_the_first(name, report, &screen);
            tells_the_first(name, report, &brief);
        }
    }
    for length in [Length::Screen, Length::Brief] {
        reads_well(name, report, length);
    }
    let wide = shown(report, Length::Screen, 300);
    measure(name, &wide, limit(report), 100);
}

#[test]
fn every_report_has_its_gist_on_a_screen() {
    let reports = reports();
    for (name, report) in &reports {
        keeps_to_its_lines(name, report);
        leaves_nothing_out(name, report, &shown(report, Length::Screen, WHOLE));
    }
    for causes in [5, 12] {
        let whole = of_all(&reports, causes);
        assert_eq!(groups(&whole).len(), causes);
        keeps_to_its_lines(&format!("{causes} causes"), &whole);
    }
    let reports = reports.iter();
    let accused = reports.filter(|(_, report)| !report.findings.is_empty());
    assert!(accused.count() > 100, "a sample of faults");
}

#[test]
fn every_comparison_has_its_gist_on_a_screen() {
    for (before, after) in [("faulty", "fixed"), ("fixed", "refused"), ("twin", "twin")] {
        let name = format!("{before} and {after}");
        let compared = compare(&replayed(before), &replayed(after));
        for width in WIDTHS {
            for (length, most) in [(Length::Screen, 40), (Length::Brief, 12)] {
                let style = Style {
                    width,
                    length,
                    ..PLAIN
                };
                measure(&name, &comparison(&compared, &style), most, width);
            }
        }
    }
}

#[test]
fn what_a_capture_lacks_is_told_in_brief() {
    let mut report = replayed("faulty");
    let capture = report.capture.as_mut().expect("packets");
    capture.dropped = Some(3);
    capture.points[0].damage = Some("a record is cut off".to_owned());
    let page = shown(&report, Length::Brief, 80);
    for part in ["dropped 3 packets", "ended early: a record is cut off"] {
        assert!(page.contains(part), "{page}");
    }
}

#[test]
fn what_has_no_room_is_counted() {
    let notes = replayed("faulty").notes.into_iter().cycle();
    let report = Report {
        notes: notes.take(30).collect(),
        ..Report::default()
    };
    let page = shown(&report, Length::Screen, 80);
    measure("many notes", &page, limit(&report), 80);
    assert!(page.contains("more remarks: see -v."), "{page}");
}

#[test]
fn the_whole_page_has_the_load_beside_findings_too() {
    let mut report = replayed("faulty");
    report.sent = Some(RequestsSent {
        all: 1_234,
        in_experiments: 0,
    });
    let page = shown(&report, Length::Full, 100);
    assert!(page.contains("lagtrace sent 1,234 requests."), "{page}");
}

#[test]
fn an_interrupted_run_tells_whether_it_sent_requests() {
    let mut report = Report::default();
    report.interrupt(Duration::from_secs(3));
    let page = shown(&report, Length::Screen, 100);
    assert!(page.contains("nothing was measured"), "{page}");
    report.sent = Some(RequestsSent {
        all: 2,
        in_experiments: 0,
    });
    let page = shown(&report, Length::Screen, 100);
    assert!(
        page.contains("before the delay of requests was measured"),
        "{page}"
    );
}

#[test]
fn an_experiment_from_which_nothing_follows_has_no_difference() {
    let mut report = replayed("faulty");
    let line = |report: &Report| experiments::in_lines(report).collect::<Vec<_>>().join(" ");
    assert!(line(&report).contains("ms to "), "{}", line(&report));
    for outcome in &mut report.experiments {
        outcome.is_conclusive = false;
        "Nothing follows.".clone_into(&mut outcome.meaning);
    }
    let line = line(&report);
    assert!(
        line.contains("Nothing follows.") && !line.contains("ms to "),
        "{line}"
    );
}

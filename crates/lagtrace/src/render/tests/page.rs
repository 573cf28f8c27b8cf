//! The page, made from recorded runs.

use lagtrace_core::registry::Id;
use lagtrace_core::report::{LayerState, OverallResult, Picture, Report, Watch};
use lagtrace_core::views::compare::compare;

use super::{RUNS, hostile, replayed};
use crate::exit::Outcome;
use crate::render::escape::escape;
use crate::render::html::{Document, Place, Redaction, page};
use crate::render::{healthy, load, probes, quantity};

/// Returns the text of a page without its tags and its data.
fn text(page: &str) -> String {
    let (before, after) = page.split_once("<style>").expect("a style sheet");
    let after = after.split_once("</style>").expect("its end").1;
    let after = after.split("<script").next().expect("the text");
    let mut text = String::new();
    for part in before.split('<').chain(after.split('<')) {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
    }
    let marks = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
    ];
    let unescape = |text: String, (mark, meant): (&str, &str)| text.replace(mark, meant);
    marks.into_iter().fold(text, unescape).replace("&amp;", "&")
}

/// Returns a sentence as a page shows it: what is between backticks is code there.
fn plain(text: &str) -> String {
    escape(text).replace('`', "")
}

fn page_of(report: &Report) -> String {
    page(&Document::of_report(report, None), &[], Place::File)
}

#[test]
fn the_page_says_of_each_finding_what_the_report_contains() {
    for name in RUNS {
        let report = replayed(name);
        let shown = text(&page_of(&report));
        for finding in &report.findings {
            let mut said = vec![&finding.title, &finding.summary];
            said.extend(finding.evidence.iter().map(|piece| &piece.text));
            said.extend(
                finding
                    .evidence
                    .iter()
                    .filter_map(|piece| piece.location.as_ref()),
            );
            said.extend(finding.ruled_out.iter().map(|other| &other.because));
            said.extend(
                finding
                    .fix
                    .iter()
                    .flat_map(|fix| [&fix.r#where, &fix.change]),
            );
            said.push(&finding.overturned_by);
            for part in said {
                assert!(shown.contains(&plain(part)), "{name}: {part}\n{shown}");
            }
        }
        for layer in &report.layers {
            assert!(
                shown.contains(&plain(&layer.line)),
                "{name}: {}",
                layer.line
            );
        }
        for note in &report.notes {
            assert!(shown.contains(&plain(&note.text)), "{name}: {}", note.text);
        }
    }
}

#[test]
fn where_nothing_was_measured_no_time_is_shared() {
    let nothing = Document::of_report(&Report::default(), Some(Picture::default()));
    let shown = page(&nothing, &[], Place::Live(1));
    assert!(shown.contains("<body data-live=\"1\">"), "{shown}");
    assert!(!shown.contains("<section id=\"time\""), "{shown}");
}

#[test]
fn figures_carry_their_values() {
    let report = replayed("faulty");
    let shown = page_of(&report);
    let mean = report.exchanges.latency_ns.mean;
    let cell = format!("<dd data-ns=\"{mean}\">{}</dd>", quantity::duration(mean));
    assert!(shown.contains(&cell), "{cell}");
    let share = &report.exchanges.waits[0].share;
    assert!(
        shown.contains(&format!("data-value=\"{share}\"")),
        "{share}"
    );
}

/// Returns the value of an attribute on a page.
fn attribute<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, after) = page
        .split_once(&format!("{name}=\""))
        .expect("the attribute");
    after.split_once('"').expect("its end").0
}

#[test]
fn the_result_is_the_same_in_the_page_the_report_and_the_exit_code() {
    let mut reports: Vec<Report> = RUNS.into_iter().map(replayed).collect();
    let faulty = replayed("faulty");
    let mut only_where = faulty.clone();
    only_where.findings.truncate(1);
    only_where.layers.clear();
    only_where.findings[0].cause = Id::ServerThink;
    only_where.overall.as_mut().expect("a result").result = OverallResult::Located;
    reports.push(only_where);
    for report in reports {
        let page = page_of(&report);
        let json = serde_json::to_value(&report).expect("a report");
        assert_eq!(json["overall"]["result"], attribute(&page, "data-result"));
        let is_found = attribute(&page, "data-result") == "cause-found";
        let mut layers = report.layers.iter();
        let is_accused = layers.any(|layer| layer.state == LayerState::Accused);
        let outcome = Outcome::of(&report);
        assert_eq!(outcome == Outcome::Found, is_found || is_accused);
        let (_, heading) = page.split_once("id=\"verdict-title\">").expect("a heading");
        let (heading, rest) = heading.split_once("</h2>").expect("its end");
        let opening = healthy::opening(&report).1;
        assert!(
            is_found || heading.contains(&opening) || rest.contains(&opening),
            "{opening} in {heading}"
        );
        assert!(!text(&page).contains("1 cause found"), "{heading}");
    }
}

/// At high rates, a watch examines a few requests in detail, and the kernel times all.
#[test]
fn the_figures_of_a_watch_are_those_of_all_requests() {
    let mut report = replayed("faulty");
    report.command = "watch".to_owned();
    report.exchanges.count = 3_630;
    report.exchanges.latency_ns.mean = 195_000;
    let mut watch = Watch {
        latency_ns: report.exchanges.latency_ns,
        sampled_share: 0.007,
        ..Watch::default()
    };
    watch.latency_ns.count = 526_617;
    watch.latency_ns.mean = 132_000;
    report.watch = Some(watch);
    let shown = [
        healthy::counted(&report).expect("requests"),
        text(&page_of(&report)),
    ];
    for shown in shown {
        assert!(shown.contains("526,617 requests"), "{shown}");
        assert!(
            shown.contains("3,630 of them were examined in detail: none failed."),
            "{shown}"
        );
    }
    report.watch.as_mut().expect("a watch").sampled_share = 1.0;
    let shown = healthy::counted(&report).expect("requests");
    assert!(shown.starts_with("3,630 requests. None failed."), "{shown}");
}

#[test]
fn filters_for_wireshark_need_a_file_with_the_packets() {
    let mut report = replayed("faulty");
    let filter = "frame.number in {1, 2, 3}";
    report.findings[0].display_filter = Some(filter.to_owned());
    let shown = text(&page_of(&report));
    assert!(!shown.contains(filter), "{shown}");
    assert!(shown.contains("-w FILE"), "{shown}");
    let capture = report.capture.as_mut().expect("a capture");
    capture.written = Some("slow.pcap".to_owned());
    let shown = text(&page_of(&report));
    assert!(shown.contains(filter), "{shown}");
    assert!(!shown.contains("-w FILE"), "{shown}");
}

#[test]
fn the_page_is_written_for_people() {
    for name in RUNS {
        let shown = text(&page_of(&replayed(name)));
        assert!(!shown.contains('`'), "{name}: {shown}");
        // A fraction of seven digits and more is one of a clock, not of a quantity.
        let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).count();
        let longest = shown.split('.').map(digits).max();
        assert!(longest < Some(7), "{name}: {shown}");
    }
}

#[test]
fn the_time_before_the_requests_is_that_of_the_account() {
    let report = replayed("faulty");
    let page = page_of(&report);
    let (_, setup) = page.split_once("Before the requests").expect("a heading");
    let (setup, _) = setup.split_once("</table>").expect("a table");
    let bookings: Vec<_> = report.account.iter().flat_map(|it| &it.setups).collect();
    assert!(!bookings.is_empty());
    for booking in bookings {
        let total = quantity::duration(booking.booked_ns);
        let cell = format!("data-ns=\"{}\">{total}</td>", booking.booked_ns);
        assert!(setup.contains(&cell), "{cell}\n{setup}");
    }
    let account = &report.account[0];
    let connections = quantity::counted(account.connections, "connection", "connections");
    assert!(setup.contains(&connections), "{setup}");
}

#[test]
fn without_requests_only_the_time_before_them_is_shown() {
    let mut report = replayed("faulty");
    report.exchanges.waits.clear();
    let page = page_of(&report);
    assert!(page.contains("Before the requests"));
    assert!(!page.contains("<caption>Shares of the time"));
    report.account.clear();
    assert!(!page_of(&report).contains("<section id=\"time\""));
}

#[test]
fn nothing_from_outside_becomes_markup_or_hides() {
    let script = include_str!("../../../../../web/dist/page.js");
    let shown = page_of(&hostile::report()).replace(script, "");
    let is_bad = |&c: &char| c != '\n' && (c.is_control() || hostile::UNSEEN.contains(&c));
    assert_eq!(shown.chars().find(is_bad), None);
    assert!(text(&shown).matches("evil").count() > 10);
    for attribute in [" style=", " onerror=", " onclick=", " href=", " src="] {
        assert!(!shown.contains(attribute), "{attribute}");
    }
}

#[test]
fn a_redacted_run_names_no_address_file_or_name() {
    for name in RUNS {
        let mut report = replayed(name);
        // A host may be called like a word of the report's own vocabularies.
        report.hops.push(lagtrace_core::report::Hop {
            name: Some("server-think".to_owned()),
            ..Default::default()
        });
        let mut shown = Vec::new();
        let document = Document::of_report(&report, None);
        let document = Redaction::default().of(&document, &mut shown);
        let all = serde_json::to_string(&document).expect("a document");
        for original in ["10.77.", "/run/lagtrace-lab", "latency.error.log"] {
            assert!(!all.contains(original), "{name}: {original} in {all}");
        }
        let page = text(&page(&document, &shown, Place::File));
        assert!(!page.contains("10.77."), "{page}");
        assert!(page.contains("host-1:"), "{page}");
    }
}

#[test]
fn an_original_keeps_its_label_from_one_document_to_the_next() {
    let names = |names: &[&str]| {
        let mut report = Report::default();
        report
            .hops
            .extend(names.iter().map(|name| lagtrace_core::report::Hop {
                name: Some((*name).to_owned()),
                ..Default::default()
            }));
        Document::of_report(&report, None)
    };
    let last = |redaction: &mut Redaction, document: &Document| {
        let redacted = redaction.of(document, &mut Vec::new());
        let value = serde_json::to_value(redacted).expect("a document");
        let hops = value["report"]["hops"].as_array().cloned();
        hops.and_then(|hops| hops.last()?["name"].as_str().map(str::to_owned))
    };
    let (both, one) = (names(&["a.example", "b.example"]), names(&["b.example"]));
    let mut redaction = Redaction::default();
    assert_eq!(last(&mut redaction, &both).as_deref(), Some("name-2"));
    assert_eq!(last(&mut redaction, &one).as_deref(), Some("name-2"));
    assert_eq!(
        last(&mut Redaction::default(), &one).as_deref(),
        Some("name-1")
    );
}

#[test]
fn all_kinds_of_results_have_a_page() {
    let [faulty, fixed] = ["faulty", "fixed"].map(replayed);
    let comparison = compare(&faulty, &fixed);
    let compared = Document::of_comparison(&comparison, Some(&faulty), Some(&fixed));
    let shown = text(&page(&compared, &[], Place::File));
    assert!(shown.contains("Fixed."), "{shown}");
    for (command, plain) in [("load", load as fn(&_, &_) -> String), ("probe", probes)] {
        let mut report = faulty.clone();
        command.clone_into(&mut report.command);
        let shown = text(&page_of(&report));
        let plain = plain(&report, &super::FULL);
        let word = plain.split_whitespace().max_by_key(|word| word.len());
        let word = word.expect("the text says something");
        assert!(shown.contains(word), "{command}: {word}\n{shown}");
    }
}

//! Waits of requests as measured by packets, next to the same waits as measured by the server's
//! kernel.

use lagtrace_core::exchange::wait::WaitKind;
use lagtrace_core::report::{Disagreement, JoinedTurns, Report, WaitSplit};

use super::page::{Page, Tone};
use super::quantity;
use super::table::{Align, Table, plain};
use crate::words::plural;

/// Indentation in columns.
const INDENT: usize = 2;

/// Writes the joined measurements of each watched service; nothing if none were joined.
pub(super) fn write(page: &mut Page, report: &Report) {
    let services = report.watch.iter().flat_map(|watch| &watch.services);
    for service in services {
        if let Some(joined) = &service.joined {
            page.blank();
            page.paragraph(INDENT, Tone::Plain, &what(&service.service, joined));
            waits(page, &joined.waits);
        }
    }
}

/// Writes the waits as a table, or as sentences if the table is wider than the page.
fn waits(page: &mut Page, waits: &[WaitSplit]) {
    let table = table(waits);
    if table.wanted() + INDENT <= page.width() {
        return page.table(INDENT, &table);
    }
    for wait in waits {
        page.item(INDENT, "•", Tone::Plain, &[(Tone::Plain, &sentence(wait))]);
    }
}

fn sentence(wait: &WaitSplit) -> String {
    let stages = wait.stages.iter().filter(|stage| {
        let waits = std::slice::from_ref(wait);
        is_shown(waits, &stage.name)
    });
    let stages = stages.map(|stage| {
        let took = quantity::duration(stage.time_ns.mean);
        format!("{took} {}", stage.name)
    });
    format!(
        "{}, means over {}: {} by packets, {} at the host: {}.",
        words(wait.wait),
        plural(wait.packets_ns.count, "request"),
        quantity::duration(wait.packets_ns.mean),
        quantity::duration(wait.host_ns.mean),
        stages.collect::<Vec<_>>().join(", "),
    )
}

fn what(service: &str, joined: &JoinedTurns) -> String {
    let requests = joined.exchanges;
    format!(
        "{service}: {} of {} requests were joined to the kernel's events by connection and time. \
         {}",
        quantity::count(requests.count),
        quantity::count(requests.of),
        agreement(joined),
    )
}

fn agreement(joined: &JoinedTurns) -> String {
    let sentence = |of: &Disagreement, what: &str| {
        (of.exchanges.count > 0).then(|| {
            format!(
                "In {} of them the host {what} ({}, median).",
                quantity::count(of.exchanges.count),
                quantity::duration(of.time_ns.p50)
            )
        })
    };
    let beyond = sentence(&joined.beyond, "had answered earlier than the packets show");
    let within = sentence(&joined.within, "took longer than the packets allow");
    let parts: Vec<_> = beyond.into_iter().chain(within).collect();
    if parts.is_empty() {
        "Packets and kernel agree on the server's time for all of them.".to_owned()
    } else {
        parts.join(" ")
    }
}

/// Returns the table of the waits. The mean of each kind of wait is over the requests that had it.
fn table(waits: &[WaitSplit]) -> Table {
    let names = || waits.first().into_iter().flat_map(|wait| &wait.stages);
    let shown: Vec<_> = names().map(|stage| is_shown(waits, &stage.name)).collect();
    let mut columns = vec![
        (Align::Name, "mean"),
        (Align::Right, "requests"),
        (Align::Right, "by packets"),
        (Align::Right, "at the host"),
    ];
    let names = names().zip(&shown).filter(|(_, shown)| **shown);
    columns.extend(names.map(|(stage, _)| (Align::Right, stage.name.as_str())));
    let mut table = Table::new(&columns);
    for wait in waits {
        let mut row = vec![
            plain(words(wait.wait)),
            plain(quantity::count(wait.packets_ns.count)),
            plain(quantity::duration(wait.packets_ns.mean)),
            plain(quantity::duration(wait.host_ns.mean)),
        ];
        let stages = wait.stages.iter().zip(&shown).filter(|(_, shown)| **shown);
        row.extend(stages.map(|(stage, _)| plain(quantity::duration(stage.time_ns.mean))));
        table.row(row);
    }
    table
}

/// Returns true if the stage takes at least 1 % of any of the waits.
fn is_shown(waits: &[WaitSplit], name: &str) -> bool {
    waits.iter().any(|wait| {
        let stage = wait.stages.iter().find(|stage| stage.name == name);
        stage.is_some_and(|stage| stage.time_ns.mean >= wait.packets_ns.mean / 100)
    })
}

fn words(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::ServerThink => "before the response",
        WaitKind::ServerPause => "pauses within it",
        _ => "held for an ACK",
    }
}

#[cfg(test)]
mod tests {
    use lagtrace_core::report::{CountOf, Figures, Stage, Watch, WatchedService};

    use super::*;
    use crate::render::{Length, Style};

    fn of(mean: u64, count: u64) -> Figures {
        Figures {
            count,
            mean,
            p50: mean,
            ..Figures::default()
        }
    }

    fn letter(beyond: u64, width: usize) -> String {
        let stages = [("unread", 600_000), ("stack", 700), ("held", 43_300_000)];
        let wait = WaitSplit {
            wait: WaitKind::ResponseHeld,
            packets_ns: of(44_000_000, 480),
            host_ns: of(43_900_000, 480),
            stages: stages
                .map(|(name, mean)| Stage {
                    name: name.to_owned(),
                    time_ns: of(mean, 480),
                })
                .into(),
        };
        let joined = JoinedTurns {
            exchanges: CountOf {
                count: 480,
                of: 500,
            },
            waits: vec![wait],
            beyond: Disagreement {
                exchanges: CountOf {
                    count: beyond,
                    of: 480,
                },
                time_ns: of(2_000_000, beyond),
            },
            within: Disagreement::default(),
        };
        let service = WatchedService {
            service: "10.0.0.2:80".to_owned(),
            joined: Some(joined),
            ..WatchedService::default()
        };
        let report = Report {
            watch: Some(Watch {
                services: vec![service],
                ..Watch::default()
            }),
            ..Report::default()
        };
        let mut page = Page::new(&Style {
            width,
            color: false,
            ascii: false,
            length: Length::Screen,
        });
        write(&mut page, &report);
        page.finish()
    }

    #[test]
    fn both_views_stand_side_by_side() {
        let text = letter(0, 100);
        for part in [
            "480 of 500 requests were joined to the kernel",
            "agree on the server's time for all of them",
            "held for an ACK",
            "44.0 ms",
            "43.3 ms",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("stack"), "no part of it: {text}");
    }

    #[test]
    fn a_disagreement_is_said() {
        let text = letter(60, 100);
        let said =
            "In 60 of them the host had answered earlier than the packets show (2.00 ms, median).";
        let words: Vec<_> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(said), "{text}");
    }

    #[test]
    fn columns_without_room_become_sentences() {
        let text = letter(0, 50);
        let words: Vec<_> = text.split_whitespace().collect();
        let said = "held for an ACK, means over 480 requests: 44.0 ms by packets, 43.9 ms at \
                    the host: 600 µs unread, 43.3 ms held.";
        assert!(words.join(" ").contains(said), "{text}");
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(50), "{text}");
    }
}

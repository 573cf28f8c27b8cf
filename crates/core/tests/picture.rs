//! Tests that the picture of a recording agrees with its report.
#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::observed::segment::Segment;
use lagtrace_core::report::{CurveName, Ladder, Part, PartShares, Picture, Report, Why};
use lagtrace_core::views::picture::{Detail, Keeps};
use reading::Captured;

#[path = "picture/calls.rs"]
mod calls;
#[path = "corpus/reading.rs"]
#[allow(dead_code, reason = "other tests need the rest")]
mod reading;

/// Scenarios of the corpus with other protocols, several servers, losses and long exchanges.
const SCENARIOS: [&str; 8] = [
    "bandwidth-limit",
    "downstream-wait",
    "http2-flow-control",
    "packet-loss",
    "redirect-chain",
    "server-pause",
    "slow-start",
    "worker-saturation",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the captures of a few scenarios, and of the demonstration and its look-alikes.
fn captures() -> Vec<(PathBuf, Vec<u8>)> {
    let is_meant = |folder: &Path| {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        SCENARIOS.iter().any(|scenario| name.starts_with(scenario))
    };
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder of recordings");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut paths: Vec<PathBuf> = paths.collect();
        paths.sort();
        paths
    };
    let folders = entries(&root().join("corpus"));
    let folders = folders.into_iter().filter(|folder| is_meant(folder));
    let mut files: Vec<PathBuf> = folders.flat_map(|folder| entries(&folder)).collect();
    files.extend(entries(&root().join("crates/core/tests/corpus/recordings")));
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("a recording");
        let end = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let bytes = match end.as_str() {
            "gz" => {
                let mut plain = Vec::new();
                let mut decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
                decoder.read_to_end(&mut plain).expect("compressed bytes");
                plain
            }
            "pcap" | "pcapng" => bytes,
            _ => return None,
        };
        Some((path, bytes))
    };
    files.into_iter().filter_map(read).collect()
}

/// Returns the report and the picture of segments, with a limit on the number of connections.
fn drawn(segments: &[Captured], max_connections: Option<usize>) -> (Report, Picture) {
    let mut analyzer = analyzer(max_connections);
    feed(&mut analyzer, segments);
    let (report, picture) = analyzer.finish_with_picture();
    (report, picture.expect("a picture was requested"))
}

fn analyzer(max_connections: Option<usize>) -> Analyzer {
    let options = Options {
        hash_seed: max_connections.unwrap_or_default() as u64,
        max_connections,
        ..Options::default()
    };
    Analyzer::new(options).with_picture()
}

fn feed(analyzer: &mut Analyzer, segments: &[Captured]) {
    for (segment, payload) in segments {
        analyzer.segment(segment, payload);
    }
}

#[test]
fn pictures_agree_with_reports() {
    let captures = captures();
    assert!(captures.len() > 60, "{}", captures.len());
    let mut predicted = 0;
    for (path, bytes) in captures {
        let name = path.display();
        let (report, picture) = drawn(&reading::segments(&bytes), None);
        shares_agree(&report, &picture, &name.to_string());
        predicted += usize::from(curves_agree(&report, &picture));
        examples_are_shown(&report, &picture, &name.to_string());
    }
    assert!(predicted > 10, "{predicted}");
}

fn shares_agree(report: &Report, picture: &Picture, name: &str) {
    let exchanges = &report.exchanges;
    let services: u64 = picture.services.iter().map(|service| service.count).sum();
    let cells: u64 = picture.raster.cells.iter().map(|cell| cell.3).sum();
    let points = picture.points.as_ref().expect("few exchanges");
    let counts = [services, cells, points.after_us.len() as u64];
    assert_eq!(counts, [exchanges.waits_of; 3], "{name}");
    let of_all = |part| move |s: &&PartShares| s.service.is_none() && s.part == part;
    let Some(all) = picture.shares.iter().find(of_all(Part::All)) else {
        return assert_eq!(exchanges.waits_of, 0, "{name}");
    };
    assert_eq!(
        (all.count, &all.waits),
        (exchanges.waits_of, &exchanges.waits),
        "{name}"
    );
    let latency = &exchanges.latency_ns;
    assert_eq!(
        (all.low_ns, all.high_ns),
        (latency.min, latency.max),
        "{name}"
    );
    let modes: Vec<&PartShares> = picture.shares.iter().filter(of_all(Part::Mode)).collect();
    assert_eq!(modes.len(), exchanges.modes.len(), "{name}");
    for (shares, mode) in modes.into_iter().zip(&exchanges.modes) {
        assert_eq!(
            (shares.count, &shares.waits),
            (mode.count, &mode.waits),
            "{name}"
        );
    }
}

/// Returns true if the first finding predicts something.
fn curves_agree(report: &Report, picture: &Picture) -> bool {
    let at = |name, quantile: f64| {
        let curve = picture.curves.iter().find(|curve| curve.name == name)?;
        let point = curve.points.iter().find(|(at, _)| *at == quantile)?;
        Some(point.1)
    };
    let latency = &report.exchanges.latency_ns;
    if latency.count > 0 {
        let observed = [0.5, 0.9, 0.99, 1.0].map(|q| at(CurveName::Observed, q));
        assert_eq!(
            observed,
            [latency.p50, latency.p90, latency.p99, latency.max].map(Some)
        );
    }
    let first = report.accusations().next();
    let prediction = first.and_then(|first| first.predicted.as_ref());
    let Some(prediction) = prediction.filter(|p| p.is_of(&report.exchanges)) else {
        assert_eq!(at(CurveName::Predicted, 0.5), None);
        return false;
    };
    let predicted = [0.5, 0.99].map(|quantile| at(CurveName::Predicted, quantile));
    let expected = [prediction.latency_ns.p50, prediction.latency_ns.p99];
    assert_eq!(predicted, expected.map(Some));
    true
}

fn examples_are_shown(report: &Report, picture: &Picture, name: &str) {
    for finding in report.findings.iter().filter(|f| f.unit.is_requests()) {
        for exemplar in &finding.exemplars {
            let mut shown = picture.exchanges.iter();
            let shown = shown.find(|shown| {
                let exchange = &shown.exchange;
                (exchange.start_ns, &exchange.client) == (exemplar.start_ns, &exemplar.client)
                    && exchange.latency_ns == exemplar.latency_ns
                    && shown.shows.contains(&finding.cause)
            });
            let is_example = shown.is_some_and(|shown| shown.why == Why::Example);
            assert!(is_example, "{name}: {} {exemplar:?}", finding.cause);
        }
    }
}

#[test]
fn ladders_contain_the_packets_of_examples() {
    let (mut ladders, mut long, mut repeated) = (0, 0, 0);
    for (path, bytes) in captures() {
        let name = path.display().to_string();
        let segments = reading::segments(&bytes);
        let (report, mut picture) = drawn(&segments, None);
        let Some(mut detail) = Detail::wanted(&report, 1) else {
            assert!(report.exchanges.slowest.is_empty(), "{name}");
            continue;
        };
        let mut rest = segments.iter();
        while let Some((segment, _)) = rest.next().filter(|_| !detail.is_complete()) {
            detail.observe_segment(segment);
        }
        detail.finish(&mut picture);
        packets_are_kept(&segments, &report, &picture, &name);
        assert!((1..=20).contains(&picture.ladders.len()), "{name}");
        for ladder in &picture.ladders {
            is_whole(ladder, &segments, &name);
            ladders += 1;
            long += usize::from(ladder.left_out > 0);
            repeated += ladder
                .packets
                .iter()
                .filter(|packet| packet.is_retransmission)
                .count();
        }
        for finding in report.findings.iter().take(5) {
            let is_shown = picture
                .ladders
                .iter()
                .any(|l| l.cause == Some(finding.cause));
            assert_eq!(
                is_shown,
                !finding.exemplars.is_empty(),
                "{name}: {}",
                finding.cause
            );
        }
        connections_fit(&picture, &name);
    }
    assert!(
        ladders > 200 && long > 10 && repeated > 20,
        "{ladders} {long} {repeated}"
    );
}

/// Checks that an analysis that keeps the segments has the same packets. Its connections are whole;
/// those of a second reading end with the last example.
fn packets_are_kept(segments: &[Captured], report: &Report, picture: &Picture, name: &str) {
    let analyzer = Analyzer::new(Options::default()).with_picture();
    let mut analyzer = analyzer.with_packets(Keeps::Earliest);
    for (segment, payload) in segments {
        analyzer.segment(segment, payload);
    }
    let (again, kept) = analyzer.finish_with_picture();
    let kept = kept.expect("a picture was requested");
    assert_eq!(again, *report, "{name}");
    assert_eq!(kept.ladders, picture.ladders, "{name}");
    assert_eq!(kept.connections.len(), picture.connections.len(), "{name}");
    for (whole, read) in kept.connections.iter().zip(&picture.connections) {
        assert_eq!(whole.start_ns, read.start_ns, "{name}");
        assert!(whole.packets >= read.packets, "{name}");
    }
}

/// Checks a ladder against the packets of its flow.
fn is_whole(ladder: &Ladder, segments: &[Captured], name: &str) {
    let shown = &ladder.packets;
    assert!(shown.len() <= 200 + 16, "{name}: {}", shown.len());
    assert!(
        shown.is_sorted_by(|one, next| one.number < next.number),
        "{name}"
    );
    let (first, last) = (&shown[0], &shown[shown.len() - 1]);
    let end = i64::try_from(ladder.latency_ns).expect("a short time");
    assert!(
        first.at_ns <= 0 && last.at_ns >= end.min(last.at_ns),
        "{name}"
    );
    let ends = [&ladder.client, &ladder.server].map(|end| end.parse().expect("an address"));
    let [client, server]: [std::net::SocketAddr; 2] = ends;
    let of_flow = segments.iter().map(|(segment, _)| segment);
    let of_flow = of_flow.filter(|segment| {
        let (low, high) = segment.flow.ends();
        [low, high] == [client.into(), server.into()]
            || [high, low] == [client.into(), server.into()]
    });
    let within = of_flow.filter(|segment| (first.number..=last.number).contains(&segment.number));
    let within: Vec<&Segment> = within.collect();
    assert_eq!(
        within.len() as u64,
        shown.len() as u64 + ladder.left_out,
        "{name}"
    );
    // The packet that ends the first gap is shown.
    for gap in ladder.gaps.iter().take(1) {
        let end =
            ladder.start_ns + i64::try_from(gap.at_ns + gap.duration_ns).expect("a short time");
        let ending = within.iter().find(|segment| segment.at.as_nanos() >= end);
        let number = ending.map_or(0, |segment| segment.number);
        let is_shown = shown.iter().any(|packet| packet.number == number);
        assert!(is_shown, "{name}: {gap:?} {number}");
    }
    let filter = format!("frame.number in {{{}..{}}}", first.number, last.number);
    assert!(
        ladder.display_filter.ends_with(&filter),
        "{}",
        ladder.display_filter
    );
}

fn connections_fit(picture: &Picture, name: &str) {
    assert!((1..=5).contains(&picture.connections.len()), "{name}");
    for connection in &picture.connections {
        let series = connection.ways.iter().flat_map(|way| {
            let data = [&way.sent, &way.resent, &way.acknowledged];
            data.into_iter()
                .chain([&way.allowed, &way.in_flight, &way.round_trips])
        });
        let mut points = 0;
        for series in series {
            assert!(series.is_sorted_by_key(|(at, _)| *at), "{name}");
            points += series.len();
        }
        assert!((1..=20_000).contains(&points), "{name}: {points}");
        let [client, _] = &connection.ways;
        assert!(!client.sent.is_empty(), "{name}");
    }
}

#[test]
fn shards_do_not_change_a_picture() {
    let mut count = 0;
    for (path, bytes) in captures() {
        let segments = reading::segments(&bytes);
        // With room for so few connections there is only one shard.
        let (_, alone) = drawn(&segments, Some(1_000));
        let (_, shared) = drawn(&segments, None);
        assert_eq!(alone, shared, "{}", path.display());
        count += alone
            .services
            .iter()
            .map(|service| service.count)
            .sum::<u64>();
    }
    assert!(count > 2_000, "{count}");
}

#[test]
fn a_picture_meanwhile_agrees_with_its_report_and_changes_nothing() {
    let mut count = 0;
    for (path, bytes) in captures() {
        let name = path.display().to_string();
        let segments = reading::segments(&bytes);
        let (before, after) = segments.split_at(segments.len() / 2);
        let mut shared = analyzer(None);
        feed(&mut shared, before);
        let (report, picture) = shared.so_far_with_picture().conclude();
        let picture = picture.expect("a picture was requested");
        shares_agree(&report, &picture, &name);
        count += report.exchanges.waits_of;
        let mut alone = analyzer(Some(1_000));
        feed(&mut alone, before);
        assert_eq!(
            alone.so_far_with_picture().conclude().1,
            Some(picture),
            "{name}"
        );
        feed(&mut shared, after);
        let whole = shared.finish_with_picture().1;
        assert_eq!(whole, Some(drawn(&segments, None).1), "{name}");
    }
    assert!(count > 1_000, "{count}");
}

//! Prints the findings of captures.
#![allow(clippy::print_stdout, missing_docs)]
use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::event::PointId;
use lagtrace_sources::capture::FileCapture;
fn main() {
    for path in std::env::args().skip(1) {
        let mut analyzer = Analyzer::new(Options::default());
        let mut file = FileCapture::open(path.as_ref(), PointId(0)).expect("opens");
        while let Some((s, p)) = file.next_segment() {
            analyzer.segment(&s, p);
        }
        let r = analyzer.finish();
        println!(
            "{} n={} mean={:.2}ms p50={:.2}",
            std::path::Path::new(&path)
                .file_stem()
                .unwrap()
                .to_string_lossy(),
            r.exchanges.count,
            r.exchanges.latency_ns.mean as f64 / 1e6,
            r.exchanges.latency_ns.p50 as f64 / 1e6
        );
        for f in &r.findings {
            println!(
                "   {} {:?} {:?} cost={:.2}ms/x [{:.2}..] share={:.2} {}/{} predicted={:?}",
                f.cause,
                f.verdict,
                f.culprit,
                f.cost_ns as f64 / 1e6 / f.affected.exchanges.max(1) as f64,
                f.cost_low_ns as f64 / 1e6 / f.affected.exchanges.max(1) as f64,
                f.share,
                f.affected.exchanges,
                f.affected.of,
                f.predicted.as_ref().map(|p| p.latency_ns)
            );
        }
        for n in &r.notes {
            println!("   note {} {}", n.id, n.text);
        }
        let unknown: f64 = r
            .exchanges
            .waits
            .iter()
            .filter(|w| w.owner == lagtrace_core::wait::Owner::Unknown)
            .map(|w| w.share)
            .sum();
        if unknown > 0.0 {
            println!("   unknown {unknown:.3}");
        }
    }
}

//! Any bytes as a capture file, analysed to the end: no panic, waits that tile every exchange, a
//! report that can be written, and the same for any seed (of a part of the inputs: it takes as long
//! again).

use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::decode::{Container, Decoder, Found};
use lagtrace_core::exchange::Exchange;
use lagtrace_core::observed::event::PointId;

/// Analyses the bytes.
pub(crate) fn check(bytes: &[u8]) {
    let report = analyse(bytes, 1);
    if bytes.len().is_multiple_of(4) {
        assert!(report == analyse(bytes, 2), "the seed shows");
    }
}

fn analyse(bytes: &[u8], hash_seed: u64) -> String {
    let options = Options {
        hash_seed,
        // So few that room is made in small inputs too.
        max_connections: Some(16),
        ..Options::default()
    };
    let mut analyzer = Analyzer::new(options).with_sink(Box::new(is_tiled));
    let (mut container, mut decoder) = (Container::new(), Decoder::new());
    let mut rest = bytes;
    loop {
        let step = container.next(rest);
        rest = &rest[step.consumed..];
        let Found::Record(record) = step.found else {
            break;
        };
        analyzer.packet(&decoder.packet(&record, PointId(record.interface)));
    }
    serde_json::to_string(&analyzer.finish()).expect("a report is plain data")
}

fn is_tiled(exchange: &Exchange) {
    let mut at = exchange.begin;
    for wait in &exchange.waits {
        assert_eq!(wait.start, at, "waits follow each other");
        at = wait.end;
    }
    assert!(at == exchange.end || exchange.waits.is_empty());
}

//! Analyzes any bytes as a capture file, to the end. There must be no panic, waits must tile each
//! exchange, and the report must be writable. For a quarter of the inputs, which take twice as
//! long, the report must also be the same with another hash seed.

use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::decode::{Container, Decoder, Found};
use lagtrace_core::exchange::Exchange;
use lagtrace_core::observed::event::PointId;

/// Analyzes the bytes, and checks the result.
pub(crate) fn check(bytes: &[u8]) {
    let report = analyse(bytes, 1);
    if bytes.len().is_multiple_of(4) {
        assert!(report == analyse(bytes, 2), "the seed shows");
    }
}

fn analyse(bytes: &[u8], hash_seed: u64) -> String {
    let options = Options {
        hash_seed,
        // There are so few connections that even small inputs exceed the limit.
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

//! Analyzes any bytes as a capture file, to the end. There must be no panic, waits must tile each
//! exchange, and report and picture must be writable. For a quarter of the inputs, which take twice
//! as long, both must also be the same with another hash seed.

use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::decode::{Container, Decoder, Found, Packet};
use lagtrace_core::exchange::Exchange;
use lagtrace_core::observed::event::PointId;
use lagtrace_core::report::{Picture, Report};
use lagtrace_core::views::picture::Detail;

/// Analyzes the bytes, and checks the result.
pub(crate) fn check(bytes: &[u8]) {
    let is_compared = bytes.len().is_multiple_of(4);
    check_packets(|visit| for_each_packet(bytes, visit), is_compared);
}

/// Analyzes packets and checks the result, also with another hash seed if `is_compared`.
pub(crate) fn check_packets(packets: impl Fn(&mut dyn FnMut(&Packet<'_>)), is_compared: bool) {
    let written = |seed| serde_json::to_string(&analyse(&packets, seed)).expect("it is plain data");
    let report = written(1);
    if is_compared {
        assert!(report == written(2), "the seed shows");
    }
}

/// Analyzes the packets that `packets` passes on each time it is called.
pub(crate) fn analyse(
    packets: impl Fn(&mut dyn FnMut(&Packet<'_>)),
    hash_seed: u64,
) -> (Report, Picture) {
    let options = Options {
        hash_seed,
        // There are so few connections that even small inputs exceed the limit.
        max_connections: Some(16),
        ..Options::default()
    };
    let mut analyzer = Analyzer::new(options)
        .with_sink(Box::new(is_tiled))
        .with_picture();
    packets(&mut |packet| analyzer.packet(packet));
    let (report, picture) = analyzer.finish_with_picture();
    let mut picture = picture.expect("a picture was requested");
    if let Some(mut detail) = Detail::wanted(&report, hash_seed) {
        packets(&mut |packet| {
            if let Packet::Tcp(segment, _) = packet {
                detail.observe_segment(segment);
            }
        });
        detail.finish(&mut picture);
    }
    (report, picture)
}

/// Decodes the bytes as a capture file.
pub(crate) fn for_each_packet(bytes: &[u8], visit: &mut dyn FnMut(&Packet<'_>)) {
    let (mut container, mut decoder) = (Container::new(), Decoder::new());
    let mut rest = bytes;
    loop {
        let step = container.next(rest);
        rest = &rest[step.consumed..];
        let Found::Record(record) = step.found else {
            return;
        };
        visit(&decoder.packet(&record, PointId(record.interface)));
    }
}

fn is_tiled(exchange: &Exchange) {
    let mut at = exchange.begin;
    for wait in &exchange.waits {
        assert_eq!(wait.start, at, "waits follow each other");
        at = wait.end;
    }
    assert!(at == exchange.end || exchange.waits.is_empty());
}

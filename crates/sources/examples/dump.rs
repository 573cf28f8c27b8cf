//! Prints every exchange of a capture with its waits.
#![allow(clippy::print_stdout, missing_docs)]
use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::event::PointId;
use lagtrace_sources::capture::FileCapture;
fn main() {
    let path = std::env::args().nth(1).expect("a file");
    let mut analyzer = Analyzer::new(Options::default()).with_sink(Box::new(|x| {
        print!(
            "{} {} #{} {:?} {:?} {:?} setup={:?}:",
            x.first_packet,
            x.client,
            x.ordinal,
            x.request.as_deref().unwrap_or("-"),
            x.outcome,
            x.latency(),
            x.setup
        );
        let mut sum = std::time::Duration::ZERO;
        for w in &x.waits {
            sum += w.duration();
            print!(" {:?}/{:?}={:?}", w.kind, w.owner, w.duration());
        }
        if x.outcome != lagtrace_core::exchange::Outcome::Cut {
            assert_eq!(sum, x.latency());
        }
        for h in &x.holds {
            print!(
                " [{:?} {:?} held={:?} ack={:?} re={}us]",
                h.sender,
                h.release,
                h.held,
                h.ack_delay,
                h.reaction_ns / 1000
            );
        }
        if !x.recoveries.is_empty() {
            print!(" {:?}", x.recoveries);
        }
        println!(" {:?}", x.harmless_delay);
    }));
    let mut file = FileCapture::open(path.as_ref(), PointId(0)).expect("opens");
    while let Some((s, p)) = file.next_segment() {
        analyzer.segment(&s, p);
    }
    println!("{:?}", file.summary());
    analyzer.finish();
}

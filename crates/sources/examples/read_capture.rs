//! Measures how fast a capture file is read and decoded, compared with `tcpdump -w /dev/null`.
//!
//! `cargo run --release -p lagtrace-sources --example read_capture FILE [RUNS]` reads the file with
//! both programs alternately: once to warm up, then `RUNS` times. It prints the medians and their
//! ratio. tcpdump decodes nothing; it copies records.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use lagtrace_core::observed::event::PointId;
use lagtrace_sources::capture::FileCapture;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        println!("usage: read_capture FILE [RUNS]");
        return ExitCode::from(2);
    };
    let runs = arguments
        .next()
        .and_then(|runs| runs.parse::<usize>().ok())
        .unwrap_or(9)
        .max(1);
    let path = Path::new(&file);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut packets = 0;
    for _ in 0..=runs {
        let begin = Instant::now();
        packets = read(path);
        ours.push(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        copy_with_tcpdump(path);
        theirs.push(begin.elapsed().as_secs_f64());
    }
    let (ours, theirs) = (median(&mut ours[1..]), median(&mut theirs[1..]));
    let rate = |seconds: f64| packets as f64 / seconds / 1e6;
    println!("{packets} packets, median of {runs} alternating runs");
    println!(
        "lagtrace  {ours:.3} s  {:.1} M packets/s, read and decoded",
        rate(ours)
    );
    println!(
        "tcpdump   {theirs:.3} s  {:.1} M packets/s, read and written",
        rate(theirs)
    );
    println!("ratio     {:.2}", theirs / ours);
    ExitCode::SUCCESS
}

fn read(path: &Path) -> u64 {
    let capture = FileCapture::open(path, PointId(0)).expect("a capture file");
    let mut bytes = 0;
    let summary = capture.for_each(|segment, payload| {
        bytes += u64::from(segment.payload_len) + payload.len() as u64;
    });
    std::hint::black_box(bytes);
    summary.packets
}

fn copy_with_tcpdump(path: &Path) {
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.arg("-r").arg(path).args(["-w", "/dev/null"]);
    let status = tcpdump.stderr(Stdio::null()).status();
    assert!(status.expect("tcpdump runs").success());
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

//! Comparison of lagtrace's load generator with wrk, in alternating runs, on a real nginx on the
//! loopback interface.
//!
//! `cargo bench -p lagtrace-sources --bench load_vs_wrk` prints requests per second, the client's
//! processor time per 100,000 requests, and the medians of the paired ratios. `LOAD_PAIRS` and
//! `LOAD_SECONDS` change the number of pairs and the length of a run (7 pairs of 4 s).
#![allow(clippy::print_stdout, missing_docs)]

#[path = "../tests/servers/nginx.rs"]
mod nginx;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use lagtrace_core::observed::event::{Phase, TargetId};
use lagtrace_sources::load::{Lane, Plan, Target, run};
use lagtrace_sources::request::Request;
use lagtrace_sources::url::Url;
use nginx::Nginx;

/// Number of connections that each tool uses.
const CONNECTIONS: u32 = 100;

/// The result of one run of a tool.
#[derive(Clone, Copy)]
struct Run {
    per_second: f64,
    /// Processor seconds of the client per 100,000 requests.
    cpu: f64,
}

fn main() {
    // `cargo test` runs benchmarks too; only `cargo bench` passes this argument.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let address = SocketAddr::from(([127, 0, 0, 1], nginx.port));
    let pairs = from_environment("LOAD_PAIRS", 7);
    let seconds = from_environment("LOAD_SECONDS", 4);
    for threads in [1, 2] {
        println!("{threads} thread(s), {CONNECTIONS} connections, {pairs} pairs of {seconds} s");
        println!(
            "{:>14} {:>14} {:>10} {:>10}",
            "wrk req/s", "ours req/s", "wrk cpu", "ours cpu"
        );
        let (mut rates, mut cpus, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..pairs {
            // The tools alternate in going first.
            let (theirs, ours) = if pair % 2 == 0 {
                let theirs = wrk(address, threads, seconds);
                (theirs, lagtrace(address, threads, seconds))
            } else {
                let ours = lagtrace(address, threads, seconds);
                (wrk(address, threads, seconds), ours)
            };
            let Some(theirs) = theirs else {
                return nginx::skip("wrk");
            };
            println!(
                "{:>14.0} {:>14.0} {:>10.3} {:>10.3}",
                theirs.per_second, ours.per_second, theirs.cpu, ours.cpu
            );
            rates.push(ours.per_second / theirs.per_second);
            cpus.push(ours.cpu / theirs.cpu);
            all.push((theirs, ours));
        }
        let of = |pick: fn(&(Run, Run)) -> f64| median(all.iter().map(pick).collect());
        println!(
            "{:>14.0} {:>14.0} {:>10.3} {:>10.3}  medians",
            of(|(theirs, _)| theirs.per_second),
            of(|(_, ours)| ours.per_second),
            of(|(theirs, _)| theirs.cpu),
            of(|(_, ours)| ours.cpu),
        );
        println!(
            "ours / wrk, median of pairs: {:.2} in requests per second, {:.2} in processor time\n",
            median(rates),
            median(cpus)
        );
    }
}

fn wrk(address: SocketAddr, threads: usize, seconds: u64) -> Option<Run> {
    let before = cpu_seconds(libc::RUSAGE_CHILDREN);
    let output = Command::new("wrk")
        .args([format!("-t{threads}"), format!("-c{CONNECTIONS}")])
        .args([format!("-d{seconds}s"), format!("http://{address}/")])
        .output()
        .ok()?;
    let cpu = cpu_seconds(libc::RUSAGE_CHILDREN) - before;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let requests: f64 = text
        .split("requests in")
        .next()?
        .split_whitespace()
        .last()?
        .parse()
        .ok()?;
    let rate = text
        .split("Requests/sec:")
        .nth(1)?
        .split_whitespace()
        .next()?;
    Some(Run {
        per_second: rate.parse().ok()?,
        cpu: cpu / requests * 1e5,
    })
}

fn lagtrace(address: SocketAddr, threads: usize, seconds: u64) -> Run {
    let lane = Lane {
        target: Target {
            id: TargetId::Subject,
            address,
            url: Url::at(address.ip(), address.port(), "/"),
            request: Request::default(),
        },
        phase: Phase::Baseline,
        experiment: None,
        connections: CONNECTIONS,
    };
    let plan = Plan {
        duration: Duration::from_secs(seconds),
        // Every request counts, as with wrk.
        warm_up: Duration::ZERO,
        threads,
        ..Plan::new(vec![lane])
    };
    let mut events = 0_u64;
    let (before, begun) = (cpu_seconds(libc::RUSAGE_SELF), Instant::now());
    let summary = run(&plan, &|_| {}, &AtomicBool::new(false), |_| events += 1);
    let (cpu, took) = (cpu_seconds(libc::RUSAGE_SELF) - before, begun.elapsed());
    let summary = summary.expect("the plan is valid");
    let lane = summary.lanes.first().expect("one lane");
    assert_eq!(lane.failed(), 0, "a healthy server fails no request");
    let requests = lane.responses() as f64;
    Run {
        per_second: requests / took.as_secs_f64(),
        cpu: cpu / requests * 1e5,
    }
}

/// Returns the processor time, user and system, of this process or of its children.
fn cpu_seconds(whose: libc::c_int) -> f64 {
    // SAFETY: all zeroes is a valid `rusage`: it holds integers only.
    #[allow(unsafe_code)]
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: `usage` is valid for writing one `rusage`.
    #[allow(unsafe_code)]
    let result = unsafe { libc::getrusage(whose, &raw mut usage) };
    assert_eq!(result, 0, "getrusage knows this argument");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn from_environment(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

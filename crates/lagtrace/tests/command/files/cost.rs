//! What the analysis of a capture costs. A test writes expensive traffic in two sizes, and compares
//! the processor time of the analyses.
//!
//! The test uses the processor time of the whole program, not wall-clock time. The large capture
//! has sixteen times the packets of the small one, and may take 32 times as long. On a busy
//! machine, linear work stays below this bound; quadratic work is far above it. Work that a limit
//! keeps linear may still cost too much per packet, so the large capture is also compared with
//! plain traffic of the same size.
//!
//! `LAGTRACE_HOSTILE` is a number of packets: the traffic is written with as many, and with twice
//! as many, and the costs are printed. `./figures hostile` sets it, for the release build.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use super::ends::{CLIENT, Ends, REQUEST, RESPONSE, SERVER};
use super::frames::Capture;
use crate::command::program::program;

/// The number of packets in the small capture.
const FEW: u32 = 2_000;
/// The ratio of the number of packets in the large capture to that in the small one.
const TIMES: u32 = 16;
/// The maximum ratio of their processor times. Quadratic work would have a ratio of 256, or of 50
/// if the program's start takes most of the time for the small capture.
const BOUND: f64 = 32.0;
/// The maximum ratio of the large capture's time to the time for as many packets of plain
/// exchanges.
const MOST: f64 = 40.0;
/// The maximum number of runs for each capture. The shortest one counts.
const RUNS: usize = 2;
/// The maximum memory of the program, in MB.
const MOST_MEMORY: u64 = 256;

/// With `LAGTRACE_HOSTILE`, the maximum ratio of the processor times, and the number of runs.
const BOUND_OF_TWICE: f64 = 2.3;
const RUNS_OF_TWICE: usize = 3;
/// The processor time of the small capture below which the program's start takes most of it.
const LEAST_SECONDS: f64 = 0.1;

/// The cost of an analysis.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// User and system time.
    seconds: f64,
    /// The most resident memory at any time, in MB.
    memory: u64,
}

impl Cost {
    const NONE: Self = Self {
        seconds: f64::MAX,
        memory: 0,
    };

    /// Returns the shorter time and the larger memory of both.
    fn and(self, other: Self) -> Self {
        Self {
            seconds: self.seconds.min(other.seconds),
            memory: self.memory.max(other.memory),
        }
    }

    /// Analyses a file.
    fn of(path: &Path) -> Self {
        let script = r#""$0" analyze "$1" --format json >/dev/null 2>&1 & echo $!
            wait $!; code=$?; times; exit $code"#;
        let mut command = Command::new("bash");
        command.args(["-c", script]).arg(program()).arg(path);
        let mut shell = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(shell.stdout.take().unwrap());
        let (mut pid, mut times) = (String::new(), String::new());
        said.read_line(&mut pid).unwrap();
        let memory = peak(pid.trim());
        said.read_to_string(&mut times).unwrap();
        let status = shell.wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 1)), "{status:?}");
        let of_children = times.lines().nth(1).unwrap();
        Self {
            seconds: of_children.split_whitespace().map(seconds).sum(),
            memory,
        }
    }
}

/// Returns the most memory that a process has until it ends, in MB.
fn peak(pid: &str) -> u64 {
    let path = format!("/proc/{pid}/status");
    let mut most = 0;
    loop {
        let status = std::fs::read_to_string(&path).unwrap_or_default();
        let mut lines = status.lines();
        let Some(line) = lines.find_map(|line| line.strip_prefix("VmHWM:")) else {
            return most;
        };
        let kilobytes = line.trim().trim_end_matches(" kB").parse::<u64>();
        most = kilobytes.unwrap() / 1024;
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reads a time as bash prints it: `0m1.234s`.
fn seconds(word: &str) -> f64 {
    let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
    minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
}

/// The time for plain exchanges with as many packets as the large capture.
static PLAIN: OnceLock<f64> = OnceLock::new();

/// Analyses this kind of traffic in both sizes, and compares the costs.
#[track_caller]
pub(super) fn is_linear(shape: impl Fn(&mut Capture, u32)) {
    is_linear_file("pcap", |count| {
        let mut capture = Capture::new();
        shape(&mut capture, count);
        capture.into_bytes()
    });
}

/// Analyses files of both sizes, and compares the costs.
#[track_caller]
pub(super) fn is_linear_file(extension: &str, file: impl Fn(u32) -> Vec<u8>) {
    if let Ok(count) = std::env::var("LAGTRACE_HOSTILE") {
        return is_linear_at_length(extension, file, count.parse().expect("a number"));
    }
    let plain = *PLAIN.get_or_init(|| {
        let mut capture = Capture::new();
        plain_exchanges(&mut capture, FEW * TIMES);
        least("pcap", &capture.into_bytes(), 0.0).seconds
    });
    let small = least(extension, &file(FEW), 0.0);
    let limit = (small.seconds * BOUND).min(plain * MOST);
    let large = least(extension, &file(FEW * TIMES), limit);
    assert!(
        large.seconds <= small.seconds * BOUND,
        "{FEW} packets took {small:?}, {TIMES} times as many {large:?}"
    );
    assert!(
        large.seconds <= plain * MOST,
        "it took {large:?}, and plain exchanges {plain} s"
    );
    assert!(large.memory <= MOST_MEMORY, "{large:?}");
}

/// Compares the costs of `count` packets and of twice as many, in runs that alternate.
#[track_caller]
fn is_linear_at_length(extension: &str, file: impl Fn(u32) -> Vec<u8>, count: u32) {
    let folder = tempfile::tempdir().unwrap();
    let paths = [1, 2].map(|times| {
        let path = folder.path().join(format!("{times}.{extension}"));
        std::fs::write(&path, file(count * times)).unwrap();
        path
    });
    let mut costs = [Cost::NONE; 2];
    for _ in 0..RUNS_OF_TWICE {
        for (cost, path) in costs.iter_mut().zip(&paths) {
            *cost = cost.and(Cost::of(path));
        }
    }
    let [one, two] = costs;
    let ratio = two.seconds / one.seconds.max(LEAST_SECONDS);
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    eprintln!(
        "{:5.2} s {:4} MB, twice as long {:6.2} s {:4} MB, ratio {ratio:.2}: {name}",
        one.seconds, one.memory, two.seconds, two.memory
    );
    assert!(ratio <= BOUND_OF_TWICE, "{one:?} and {two:?}");
    assert!(two.memory <= MOST_MEMORY, "{two:?}");
}

/// Returns the shortest processor time of some analyses of a file, and the most memory. If a run is
/// within the limit, the shortest is too.
fn least(extension: &str, bytes: &[u8], limit: f64) -> Cost {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("capture.{extension}"));
    std::fs::write(&path, bytes).unwrap();
    // Other programs that use the processor's caches can only lengthen a run, so the shortest is
    // closest to the truth.
    let mut cost = Cost::NONE;
    for _ in 0..RUNS {
        cost = cost.and(Cost::of(&path));
        if cost.seconds <= limit {
            break;
        }
    }
    cost
}

/// Writes requests one after the other on one connection.
pub(super) fn plain_exchanges(capture: &mut Capture, count: u32) {
    let mut ends = Ends::open(capture, CLIENT, 2000, SERVER);
    for _ in 0..count / 3 {
        ends.say(capture, REQUEST);
        ends.answer(capture, RESPONSE);
        ends.acknowledge(capture);
    }
}

//! The latencies of a run in the format of an HdrHistogram log, which other programs can read.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use lagtrace_core::observed::event::{Event, EventBody, Phase, TargetId};
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_sources::files::{Output, Purpose};

use crate::failure::Result;
use crate::outputs;

/// The number of significant digits of a value, the same as in lagtrace's own results.
const DIGITS: u8 = 3;
/// The divisor for the maximum value in each line, which is by convention in milliseconds.
const NANOS_PER_MILLI: f64 = 1e6;

/// The file of a log. It is opened before the load begins, so that a path that cannot be written is
/// detected before the run.
#[derive(Debug)]
pub(super) struct Log {
    file: Output,
}

impl Log {
    /// Opens the file.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = outputs::create(path, Purpose::Result)?;
        Ok(Self { file })
    }
}

/// Latencies by the second in which their requests were due.
#[derive(Debug, Default)]
pub(super) struct Seconds(BTreeMap<u32, Distribution>);

impl Seconds {
    /// Adds the latencies in an event, if it belongs to the subject's baseline.
    pub(super) fn observe(&mut self, event: &Event) {
        if let (Phase::Baseline, EventBody::Load(cluster)) = (event.phase, &event.body)
            && cluster.target == TargetId::Subject
        {
            self.0
                .entry(cluster.second)
                .or_default()
                .merge(&cluster.latency);
        }
    }

    /// Writes the latencies to `log`, for a run whose counting started at `begun`.
    pub(super) fn save(&self, log: Log, begun: SystemTime) -> Result<()> {
        let name = log.file.path().display().to_string();
        let mut file = BufWriter::new(log.file);
        self.write(&mut file, begun)
            .and_then(|()| file.into_inner().map_err(io::IntoInnerError::into_error))
            .and_then(Output::commit)
            .with_context(|| format!("write {name}"))?;
        Ok(())
    }

    /// Returns true if there are no latencies.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn write(&self, into: &mut impl Write, begun: SystemTime) -> io::Result<()> {
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment(
                "[Latencies in nanoseconds, from when a request was due, by lagtrace load]",
            )
            .with_start_time(begun)
            .with_max_value_divisor(NANOS_PER_MILLI)
            .begin_log_with(into, &mut serializer)?;
        for (&second, latency) in &self.0 {
            let histogram = histogram(latency).map_err(io::Error::other)?;
            let at = Duration::from_secs(second.into());
            log.write_histogram(&histogram, at, Duration::from_secs(1), None)
                .map_err(|error| io::Error::other(format!("{error:?}")))?;
        }
        Ok(())
    }
}

fn histogram(latency: &Distribution) -> std::result::Result<Histogram<u64>, String> {
    let mut histogram = Histogram::new(DIGITS).map_err(|error| error.to_string())?;
    for (value, count) in latency.buckets() {
        histogram
            .record_n(value.max(1), count)
            .map_err(|error| error.to_string())?;
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn the_crates_own_reader_reads_what_was_written() {
        let mut seconds = Seconds::default();
        for second in 0..3_u32 {
            let values = (1..=1000).map(|n| (n * 10_000 * u64::from(second + 1), 1));
            seconds.0.insert(second, Distribution::from_buckets(values));
        }
        let mut text = Vec::new();
        let begun = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        seconds.write(&mut text, begun).expect("a log");
        let mut read = 0;
        for entry in IntervalLogIterator::new(&text) {
            let LogEntry::Interval(line) = entry.expect("a line") else {
                continue;
            };
            assert_eq!(line.start_timestamp(), Duration::from_secs(read));
            let bytes = base64(line.encoded_histogram());
            let histogram: Histogram<u64> = Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .expect("a histogram");
            assert_eq!(histogram.len(), 1000);
            let p99 = histogram.value_at_quantile(0.99) as f64;
            let exact = 9_900_000.0 * (read + 1) as f64;
            assert!((p99 / exact - 1.0).abs() < 0.003, "{p99} {exact}");
            read += 1;
        }
        assert_eq!(read, 3);
    }

    fn base64(text: &str) -> Vec<u8> {
        let digit = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let digits: Vec<u8> = text
            .bytes()
            .filter(|&byte| byte != b'=')
            .map(digit)
            .collect();
        let mut bytes = Vec::new();
        for four in digits.chunks(4) {
            let sum = (0..4).fold(0_u32, |sum, n| {
                sum << 6 | u32::from(four.get(n).copied().unwrap_or(0))
            });
            let all = sum.to_be_bytes();
            bytes.extend_from_slice(&all[1..four.len()]);
        }
        bytes
    }
}

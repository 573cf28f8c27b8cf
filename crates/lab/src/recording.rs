//! Recording of both ends of the path at the same time with tcpdump.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::Error;
use crate::host::Host;
use crate::machine::process::Process;
use crate::machine::tool;

/// The time to wait before tcpdump is stopped. tcpdump reads the packets that the kernel holds for
/// it at least once a second. If it were stopped sooner after the last packet, it would lose the
/// packets that it had not read, without reporting a loss.
const DRAIN: Duration = Duration::from_millis(1_200);

/// Maximum time for tcpdump to end.
const END_LIMIT: Duration = Duration::from_secs(20);

/// The size of the kernel's packet buffer for tcpdump, in KiB.
const BUFFER_KIB: &str = "8192";

/// The options of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingOptions {
    /// A filter in tcpdump's language; everything if empty.
    pub filter: String,
    /// The number of bytes kept of each packet; `None`: all.
    pub snapshot_length: Option<u32>,
    /// The device to listen on, such as `any`; `None`: the path's.
    pub interface: Option<String>,
    /// True for timestamps in microseconds in place of nanoseconds.
    pub is_micro: bool,
}

/// A recording in progress.
#[derive(Debug)]
pub struct Recording {
    ends: Vec<End>,
}

/// The packet counts of a recording at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Packets in the file.
    pub packets: u64,
    /// Packets that passed the filter but are not in the file.
    pub dropped: u64,
}

#[derive(Debug)]
struct End {
    host: String,
    tcpdump: Child,
    says: BufReader<ChildStderr>,
}

impl Recording {
    /// Starts one tcpdump per host and returns when all of them record.
    pub(crate) fn start<'a>(
        ends: impl IntoIterator<Item = (&'a Host, &'a Path)>,
        options: &RecordingOptions,
    ) -> Result<Self, Error> {
        tool::require("tcpdump", "tcpdump")?;
        let ends = ends
            .into_iter()
            .map(|(host, file)| End::start(host, file, options));
        let mut recording = Self {
            ends: ends.collect::<Result<_, _>>()?,
        };
        recording
            .ends
            .iter_mut()
            .try_for_each(End::wait_until_recording)?;
        Ok(recording)
    }

    /// Adds the ends of another recording, which end with this one.
    pub(crate) fn beside(mut self, mut other: Self) -> Self {
        self.ends.append(&mut other.ends);
        self
    }

    /// Waits until the last captured packets are written, and ends. Returns the ends in the order
    /// of `record`'s files: the client's, the server's.
    ///
    /// # Errors
    /// [`Error::Recording`].
    pub fn stop(mut self) -> Result<Vec<Recorded>, Error> {
        sleep(DRAIN);
        let ends = std::mem::take(&mut self.ends);
        ends.into_iter().map(End::stop).collect()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        for end in &mut self.ends {
            let _ = end.tcpdump.kill();
            let _ = end.tcpdump.wait();
        }
    }
}

impl End {
    fn start(host: &Host, file: &Path, options: &RecordingOptions) -> Result<Self, Error> {
        let mut command = host.command("tcpdump")?;
        // -Z root: without it tcpdump becomes a user who may not write the file.
        command.args(["-n", "-Z", "root", "-B", BUFFER_KIB]);
        command.arg(if options.is_micro {
            "--time-stamp-precision=micro"
        } else {
            "--time-stamp-precision=nano"
        });
        let interface = options.interface.as_deref();
        command.args(["-i", interface.unwrap_or(host.interface())]);
        let length = options.snapshot_length.unwrap_or(0);
        command.args(["-s", &length.to_string(), "-w"]).arg(file);
        if !options.filter.is_empty() {
            command.arg("--").arg(&options.filter);
        }
        command
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let start = |source| Error::Start {
            program: "tcpdump".to_owned(),
            source,
        };
        let mut tcpdump = command.spawn().map_err(start)?;
        let says = BufReader::new(tcpdump.stderr.take().expect("its stderr was piped"));
        Ok(Self {
            host: host.side().to_string(),
            tcpdump,
            says,
        })
    }

    /// Waits for tcpdump's line `listening on …`, which is printed once its socket is open.
    fn wait_until_recording(&mut self) -> Result<(), Error> {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let length = self
                .says
                .read_line(&mut line)
                .map_err(Error::file("hear from", "tcpdump"))?;
            if line.contains("listening on") {
                return Ok(());
            }
            said.push_str(&line);
            if length == 0 {
                return Err(self.failed(said.trim()));
            }
        }
    }

    fn stop(mut self) -> Result<Recorded, Error> {
        if let Some(process) = i32::try_from(self.tcpdump.id())
            .ok()
            .and_then(Process::with_pid)
        {
            process.signal(Signal::INT);
        }
        let begun = Instant::now();
        while matches!(self.tcpdump.try_wait(), Ok(None)) {
            if begun.elapsed() > END_LIMIT {
                let _ = self.tcpdump.kill();
                let _ = self.tcpdump.wait();
                return Err(self.failed("tcpdump did not end"));
            }
            sleep(Duration::from_millis(2));
        }
        let mut said = String::new();
        self.says
            .read_to_string(&mut said)
            .map_err(Error::file("hear from", "tcpdump"))?;
        let packets = count(&said, "captured").ok_or_else(|| self.failed(said.trim()))?;
        Ok(Recorded {
            packets,
            dropped: count(&said, "dropped by kernel").unwrap_or(0),
        })
    }

    fn failed(&self, message: &str) -> Error {
        Error::Recording {
            host: self.host.clone(),
            message: message.to_owned(),
        }
    }
}

/// Returns the number in tcpdump's closing line `N packets WHAT`.
fn count(said: &str, what: &str) -> Option<u64> {
    let line = said
        .lines()
        .find(|line| line.ends_with(what) && line.contains(" packet"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn tcpdumps_closing_lines_read() {
        let said = "12 packets captured\n1 packet received by filter\n1 packet dropped by kernel\n";
        assert_eq!(count(said, "captured"), Some(12));
        assert_eq!(count(said, "dropped by kernel"), Some(1));
        assert_eq!(count("tcpdump: path0: No such device", "captured"), None);
    }
}

//! The two runs of a scenario that is recorded: with its fault, and with the fault switched off.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::files;
use super::load::background::Background;
use super::load::{Words, run as run_load};
use crate::error::Error;
use crate::host::Host;
use crate::lab::Lab;
use crate::load::requests::Requests;
use crate::machine::helper::Helper;
use crate::machine::tool;
use crate::recording::{Recorded, Recording, RecordingOptions};
use crate::scenario::{CaptureFormat, Scenario, Service, Witness};
use crate::side::Family;
use crate::side::Side as End;

/// The time by which the background programs start before the load.
const BACKGROUND_HEAD_START: Duration = Duration::from_millis(200);

/// The time to wait for the emulator's counters, which are written ten times a second.
const COUNTERS_SETTLE: Duration = Duration::from_millis(250);

/// The result of one run.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) scenario: String,
    pub(super) requests: Requests,
    /// The captures: those of the client and the server, or the single one of a loopback.
    pub(super) files: Vec<PathBuf>,
    /// The counts of the service's proofs, in the order of the proofs.
    pub(super) counted: Vec<u64>,
}

impl Side {
    pub(super) fn run(
        scenario: &Scenario,
        service: &str,
        family: Family,
        helper: &Helper,
        folder: &Path,
    ) -> Result<Self, Error> {
        let lab = Lab::bring_up(scenario, helper)?;
        let service = lab.service(service)?.clone();
        let before = Counters::read(&lab, &service)?;
        let (requests, files) = load_and_record(&lab, &service, family, helper, folder)?;
        let after = Counters::read(&lab, &service)?;
        let seed = scenario.path.seed;
        let shape = |file: &PathBuf| files::shape(file, &scenario.recording, seed);
        let files: Vec<_> = files.iter().map(shape).collect::<Result<_, _>>()?;
        let view = View {
            lab: &lab,
            files: &files,
            before: &before,
            after: &after,
            requests: &requests,
            words: Words::of(&lab, &service, family),
        };
        let proofs = service.proof.iter().filter_map(|proof| proof.witness());
        let counted = proofs
            .map(|witness| view.count(witness))
            .collect::<Result<_, _>>()?;
        lab.take_down()?;
        Ok(Self {
            scenario: scenario.name.clone(),
            requests,
            files,
            counted,
        })
    }
}

pub(super) fn load_and_record(
    lab: &Lab,
    service: &Service,
    family: Family,
    helper: &Helper,
    folder: &Path,
) -> Result<(Requests, Vec<PathBuf>), Error> {
    let spec = &lab.scenario().recording;
    let vantages = lab.vantages();
    let places = vantages.iter();
    let files: Vec<_> = places
        .map(|(name, _)| folder.join(format!("{name}.pcap")))
        .collect();
    let options = RecordingOptions {
        filter: String::new(),
        snapshot_length: spec.snapshot,
        interface: spec.interface.clone(),
        is_micro: spec.format == CaptureFormat::PcapMicro,
    };
    let begin = || {
        let ends = vantages.iter().zip(&files);
        Recording::start(ends.map(|((_, host), file)| (*host, &**file)), &options)
    };
    let _background = Background::start(lab, service, family)?;
    if !service.background.is_empty() {
        sleep(BACKGROUND_HEAD_START);
    }
    let ask = || run_load(lab, service, family, helper);
    let (requests, recording): (_, Recording) = match spec.begin_after {
        None => {
            let recording = begin()?;
            (ask()?, recording)
        }
        Some(later) => std::thread::scope(|scope| {
            let load = scope.spawn(ask);
            sleep(later);
            let recording = begin();
            let requests = load
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok::<_, Error>((requests, recording?))
        })?,
    };
    let recorded = recording.stop()?;
    check_whole(lab, service, &recorded)?;
    Ok((requests, files))
}

/// Returns an error if the recording lacks packets or a part of the lab died, because it would then
/// show something other than the scenario.
fn check_whole(lab: &Lab, service: &Service, recorded: &[Recorded]) -> Result<(), Error> {
    let dropped: u64 = recorded.iter().map(|end| end.dropped).sum();
    let path = lab.path_counters()?;
    let overflow = path.map_or(0, |path| {
        path.to_server.dropped_overflow + path.to_client.dropped_overflow
    });
    let mut members = lab.run().processes.iter();
    let reason = if dropped > 0 {
        format!("tcpdump missed {dropped} packets")
    } else if overflow > 0 {
        format!("the emulator could not carry {overflow} packets")
    } else if let Some(dead) = members.find(|member| !member.process.is_alive()) {
        format!("`{}` has ended", dead.role)
    } else {
        return Ok(());
    };
    Err(Error::NotShown {
        scenario: lab.scenario().name.clone(),
        service: service.name.clone(),
        reason,
    })
}

/// The kernel's counters of both hosts, by nstat's names, if a proof needs them.
#[derive(Debug, Default)]
struct Counters {
    client: BTreeMap<String, u64>,
    server: BTreeMap<String, u64>,
}

impl Counters {
    fn read(lab: &Lab, service: &Service) -> Result<Self, Error> {
        let asked = service.proof.iter().any(|proof| proof.counter.is_some());
        if !asked {
            return Ok(Self::default());
        }
        tool::require("nstat", "iproute2")?;
        Ok(Self {
            client: nstat(lab.client())?,
            server: nstat(lab.server())?,
        })
    }

    fn of(&self, end: End) -> &BTreeMap<String, u64> {
        match end {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }
}

fn nstat(host: &Host) -> Result<BTreeMap<String, u64>, Error> {
    let mut command = host.command("nstat")?;
    // -a -s: absolute values, and no history file is read or written.
    command.args(["-a", "-s", "-z", "-j"]);
    let text = tool::output_of(command)?;
    let all: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    let kernel = all.get("kernel").and_then(Value::as_object);
    Ok(kernel
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_u64()?)))
        .collect())
}

/// The data of a run in which witnesses count.
struct View<'a> {
    lab: &'a Lab,
    files: &'a [PathBuf],
    before: &'a Counters,
    after: &'a Counters,
    requests: &'a Requests,
    words: Words,
}

impl View<'_> {
    fn count(&self, witness: Witness<'_>) -> Result<u64, Error> {
        match witness {
            Witness::Tshark(filter, end) => {
                let file = match end {
                    End::Client => self.files.first(),
                    End::Server => self.files.last(),
                };
                let filter = self.words.fill(filter);
                file.map_or(Ok(0), |file| files::count_packets(file, &filter))
            }
            Witness::Counter(name, end) => {
                let value = |counters: &Counters| counters.of(end).get(name).copied();
                let after = value(self.after).ok_or_else(|| Error::NotShown {
                    scenario: self.lab.scenario().name.clone(),
                    service: end.to_string(),
                    reason: format!("this kernel has no counter `{name}`"),
                })?;
                Ok(after.saturating_sub(value(self.before).unwrap_or(0)))
            }
            Witness::Log(text) => count_lines(&self.lab.run().folder(), text),
            Witness::Path(name) => self.path_counter(name),
            Witness::Errors => Ok(self.requests.errors),
            Witness::Slower(_) => Ok(self.requests.mean_ns),
        }
    }

    /// Returns a counter of the emulator by its path, such as `to_client.dropped_loss`; 0 if no
    /// path is emulated.
    fn path_counter(&self, name: &str) -> Result<u64, Error> {
        sleep(COUNTERS_SETTLE);
        let Some(counters) = self.lab.path_counters()? else {
            return Ok(0);
        };
        let all = serde_json::to_value(counters).expect("counters are numbers");
        let place = format!("/{}", name.replace('.', "/"));
        let value = all.pointer(&place).and_then(Value::as_u64);
        value.ok_or_else(|| Error::NotShown {
            scenario: self.lab.scenario().name.clone(),
            service: "the path".to_owned(),
            reason: format!("the emulator has no counter `{name}`"),
        })
    }
}

/// Counts the lines that contain a text in the run's logs.
fn count_lines(folder: &Path, text: &str) -> Result<u64, Error> {
    let mut lines = 0;
    let entries = fs::read_dir(folder).map_err(Error::file("list", folder))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            lines += count_lines(&path, text)?;
        } else if path.extension().is_some_and(|extension| extension == "log") {
            let log = fs::read(&path).map_err(Error::file("read", &path))?;
            let log = String::from_utf8_lossy(&log);
            lines += log.lines().filter(|line| line.contains(text)).count() as u64;
        }
    }
    Ok(lines)
}

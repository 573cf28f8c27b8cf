//! One run: the hosts, the programs, the captures and the diaries.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::asking::AskingPlan;
use super::diary::{self, AskedEntry, Served};
use super::fault::{Fault, Place};
use super::serving::ServingPlan;
use super::traffic::{Habits, Points, Spread, Traffic, WireFormat};
use super::truth::StrangerTruth;
use crate::error::Error;
use crate::lab::Lab;
use crate::machine::helper::Helper;
use crate::machine::tool;
use crate::path::{Distribution, DropSpec, Flags, JitterSpec, LaneSpec, PathSpec};
use crate::quantity::{Rate, Size};
use crate::recording::{Recording, RecordingOptions};
use crate::scenario::Scenario;
use crate::server::listening;
use crate::side::{Family, Side};

mod pcap;

/// The port of the server, and that of the service which it asks.
const PORT: u16 = 7700;
const UPSTREAM_PORT: u16 = 7800;

/// The address of the other host of [`Place::OtherHost`], which is the client's kernel by another
/// address.
const OTHER_HOST: &str = "10.77.0.3";

/// The usual think time of the service that the server asks.
const UPSTREAM_THINK: Duration = Duration::from_micros(500);

/// Maximum time until a server listens, and until the client has ended.
const READY_LIMIT: Duration = Duration::from_secs(5);
const END_LIMIT: Duration = Duration::from_secs(25);

/// The files of a run.
const TRAFFIC: &str = "traffic.json";
const ASKED: &str = "asked.jsonl";
const SERVED: &str = "served.jsonl";
const UPSTREAM: &str = "upstream.jsonl";
const WARMED: &str = "warmed.jsonl";

/// The time until the last packets of connections have passed, beyond their round trips.
const SETTLE: Duration = Duration::from_millis(30);

/// A run that was recorded.
#[derive(Clone, Debug)]
pub struct StrangerRecording {
    /// The traffic.
    pub traffic: Traffic,
    /// The captures, the client's first.
    pub captures: Vec<PathBuf>,
    /// The truth.
    pub truth: StrangerTruth,
}

/// Runs the traffic between two new hosts, and leaves captures and diaries in a folder.
///
/// # Errors
/// Every error of bringing a lab up and recording, and [`Error::NotShown`] if a program failed.
pub fn record(
    traffic: &Traffic,
    helper: &Helper,
    folder: &Path,
) -> Result<StrangerRecording, Error> {
    let folder = &fs::canonicalize(folder).map_err(Error::file("find", folder))?;
    let lab = Lab::bring_up(&scenario(traffic)?, helper)?;
    write(&folder.join(TRAFFIC), traffic)?;
    let hosts = Hosts {
        lab: &lab,
        traffic,
        helper,
        folder,
    };
    let captures = hosts.play()?;
    lab.take_down()?;
    cut(traffic, &captures)?;
    again(folder)
}

/// Reads a run that was recorded into a folder.
///
/// # Errors
/// A file cannot be read.
pub fn again(folder: &Path) -> Result<StrangerRecording, Error> {
    let file = folder.join(TRAFFIC);
    let text = fs::read(&file).map_err(Error::file("read", &file))?;
    let traffic: Traffic = serde_json::from_slice(&text).map_err(|source| Error::BadLog {
        path: file,
        line: source.line(),
        source,
    })?;
    let captures = captures(&traffic, folder);
    let mut from_ns = 0;
    for capture in &captures {
        from_ns = pcap::begin_ns(capture)?.max(from_ns);
    }
    if traffic.view.skipped_percent == 0 {
        from_ns = 0;
    }
    let asked: Vec<AskedEntry> = diary::read(&folder.join(ASKED))?;
    let served: Vec<Served> = diary::read(&folder.join(SERVED))?;
    let file = folder.join(UPSTREAM);
    let upstream: Vec<Served> = if file.exists() {
        diary::read(&file)?
    } else {
        Vec::new()
    };
    Ok(StrangerRecording {
        truth: StrangerTruth::of(&traffic, &asked, &served, &upstream, from_ns),
        traffic,
        captures,
    })
}

fn captures(traffic: &Traffic, folder: &Path) -> Vec<PathBuf> {
    let names: &[&str] = match traffic.view.points {
        Points::Client => &["client.pcap"],
        Points::Server => &["server.pcap"],
        Points::Both => &["client.pcap", "server.pcap"],
    };
    names.iter().map(|name| folder.join(name)).collect()
}

/// Removes the packets that the captures are to lack, which are those before a time.
fn cut(traffic: &Traffic, captures: &[PathBuf]) -> Result<(), Error> {
    let Some(first) = captures.first() else {
        return Ok(());
    };
    if traffic.view.skipped_percent == 0 {
        return Ok(());
    }
    let from_ns = pcap::time_at(first, traffic.view.skipped_percent)?;
    captures
        .iter()
        .try_for_each(|capture| pcap::cut(capture, from_ns))
}

fn scenario(traffic: &Traffic) -> Result<Scenario, Error> {
    let text = format!(
        "name = \"strangers\"\ntitle = \"drawn\"\ntarget = \"drawn\"\n\
         [[service]]\nname = \"drawn\"\nport = {PORT}\nserver = {{ kind = \"nobody\" }}\n"
    );
    let mut scenario = Scenario::parse("strangers", &text)?;
    scenario.path = path(traffic);
    Ok(scenario)
}

fn path(traffic: &Traffic) -> PathSpec {
    let mut path = PathSpec {
        round_trip: traffic.round_trip,
        seed: traffic.seed,
        ..PathSpec::default()
    };
    for fault in &traffic.faults {
        match *fault {
            Fault::Loss { share } => {
                path.to_server.loss = share;
                path.to_client.loss = share;
            }
            Fault::Rate { bits } => {
                path.to_client.rate = Rate::from_bits_per_second(bits);
                path.to_client.queue = Some(Size::from_bytes(128_000));
            }
            Fault::Jitter { most } => {
                // Most packets are hardly delayed: if all were, in order, the path would only be longer.
                let jitter = || {
                    Some(JitterSpec {
                        distribution: Distribution::Pareto {
                            scale: most / 20,
                            shape: 1.3,
                            most,
                        },
                        keep_order: true,
                    })
                };
                path.to_server.jitter = jitter();
                path.to_client.jitter = jitter();
            }
            Fault::LostSyns { of } => lose_syns(&mut path.to_server, of),
            _ => {}
        }
    }
    path
}

fn lose_syns(lane: &mut LaneSpec, of: u64) {
    lane.drop.push(DropSpec {
        flags: Some(Flags::Syn),
        nth: vec![of / 2 + 1],
        of: Some(of),
        ..DropSpec::default()
    });
}

fn write(file: &Path, plan: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(plan).expect("a plan is text and numbers");
    fs::write(file, text).map_err(Error::file("write", file))
}

/// The hosts of a run, and what is played on them.
struct Hosts<'a> {
    lab: &'a Lab,
    traffic: &'a Traffic,
    helper: &'a Helper,
    folder: &'a Path,
}

/// A program of a run, which ends when this is dropped.
struct DrawnProgram(Child);

impl Drop for DrawnProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Hosts<'_> {
    /// Starts servers and captures, runs the client to its end, and returns the captures.
    fn play(&self) -> Result<Vec<PathBuf>, Error> {
        let upstream = self.upstream()?;
        let _asked = match upstream {
            Some((side, _)) => Some(self.serve(side, UPSTREAM_PORT, self.other_traffic(), None)?),
            None => None,
        };
        let address = upstream.map(|(_, address)| address);
        let _server = self.serve(Side::Server, PORT, self.traffic.clone(), address)?;
        self.warm_up()?;
        let captures = captures(self.traffic, self.folder);
        let recording = self.capture(&captures)?;
        let asked = self.ask(self.traffic, ASKED, 0);
        let recorded = recording.stop()?;
        asked?;
        if recorded.iter().any(|end| end.dropped > 0) {
            return Err(refused("tcpdump missed packets"));
        }
        let path = self.lab.path_counters()?;
        if path.is_some_and(|path| {
            path.to_server.dropped_overflow + path.to_client.dropped_overflow > 0
        }) {
            return Err(refused("the emulator could not carry all packets"));
        }
        Ok(captures)
    }

    /// Returns the host and the address of the service that the server asks.
    fn upstream(&self) -> Result<Option<(Side, SocketAddr)>, Error> {
        let place = self.traffic.faults.iter().find_map(|fault| match fault {
            Fault::SlowUpstream { place, .. } => Some(*place),
            _ => None,
        });
        let (side, address) = match place {
            None => return Ok(None),
            Some(Place::SameHost) => (Side::Server, "127.0.0.1"),
            Some(Place::OtherHost) => {
                let host = self.lab.client();
                let (name, device) = (host.namespace(), host.interface());
                let address = format!("{OTHER_HOST}/24");
                let words = ["-netns", name, "address", "add", &address, "dev", device];
                tool::run("ip", words.into_iter().chain(["noprefixroute"]))?;
                (Side::Client, OTHER_HOST)
            }
        };
        let address = format!("{address}:{UPSTREAM_PORT}");
        Ok(Some((side, address.parse().expect("an address"))))
    }

    /// Returns the traffic of the service that the server asks.
    fn other_traffic(&self) -> Traffic {
        let slow = self.traffic.faults.iter().filter_map(|fault| match *fault {
            Fault::SlowUpstream { share, extra, .. } => Some(Fault::SlowThink { share, extra }),
            _ => None,
        });
        let mut traffic = self.traffic.clone();
        traffic.faults = slow.collect();
        traffic.framing = WireFormat::Binary;
        traffic.workers = None;
        traffic.talk.response = (60, 200);
        traffic.server = Habits {
            think: Spread::Constant {
                time: UPSTREAM_THINK,
            },
            parts: 1,
            nagle: false,
            pushes: None,
        };
        traffic
    }

    fn serve(
        &self,
        side: Side,
        port: u16,
        traffic: Traffic,
        upstream: Option<SocketAddr>,
    ) -> Result<DrawnProgram, Error> {
        let name = if port == PORT { SERVED } else { UPSTREAM };
        let plan = ServingPlan {
            traffic,
            port,
            diary: self.folder.join(name),
            upstream,
        };
        let program = self.start(side, "stranger-serve", name, &plan)?;
        let begun = Instant::now();
        let namespace = self.lab.run().namespace(side);
        while !listening::ports(&namespace)?.contains(&port) {
            if begun.elapsed() > READY_LIMIT {
                return Err(refused("its server does not listen"));
            }
            sleep(Duration::from_millis(3));
        }
        Ok(program)
    }

    fn start(
        &self,
        side: Side,
        word: &str,
        name: &str,
        plan: &impl Serialize,
    ) -> Result<DrawnProgram, Error> {
        let file = self.folder.join(format!("{name}.plan"));
        write(&file, plan)?;
        let mut command: Command = self.helper.command();
        command.arg(word).arg(&file);
        let host = match side {
            Side::Client => self.lab.client(),
            Side::Server => self.lab.server(),
        };
        host.place(&mut command)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().map_err(|source| Error::Start {
            program: word.to_owned(),
            source,
        })?;
        Ok(DrawnProgram(child))
    }

    /// Sends a few requests before the capture: a program that runs for the first time waits for its
    /// own pages, and no diary has that time.
    fn warm_up(&self) -> Result<(), Error> {
        /// The number of the first of these requests, which are not among those of the run.
        const APART: u64 = 1 << 40;
        let mut traffic = self.traffic.clone();
        traffic.talk.most = u32::from(traffic.talk.connections);
        self.ask(&traffic, WARMED, APART)?;
        // The ends of these connections are not to be captured.
        sleep(2 * traffic.round_trip + SETTLE);
        Ok(())
    }

    /// Runs the client to its end. Its requests have numbers from `first`.
    fn ask(&self, traffic: &Traffic, name: &str, first: u64) -> Result<(), Error> {
        let address = self.lab.server().address(Family::V4);
        let plan = AskingPlan {
            traffic: traffic.clone(),
            to: SocketAddr::new(address, PORT),
            diary: self.folder.join(name),
            first,
        };
        let mut client = self.start(Side::Client, "stranger-ask", name, &plan)?;
        let begun = Instant::now();
        loop {
            match client.0.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(None) if begun.elapsed() < END_LIMIT => sleep(Duration::from_millis(5)),
                Ok(None) => return Err(refused("its client did not end")),
                _ => return Err(refused("its client failed")),
            }
        }
    }

    fn capture(&self, files: &[PathBuf]) -> Result<Recording, Error> {
        let mut recording: Option<Recording> = None;
        for file in files {
            let is_clients = file.ends_with("client.pcap");
            let (filter, interface) = self.selection(is_clients);
            let options = RecordingOptions {
                filter,
                snapshot_length: self.traffic.view.snapshot,
                interface,
                is_micro: false,
            };
            let host = if is_clients {
                self.lab.client()
            } else {
                self.lab.server()
            };
            let another = Recording::start([(host, &**file)], &options)?;
            recording = Some(match recording {
                Some(recording) => recording.beside(another),
                None => another,
            });
        }
        recording.ok_or_else(|| refused("nothing is captured"))
    }

    /// Returns the filter and the device of a capture.
    fn selection(&self, is_clients: bool) -> (String, Option<String>) {
        let call = self.traffic.faults.iter().find_map(|fault| match *fault {
            Fault::SlowUpstream {
                place, is_captured, ..
            } => Some((place, is_captured)),
            _ => None,
        });
        match call {
            Some((Place::SameHost, true)) if !is_clients => (String::new(), Some("any".to_owned())),
            Some((Place::OtherHost, true)) if !is_clients => (String::new(), None),
            Some(_) => (format!("not port {UPSTREAM_PORT}"), None),
            None => (String::new(), None),
        }
    }
}

fn refused(reason: &str) -> Error {
    Error::NotShown {
        scenario: "strangers".to_owned(),
        service: "drawn".to_owned(),
        reason: reason.to_owned(),
    }
}

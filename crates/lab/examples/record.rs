//! Records the case and its look-alikes at both ends:
//! `cargo run -p lagtrace-lab --example record -- FOLDER [ROUND_TRIP_MS…]`, as root.
//!
//! Makes `FOLDER/<name>-<round trip>ms-{client,server}.pcap`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use lagtrace_lab::{Family, Helper, Host, Lab, RecordingOptions, Scenario, helper_main};

/// The load on a service while it is recorded.
#[derive(Clone, Copy)]
enum Load {
    /// wrk with this many connections for two seconds.
    Wrk(u32),
    /// Six curls with this many requests each. Each curl uses one connection as long as the server
    /// keeps it open.
    Curl(u32),
}

/// The recordings: name, scenario, service, load.
const RECORDINGS: &[(&str, &str, &str, Load)] = &[
    ("good", "nagle-delayed-ack", "good", Load::Curl(40)),
    ("latency", "nagle-delayed-ack", "latency", Load::Wrk(6)),
    (
        "latency-curl",
        "nagle-delayed-ack",
        "latency",
        Load::Curl(40),
    ),
    (
        "write-write-read",
        "nagle-write-write-read",
        "write-write-read",
        Load::Wrk(6),
    ),
    (
        "short-delayed-ack",
        "short-delayed-ack",
        "latency",
        Load::Wrk(6),
    ),
    ("think-44", "server-think", "think-44", Load::Wrk(6)),
    ("pause-44", "server-pause", "pause-44", Load::Wrk(6)),
    (
        "one-segment",
        "nodelay-off-one-segment",
        "one-segment",
        Load::Curl(40),
    ),
    ("nopush", "nopush", "nopush", Load::Curl(40)),
    ("fin-closed", "fin-closed", "fin", Load::Curl(20)),
    ("lossy-good", "case-on-lossy-path", "good", Load::Wrk(40)),
    (
        "lossy-latency",
        "case-on-lossy-path",
        "latency",
        Load::Wrk(40),
    ),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.peek().is_some_and(|first| first == "lab-helper") {
        return helper_main(arguments.skip(1));
    }
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        println!("usage: record FOLDER [ROUND_TRIP_MS…]");
        return ExitCode::from(2);
    };
    let round_trips: Vec<u64> = arguments
        .filter_map(|word| word.to_str()?.parse().ok())
        .collect();
    let round_trips = if round_trips.is_empty() {
        vec![0, 8, 50]
    } else {
        round_trips
    };
    match record_all(&folder, &round_trips) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn record_all(folder: &Path, round_trips: &[u64]) -> Result<(), Box<dyn Error>> {
    let folder = std::path::absolute(folder)?;
    std::fs::create_dir_all(&folder)?;
    for round_trip in round_trips {
        for (name, scenario, service, load) in RECORDINGS {
            let scenario =
                Scenario::by_name(scenario)?.with_round_trip(Duration::from_millis(*round_trip));
            let lab = Lab::bring_up(&scenario, &Helper::this_program("lab-helper"))?;
            record(
                &lab,
                service,
                *load,
                &folder.join(format!("{name}-{round_trip}ms")),
            )?;
            lab.take_down()?;
        }
    }
    Ok(())
}

fn record(lab: &Lab, service: &str, load: Load, stem: &Path) -> Result<(), Box<dyn Error>> {
    let service = lab.service(service)?;
    let file = |end: &str| PathBuf::from(format!("{}-{end}.pcap", stem.display()));
    let options = RecordingOptions {
        filter: format!("port {}", service.port),
        ..RecordingOptions::default()
    };
    let recording = lab.record(&file("client"), &file("server"), &options)?;
    put_load(lab.client(), &lab.url(service, Family::V4), load)?;
    let recorded = recording.stop()?;
    println!(
        "{}: {recorded:?} {:?}",
        stem.display(),
        lab.path_counters()?
    );
    Ok(())
}

fn put_load(client: &Host, url: &str, load: Load) -> Result<(), Box<dyn Error>> {
    let commands = match load {
        Load::Wrk(connections) => vec![vec![
            "wrk".to_owned(),
            format!("-c{connections}"),
            "-t1".to_owned(),
            "-d2s".to_owned(),
            url.to_owned(),
        ]],
        Load::Curl(requests) => {
            let curl = ["curl", "-s", "-o", "/dev/null"].map(str::to_owned);
            vec![[curl.to_vec(), vec![format!("{url}?n=[1-{requests}]")]].concat(); 6]
        }
    };
    let mut running = Vec::new();
    for words in commands {
        running.push(
            client
                .command(&words[0])?
                .args(&words[1..])
                .stdout(Stdio::null())
                .spawn()?,
        );
    }
    for mut load in running {
        load.wait()?;
    }
    Ok(())
}

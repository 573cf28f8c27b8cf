//! Recordings of scenarios, stored together with the truth.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lagtrace_lab::record::{Request, record};
use lagtrace_lab::{Helper, Label, Scenario};

use super::{HELPER, failed, milliseconds, scenario};
use crate::console::Console;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

/// The options of `lagtrace-lab record`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each recording is a folder with a capture of each end (on loopback, one for
both) and truth.json. A scenario runs twice, with its fault and with the fault
switched off. The proof of the fault (tshark, a kernel counter, a server's log,
the client's own clock) must distinguish the two runs; otherwise nothing is
recorded.

Examples:
  sudo lagtrace-lab record nagle-delayed-ack
  sudo lagtrace-lab record --all --output corpus
  sudo lagtrace-lab record slow-start --rtt 80ms --seed 7")]
pub(super) struct Options {
    /// The scenarios, or scenario files (*.toml)
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Every scenario
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The folder for the recordings, with a subfolder for each
    #[arg(long, short, value_name = "FOLDER", default_value = "corpus")]
    output: PathBuf,
    /// Record this service of the scenario instead of the default one
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The round trip, instead of those of the scenario; a bare number means milliseconds
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    rtt: Option<Duration>,
    /// Seed of the path's random events, instead of the scenario's own seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Use IPv6
    #[arg(long)]
    ipv6: bool,
}

/// Records the scenarios one after the other. The outcome is `Found` if one could not be recorded.
pub(super) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let helper = Helper::this_program(HELPER);
    let mut refused = 0;
    for scenario in scenarios(options)? {
        for request in requests(options, &scenario) {
            if interrupt.is_requested() {
                return Ok(Outcome::Interrupted);
            }
            match record(&scenario, &request, &helper, &options.output) {
                Ok((_, label)) => console.outcome("recorded", &describe(&label)),
                Err(_) if interrupt.is_requested() => return Ok(Outcome::Interrupted),
                // With `--all`, one scenario that cannot be recorded does not prevent the recording
                // of the others: its fault may not show, or a program that it needs may be missing.
                Err(error) if options.all => {
                    refused += 1;
                    console.outcome("refused", &error.chain());
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok(match refused {
        0 => Outcome::Clean,
        _ => Outcome::Found,
    })
}

fn scenarios(options: &Options) -> Result<Vec<Scenario>> {
    if options.all {
        return Scenario::all().map_err(failed);
    }
    let named = options.names.iter().map(|name| scenario(name));
    let scenarios: Vec<_> = named.collect::<Result<_>>()?;
    if options.service.is_some() && scenarios.len() > 1 {
        return Err(Failure::new("--service goes with one scenario".to_owned()));
    }
    Ok(scenarios)
}

fn requests(options: &Options, scenario: &Scenario) -> Vec<Request> {
    let mut requests = Request::all_of(scenario);
    if let Some(rtt) = options.rtt {
        requests.retain(|request| request.round_trip == requests_first(scenario));
        for request in &mut requests {
            request.round_trip = Some(rtt);
        }
    }
    for request in &mut requests {
        request.service.clone_from(&options.service);
        request.seed = options.seed;
        request.ipv6 |= options.ipv6;
    }
    requests
}

/// Returns the round trip of the scenario's first recording. `--rtt` replaces this one and leaves
/// out the recordings with other round trips.
fn requests_first(scenario: &Scenario) -> Option<Duration> {
    Request::all_of(scenario).first()?.round_trip
}

fn describe(label: &Label) -> String {
    let with = &label.requests.with;
    let mut text = format!(
        "{} {}: {} requests, {} failed, mean {:.2} ms",
        label.scenario,
        label.variant,
        with.count,
        with.errors,
        with.mean_ns as f64 / 1e6
    );
    if let Some(without) = &label.requests.without {
        text.push_str(&format!(
            " ({:.2} ms without the fault)",
            without.mean_ns as f64 / 1e6
        ));
    }
    for shown in &label.proof {
        let without = shown.without.map_or("-".to_owned(), |n| n.to_string());
        text.push_str(&format!("; {}/{without}", shown.with));
    }
    text
}

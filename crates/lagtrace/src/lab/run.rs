//! The command `lagtrace-lab run`, which brings one scenario up and diagnoses it like any service.

use std::process::{Command, Stdio};

use anyhow::Context as _;
use clap::Args;
use lagtrace_core::registry::Id;
use lagtrace_core::report::Report;
use lagtrace_lab::record::watch;
use lagtrace_lab::server::Server;
use lagtrace_lab::{Family, Helper, Lab, Service, Side};
use serde_json::{Value, json};

use super::{Choice, HELPER, failed, lagtrace, truth};
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::render;

/// The id of a user without any privileges.
const NOBODY: &str = "65534";

/// The options of `lagtrace-lab run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo lagtrace-lab run nagle-delayed-ack
  sudo lagtrace-lab run nagle-delayed-ack --rtt 8ms -- -d 5s
  sudo lagtrace-lab run ./my-own.toml")]
pub(super) struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Diagnose only this service of the scenario
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Diagnose over IPv6
    #[arg(long)]
    ipv6: bool,
    /// Diagnose without any privilege (setpriv)
    #[arg(long)]
    unprivileged: bool,
    /// Arguments for `lagtrace diagnose`
    #[arg(last = true, value_name = "ARGUMENTS")]
    diagnose: Vec<String>,
}

/// A diagnosed service.
struct Diagnosis {
    service: String,
    url: String,
    /// The differences from the truth; `None` if the diagnosis was interrupted.
    misses: Option<Vec<String>>,
    /// True if the machine delayed the emulation of the path.
    path_was_late: bool,
    report: Report,
}

/// Brings the scenario up, diagnoses its services and takes it down. The outcome is `Found` if a
/// finding was not expected by the truth, or an expected one is missing.
pub(super) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    // A missing program is an error before anything is brought up.
    lagtrace()?;
    let interrupt = Interrupt::listen()?;
    let lab = options.choice.bring_up()?;
    console.outcome("lab", &format!("up: {}", lab.scenario().title));
    let diagnoses = diagnose_all(options, &lab, console, &interrupt);
    lab.take_down().map_err(failed)?;
    let diagnoses = diagnoses?;
    print(&diagnoses, console)?;
    if interrupt.is_requested() {
        return Ok(Outcome::Interrupted);
    }
    let is_right = |diagnosis: &Diagnosis| diagnosis.misses.as_ref().is_none_or(Vec::is_empty);
    Ok(if diagnoses.iter().all(is_right) {
        Outcome::Clean
    } else {
        Outcome::Found
    })
}

fn diagnose_all(
    options: &Options,
    lab: &Lab,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Vec<Diagnosis>> {
    let scenario = lab.scenario();
    let services: Vec<&Service> = match &options.service {
        Some(name) => vec![lab.service(name).map_err(failed)?],
        None => scenario
            .services
            .iter()
            .filter(|one| one.is_asked())
            .collect(),
    };
    let mut diagnoses = Vec::new();
    for service in services {
        if interrupt.is_requested() {
            break;
        }
        console.outcome(
            "service",
            &format!("{} on port {}", service.name, service.port),
        );
        let diagnosed = if service.load.is_plain() {
            diagnose(options, lab, service, console)
        } else {
            analyze(options, lab, service)
        };
        match diagnosed {
            Ok(mut diagnosis) => {
                if interrupt.is_requested() {
                    diagnosis.misses = None;
                }
                diagnoses.push(diagnosis);
            }
            Err(_) if interrupt.is_requested() => break,
            Err(failure) => return Err(failure),
        }
    }
    Ok(diagnoses)
}

/// Runs `lagtrace diagnose` on the lab's client host.
fn diagnose(
    options: &Options,
    lab: &Lab,
    service: &Service,
    console: &Console,
) -> Result<Diagnosis> {
    let family = if options.ipv6 { Family::V6 } else { Family::V4 };
    let mut command = command(options, lab)?;
    let url = match server_name(service) {
        Some(name) => {
            let address = lab.server().address(family).to_string();
            command.args(["diagnose", "--address", &address]);
            format!("http://{name}:{}/", service.port)
        }
        None => {
            command.arg("diagnose");
            lab.url(service, family)
        }
    };
    command.args([&url, "--format", "json"]);
    command.args(&options.diagnose);
    if console.output().quiet {
        command.arg("--quiet");
    }
    let report = report(command)?;
    Ok(judged(lab, service, url, report))
}

/// Runs the service's own load, records it, and analyses the client's capture. This is needed for
/// faults that depend on how requests are sent.
fn analyze(options: &Options, lab: &Lab, service: &Service) -> Result<Diagnosis> {
    let family = if options.ipv6 { Family::V6 } else { Family::V4 };
    let helper = Helper::this_program(HELPER);
    let (_, captures) = watch(lab, service, family, &helper).map_err(failed)?;
    let mut command = Command::new(lagtrace()?);
    command.arg("analyze").args(captures.first());
    command.args(["--format", "json", "--quiet"]);
    let report = report(command)?;
    Ok(judged(lab, service, lab.url(service, family), report))
}

/// Runs the command and returns its report.
fn report(mut command: Command) -> Result<Report> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("start lagtrace for the lab")?;
    if output.stdout.is_empty() {
        let told = format!("lagtrace gave no report: {}", output.status);
        return Err(Failure::new(told));
    }
    Ok(serde_json::from_slice(&output.stdout).context("read the report from the lab")?)
}

fn judged(lab: &Lab, service: &Service, url: String, report: Report) -> Diagnosis {
    // The diagnosis always uses the client's packets. On loopback, these are also the server's
    // packets.
    let mut truth = if lab.scenario().path.loopback {
        service.truth.seen_from_both()
    } else {
        service.truth.seen_from(Side::Client)
    };
    let path_was_late = was_late(lab);
    if path_was_late {
        // A late path did delay packets, although the scenario specifies no such delay.
        truth.allowed.extend([Id::PathJitter, Id::PathQueueing]);
    }
    Diagnosis {
        service: service.name.clone(),
        url,
        misses: Some(truth::misses(&truth, &report)),
        path_was_late,
        report,
    }
}

/// Returns true if the emulated path delivered packets later than the scenario specifies.
fn was_late(lab: &Lab) -> bool {
    let counters = lab.path_counters().ok().flatten();
    counters.is_some_and(|path| path.to_server.is_late() || path.to_client.is_late())
}

/// Returns the host name for requests to a service, if it has one.
fn server_name(service: &Service) -> Option<&str> {
    match &service.server {
        Server::Nginx(nginx) => nginx.server_name.as_deref(),
        _ => None,
    }
}

fn command(options: &Options, lab: &Lab) -> Result<Command> {
    if !options.unprivileged {
        return lab.client().command(lagtrace()?).map_err(failed);
    }
    let mut command = lab.client().command("setpriv").map_err(failed)?;
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    command.args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]);
    command.arg(lagtrace()?);
    Ok(command)
}

fn print(diagnoses: &[Diagnosis], console: &Console) -> Result<()> {
    let all: Vec<_> = diagnoses.iter().map(as_json).collect();
    let document = match console.output().format {
        Format::Text => diagnoses.iter().map(|d| as_text(d, console)).collect(),
        Format::Json => format!("{:#}\n", Value::from(all)),
        Format::Ndjson => all.iter().map(|value| format!("{value}\n")).collect(),
    };
    deliver(console, &document)
}

fn as_text(diagnosis: &Diagnosis, console: &Console) -> String {
    let letter = render::text(&diagnosis.report, &console.style());
    let truth = match diagnosis.misses.as_deref() {
        None => "The diagnosis was interrupted and is not compared with the truth.".to_owned(),
        Some([]) => "The diagnosis is right.".to_owned(),
        Some(misses) => format!("The diagnosis is wrong: {}.", misses.join("; ")),
    };
    format!(
        "\n=== {}: {}\n\n{letter}\n{truth}\n",
        diagnosis.service, diagnosis.url
    )
}

fn as_json(diagnosis: &Diagnosis) -> Value {
    json!({
        "service": diagnosis.service,
        "url": diagnosis.url,
        "misses": diagnosis.misses,
        "path_was_late": diagnosis.path_was_late,
        "report": diagnosis.report,
    })
}

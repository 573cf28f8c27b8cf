//! Running a load on the client, and what its clients say of their own requests.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use regex_lite::Regex;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::{Curl, Load, Program};
use crate::client::{AskPlan, Asked, OwnClient};
use crate::error::Error;
use crate::helper::Helper;
use crate::lab::{Family, Lab};
use crate::process::Process;
use crate::scenario::Service;
use crate::tool;

/// No load lasts longer.
const LIMIT: Duration = Duration::from_secs(60);

/// How long curl waits for one response.
const CURL_LIMIT_S: &str = "30";

/// What curl says after each transfer: the status, 000 if there was none, and the seconds.
const CURL_SAYS: &str = "%{http_code} %{time_total}\n";

/// What the clients say of their own requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests that were answered.
    pub count: u64,
    /// Requests that were not.
    pub errors: u64,
    /// Mean time of an answered request, in nanoseconds.
    pub mean_ns: u64,
    /// Its median.
    pub p50_ns: u64,
    /// Its 99th percentile.
    pub p99_ns: u64,
}

/// One client after the other's words: a request's time, or that it failed.
type Times = Vec<Result<Duration, ()>>;

/// Runs a service's load to its end.
pub(crate) fn run(
    lab: &Lab,
    service: &Service,
    family: Family,
    helper: &Helper,
) -> Result<Requests, Error> {
    let words = Words::of(lab, service, family);
    let deadline = Instant::now() + LIMIT;
    let times = match &service.load {
        Load::Curl(curl) => curls(lab, curl, &words, deadline)?,
        Load::Command(program) => programs(lab, program, &words, deadline)?,
        Load::Own(own) => {
            let to = SocketAddr::new(lab.server().address(family), service.port);
            own_client(lab, &own.client, to, helper, deadline)?
        }
    };
    Ok(summarise(&times))
}

/// What a load's arguments may ask to have filled in.
pub(crate) struct Words {
    filled: [(&'static str, String); 4],
}

impl Words {
    pub(crate) fn of(lab: &Lab, service: &Service, family: Family) -> Self {
        let url = lab.url(service, family);
        let folder = lab.run().folder().display().to_string();
        Self {
            filled: [
                ("{address}", lab.server().address(family).to_string()),
                ("{port}", service.port.to_string()),
                ("{url}", url.trim_end_matches('/').to_owned()),
                ("{folder}", folder),
            ],
        }
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        let fill = |text: String, (word, value): &(&str, String)| text.replace(word, value);
        self.filled.iter().fold(text.to_owned(), fill)
    }
}

fn curls(lab: &Lab, curl: &Curl, words: &Words, deadline: Instant) -> Result<Times, Error> {
    tool::require("curl", "curl")?;
    let base = match &curl.host {
        Some(host) => {
            let url = words.fill("{url}");
            let scheme = url.split("://").next().unwrap_or("http").to_owned();
            format!("{scheme}://{host}:{}", words.fill("{port}"))
        }
        None => words.fill("{url}"),
    };
    let arguments = |numbers: String| {
        // Without proxies of the environment, and -k: the lab signs its own certificates.
        let fixed = ["-q", "-s", "-k", "--noproxy", "*", "-o", "/dev/null"];
        let mut all: Vec<String> = fixed.map(str::to_owned).to_vec();
        all.extend(["-m", CURL_LIMIT_S, "-w", CURL_SAYS].map(str::to_owned));
        if let Some(every) = curl.every {
            let a_minute = (60_000 / every.as_millis().clamp(1, 60_000)).max(1);
            all.extend(["--rate".to_owned(), format!("{a_minute}/m")]);
        }
        all.extend(curl.arguments.iter().map(|word| words.fill(word)));
        let joint = if curl.path.contains('?') { '&' } else { '?' };
        all.push(format!("{base}{}{joint}n={numbers}", curl.path));
        all
    };
    let runs = match curl.fresh {
        true => (1..=curl.requests)
            .map(|n| arguments(n.to_string()))
            .collect(),
        false => vec![arguments(format!("[1-{}]", curl.requests))],
    };
    let outputs = side_by_side(lab, "curl", curl.connections, &runs, deadline)?;
    Ok(outputs
        .iter()
        .flat_map(|output| output.text.lines())
        .filter_map(curl_said)
        .collect())
}

/// A line of [`CURL_SAYS`].
fn curl_said(line: &str) -> Option<Result<Duration, ()>> {
    let (status, seconds) = line.split_once(' ')?;
    let status: u16 = status.parse().ok()?;
    let took = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    Some(if (200..400).contains(&status) {
        Ok(took)
    } else {
        Err(())
    })
}

fn programs(lab: &Lab, load: &Program, words: &Words, deadline: Instant) -> Result<Times, Error> {
    if tool::find(&load.program).is_none() {
        return Err(Error::MissingProgram {
            program: load.program.clone(),
            package: load.package.clone(),
        });
    }
    let arguments: Vec<String> = load.arguments.iter().map(|word| words.fill(word)).collect();
    let runs = vec![arguments; load.times as usize];
    let outputs = side_by_side(lab, &load.program, load.processes, &runs, deadline)?;
    let pattern = load
        .latency
        .as_deref()
        .and_then(|text| Regex::new(text).ok());
    Ok(match pattern {
        Some(pattern) => outputs
            .iter()
            .flat_map(|output| program_said(&pattern, output))
            .collect(),
        None => outputs
            .iter()
            .map(|output| output.is_success.then_some(output.took).ok_or(()))
            .collect(),
    })
}

/// The requests of one run: a time for each match, and a failure if the run failed.
fn program_said(pattern: &Regex, output: &Output) -> Times {
    let times = pattern.captures_iter(&output.text).filter_map(|found| {
        let millis: f64 = found.get(1)?.as_str().parse().ok()?;
        Duration::try_from_secs_f64(millis / 1e3).ok().map(Ok)
    });
    let mut times: Times = times.collect();
    if !output.is_success {
        times.push(Err(()));
    }
    times
}

fn own_client(
    lab: &Lab,
    client: &OwnClient,
    to: SocketAddr,
    helper: &Helper,
    deadline: Instant,
) -> Result<Times, Error> {
    let plan = lab.run().folder().join("ask.plan.json");
    let text = serde_json::to_vec(&AskPlan {
        client: client.clone(),
        to,
    })
    .expect("a plan is text and numbers");
    fs::write(&plan, text).map_err(Error::file("write", &plan))?;
    let mut command = helper.command();
    command.arg("ask").arg(&plan);
    lab.client().place(&mut command)?;
    let output = run_to_end(command, "ask", deadline)?;
    let asked = output
        .text
        .lines()
        .filter_map(|line| serde_json::from_str::<Asked>(line).ok());
    let took = |asked: Asked| match asked.ok {
        true => Ok(Duration::from_nanos(asked.latency_ns)),
        false => Err(()),
    };
    Ok(asked.map(took).collect())
}

/// Lays the files that a load's arguments name.
fn lay_files(folder: &Path, load: &Load) -> Result<(), Error> {
    let files = match load {
        Load::Curl(curl) => &curl.files,
        Load::Command(program) => &program.files,
        Load::Own(_) => return Ok(()),
    };
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(Error::file("write", &path))?;
    }
    Ok(())
}

/// What one run of a program said.
struct Output {
    text: String,
    is_success: bool,
    took: Duration,
}

/// So many clients at a time, each of which does all the runs, one after the other.
fn side_by_side(
    lab: &Lab,
    program: &str,
    clients: u32,
    runs: &[Vec<String>],
    deadline: Instant,
) -> Result<Vec<Output>, Error> {
    let in_turn = || -> Result<Vec<Output>, Error> {
        let runs = runs.iter();
        runs.map(|arguments| run_one(lab, program, arguments, deadline))
            .collect()
    };
    let all = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(in_turn)).collect();
        clients
            .into_iter()
            .map(|client| {
                client
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(all.into_iter().flatten().collect())
}

fn run_one(
    lab: &Lab,
    program: &str,
    arguments: &[String],
    deadline: Instant,
) -> Result<Output, Error> {
    let mut command = lab.client().command(program)?;
    command.args(arguments);
    run_to_end(command, program, deadline)
}

fn run_to_end(command: Command, program: &str, deadline: Instant) -> Result<Output, Error> {
    let begun = Instant::now();
    let mut child = start(command, program)?;
    let mut stdout = child.stdout.take().expect("its stdout was piped");
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        // What a program says before it is ended counts.
        let _ = stdout.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let is_success = wait_until(&mut child, deadline);
    let took = begun.elapsed();
    let text = reader
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok(Output {
        text,
        is_success,
        took,
    })
}

fn start(mut command: Command, program: &str) -> Result<Child, Error> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| Error::Start {
            program: program.to_owned(),
            source,
        })
}

/// Waits for a program's end, and brings it about at the deadline; whether it ended well.
fn wait_until(child: &mut Child, deadline: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => sleep(Duration::from_millis(1)),
            _ => {
                end(child);
                return false;
            }
        }
    }
}

/// Ends a program: with a word first, by force a little later.
fn end(child: &mut Child) {
    let process = i32::try_from(child.id()).ok().and_then(Process::with_pid);
    if let Some(process) = process {
        process.signal(Signal::TERM);
        if process.wait_for_end(Duration::from_millis(500)) {
            let _ = child.wait();
            return;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Programs that run beside a load until this is dropped.
pub(crate) struct Background {
    running: Vec<Child>,
}

impl Background {
    /// Lays the files of the service's load, which these programs may use as well, and starts
    /// them.
    pub(crate) fn start(lab: &Lab, service: &Service, family: Family) -> Result<Self, Error> {
        lay_files(&lab.run().folder(), &service.load)?;
        let words = Words::of(lab, service, family);
        let mut background = Self {
            running: Vec::new(),
        };
        for line in &service.background {
            let Some((program, arguments)) = line.split_first() else {
                continue;
            };
            if tool::find(program).is_none() {
                return Err(Error::MissingProgram {
                    program: program.clone(),
                    package: package_of(program).to_owned(),
                });
            }
            let mut command = lab.client().command(program)?;
            command
                .args(arguments.iter().map(|word| words.fill(word)))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let child = command.spawn().map_err(|source| Error::Start {
                program: program.clone(),
                source,
            })?;
            background.running.push(child);
        }
        Ok(background)
    }
}

/// The Debian package of a program: most are called as their program is.
fn package_of(program: &str) -> &str {
    match program {
        "psql" => "postgresql-client",
        "redis-cli" | "redis-benchmark" => "redis-tools",
        "python3" => "python3-minimal",
        _ => program,
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.running.iter_mut().for_each(end);
    }
}

fn summarise(times: &Times) -> Requests {
    let mut answered: Vec<u64> = times
        .iter()
        .flatten()
        .map(|took| u64::try_from(took.as_nanos()).unwrap_or(u64::MAX))
        .collect();
    answered.sort_unstable();
    let count = answered.len();
    // The smallest time that so many of a hundred do not exceed.
    let percentile = |share: usize| {
        let rank = (count * share).div_ceil(100).max(1);
        answered.get(rank - 1).copied().unwrap_or(0)
    };
    let sum: u128 = answered.iter().map(|&ns| u128::from(ns)).sum();
    Requests {
        count: count as u64,
        errors: (times.len() - count) as u64,
        mean_ns: u64::try_from(sum / count.max(1) as u128).unwrap_or(u64::MAX),
        p50_ns: percentile(50),
        p99_ns: percentile(99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn curls_lines_read() {
        assert_eq!(
            curl_said("200 0.041500"),
            Some(Ok(Duration::from_micros(41_500)))
        );
        assert_eq!(curl_said("503 0.001"), Some(Err(())));
        assert_eq!(curl_said("000 2.0"), Some(Err(())));
        assert_eq!(curl_said("curl: (7) Failed"), None);
    }

    #[test]
    fn a_programs_times_are_found_by_the_pattern() {
        let pattern = Regex::new("Time: ([0-9.]+) ms").expect("it reads");
        let output = Output {
            text: "Time: 1.5 ms\nTime: 12.000 ms (00:00.012)\n".to_owned(),
            is_success: false,
            took: MS,
        };
        let said = program_said(&pattern, &output);
        assert_eq!(
            said,
            [Ok(Duration::from_micros(1500)), Ok(12 * MS), Err(())]
        );
    }

    #[test]
    fn times_are_summed_up() {
        let mut times: Times = (1..=100).map(|n| Ok(n * MS)).collect();
        times.push(Err(()));
        let requests = summarise(&times);
        assert_eq!((requests.count, requests.errors), (100, 1));
        assert_eq!(
            (requests.mean_ns, requests.p50_ns),
            (50_500_000, 50_000_000)
        );
        assert_eq!(requests.p99_ns, 99_000_000);
        assert_eq!(summarise(&Vec::new()), Requests::default());
    }
}

//! Running of a load on the client, and reading of its clients' own measurements.

pub(super) mod background;
mod child;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use regex_lite::Regex;

use self::child::{Output, run_to_end};
use crate::client::{AskPlan, Asked, OwnClient};
use crate::error::Error;
use crate::lab::Lab;
use crate::load::requests::{Requests, Times};
use crate::load::{Curl, Load, Program};
use crate::machine::helper::Helper;
use crate::machine::tool;
use crate::scenario::Service;
use crate::side::Family;

/// Maximum time of a load.
const LIMIT: Duration = Duration::from_secs(60);

/// Maximum time that curl waits for one response, in seconds.
const CURL_LIMIT_S: &str = "30";

/// The output format for curl after each transfer: the HTTP status, or 000 if there was none, and
/// the time in seconds.
const CURL_SAYS: &str = "%{http_code} %{time_total}\n";

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
    Ok(Requests::of(&times))
}

/// The values of the placeholders in a load's arguments.
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
        // Proxy settings of the environment are ignored. -k accepts the lab's own certificates.
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
    let runs = if curl.fresh {
        (1..=curl.requests)
            .map(|n| arguments(n.to_string()))
            .collect()
    } else {
        vec![arguments(format!("[1-{}]", curl.requests))]
    };
    let outputs = side_by_side(lab, "curl", curl.connections, &runs, deadline)?;
    Ok(outputs
        .iter()
        .flat_map(|output| output.text.lines())
        .filter_map(curl_said)
        .collect())
}

/// Parses a line of [`CURL_SAYS`].
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
            .flat_map(|output| program_said(&pattern, load.each, output))
            .collect(),
        None => outputs
            .iter()
            .map(|output| output.is_success.then_some(output.took).ok_or(()))
            .collect(),
    })
}

/// Returns the requests of one run: `each` requests per match, and one failure if the run failed.
fn program_said(pattern: &Regex, each: u32, output: &Output) -> Times {
    let times = pattern.captures_iter(&output.text).filter_map(|found| {
        let millis: f64 = found.get(1)?.as_str().parse().ok()?;
        Duration::try_from_secs_f64(millis / 1e3).ok().map(Ok)
    });
    let stands_for = |time| std::iter::repeat_n(time, each as usize);
    let mut times: Times = times.flat_map(stands_for).collect();
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
    let took = |asked: Asked| {
        if asked.ok {
            Ok(Duration::from_nanos(asked.latency_ns))
        } else {
            Err(())
        }
    };
    Ok(asked.map(took).collect())
}

/// Writes the files that a load's arguments refer to.
pub(super) fn lay_files(folder: &Path, load: &Load) -> Result<(), Error> {
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

/// Runs this number of clients in parallel. Each performs all its runs, one after the other.
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
        let said = program_said(&pattern, 1, &output);
        assert_eq!(
            said,
            [Ok(Duration::from_micros(1500)), Ok(12 * MS), Err(())]
        );
    }
}

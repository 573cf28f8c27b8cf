//! Flags of other tools that lagtrace has with another meaning, told apart by their values.

use std::path::Path;

use lagtrace_sources::files::{self, Kind};

use super::typed::{Replacement, Typed};
use super::{answer, expression};
use crate::failure::Result;

/// The commands that send requests: there, `--json` is curl's.
const REQUESTING: &[&str] = &["diagnose", "load", "probe"];
/// The words of a capture filter.
const FILTER: &[&str] = &[
    "tcp", "udp", "icmp", "port", "host", "src", "dst", "net", "and", "or", "not", "ip", "ip6",
];

/// Puts what is meant in place of such flags, or answers what to type.
pub(super) fn settle(typed: &mut Typed<'_>) -> Result<()> {
    let Some(command) = typed.word().map(str::to_owned) else {
        return Ok(());
    };
    answer_any(&command, &typed.rest())?;
    typed.replace_before("--json", "--format=json");
    typed.change(|word, _| everywhere(&command, word));
    match command.as_str() {
        "diagnose" => typed.change(curl),
        "probe" => typed.change(ping),
        "capture" => typed.change(tcpdump),
        "route" => typed.change(traceroute),
        "sockets" => sockets(typed),
        _ => {}
    }
    Ok(())
}

fn everywhere(command: &str, word: &str) -> Replacement {
    match word {
        "--json" if !REQUESTING.contains(&command) => one("--format=json"),
        _ if word.len() > 2
            && word.bytes().skip(1).all(|it| it == b'v')
            && word.starts_with('-') =>
        {
            one("-v")
        }
        _ => Replacement::Keep,
    }
}

fn one(word: &str) -> Replacement {
    Replacement::One(vec![word.to_owned()])
}

/// curl's `-i` has no value.
fn curl(word: &str, next: Option<&str>) -> Replacement {
    let is_url = next.is_some_and(|next| next.contains("://"));
    if word == "-i" && is_url {
        Replacement::One(Vec::new())
    } else {
        Replacement::Keep
    }
}

/// hping3's intervals in microseconds, and its kinds of probes.
fn ping(word: &str, next: Option<&str>) -> Replacement {
    let micros = |text: &str| {
        let digits = text.strip_prefix('u')?;
        let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| vec!["-i".to_owned(), format!("{digits}us")])
    };
    match (word, next) {
        // curl's silence: no source port is called so.
        ("-sS" | "-Ss", _) => Replacement::One(Vec::new()),
        ("-1", _) => Replacement::One(vec!["-m".to_owned(), "icmp".to_owned()]),
        ("-2", _) => Replacement::One(vec!["-m".to_owned(), "udp".to_owned()]),
        ("-M", Some("do" | "want" | "dont")) => {
            Replacement::Two(vec!["--dont-fragment".to_owned()])
        }
        ("-i", Some(next)) => micros(next).map_or(Replacement::Keep, Replacement::Two),
        _ => match word.strip_prefix("-i").and_then(micros) {
            Some(words) => Replacement::One(words),
            None => Replacement::Keep,
        },
    }
}

/// traceroute's number of probes.
fn traceroute(word: &str, next: Option<&str>) -> Replacement {
    match (word, next) {
        ("-q", Some(next)) if next.parse::<u32>().is_ok() => {
            Replacement::Two(vec!["--probes".to_owned(), next.to_owned()])
        }
        _ => Replacement::Keep,
    }
}

/// tcpdump's whole packets, and tshark's filter.
fn tcpdump(word: &str, next: Option<&str>) -> Replacement {
    match (word, next) {
        ("-s", Some("0")) => Replacement::Two(Vec::new()),
        ("-s0", _) => Replacement::One(Vec::new()),
        ("-f", Some(_)) => Replacement::ToEnd,
        _ => Replacement::Keep,
    }
}

/// Clusters of flags and expressions of ss and netstat.
fn sockets(typed: &mut Typed<'_>) {
    typed.change(|word, next| {
        if expression::is_cluster(word, next) {
            Replacement::One(expression::kept(word).into_iter().collect())
        } else {
            Replacement::Keep
        }
    });
    let words = typed.rest();
    let Some(from) = words
        .iter()
        .position(|word| expression::is_expression(word))
    else {
        return;
    };
    let all: Vec<&str> = words.iter().skip(from).map(String::as_str).collect();
    let mut selected = Some(expression::expression(&all));
    let mut at = 0;
    typed.change(|_, _| {
        at += 1;
        if at <= from {
            Replacement::Keep
        } else {
            Replacement::One(selected.take().unwrap_or_default())
        }
    });
}

/// Answers flags whose value shows that another tool's are meant.
fn answer_any(command: &str, words: &[String]) -> Result<()> {
    let has_load = ["diagnose", "load"].contains(&command);
    let mut pairs = words
        .iter()
        .zip(words.iter().skip(1).map(Some).chain([None]));
    let found = pairs.find_map(|(word, next)| {
        let next = next.map(String::as_str).unwrap_or_default();
        match word.as_str() {
            "-q" if has_load && next.parse::<f64>().is_ok() => Some((
                "-q is --quiet here".to_owned(),
                format!("--rate {next}; hey's -q counts for each of its -c workers"),
            )),
            "-s" if has_load && next.ends_with(".lua") => Some((
                "-s SCRIPT is not supported".to_owned(),
                "lagtrace load has -X, -H, --body, -b and --urls FILE".to_owned(),
            )),
            "-w" if next.contains("%{") => Some((
                format!("-w is not curl's -w in `lagtrace {command}`"),
                "`lagtrace probe -m http URL` shows name, TCP, TLS, first and last byte".to_owned(),
            )),
            "--json"
                if REQUESTING.contains(&command) && (next.is_empty() || next.starts_with('-')) =>
            {
                Some((
                    "--json sends its value, as curl's does".to_owned(),
                    "--format json prints the report as JSON".to_owned(),
                ))
            }
            _ => None,
        }
    });
    if let Some((error, hint)) = found {
        return Err(answer(error, hint));
    }
    match command {
        "analyze" => filter_of_a_file(words),
        _ => Ok(()),
    }
}

/// Answers a capture filter behind the name of a file.
fn filter_of_a_file(words: &[String]) -> Result<()> {
    let is_word = |word: &&String| {
        FILTER.contains(&word.as_str()) && files::kind(Path::new(word)) == Kind::Unknown
    };
    let Some(first) = words.iter().find(is_word) else {
        return Ok(());
    };
    let filter = words.iter().skip_while(|word| *word != first);
    let filter: Vec<&str> = filter.map(String::as_str).collect();
    let is_port = |pair: &&[&str]| pair.first() == Some(&"port");
    let port = filter.windows(2).find(is_port).and_then(|pair| pair.get(1));
    Err(answer(
        format!("analyze takes no capture filter (`{}`)", filter.join(" ")),
        format!(
            "--where 'server=:{}' selects exchanges; or tcpdump -r FILE -w - {} | lagtrace analyze -",
            port.unwrap_or(&"PORT"),
            filter.join(" ")
        ),
    ))
}

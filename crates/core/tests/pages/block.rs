//! A trace block: its settings, its script and its expectations.

use core::fmt;
use std::collections::BTreeMap;

use crate::expectation::Expectation;
use crate::observation::Observation;
use crate::script::{self, Item};
use crate::sum::{Nanos, nanos};

/// A trace block as it was parsed.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) expectation: Expectation,
    pub(crate) script: Vec<Item>,
    setting: Setting,
}

/// The values whose combinations are the runs.
#[derive(Clone, Debug)]
struct Setting {
    points: Vec<Point>,
    rtts: Vec<Nanos>,
    mss: u16,
    has_timestamps: bool,
    variables: Vec<(String, Vec<Nanos>)>,
}

/// The point of the path at which the capture is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Client,
    Server,
    Middle,
}

/// One combination of the settings.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) point: Point,
    pub(crate) rtt: Nanos,
    pub(crate) mss: u16,
    pub(crate) has_timestamps: bool,
    pub(crate) variables: BTreeMap<String, Nanos>,
}

/// A line's number in the block, and its words.
pub(crate) type Line = (usize, Vec<String>);

impl Block {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut block = Self {
            expectation: Expectation::default(),
            script: Vec::new(),
            setting: Setting {
                points: vec![Point::Client],
                rtts: vec![0],
                mss: 1460,
                has_timestamps: false,
                variables: Vec::new(),
            },
        };
        let mut script: Vec<Line> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let bare = line.split('#').next().unwrap_or_default();
            let words: Vec<String> = bare.split_whitespace().map(str::to_owned).collect();
            let in_line =
                |error: String| format!("line {} (`{}`): {error}", index + 1, line.trim());
            let Some(first) = words.first() else { continue };
            let rest = &words[1..];
            match first.as_str() {
                "expect:" | "expect-not:" | "may:" => {
                    block.expectation.read(first, rest).map_err(in_line)?;
                }
                "seen-at" | "rtt" | "mss" | "timestamps" | "for" => {
                    block.setting.read(&words).map_err(in_line)?;
                }
                _ => script.push((index + 1, words)),
            }
        }
        if block.expectation.is_empty() {
            return Err("nothing is expected".to_owned());
        }
        block.script = script::parse(&script)?;
        Ok(block)
    }

    /// Returns all combinations of the settings.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for &point in &self.setting.points {
            for &rtt in &self.setting.rtts {
                runs.push(Run {
                    point,
                    rtt,
                    mss: self.setting.mss,
                    has_timestamps: self.setting.has_timestamps,
                    variables: BTreeMap::new(),
                });
            }
        }
        for (name, values) in &self.setting.variables {
            runs = runs
                .iter()
                .flat_map(|run| {
                    values.iter().map(|&value| {
                        let mut run = run.clone();
                        run.variables.insert(name.clone(), value);
                        run
                    })
                })
                .collect();
        }
        runs
    }
}

impl Setting {
    fn read(&mut self, words: &[String]) -> Result<(), String> {
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            let mut list = Vec::new();
            if word != "for" {
                for value in words.by_ref() {
                    list.push(value.trim_end_matches(','));
                    if !value.ends_with(',') {
                        break;
                    }
                }
            }
            match word {
                "seen-at" => {
                    self.points = list
                        .into_iter()
                        .map(Point::parse)
                        .collect::<Result<_, _>>()?;
                }
                "rtt" => self.rtts = list.into_iter().map(duration).collect::<Result<_, _>>()?,
                "mss" => {
                    let value = list.first().and_then(|value| value.parse().ok());
                    self.mss = value.ok_or("an MSS is a number")?;
                }
                "timestamps" => self.has_timestamps = list == ["on"],
                "for" => {
                    let rest: Vec<&str> = words.by_ref().collect();
                    self.variables.push(variable(&rest)?);
                }
                other => return Err(format!("`{other}` is no setting")),
            }
        }
        Ok(())
    }
}

fn variable(words: &[&str]) -> Result<(String, Vec<Nanos>), String> {
    let [name, "in", values @ ..] = words else {
        return Err("`for NAME in VALUES`".to_owned());
    };
    if let [range, "step", step] = values {
        let (low, high) = range.split_once("..").ok_or("a range is LOW..HIGH")?;
        let (low, high, step) = (duration(low)?, duration(high)?, duration(step)?);
        let mut list = Vec::new();
        let mut value = low;
        while value <= high && step > 0 {
            list.push(value);
            value += step;
        }
        return Ok(((*name).to_owned(), list));
    }
    let list: Result<_, _> = values
        .iter()
        .map(|v| duration(v.trim_end_matches(',')))
        .collect();
    Ok(((*name).to_owned(), list?))
}

fn duration(text: &str) -> Result<Nanos, String> {
    nanos(text).ok_or(format!("`{text}` is no duration"))
}

impl Point {
    fn parse(word: &str) -> Result<Self, String> {
        match word {
            "client" => Ok(Self::Client),
            "server" => Ok(Self::Server),
            "middle" => Ok(Self::Middle),
            other => Err(format!("nobody looks from `{other}`")),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Middle => "middle",
        }
    }
}

impl Run {
    /// Plays the script, and returns the result of the analysis.
    pub(crate) fn play(&self, script: &[Item]) -> Result<Observation, String> {
        Observation::of(self, script)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seen at {} of {} ms",
            self.point.name(),
            self.rtt as f64 / 1e6
        )?;
        for (name, value) in &self.variables {
            write!(f, ", {name} {} ms", *value as f64 / 1e6)?;
        }
        Ok(())
    }
}

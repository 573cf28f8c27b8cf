//! The recordings of `corpus/`, and their diagnoses.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use lagtrace_core::analyzer::{Analyzer, Options};
use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::observed::event::{Event, EventBody, Origin, Phase, PointId};
use lagtrace_core::observed::time::{ClockId, Timestamp};
use lagtrace_core::registry::Id;
use lagtrace_core::report::Report;
use lagtrace_lab::Label;
use lagtrace_sources::capture::FileCapture;

use crate::capture::{Capture, Form};
use crate::draw::Draw;

/// The capture of one end of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The names of the recording and of the end.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// A subject with its diagnosis before any change.
pub(crate) struct Loaded<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) label: Label,
    pub(crate) capture: Capture,
    pub(crate) said: Said,
    pub(crate) all: &'a [Subject],
}

/// The findings of a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    /// The first finding; `None` if there is none.
    pub(crate) first: Option<First>,
    /// All findings, by cause and culprit.
    pub(crate) all: Vec<(Id, Owner)>,
    /// The findings that accuse somebody, without those that only locate time.
    pub(crate) accused: Vec<(Id, Owner)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct First {
    pub(crate) cause: Id,
    pub(crate) culprit: Owner,
    pub(crate) cost_ns: u64,
    /// The number of requests that the finding affects.
    pub(crate) affected: u64,
    /// The number of requests in which the cause was looked for.
    pub(crate) of: u64,
}

/// Returns all captures of the corpus, by name.
pub(crate) fn subjects() -> Vec<Subject> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut subjects = Vec::new();
    for folder in fs::read_dir(&corpus).expect("the corpus").flatten() {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let recording = folder.file_name().to_string_lossy().into_owned();
            if let (Some((end, _)), true) = (name.split_once('.'), name.ends_with(".gz")) {
                let name = format!("{recording}/{end}");
                subjects.push(Subject {
                    name,
                    path: file.path(),
                });
            }
        }
    }
    subjects.sort_by(|a, b| a.name.cmp(&b.name));
    subjects
}

impl Subject {
    pub(crate) fn load<'a>(&'a self, all: &'a [Subject]) -> Loaded<'a> {
        let capture = Capture::read(&self.path);
        let bytes = fs::read(&self.path).expect("the recording");
        Loaded {
            subject: self,
            label: self.label(),
            said: Said::of(&analyse(bytes)),
            capture,
            all,
        }
    }

    /// Returns true if the recording has no fault.
    pub(crate) fn is_healthy(&self) -> bool {
        self.label().truth.expected.is_empty()
    }

    fn label(&self) -> Label {
        let path = self.path.with_file_name("truth.json");
        let text = fs::read_to_string(path).expect("the truth");
        serde_json::from_str(&text).expect("the truth reads")
    }

    /// Returns the other end's capture; `None` for a loopback's.
    pub(crate) fn other_end(&self) -> Option<PathBuf> {
        let name = self.path.file_name()?.to_str()?;
        let rest = name.strip_prefix("client")?;
        Some(self.path.with_file_name(format!("server{rest}")))
    }
}

impl Loaded<'_> {
    /// Draws a healthy capture without a finding; `None` if 20 draws do not find one.
    pub(crate) fn healthy(&self, draw: &mut Draw) -> Option<Capture> {
        for _ in 0..20 {
            let other = &self.all[draw.from(0, self.all.len() as i64 - 1) as usize];
            if other.is_healthy() {
                let capture = Capture::read(&other.path);
                let file = capture.file(Form::PLAIN, usize::MAX);
                if Said::of(&analyse(file)).first.is_none() {
                    return Some(capture);
                }
            }
        }
        None
    }
}

/// Returns the report of `lagtrace analyze` on one capture file.
pub(crate) fn analyse(bytes: Vec<u8>) -> Report {
    let point = PointId(0);
    let file = FileCapture::from_reader("capture".to_owned(), Cursor::new(bytes), point);
    let mut file = file.expect("a capture");
    let mut analyzer = Analyzer::new(Options::default());
    while let Some(packet) = file.next_packet() {
        analyzer.packet(&packet);
    }
    analyzer.observe(Event {
        origin: Origin {
            point,
            clock: ClockId::File(0),
            number: 0,
        },
        at: Timestamp::MAX,
        phase: Phase::Baseline,
        body: EventBody::Capture(file.summary()),
    });
    analyzer.finish()
}

/// Returns the report of the command on several files.
pub(crate) fn analyse_files(files: &[PathBuf]) -> Report {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lagtrace"));
    command
        .args(["analyze", "-q", "--format", "json"])
        .args(files);
    let output = command.output().expect("the command runs");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{command:?}: {error}: {output:?}"))
}

impl Said {
    pub(crate) fn of(report: &Report) -> Self {
        let findings = report.findings.iter();
        Self {
            first: report.findings.first().map(|finding| First {
                cause: finding.cause,
                culprit: finding.culprit,
                cost_ns: finding.cost_ns,
                affected: finding.affected.exchanges,
                of: finding.affected.of,
            }),
            all: findings
                .clone()
                .map(|finding| (finding.cause, finding.culprit))
                .collect(),
            accused: findings
                .filter(|finding| !finding.locates)
                .map(|finding| (finding.cause, finding.culprit))
                .collect(),
        }
    }

    /// Returns true if both have the same first finding, with the same culprit.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let named = |said: &Self| said.first.map(|first| (first.cause, first.culprit));
        named(self) == named(other)
    }
}

impl Said {
    /// Returns true if this diagnosis is acceptable after the first finding has lost its evidence.
    /// The first finding must now have the same owner, or be time of an unknown owner, or have been
    /// a finding before.
    pub(crate) fn is_rest_of(&self, whole: &Self) -> bool {
        let (Some(lost), Some(first)) = (whole.first, self.first) else {
            return false;
        };
        first.culprit == lost.culprit
            || first.cause == Id::TimeUnknown
            || whole.all.contains(&(first.cause, first.culprit))
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.first {
            None => f.write_str("nothing"),
            Some(First {
                cause,
                culprit,
                cost_ns,
                affected,
                of,
            }) => {
                let ms = cost_ns as f64 / 1e6;
                let whose = format!("{culprit:?}").to_lowercase();
                write!(
                    f,
                    "{cause} ({whose}, {ms:.1} ms in {affected} of {of} requests)"
                )
            }
        }
    }
}

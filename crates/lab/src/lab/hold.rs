//! The owner's hold on a lab's keeper; releasing it takes the lab down.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use super::keeper::{DETACH, KeepPlan, Word};
use super::run::Run;
use crate::error::Error;
use crate::machine::helper::Helper;
use crate::machine::namespace::before_exec;
use crate::scenario::Scenario;

/// Maximum time for the keeper to clean up before it is killed.
const TAKE_DOWN_LIMIT: Duration = Duration::from_secs(15);

/// The keeper's process and the two streams to it. The keeper monitors the stream from this process
/// and ends when this process ends.
#[derive(Debug)]
pub(crate) struct Hold {
    scenario: String,
    keeper: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Hold {
    /// Starts a keeper and waits until its lab is up.
    pub(crate) fn on_new_keeper(
        scenario: &Scenario,
        helper: &Helper,
    ) -> Result<(Self, Run), Error> {
        let mut hold = Self::start(scenario, helper)?;
        match hold.listen()? {
            Word::Ready(run) => Ok((hold, *run)),
            other => Err(hold.failure(other)),
        }
    }

    fn start(scenario: &Scenario, helper: &Helper) -> Result<Self, Error> {
        let mut command = helper.command();
        command
            .arg("keep")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .current_dir("/");
        before_exec::lead_session(&mut command);
        let start = |source| Error::Start {
            program: "the lab's keeper".to_owned(),
            source,
        };
        let mut keeper = command.spawn().map_err(start)?;
        let mut to = keeper.stdin.take().expect("its stdin was piped");
        let from = BufReader::new(keeper.stdout.take().expect("its stdout was piped"));
        let plan = KeepPlan {
            scenario: scenario.clone(),
            helper_prefix: helper.prefix(),
        };
        let mut line = serde_json::to_vec(&plan).expect("a plan is text and numbers");
        line.push(b'\n');
        // A write error is ignored: if the keeper ended early, its next message is the error to
        // report.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        Ok(Self {
            scenario: scenario.name.clone(),
            keeper,
            to,
            from,
        })
    }

    /// Makes the lab stay up after this process ends.
    pub(crate) fn let_stay(mut self) -> Result<(), Error> {
        let told = self
            .to
            .write_all(DETACH.as_bytes())
            .and_then(|()| self.to.flush());
        told.map_err(Error::file("tell", "the lab's keeper"))?;
        match self.listen()? {
            Word::Detached => Ok(()),
            other => Err(self.failure(other)),
        }
    }

    /// Reads the keeper's next message.
    fn listen(&mut self) -> Result<Word, Error> {
        let mut line = String::new();
        self.from
            .read_line(&mut line)
            .map_err(Error::file("hear from", "the lab's keeper"))?;
        if line.is_empty() {
            return Ok(Word::Failed("its keeper ended without a word".to_owned()));
        }
        let unreadable = |_| Word::Failed(format!("its keeper said: {}", line.trim()));
        Ok(serde_json::from_str(&line).unwrap_or_else(unreadable))
    }

    /// Waits until a keeper that failed has cleaned up, and returns the error that the keeper
    /// reported.
    fn failure(self, word: Word) -> Error {
        let message = match word {
            Word::Failed(message) => message,
            Word::Ready(_) | Word::Detached => "its keeper answered out of turn".to_owned(),
        };
        let scenario = self.scenario.clone();
        // The keeper's own error is reported, so an error of its cleanup is ignored.
        let _ = self.release();
        Error::Keeper { scenario, message }
    }

    /// Releases the keeper and waits until it has taken everything down.
    pub(crate) fn release(self) -> Result<(), Error> {
        let Self {
            scenario,
            mut keeper,
            to,
            mut from,
        } = self;
        drop(to);
        let begun = Instant::now();
        while matches!(keeper.try_wait(), Ok(None)) {
            if begun.elapsed() > TAKE_DOWN_LIMIT {
                // The next run removes what the killed keeper leaves.
                let _ = keeper.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut last = String::new();
        let _ = from.read_line(&mut last);
        match serde_json::from_str(&last) {
            Ok(Word::Failed(message)) => Err(Error::Keeper { scenario, message }),
            _ => Ok(()),
        }
    }
}

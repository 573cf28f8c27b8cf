//! The process that keeps a lab. It brings everything up, reports this to its owner, and takes
//! everything down on request, or when the owner ends for any reason.
//!
//! The owner holds the keeper's stdin open. The end of that stream means that the owner has ended,
//! whether by return, panic, Ctrl-C or SIGKILL. The line `detach` makes the lab stay.

use std::io::{self, BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::crew::Crew;
use super::run::{self, Run};
use crate::error::Error;
use crate::machine::helper::Helper;
use crate::scenario::Scenario;

/// The owner's message to the keeper, on one line.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeepPlan {
    pub(crate) scenario: Scenario,
    /// The arguments that make this program a helper.
    pub(crate) helper_prefix: Vec<String>,
}

/// The keeper's messages to the owner, one line each.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Word {
    /// The lab is up.
    Ready(Box<Run>),
    /// The lab will stay when the owner ends.
    Detached,
    /// The lab could not be brought up, or taken down.
    Failed(String),
}

/// The line that tells the keeper to leave the lab up.
pub(crate) const DETACH: &str = "detach\n";

pub(crate) fn main() -> ExitCode {
    match keep() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&Word::Failed(error.chain()));
            ExitCode::FAILURE
        }
    }
}

/// Keeps one lab from start to end.
fn keep() -> Result<(), Error> {
    // Signals are caught before anything is created, so that none can end this process without
    // cleanup.
    let signals = watch_signals().map_err(Error::file("watch", "signals"))?;
    // Processes that a server leaves behind become children of this process, which can then end
    // them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let plan = read_plan().map_err(Error::file("read", "the plan"))?;
    run::sweep()?;
    let mut run = Run::begin(plan.scenario)?;
    let mut crew = Crew::default();
    let up = crew.bring_up(&mut run, &Helper::again(&plan.helper_prefix));
    if up.is_ok() {
        say(&Word::Ready(Box::new(run.clone())));
        wait_for_end(&signals, &mut run);
    }
    crew.dismiss();
    up.and(run.clean_up())
}

/// Returns a stream that becomes readable when one of the terminating signals arrives.
fn watch_signals() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

fn read_plan() -> io::Result<KeepPlan> {
    let mut line = String::new();
    // The owner sends nothing after the plan until the lab is up, so the buffer cannot consume a
    // `detach`.
    io::stdin().lock().read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Waits until the lab should be taken down.
fn wait_for_end(signals: &UnixStream, run: &mut Run) {
    let stdin = io::stdin();
    loop {
        let mut sources = vec![PollFd::new(signals, PollFlags::IN)];
        if !run.is_detached {
            sources.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match poll(&mut sources, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        let has_news =
            |source: Option<&PollFd<'_>>| source.is_some_and(|source| !source.revents().is_empty());
        if has_news(sources.first()) {
            return;
        }
        if has_news(sources.get(1)) && !is_detached(&mut stdin.lock(), run) {
            return;
        }
    }
}

/// Reads the owner's message; returns true if it is `detach`, false at the end of the stream.
fn is_detached(from_owner: &mut impl Read, run: &mut Run) -> bool {
    let mut line = [0; DETACH.len()];
    if from_owner.read_exact(&mut line).is_err() || line != DETACH.as_bytes() {
        return false;
    }
    run.is_detached = true;
    if let Err(error) = run.save() {
        say(&Word::Failed(error.chain()));
        return false;
    }
    say(&Word::Detached);
    true
}

/// Sends a message to the owner, which may have ended.
fn say(word: &Word) {
    let mut line = serde_json::to_vec(word).expect("a word is text and numbers");
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
}

//! A run of the program whose lines are read as they are printed. A test can act on an event
//! that it has seen, instead of waiting for a fixed time.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::program::{Run, program};

/// Maximum wait for an event that should happen at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that is running.
pub(crate) struct Streamed {
    child: Child,
    lines: Receiver<Line>,
    said: [String; 2],
}

/// A line of standard output (0) or standard error (1).
type Line = (usize, String);

impl Streamed {
    /// Starts the program with these arguments.
    pub(crate) fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let mut child = Command::new(program())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        forward(0, child.stdout.take().unwrap(), sender.clone());
        forward(1, child.stderr.take().unwrap(), sender);
        Self {
            child,
            lines,
            said: Default::default(),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that satisfies `is_it`; panics if there is none in time.
    #[track_caller]
    pub(crate) fn until(&mut self, is_it: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            match self.next_line(Duration::from_millis(100)) {
                Some(line) if is_it(&line) => return,
                _ => {}
            }
        }
        panic!("in vain: {:#?}", self.said);
    }

    /// Repeats `act` until a line satisfies `is_it`.
    #[track_caller]
    pub(crate) fn provoke<T>(&mut self, mut act: impl FnMut() -> T, is_it: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let _kept_meanwhile = act();
            let turn = Instant::now() + Duration::from_millis(100);
            while Instant::now() < turn {
                match self.next_line(Duration::from_millis(20)) {
                    Some(line) if is_it(&line) => return,
                    _ => {}
                }
            }
        }
        panic!("in vain: {:#?}", self.said);
    }

    fn next_line(&mut self, patience: Duration) -> Option<String> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Some(self.note(line)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("it has ended: {:#?}", self.said),
        }
    }

    fn note(&mut self, (stream, line): Line) -> String {
        self.said[stream] += &line;
        self.said[stream] += "\n";
        line
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// Waits for the run's end.
    pub(crate) fn end(mut self) -> Run {
        while let Ok(line) = self.lines.recv() {
            self.note(line);
        }
        let [stdout, stderr] = self.said;
        Run {
            code: self.child.wait().unwrap().code(),
            stdout,
            stderr,
        }
    }
}

/// Passes on the lines of a stream until it ends.
fn forward(stream: usize, from: impl Read + Send + 'static, to: Sender<Line>) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            // A test that has failed does not receive lines any more.
            let Ok(()) = to.send((stream, line.unwrap())) else {
                return;
            };
        }
    });
}

//! The command `lagtrace self-test`: shows how the part of lagtrace that reads packets and answers
//! is confined on this host, and tries to break out.

use std::io;
use std::sync::Arc;
use std::thread;

use clap::Args;
use lagtrace_sources::keeper::Processes;
use lagtrace_sources::sandbox::{Attempt, Bystander, Tried, attempt_all, status};

use crate::confinement::Needs;
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::view::serve::{self, ServedPage, Version};

/// The options of `lagtrace self-test`.
#[derive(Debug, Args)]
#[command(after_help = "\
lagtrace runs as two processes. The one that decodes packets, speaks protocols
and analyses has no privileges; it asks the other one for sockets and files that
the command line names. This command shows the first one's state and tries what
must be impossible there. A third process stands for another program of this
host, and tries what that could do. It exits with 1 if anything was possible.

Examples:
  sudo lagtrace self-test
  lagtrace self-test --sandbox off     # what would be possible otherwise")]
pub(crate) struct Options {
    /// The program to try with; the error if there is none.
    #[arg(skip)]
    bystander: Option<io::Result<Bystander>>,
}

impl Options {
    /// Starts the program to try with, while this process has a single thread and its rights.
    pub(crate) fn prepare(&mut self) {
        self.bystander = Some(Bystander::start());
    }

    /// Returns what the attempts need: sockets to try, a page to serve, and a server to look into.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::network();
        needs.rules.ports = Some(Vec::new());
        needs.scope.serves_at = Some(serve::DEFAULT);
        if let Some(Ok(bystander)) = &self.bystander {
            needs.scope.processes = Processes::Servers(vec![bystander.port()]);
        }
        needs
    }
}

/// Tries everything, and prints what was refused.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let mut text = String::from("The process that reads packets and answers\n");
    for line in status() {
        text.push_str(&format!("  {line}\n"));
    }
    if let Some(remark) = console.remark() {
        text.push_str(&format!("  {}\n", remark.text));
    }
    text.push_str("\nAttempts\n");
    let attempts = attempts(options);
    for attempt in &attempts {
        let outcome = match &attempt.tried {
            Tried::Refused(error) => format!("refused: {error}"),
            Tried::Possible => "POSSIBLE".to_owned(),
            Tried::Not(reason) => format!("not tried: {reason}"),
        };
        text.push_str(&format!("  {:46} {outcome}\n", attempt.name));
    }
    deliver(console, &text)?;
    let is_possible = |attempt: &Attempt| matches!(attempt.tried, Tried::Possible);
    Ok(if attempts.iter().any(is_possible) {
        Outcome::Found
    } else {
        Outcome::Clean
    })
}

fn attempts(options: &Options) -> Vec<Attempt> {
    let missing = io::Error::from(io::ErrorKind::NotConnected);
    let bystander = match &options.bystander {
        Some(started) => started.as_ref(),
        None => Err(&missing),
    };
    let mut attempts = attempt_all(bystander);
    attempts.push(Attempt {
        name: "get a served page as another user",
        tried: bystander.map_or_else(
            |error| Tried::Not(format!("no other program to try with: {error}")),
            fetch_page,
        ),
    });
    attempts
}

/// Serves a page for the user behind sudo, and has another user get it.
fn fetch_page(bystander: &Bystander) -> Tried {
    let Some((reader, stranger)) = bystander.reader().zip(bystander.stranger()) else {
        return Tried::Not("only root, by sudo, can try it for another user".to_owned());
    };
    let page = ServedPage::new(Version::only(String::new()));
    let server = match serve::Server::bind(serve::DEFAULT, Arc::new(page), None) {
        Ok(server) => server,
        Err(failure) => return Tried::Not(failure.to_string()),
    };
    let (address, path) = server.place();
    let end = Interrupt::default();
    thread::scope(|scope| {
        scope.spawn(|| server.run(&end));
        let own = bystander.fetch(reader, address, path);
        let tried = bystander.fetch(stranger, address, path);
        end.request();
        match (own, tried) {
            (Err(error), _) => Tried::Not(format!("its own user does not get it: {error}")),
            (Ok(()), Err(error)) if error.kind() != io::ErrorKind::PermissionDenied => {
                Tried::Not(error.to_string())
            }
            (Ok(()), tried) => tried.into(),
        }
    })
}

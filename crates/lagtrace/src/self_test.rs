//! The command `lagtrace self-test`: shows how the part of lagtrace that reads packets and answers
//! is confined on this host, and tries to break out.

use clap::Args;
use lagtrace_sources::sandbox::{attempt_all, status};

use crate::confinement::Needs;
use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::Result;

/// The options of `lagtrace self-test`.
#[derive(Debug, Args)]
#[command(after_help = "\
lagtrace runs as two processes. The one that decodes packets, speaks protocols
and analyses has no privileges; it asks the other one for sockets and files that
the command line names. This command shows the first one's state and tries what
must be impossible there. It exits with 1 if anything was possible.

Examples:
  sudo lagtrace self-test
  lagtrace self-test --sandbox off     # what would be possible otherwise")]
pub(crate) struct Options {}

/// Returns what the attempts need: nothing but sockets to try.
pub(crate) fn needs() -> Needs {
    let mut needs = Needs::network();
    needs.rules.ports = Some(Vec::new());
    needs
}

/// Tries everything, and prints what was refused.
pub(crate) fn run(console: &Console) -> Result<Outcome> {
    let mut text = String::from("The process that reads packets and answers\n");
    for line in status() {
        text.push_str(&format!("  {line}\n"));
    }
    if let Some(remark) = console.remark() {
        text.push_str(&format!("  {}\n", remark.text));
    }
    text.push_str("\nAttempts\n");
    let attempts = attempt_all();
    for attempt in &attempts {
        let outcome = match &attempt.refusal {
            Some(error) => format!("refused: {error}"),
            None => "POSSIBLE".to_owned(),
        };
        text.push_str(&format!("  {:46} {outcome}\n", attempt.name));
    }
    deliver(console, &text)?;
    let is_confined = attempts.iter().all(|attempt| attempt.refusal.is_some());
    Ok(if is_confined {
        Outcome::Clean
    } else {
        Outcome::Found
    })
}

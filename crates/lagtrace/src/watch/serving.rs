//! The server of a running watch's page, which ends with the watch.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::editor::Editor;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::view::serve::{ASKED_EVERY, Server};

/// Time for which the last version stays for browsers that follow the page: each of them asks once
/// more, and gets it.
const STAYS: Duration = ASKED_EVERY.saturating_add(Duration::from_secs(1));
/// Interval at which the server checks whether it is stopped meanwhile.
const STEP: Duration = Duration::from_millis(50);

/// A server of the page that runs in a thread of its own.
pub(super) struct Serving {
    editor: Arc<Editor>,
    stop: Interrupt,
    thread: JoinHandle<Result<()>>,
}

impl Serving {
    /// Starts the server, and prints the URL.
    pub(super) fn start(
        address: SocketAddr,
        editor: Arc<Editor>,
        console: &Console,
    ) -> Result<Self> {
        let server = Server::bind(address, Arc::clone(editor.page()), None)?;
        console.tell(&format!("the page of this watch is {}", server.url()));
        let stop = Interrupt::default();
        let stopped = stop.clone();
        Ok(Self {
            editor,
            stop,
            thread: thread::spawn(move || server.run(&stopped)),
        })
    }

    /// Returns the editor of the page.
    pub(super) fn editor(&self) -> &Arc<Editor> {
        &self.editor
    }

    /// Ends the server after the last version was published. If a browser follows the page, it gets
    /// that version before, unless the user is in a hurry.
    pub(super) fn end(self, interrupt: &Interrupt, console: &Console) -> Result<()> {
        if self.editor.page().is_followed() {
            console.note("the page ends in a moment, after browsers got its last version");
            let end = Instant::now() + STAYS;
            // A second Ctrl-C ends the program.
            let was_requested = interrupt.is_requested();
            let is_hurried = || !was_requested && interrupt.is_requested();
            while Instant::now() < end && !is_hurried() && !self.thread.is_finished() {
                thread::sleep(STEP);
            }
        }
        self.stop.request();
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(Failure::new("the server of the page has failed")))
    }
}

//! Handling of Ctrl-C, which ends the measurement; the report is still printed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Result;

/// The user's request to stop. A second request ends the program immediately. The default is one
/// that only the program makes, for a part of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts listening for SIGINT and SIGTERM.
    pub(crate) fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal must only set the flag.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .context("install the handler for Ctrl-C")?;
        }
        Ok(Self(asked))
    }

    /// Returns true if the user requested a stop.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Stops as if the user had requested it, for example because the output's reader has exited.
    pub(crate) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns the flag itself, for sources that poll it.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

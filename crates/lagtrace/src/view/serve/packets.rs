//! The packets of one exchange, which the served page asks for.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use lagtrace_core::report::{Exemplar, Report};

use super::request::Refusal;
use crate::analyze::picture::packets_of;
use crate::interrupt::Interrupt;

/// The exchanges of the page, and the captures that contain their packets.
pub(crate) struct Packets {
    /// The exchanges in the order of the page's document.
    pub(in crate::view) exchanges: Vec<Exemplar>,
    pub(in crate::view) files: Vec<PathBuf>,
    pub(in crate::view) report: Report,
    /// Held while the captures are read: only one reading at a time takes a processor.
    pub(in crate::view) reading: Mutex<()>,
}

impl Packets {
    /// Returns the ladder and the connection of an exchange, by its number, as JSON in the form of a
    /// picture.
    pub(super) fn of(&self, number: &str, interrupt: &Interrupt) -> Result<String, Refusal> {
        let number: usize = number.parse().map_err(|_| Refusal::Path)?;
        let exchange = self.exchanges.get(number).ok_or(Refusal::Path)?;
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let picture = packets_of(exchange, &self.files, &self.report, interrupt);
        let picture = picture.map_err(|_| Refusal::Unreadable)?;
        serde_json::to_string(&picture).map_err(|_| Refusal::Unreadable)
    }
}

//! The packets of one exchange, which the served page asks for.

use std::sync::{Mutex, PoisonError};

use lagtrace_core::report::Exemplar;

use super::request::Refusal;
use crate::analyze::picture::Again;
use crate::interrupt::Interrupt;

/// The exchanges of the page, and the captures that contain their packets.
pub(in crate::view) struct Packets {
    /// The exchanges in the order of the page's document.
    pub(in crate::view) exchanges: Vec<Exemplar>,
    /// The captures. Only one reading at a time takes a processor.
    pub(in crate::view) again: Mutex<Again>,
}

impl Packets {
    /// Returns the ladder and the connection of an exchange, by its number, as JSON in the form of a
    /// picture.
    pub(super) fn of(&self, number: &str, interrupt: &Interrupt) -> Result<String, Refusal> {
        let number: usize = number.parse().map_err(|_| Refusal::Path)?;
        let exchange = self.exchanges.get(number).ok_or(Refusal::Path)?;
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        let picture = again.packets_of(exchange, interrupt);
        let picture = picture.map_err(|_| Refusal::Unreadable)?;
        serde_json::to_string(&picture).map_err(|_| Refusal::Unreadable)
    }
}

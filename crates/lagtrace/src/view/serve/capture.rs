//! The capture of the served page, which is read again for what the page lacks: the packets of an
//! exchange, and the exchanges of a selection.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lagtrace_core::report::{Exemplar, PictureService, PicturedExchange};
use lagtrace_core::views::picture::{ExchangeKey, Listed, PicturePart, Selected, Selection};

use super::query;
use super::request::Refusal;
use crate::analyze::picture::Again;
use crate::analyze::selected::exchanges_of;
use crate::interrupt::Interrupt;
use crate::json;

/// The captures of a page, and what the page says of them.
pub(crate) struct Capture {
    /// The exchanges in the order of the page's document.
    pub(in crate::view) exchanges: Vec<Exemplar>,
    pub(in crate::view) services: Vec<PictureService>,
    /// The start of the picture of latency over time.
    pub(in crate::view) start_ns: i64,
    /// Locked while the captures are read: only one reading at a time takes the processors.
    pub(in crate::view) reading: Mutex<Reading>,
}

/// The reading of the captures.
pub(crate) struct Reading {
    again: Again,
    /// The exchanges of the last list, which are likely to be opened next.
    listed: Vec<PicturedExchange>,
}

impl Reading {
    pub(in crate::view) fn new(again: Again) -> Self {
        let listed = Vec::new();
        Self { again, listed }
    }

    /// Returns the ladder and the connection of an exchange in the form of a picture.
    fn packets(&mut self, exchange: &Exemplar, interrupt: &Interrupt) -> Result<String, Refusal> {
        let picture = self.again.packets_of(exchange, interrupt);
        let picture = picture.map_err(|_| Refusal::Unreadable)?;
        Ok(json::compact(&picture))
    }
}

impl Capture {
    /// Returns the answer to a request, as JSON. `asked` is the target after the page's path; nothing
    /// in it is trusted.
    pub(super) fn answer(&self, asked: &str, interrupt: &Interrupt) -> Result<String, Refusal> {
        if let Some(query) = asked.strip_prefix("exchanges?") {
            self.list(query::part(query, self.services.len())?, interrupt)
        } else if let Some(query) = asked.strip_prefix("packets?") {
            self.open(query::key(query)?, interrupt)
        } else {
            let number = asked.strip_prefix("packets/").ok_or(Refusal::Path)?;
            let number: usize = number.parse().map_err(|_| Refusal::Path)?;
            let exchange = self.exchanges.get(number).ok_or(Refusal::Path)?;
            self.alone().packets(exchange, interrupt)
        }
    }

    /// Returns the exchanges of a part of the picture.
    fn list(&self, part: PicturePart, interrupt: &Interrupt) -> Result<String, Refusal> {
        let mut reading = self.alone();
        let listed = self.find(&reading.again, Selection::Part(part), interrupt)?;
        let answer = json::compact(&listed);
        reading.listed = listed.exchanges;
        Ok(answer)
    }

    /// Returns the packets of an exchange that may not be on the page. Where it is not in the last
    /// list, such as that of another reader, it is looked for in the captures.
    fn open(&self, key: ExchangeKey, interrupt: &Interrupt) -> Result<String, Refusal> {
        let mut reading = self.alone();
        let mut last = reading.listed.iter();
        let known = last.find(|one| ExchangeKey::of(one) == Some(key)).cloned();
        let one = match known {
            Some(known) => known,
            None => {
                let mut found = self.find(&reading.again, Selection::One(key), interrupt)?;
                found.exchanges.pop().ok_or(Refusal::Path)?
            }
        };
        reading.packets(&one.exchange, interrupt)
    }

    fn alone(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(
        &self,
        again: &Again,
        selection: Selection,
        interrupt: &Interrupt,
    ) -> Result<Listed, Refusal> {
        let selected = Selected::new(selection, &self.services, self.start_ns);
        exchanges_of(selected, again, interrupt).map_err(|_| Refusal::Unreadable)
    }
}

//! The capture of the served page, which is read again for what the page lacks: the packets of an
//! exchange, and the exchanges of a selection.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use lagtrace_core::report::{Exemplar, PictureService, Report};
use lagtrace_core::views::picture::{Listed, Selected, Selection};
use serde::Serialize;

use super::query;
use super::request::Refusal;
use crate::analyze::picture::packets_of;
use crate::analyze::selected::exchanges_of;
use crate::interrupt::Interrupt;

/// The captures of a page, and what the page says of them.
pub(in crate::view) struct Capture {
    pub(in crate::view) files: Vec<PathBuf>,
    pub(in crate::view) report: Report,
    /// The exchanges in the order of the page's document.
    pub(in crate::view) exchanges: Vec<Exemplar>,
    pub(in crate::view) services: Vec<PictureService>,
    /// The start of the picture of latency over time.
    pub(in crate::view) start_ns: i64,
    /// Held while the captures are read: only one reading at a time takes the processors.
    pub(in crate::view) reading: Mutex<()>,
}

impl Capture {
    /// Returns the answer to a request, as JSON. `asked` is the target after the page's path; nothing
    /// in it is trusted.
    pub(super) fn answer(&self, asked: &str, interrupt: &Interrupt) -> Result<String, Refusal> {
        if let Some(query) = asked.strip_prefix("exchanges?") {
            let part = query::part(query, self.services.len())?;
            json(&self.find(Selection::Part(part), interrupt)?)
        } else if let Some(query) = asked.strip_prefix("packets?") {
            let key = query::key(query)?;
            let mut found = self.find(Selection::One(key), interrupt)?.exchanges;
            let one = found.pop().ok_or(Refusal::Path)?;
            self.packets(&one.exchange, interrupt)
        } else {
            let number = asked.strip_prefix("packets/").ok_or(Refusal::Path)?;
            let number: usize = number.parse().map_err(|_| Refusal::Path)?;
            let exchange = self.exchanges.get(number).ok_or(Refusal::Path)?;
            self.packets(exchange, interrupt)
        }
    }

    fn find(&self, selection: Selection, interrupt: &Interrupt) -> Result<Listed, Refusal> {
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let selected = Selected::new(selection, &self.services, self.start_ns);
        let listed = exchanges_of(selected, &self.files, &self.report, interrupt);
        listed.map_err(|_| Refusal::Unreadable)
    }

    /// Returns the ladder and the connection of an exchange in the form of a picture.
    fn packets(&self, exchange: &Exemplar, interrupt: &Interrupt) -> Result<String, Refusal> {
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let picture = packets_of(exchange, &self.files, &self.report, interrupt);
        json(&picture.map_err(|_| Refusal::Unreadable)?)
    }
}

fn json(answer: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(answer).map_err(|_| Refusal::Unreadable)
}

//! Lookups of the hops' owners in parallel to the trace, for the display during the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;

use lagtrace_core::observed::route::AutonomousSystem;
use lagtrace_sources::origin;

type Found = BTreeMap<IpAddr, AutonomousSystem>;

/// The lookups of owners in a table. One thread at a time reads the file, and looks up all
/// addresses that were added since the last time.
pub(super) struct Owners {
    path: PathBuf,
    new: BTreeSet<IpAddr>,
    reading: Option<JoinHandle<Found>>,
}

impl Owners {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            new: BTreeSet::new(),
            reading: None,
        }
    }

    /// Adds an address that was not looked up before.
    pub(super) fn ask(&mut self, address: IpAddr) {
        self.new.insert(address);
    }

    /// Returns the owners found so far. An address that is not in the table, or a missing table, is
    /// reported later, in the report.
    pub(super) fn collect(&mut self) -> Found {
        let mut found = Found::new();
        if let Some(reading) = self.reading.take_if(|reading| reading.is_finished()) {
            found = reading.join().unwrap_or_default();
        }
        if self.reading.is_none() && !self.new.is_empty() {
            let (path, asked) = (self.path.clone(), std::mem::take(&mut self.new));
            let read = move || origin::find(&path, &asked).unwrap_or_default();
            let thread = std::thread::Builder::new().name("owners".to_owned());
            self.reading = thread.spawn(read).ok();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_meanwhile_is_found_by_another_reading() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(
            file.path(),
            "192.0.2.0/25,64500,ONE\n192.0.2.128/25,64501,TWO\n",
        )
        .expect("it is written");
        let mut owners = Owners::new(file.path().to_owned());
        let mut found = Found::new();
        for last in [1, 200] {
            let address = IpAddr::from([192, 0, 2, last]);
            owners.ask(address);
            while !found.contains_key(&address) {
                found.extend(owners.collect());
                std::thread::yield_now();
            }
        }
        let numbers: Vec<u32> = found.values().map(|owner| owner.asn).collect();
        assert_eq!(numbers, [64_500, 64_501]);
        assert!(owners.collect().is_empty() && owners.reading.is_none());
    }
}

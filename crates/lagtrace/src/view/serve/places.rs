//! The places for connections, whose number is limited. Connections that have not asked for the page
//! give theirs to later ones: who does not know its path keeps nobody from it.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The connections that are open.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// The connections that have not asked for the page, by the order in which they came.
    unknown: BTreeMap<u64, TcpStream>,
    /// The number of those that have.
    known: usize,
    came: u64,
}

/// The place of a connection, which it gives back at its end.
#[derive(Debug)]
pub(super) struct Held<'a> {
    places: &'a Places,
    number: u64,
    is_known: bool,
}

impl Places {
    /// Returns places for so many connections at a time.
    pub(super) fn new(most: usize) -> Self {
        let taken = Mutex::default();
        Self { most, taken }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a connection can be taken. If all places are taken, the oldest connection
    /// that has not asked for the page ends.
    pub(super) fn make_room(&self) -> bool {
        let mut taken = self.taken();
        if taken.unknown.len() + taken.known < self.most {
            return true;
        }
        let Some((_, oldest)) = taken.unknown.pop_first() else {
            return false;
        };
        // Its thread reads the end then. A connection that has ended needs no end.
        oldest.shutdown(Shutdown::Both).ok();
        true
    }

    /// Takes a place.
    pub(super) fn take(&self, stream: &TcpStream) -> io::Result<Held<'_>> {
        let stream = stream.try_clone()?;
        let mut taken = self.taken();
        taken.came += 1;
        let number = taken.came;
        taken.unknown.insert(number, stream);
        Ok(Held {
            places: self,
            number,
            is_known: false,
        })
    }
}

impl Held<'_> {
    /// Keeps the place until the end, because the peer knows the path; returns false if the
    /// connection has lost it already.
    pub(super) fn keep(&mut self) -> bool {
        let mut taken = self.places.taken();
        if !self.is_known && taken.unknown.remove(&self.number).is_some() {
            taken.known += 1;
            self.is_known = true;
        }
        self.is_known
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if self.is_known {
            taken.known -= 1;
        } else {
            taken.unknown.remove(&self.number);
        }
    }
}

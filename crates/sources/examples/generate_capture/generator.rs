//! The traffic: connections that begin one after the other, with their packets in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use super::chance::Chance;
use super::connection::Connection;
use super::frame;

/// Average time between the beginnings of two connections, in nanoseconds.
const ARRIVAL: u64 = 300_000;

/// All connections of a capture.
pub(crate) struct Traffic {
    connections: u64,
    packets: u64,
    chance: Chance,
    is_held: bool,
    begun: u64,
    next_arrival: u64,
    /// Connections in progress, by the time of their next packet.
    under_way: BinaryHeap<Reverse<(u64, u64)>>,
    places: Vec<Option<Connection>>,
    free: Vec<u64>,
}

impl Traffic {
    pub(crate) fn new(connections: u64, packets: u64, seed: u64, is_held: bool) -> Self {
        Self {
            connections,
            packets,
            chance: Chance::new(seed),
            is_held,
            begun: 0,
            next_arrival: 0,
            under_way: BinaryHeap::new(),
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Writes all packets and returns their number.
    pub(crate) fn write(mut self, output: &mut impl Write) -> io::Result<u64> {
        frame::file_header(output)?;
        let mut count = 0;
        loop {
            while self.is_arrival_due() {
                self.begin();
            }
            let Some(Reverse((_, place))) = self.under_way.pop() else {
                return Ok(count);
            };
            let slot = &mut self.places[place as usize];
            let Some(connection) = slot else { continue };
            count += connection.write_next(output, &mut self.chance)?;
            match connection.next_at() {
                Some(at) => self.under_way.push(Reverse((at, place))),
                None => {
                    *slot = None;
                    self.free.push(place);
                }
            }
        }
    }

    fn is_arrival_due(&self) -> bool {
        let next_packet = self.under_way.peek().map(|Reverse((at, _))| *at);
        self.begun < self.connections && next_packet.is_none_or(|at| self.next_arrival <= at)
    }

    fn begin(&mut self) {
        let (number, at) = (self.begun, self.next_arrival);
        let connection = Connection::new(number, at, self.packets, self.is_held, &mut self.chance);
        self.begun += 1;
        self.next_arrival += self.chance.below(2 * ARRIVAL);
        let place = self.free.pop().unwrap_or(self.places.len() as u64);
        if let Some(at) = connection.next_at() {
            self.under_way.push(Reverse((at, place)));
        }
        match self.places.get_mut(place as usize) {
            Some(slot) => *slot = Some(connection),
            None => self.places.push(Some(connection)),
        }
    }
}

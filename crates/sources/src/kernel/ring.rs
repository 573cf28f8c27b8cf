//! The ring through which the eBPF programs pass records (`BPF_MAP_TYPE_RINGBUF`), read from its
//! memory. Nothing but the descriptor of the ring is needed: no capability and no `bpf()`.
//!
//! The descriptor maps three parts (`Documentation/bpf/ringbuf.rst`, `kernel/bpf/ringbuf.c`): a
//! page with the reader's position, which only the reader writes; a page with the writers'
//! position; and the data. The data appears twice in a row, so that a record that goes past the
//! end of the ring is contiguous in memory. Positions only grow; a position's place in the data is
//! its remainder by the size. Each record begins with a header of 8 bytes: its length with two
//! flags, and a number that only the kernel uses.
//!
//! A writer marks its record as busy before it advances its position, and clears the mark when the
//! record is complete. The reader stops at the first busy record, so that records stay in order.
//! Three accesses are ordered:
//! - The writers' position is read before the headers up to it. Otherwise a header could be an old
//!   one, from the time when the memory was used before.
//! - A header is read before its record. Otherwise the record could be incomplete.
//! - The reader's position is written after the record was read. Otherwise a writer could overwrite
//!   the record meanwhile.

mod mapping;

use std::io;
use std::os::fd::BorrowedFd;

use mapping::{OwnPage, Written};

/// Maximum number of records read in one call, so that the caller's other work is not delayed.
pub(super) const BATCH: usize = 16_384;
/// `BPF_RINGBUF_HDR_SZ`: the length of a header in bytes. Records begin at multiples of it.
const HEADER: usize = 8;
/// `BPF_RINGBUF_BUSY_BIT`: the record is not complete.
const BUSY: u32 = 1 << 31;
/// `BPF_RINGBUF_DISCARD_BIT`: the program gave the record up.
const DISCARDED: u32 = 1 << 30;
/// Maximum size of a ring: the flags leave 30 bits for a record's length.
const MAX_SIZE: usize = 1 << 30;

/// The reader of a ring. A ring has only one reader at a time.
#[derive(Debug)]
pub(super) struct Ring {
    own: OwnPage,
    written: Written,
    size: usize,
    /// The reader's position.
    at: usize,
    /// The writers' position when it was last read.
    end: usize,
    /// True if the memory contains something that no kernel writes. Nothing more is read then.
    is_damaged: bool,
}

/// A record that is complete.
struct Found {
    /// Place of its bytes in the data.
    begin: usize,
    len: usize,
    is_discarded: bool,
}

/// The memory contains something that no kernel writes.
struct Damaged;

impl Ring {
    /// Maps the ring with this descriptor. `size` is the size of its data in bytes.
    pub(super) fn open(ring: BorrowedFd<'_>, size: u32) -> io::Result<Self> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let page = rustix::param::page_size();
        if !size.is_power_of_two() || size < page || size > MAX_SIZE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let own = OwnPage::map(ring, page)?;
        let written = Written::map(ring, page, size)?;
        let at = own.position();
        Ok(Self {
            own,
            written,
            size,
            at,
            end: at,
            is_damaged: false,
        })
    }

    /// Passes the complete records to `visit`, at most [`BATCH`]. Returns their number, including
    /// discarded ones.
    pub(super) fn take(&mut self, mut visit: impl FnMut(&[u8])) -> usize {
        let mut taken = 0;
        while taken < BATCH
            && let Some(found) = self.next()
        {
            if !found.is_discarded
                && let Some(record) = self.written.bytes(found.begin, found.len)
            {
                visit(record);
            }
            self.release(found.len);
            taken += 1;
        }
        taken
    }

    /// Returns the next record, if it is complete.
    fn next(&mut self) -> Option<Found> {
        if self.is_damaged {
            return None;
        }
        if self.at == self.end {
            self.end = self.written.position();
        }
        match self.end.wrapping_sub(self.at) {
            0 => None,
            left => {
                let found = self.found(left);
                self.is_damaged = found.is_err();
                found.ok().flatten()
            }
        }
    }

    /// Returns the record at the reader's position, if it is complete. `left` is the number of
    /// bytes up to the writers' position.
    fn found(&self, left: usize) -> Result<Option<Found>, Damaged> {
        if left > self.size {
            return Err(Damaged);
        }
        let place = self.at & (self.size - 1);
        let header = self.written.header(place).ok_or(Damaged)?;
        if header & BUSY > 0 {
            return Ok(None);
        }
        let len = usize::try_from(header & !DISCARDED).map_err(|_| Damaged)?;
        if padded(len) > left {
            return Err(Damaged);
        }
        Ok(Some(Found {
            begin: place + HEADER,
            len,
            is_discarded: header & DISCARDED > 0,
        }))
    }

    /// Gives the memory of a record back to the writers.
    fn release(&mut self, len: usize) {
        self.at = self.at.wrapping_add(padded(len));
        self.own.set_position(self.at);
    }
}

/// Returns the length of a record in the ring, with its header.
fn padded(len: usize) -> usize {
    (len + HEADER).next_multiple_of(HEADER)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    use proptest::prelude::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    /// A file that is mapped in place of a ring. The two copies of its data are different memory,
    /// so both are written.
    struct Memory {
        file: File,
        page: usize,
        size: usize,
    }

    impl Memory {
        fn new(size: usize) -> Self {
            let page = rustix::param::page_size();
            let file = File::from(memfd_create("ring", MemfdFlags::CLOEXEC).expect("a memfd"));
            let len = 2 * (page + size) as u64;
            file.set_len(len).expect("memory for a ring");
            Self { file, page, size }
        }

        fn ring(&self) -> io::Result<Ring> {
            Ring::open(self.file.as_fd(), self.size.try_into().expect("a size"))
        }

        fn write(&self, bytes: &[u8], at: usize) {
            self.file.write_all_at(bytes, at as u64).expect("written");
        }

        /// Writes into the data at a position, in both copies.
        fn put(&self, position: usize, bytes: &[u8]) {
            for (offset, byte) in bytes.iter().enumerate() {
                let place = position.wrapping_add(offset) % self.size;
                for copy in [0, self.size] {
                    self.write(&[*byte], 2 * self.page + copy + place);
                }
            }
        }

        fn set_own(&self, position: usize) {
            self.write(&position.to_ne_bytes(), 0);
        }

        fn set_written(&self, position: usize) {
            self.write(&position.to_ne_bytes(), self.page);
        }

        fn own(&self) -> usize {
            let mut bytes = [0; size_of::<usize>()];
            self.file.read_exact_at(&mut bytes, 0).expect("a position");
            usize::from_ne_bytes(bytes)
        }
    }

    /// Takes all available records.
    fn taken(ring: &mut Ring) -> (Vec<Vec<u8>>, usize) {
        let mut records = Vec::new();
        let count = ring.take(|record| records.push(record.to_vec()));
        (records, count)
    }

    /// Writes records one after another, and returns the position behind them.
    fn fill(memory: &Memory, mut position: usize, records: &[(u32, Vec<u8>)]) -> usize {
        for (flags, bytes) in records {
            let len = u32::try_from(bytes.len()).expect("a short record");
            memory.put(position, &(flags | len).to_ne_bytes());
            memory.put(position.wrapping_add(HEADER), bytes);
            position = position.wrapping_add(padded(bytes.len()));
        }
        position
    }

    #[test]
    fn records_come_in_order_up_to_the_first_that_is_not_complete() {
        let memory = Memory::new(4096);
        let mut ring = memory.ring().expect("a ring");
        assert_eq!(taken(&mut ring), (vec![], 0));
        let records = [
            (0, b"first".to_vec()),
            (DISCARDED, b"given up".to_vec()),
            (0, Vec::new()),
            (BUSY, b"later".to_vec()),
            (0, b"last".to_vec()),
        ];
        let end = fill(&memory, 0, &records);
        memory.set_written(end);
        let before = [b"first".to_vec(), Vec::new()];
        assert_eq!(taken(&mut ring), (before.to_vec(), 3));
        assert_eq!(memory.own(), 16 + 16 + 8);
        assert_eq!(taken(&mut ring), (vec![], 0));
        memory.put(40, &5u32.to_ne_bytes());
        let rest = [b"later".to_vec(), b"last".to_vec()];
        assert_eq!(taken(&mut ring), (rest.to_vec(), 2));
        assert_eq!(memory.own(), end);
    }

    #[test]
    fn a_record_goes_past_the_end_of_the_ring_and_of_the_numbers() {
        for begin in [4096 - 16, usize::MAX - 15] {
            let memory = Memory::new(4096);
            memory.set_own(begin);
            memory.set_written(begin);
            let mut ring = memory.ring().expect("a ring");
            let record = (0, (0..100).collect::<Vec<u8>>());
            let end = fill(&memory, begin, std::slice::from_ref(&record));
            memory.set_written(end);
            assert_eq!(taken(&mut ring), (vec![record.1], 1), "{begin}");
            assert_eq!(memory.own(), end);
        }
    }

    #[test]
    fn a_batch_is_bounded() {
        let memory = Memory::new(1 << 18);
        let mut ring = memory.ring().expect("a ring");
        memory.set_written(1 << 18);
        assert_eq!(taken(&mut ring).1, BATCH);
        assert_eq!(taken(&mut ring).1, (1 << 15) - BATCH);
    }

    #[test]
    fn only_sizes_of_rings_are_mapped() {
        let memory = Memory::new(4096);
        for size in [0, 1, 4095, 4097, 12_288, 1 << 31, u32::MAX] {
            Ring::open(memory.file.as_fd(), size).expect_err("not a size of a ring");
        }
    }

    /// A record as no kernel writes it: with any flags and a length that does not fit.
    fn hostile() -> impl Strategy<Value = (u32, Vec<u8>)> {
        let flags = prop_oneof![
            4 => Just(0u32),
            1 => Just(DISCARDED),
            1 => any::<u32>(),
            1 => 0..8192u32,
        ];
        (flags, prop::collection::vec(any::<u8>(), 0..300))
    }

    proptest! {
        #[test]
        fn no_content_makes_it_panic_or_read_beyond_the_ring(
            records in prop::collection::vec(hostile(), 0..20),
            begin in prop_oneof![0..10_000usize, any::<usize>()],
            beyond in prop_oneof![3 => Just(0usize), 1 => 0..10_000usize, 1 => any::<usize>()],
        ) {
            let memory = Memory::new(4096);
            memory.set_own(begin);
            let mut ring = memory.ring().expect("a ring");
            let end = fill(&memory, begin, &records).wrapping_add(beyond);
            memory.set_written(end);
            let mut passed = 0;
            loop {
                let (records, count) = taken(&mut ring);
                passed += records.iter().map(|record| padded(record.len())).sum::<usize>();
                prop_assert!(passed <= memory.size);
                prop_assert!(memory.own().wrapping_sub(begin) <= end.wrapping_sub(begin));
                if count == 0 {
                    break;
                }
            }
        }
    }
}

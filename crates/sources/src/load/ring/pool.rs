//! The pool of buffers that the kernel receives into.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// Length of one buffer in bytes.
const BUFFER_LEN: usize = 16 * 1024;
/// Alignment that the kernel requires of the ring.
const PAGE_LEN: usize = 4096;
/// The only buffer group.
pub(super) const GROUP: u16 = 0;

/// A ring of buffers shared with the kernel. The owner must ensure that no kernel request uses the
/// ring when it is dropped.
#[derive(Debug)]
pub(super) struct Pool {
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    count: u16,
    tail: u16,
}

impl Pool {
    /// Registers `count` buffers, a power of two, with the kernel.
    pub(super) fn register(ring: &IoUring, count: u16) -> io::Result<Self> {
        // SAFETY: neither layout is of zero size.
        let (entries, bytes) = unsafe {
            (
                alloc_zeroed(entries_layout(count)).cast(),
                alloc(bytes_layout(count)),
            )
        };
        let (Some(entries), Some(bytes)) = (NonNull::new(entries), NonNull::new(bytes)) else {
            handle_alloc_error(bytes_layout(count));
        };
        let mut pool = Self {
            entries,
            bytes,
            count,
            tail: 0,
        };
        let address = entries.as_ptr() as u64;
        // SAFETY: `entries` is page-aligned, has `count` entries, and lives
        // until no request uses it (the owner's part).
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(address, count, GROUP, 0)?;
        }
        for buffer in 0..count {
            pool.give_back(buffer);
        }
        Ok(pool)
    }

    /// Returns the first `len` bytes of a buffer that the kernel has filled.
    pub(super) fn filled(&self, buffer: u16, len: usize) -> &[u8] {
        let at = usize::from(buffer.min(self.count - 1)) * BUFFER_LEN;
        // SAFETY: the range lies in the allocation; the kernel wrote `len`
        // bytes there and writes none until the buffer is given back.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().add(at), len.min(BUFFER_LEN)) }
    }

    /// Returns a buffer to the kernel for reuse.
    pub(super) fn give_back(&mut self, buffer: u16) {
        let buffer = buffer.min(self.count - 1);
        let place = usize::from(self.tail & (self.count - 1));
        // SAFETY: `place` and `buffer` are below `count`; the kernel reads the
        // entry only once the tail has passed it.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(place);
            let at = self.bytes.as_ptr().add(usize::from(buffer) * BUFFER_LEN);
            entry.set_addr(at as u64);
            entry.set_len(BUFFER_LEN as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the first entry, aligned, and only this
        // program writes it.
        let tail = unsafe { &*BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: both were allocated with these layouts, and nobody uses them.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), entries_layout(self.count));
            dealloc(self.bytes.as_ptr(), bytes_layout(self.count));
        }
    }
}

fn entries_layout(count: u16) -> Layout {
    layout(usize::from(count) * size_of::<BufRingEntry>())
}

fn bytes_layout(count: u16) -> Layout {
    layout(usize::from(count) * BUFFER_LEN)
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, PAGE_LEN)
        .expect("a page is a power of two, and the sizes are small")
}

//! The memory of a ring, mapped into this process.
//!
//! Other processors change the memory while it is mapped. Positions and headers are therefore
//! accessed by atomic operations. Loads are relaxed with a fence behind them, because other atomic
//! loads are not defined for memory that may only be read (`core::sync::atomic`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

/// A part of the ring's memory.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes from `offset` on.
    fn new(ring: BorrowedFd<'_>, offset: usize, len: usize, access: i32) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel chooses an address that nothing in this process uses.
        let start = unsafe {
            libc::mmap(
                null_mut(),
                len,
                access,
                libc::MAP_SHARED,
                ring.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { start, len })
    }

    /// Returns the address of `len` bytes at `at`, if the mapping contains them.
    fn part(&self, at: usize, len: usize) -> Option<NonNull<u8>> {
        if at.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: the result is within the mapping.
        Some(unsafe { self.start.add(at) })
    }

    /// Returns the position at the beginning of the mapping.
    fn position(&self) -> &AtomicUsize {
        // SAFETY: a mapping has at least one page, begins at a page, and stays while it is
        // borrowed. All accesses to a position are atomic, in the kernel too (`unsigned long`).
        unsafe { self.start.cast::<AtomicUsize>().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is exactly what was mapped, and all references into it have ended.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The page with the reader's position.
#[derive(Debug)]
pub(super) struct OwnPage(Mapping);

impl OwnPage {
    pub(super) fn map(ring: BorrowedFd<'_>, page: usize) -> io::Result<Self> {
        Mapping::new(ring, 0, page, libc::PROT_READ | libc::PROT_WRITE).map(Self)
    }

    /// Returns the position. Only this process changes it.
    pub(super) fn position(&self) -> usize {
        self.0.position().load(Ordering::Relaxed)
    }

    /// Sets the position, after everything that was read before. Belongs to `smp_load_acquire()`
    /// of the position in `__bpf_ringbuf_reserve()`.
    pub(super) fn set_position(&mut self, position: usize) {
        self.0.position().store(position, Ordering::Release);
    }
}

/// The page with the writers' position, and the data twice.
#[derive(Debug)]
pub(super) struct Written {
    mapping: Mapping,
    /// Offset of the data.
    data: usize,
}

impl Written {
    pub(super) fn map(ring: BorrowedFd<'_>, page: usize, size: usize) -> io::Result<Self> {
        let len = page + 2 * size;
        let mapping = Mapping::new(ring, page, len, libc::PROT_READ)?;
        let data = page;
        Ok(Self { mapping, data })
    }

    /// Returns the writers' position, before everything that is read later. Belongs to
    /// `smp_store_release()` of the position in `__bpf_ringbuf_reserve()`.
    pub(super) fn position(&self) -> usize {
        let position = self.mapping.position().load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        position
    }

    /// Returns the header at a place in the data, before everything that is read later. Belongs to
    /// `xchg()` of the header in `bpf_ringbuf_commit()`.
    pub(super) fn header(&self, place: usize) -> Option<u32> {
        let at = self.data.checked_add(place)?;
        let header = self.mapping.part(at, size_of::<u32>())?.cast::<AtomicU32>();
        if !header.is_aligned() {
            return None;
        }
        // SAFETY: the header is within the mapping and aligned. All accesses to it are atomic.
        let header = unsafe { header.as_ref() }.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        Some(header)
    }

    /// Returns the bytes of a complete record at a place in the data.
    pub(super) fn bytes(&self, place: usize, len: usize) -> Option<&[u8]> {
        let start = self.mapping.part(self.data.checked_add(place)?, len)?;
        // SAFETY: the bytes are within the mapping, which stays while it is borrowed. The kernel
        // changes nothing of a complete record before the reader's position is past it, and the
        // ring does not advance its position while the record is borrowed.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) })
    }
}

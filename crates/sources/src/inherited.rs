//! Files that another program left open for this one.

use std::os::fd::RawFd;
use std::{fs, io};

/// The first number behind standard input, output and error.
const FIRST: RawFd = 3;

/// Closes all open files of this process except standard input, output and error and the descriptors
/// `named`: they may hold another program's secrets. Must be called before this process opens a
/// file, while it has one thread.
///
/// # Errors
/// Returns the error of the kernel.
pub fn close_inherited(named: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<RawFd> = named.iter().copied().filter(|&it| it >= FIRST).collect();
    kept.sort_unstable();
    let mut first = FIRST;
    for number in kept {
        if first < number {
            close(first, number - 1)?;
        }
        first = first.max(number.saturating_add(1));
    }
    close(first, RawFd::MAX)
}

/// Closes the descriptors from `first` to `last`, both included.
#[allow(unsafe_code)]
fn close(first: RawFd, last: RawFd) -> io::Result<()> {
    // SAFETY: the call takes numbers only. No value owns a descriptor yet, as the caller promises.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first as u32, last as u32, 0) };
    match done {
        0 => Ok(()),
        _ if is_unknown(&io::Error::last_os_error()) => close_listed(first, last),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns true if the kernel does not know a call (Linux before 5.9), or a filter forbids it.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

/// Closes the descriptors in a range that procfs lists.
#[allow(unsafe_code)]
fn close_listed(first: RawFd, last: RawFd) -> io::Result<()> {
    let listed: Vec<RawFd> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in listed.into_iter().filter(|it| (first..=last).contains(it)) {
        // SAFETY: no value owns a descriptor yet. That of the list is closed already.
        unsafe { libc::close(number) };
    }
    Ok(())
}

//! Limiting of the rate at which one connection sends.

#![allow(unsafe_code)]

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Sets `SO_MAX_PACING_RATE`, in bytes per second.
pub(super) fn pace(connection: &TcpStream, rate: u64) -> io::Result<()> {
    let rate = u32::try_from(rate).unwrap_or(u32::MAX);
    // SAFETY: the descriptor is the borrowed connection's; the kernel reads the four bytes
    // that `rate` holds, whose size is given.
    let set = unsafe {
        libc::setsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

//! Requests to the kernel to run the emulator promptly. Each may be rejected; the emulator then
//! works less precisely.

#![allow(unsafe_code)]

use std::time::Duration;

/// The requests that the kernel granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Granted {
    /// True if this thread has priority over all ordinary threads (`SCHED_FIFO`).
    pub(super) is_real_time: bool,
}

/// Requests that timers of this thread expire without slack, and that the thread has priority over
/// ordinary threads.
pub(super) fn ask() -> Granted {
    // An error leaves the default slack of 50 µs.
    let slack = Duration::from_nanos(1).subsec_nanos();
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(u64::from(slack)));
    // The kernel's `struct sched_param` has only the priority, that of musl more. The function of
    // that name does nothing in musl.
    let lowest: libc::c_int = 1;
    // SAFETY: `lowest` outlives the call, which only reads it; pid 0 is the calling thread.
    let refused = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const lowest,
        )
    };
    Granted {
        is_real_time: refused == 0,
    }
}

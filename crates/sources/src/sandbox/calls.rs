//! System calls, restricted by a seccomp filter. A call that is not on the list fails with EPERM.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompFilter, SeccompRule};

use super::{Rules, arguments};

/// Calls that every worker may use with any arguments: memory, threads, time, and files that are
/// open.
const COMMON: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pidfd_open,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_splice,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_uname,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
    // The socket pair of the keeper.
    libc::SYS_recvmsg,
    libc::SYS_shutdown,
];

/// Older forms of calls, which not all architectures have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Calls on sockets with any arguments, for workers that use the network.
const NETWORK: &[libc::c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
];

/// Forbids all calls that are not listed. The filter applies to threads that begin later.
pub(super) fn restrict(rules: &Rules) -> io::Result<()> {
    for program in [
        without_clone3(),
        without_other_families(rules),
        listed(rules),
    ] {
        let program = program.map_err(io::Error::other)?;
        seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Returns a filter in which `clone3` is not implemented. Its flags are in memory, where a filter
/// cannot see them; the C library then uses `clone`.
fn without_clone3() -> Result<BpfProgram, BackendError> {
    refuse(libc::SYS_clone3, Vec::new(), libc::ENOSYS)
}

/// Returns a filter in which the unused families of sockets do not exist. The C library and libpcap
/// ask for them (such as a Unix socket, to reach a cache of names), and go on without.
fn without_other_families(rules: &Rules) -> Result<BpfProgram, BackendError> {
    let others = vec![arguments::other_families(rules)?];
    refuse(libc::SYS_socket, others, libc::EAFNOSUPPORT)
}

/// Returns a filter in which a call fails if one of the rules holds.
fn refuse(
    call: libc::c_long,
    rules: Vec<SeccompRule>,
    error: libc::c_int,
) -> Result<BpfProgram, BackendError> {
    let refused = SeccompAction::Errno(error.unsigned_abs());
    filter(
        BTreeMap::from([(call, rules)]),
        SeccompAction::Allow,
        refused,
    )
}

/// Returns the filter that allows the listed calls.
fn listed(rules: &Rules) -> Result<BpfProgram, BackendError> {
    let network = if rules.network { NETWORK } else { &[] };
    let free = COMMON.iter().chain(OLDER).chain(network);
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> =
        free.map(|&call| (call, Vec::new())).collect();
    allowed.insert(libc::SYS_clone3, Vec::new());
    allowed.extend(arguments::conditional(rules)?);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    filter(allowed, refused, SeccompAction::Allow)
}

fn filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    mismatch: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, mismatch, matched, architecture)?.try_into()
}

//! Lookup of the tracepoints of system calls, and attachment of programs to them.
//!
//! The numbers of tracepoints are in a separate file system (tracefs). If it is not mounted, it is
//! opened without a mount point, so that nothing on the host changes. Each program is attached to
//! the tracepoint of one system call, so that other calls do not run it.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};

use libbpf_rs::{Link, ProgramMut};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::object::refused;
use crate::kernel::KernelError;

/// The usual mount points of tracefs.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// The kernel's setting that restricts performance events.
const PARANOIA: &str = "/proc/sys/kernel/perf_event_paranoid";
/// The lowest value at which Debian's and Ubuntu's kernels refuse all events, even with
/// CAP_PERFMON. Unpatched kernels treat it as 2.
const RESTRICTED: u32 = 3;
/// `PERF_ATTR_SIZE_VER0`: the size that all kernels support.
const ATTRIBUTES: u32 = 64;

/// The tracefs directory with the list of tracepoints.
pub(super) struct Tracepoints(OwnedFd);

impl Tracepoints {
    /// Opens the tracefs directory.
    pub(super) fn open() -> Result<Self, KernelError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for folder in MOUNTED {
            // The directory exists but is empty if tracefs is not mounted there.
            let Ok(found) = open(folder, flags, Mode::empty()) else {
                continue;
            };
            match openat(&found, "events", flags, Mode::empty()) {
                Ok(_) => return Ok(Self(found)),
                Err(rustix::io::Errno::ACCESS) => break,
                Err(_) => {}
            }
        }
        detached().map(Self).map_err(|error| match error {
            rustix::io::Errno::PERM | rustix::io::Errno::ACCESS => {
                KernelError::TracepointsNotPermitted(error.into())
            }
            _ => KernelError::NoTracepoints(error.into()),
        })
    }

    /// Attaches a program to the tracepoint that its section names.
    pub(super) fn attach(&self, program: &ProgramMut<'_>) -> Result<Link, KernelError> {
        let section = program.section().to_string_lossy().into_owned();
        let name = section.trim_start_matches("tracepoint/");
        let event = event(self.number(name)?).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => not_permitted(source, paranoia()),
            _ => KernelError::Refused {
                program: name.to_owned(),
                source,
            },
        })?;
        let link = program
            .attach_perf_event(event.as_fd().as_raw_fd())
            .map_err(|error| refused(name, &error))?;
        // The link owns the event's descriptor now.
        let _ = event.into_raw_fd();
        Ok(link)
    }

    fn number(&self, name: &str) -> Result<u64, KernelError> {
        let path = format!("events/{name}/id");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.0, &path, flags, Mode::empty()).map_err(|error| match error {
            rustix::io::Errno::ACCESS => KernelError::TracepointsNotPermitted(error.into()),
            _ => KernelError::NoTracepoints(error.into()),
        })?;
        let mut text = [0; 32];
        let read = rustix::io::read(&file, &mut text)
            .map_err(|error| KernelError::NoTracepoints(error.into()))?;
        let text = text.get(..read).unwrap_or_default();
        let number = String::from_utf8_lossy(text).trim().parse().ok();
        number.ok_or_else(|| KernelError::NoTracepoints(io::ErrorKind::InvalidData.into()))
    }
}

/// Opens tracefs without mounting it.
fn detached() -> rustix::io::Result<OwnedFd> {
    let system = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&system)?;
    fsmount(
        &system,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )
}

/// Returns the value of `kernel.perf_event_paranoid` if it is positive.
fn paranoia() -> Option<u32> {
    std::fs::read_to_string(PARANOIA).ok()?.trim().parse().ok()
}

/// Returns the error for an event that the kernel refused, given the value of
/// `kernel.perf_event_paranoid`.
fn not_permitted(source: io::Error, paranoia: Option<u32>) -> KernelError {
    match paranoia {
        Some(level) if level >= RESTRICTED => KernelError::EventsRestricted { level, source },
        _ => KernelError::NotPermitted(source),
    }
}

/// Opens an event for a tracepoint. A program that is attached to the event runs on every
/// processor, although the event names only one.
fn event(number: u64) -> io::Result<OwnedFd> {
    // `struct perf_event_attr`: type, size, config, sample_period.
    let mut attributes = [0u64; ATTRIBUTES as usize / 8];
    let mut first = [0; 8];
    first[..4].copy_from_slice(&TRACEPOINT.to_ne_bytes());
    first[4..].copy_from_slice(&ATTRIBUTES.to_ne_bytes());
    attributes[0] = u64::from_ne_bytes(first);
    attributes[1] = number;
    attributes[2] = 1;
    // SAFETY: the kernel reads only as many bytes of `attributes` as its second field says, and all
    // of these exist. It writes nothing. The other arguments are plain numbers (any process, the
    // first processor, no group).
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            -1 as libc::pid_t,
            0 as libc::c_int,
            -1 as libc::c_int,
            CLOSE_ON_EXEC,
        )
    };
    let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_setting_that_causes_it() {
        let told = |paranoia| {
            let error = not_permitted(io::ErrorKind::PermissionDenied.into(), paranoia);
            format!("{error}; {}", error.hint().unwrap_or_default())
        };
        let restricted = told(Some(3));
        assert!(
            restricted.starts_with("kernel.perf_event_paranoid = 3 does not permit"),
            "{restricted}"
        );
        assert!(restricted.contains("CAP_SYS_ADMIN"), "{restricted}");
        for harmless in [Some(2), None] {
            let other = told(harmless);
            assert!(!other.contains("perf_event_paranoid"), "{other}");
        }
    }
}

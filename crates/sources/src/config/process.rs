//! Properties of another process, read from `/proc` (`proc_pid_stat(5)`).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use super::Error;
use crate::privilege;
use crate::privilege::message::{ProcFile, ProcessLink};

/// Maximum number of bytes read from a `/proc` file; a longer file is truncated.
const MAX_PROC_FILE: u64 = 4 << 20;
/// `USER_HZ`, the number of units per second in `/proc/PID/stat`. It is 100 on every Linux port
/// that runs servers (`include/uapi/asm-generic/param.h`).
const TICKS_PER_SECOND: u64 = 100;
/// Resolution of a process's start time: one tick.
pub(crate) const START_RESOLUTION: Duration = Duration::from_millis(10);

/// The fields of `/proc/PID/stat` that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Field 4: the parent's PID; 0 if there is no parent.
    pub(crate) parent: u32,
    /// Field 22: the start time after boot, in ticks.
    pub(crate) start_ticks: u64,
    /// Fields 48 and 51: the number of bytes from the first argument to the end of the environment.
    /// A program has this space for its title. 0 if the kernel hides the fields.
    pub(crate) title_room: u64,
}

impl Stat {
    /// Parses the line. The name in parentheses may contain any bytes, including parentheses.
    fn parse(text: &[u8]) -> Option<Self> {
        let after_name = text.iter().rposition(|byte| *byte == b')')? + 1;
        let rest = std::str::from_utf8(text.get(after_name..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first of `fields` is field 3.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let title_room = match (number(48), number(51)) {
            (Some(start), Some(end)) => end.saturating_sub(start),
            _ => 0,
        };
        Some(Self {
            parent: u32::try_from(number(4)?).ok()?,
            start_ticks: number(22)?,
            title_room,
        })
    }

    /// Returns the start time of the process, by the current setting of `CLOCK_REALTIME`.
    pub(crate) fn started(&self) -> SystemTime {
        let boot = clock_gettime(ClockId::Boottime);
        let since_boot = Duration::new(
            u64::try_from(boot.tv_sec).unwrap_or(0),
            u32::try_from(boot.tv_nsec).unwrap_or(0),
        );
        let start = Duration::from_millis(self.start_ticks.saturating_mul(1000 / TICKS_PER_SECOND));
        let age = since_boot.saturating_sub(start);
        let now = SystemTime::now();
        now.checked_sub(age).unwrap_or(now)
    }
}

/// Reads a small file below `/proc/PID`.
pub(crate) fn read(pid: u32, name: &'static str) -> Result<Vec<u8>, Error> {
    read_proc(&format!("/proc/{pid}/{name}")).map_err(|source| Error::Process { pid, name, source })
}

/// Reads a file below `/proc/PID` that shows more to the process's owner than to others.
pub(crate) fn read_as_owner(pid: u32, file: ProcFile) -> Result<Vec<u8>, Error> {
    privilege::proc_file(pid, file, MAX_PROC_FILE).map_err(|error| Error::Process {
        pid,
        name: file.name(),
        source: error.into(),
    })
}

fn read_proc(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_PROC_FILE)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the `stat` of a process. The title's room is 0 unless this process may examine the other.
pub(crate) fn stat(pid: u32) -> Result<Stat, Error> {
    parse_stat(pid, &read(pid, "stat")?)
}

/// Reads the `stat` of a process with the title's room, if the keeper may examine the process.
pub(crate) fn stat_with_title_room(pid: u32) -> Result<Stat, Error> {
    parse_stat(pid, &read_as_owner(pid, ProcFile::Stat)?)
}

fn parse_stat(pid: u32, text: &[u8]) -> Result<Stat, Error> {
    Stat::parse(text).ok_or(Error::Process {
        pid,
        name: "stat",
        source: io::ErrorKind::InvalidData.into(),
    })
}

/// Returns the arguments. If the program has overwritten them with a title, returns the title.
pub(crate) fn arguments(pid: u32) -> Result<Vec<Vec<u8>>, Error> {
    let text = read(pid, "cmdline")?;
    let end = text
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    Ok(text[..end]
        .split(|byte| *byte == 0)
        .map(<[u8]>::to_vec)
        .collect())
}

/// Returns the working directory of a process, as seen from the process's own root.
pub(crate) fn working_directory(pid: u32) -> PathBuf {
    let link = |link| privilege::link(pid, link).ok();
    let directory = link(ProcessLink::Cwd).unwrap_or_else(|| PathBuf::from("/"));
    let root = link(ProcessLink::Root).filter(|root| root.as_os_str().as_bytes() != b"/");
    match root
        .as_deref()
        .and_then(|root| directory.strip_prefix(root).ok())
    {
        Some(inside) => Path::new("/").join(inside),
        None => directory,
    }
}

/// Returns the parent of a process if it runs the same program with the same mounts. `None` if not,
/// or if this is unknown.
///
/// Such a parent has started the process with its own configuration. The process may have changed
/// its root directory since, so that the configuration is not below it (`chroot` of haproxy).
pub(crate) fn starter(pid: u32) -> Option<u32> {
    let parent = stat(pid).ok()?.parent;
    let are_same = |link| {
        let own = privilege::link(pid, link).ok();
        own.is_some() && own == privilege::link(parent, link).ok()
    };
    (are_same(ProcessLink::Exe) && are_same(ProcessLink::Mnt)).then_some(parent)
}

/// Returns the real user id; `None` if it cannot be read.
pub(crate) fn real_user(pid: u32) -> Option<u32> {
    let status = read(pid, "status").ok()?;
    let text = String::from_utf8_lossy(&status);
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the processes whose parent is `pid`, in no order.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    // Exists only with CONFIG_PROC_CHILDREN.
    if let Ok(list) = read_proc(&format!("/proc/{pid}/task/{pid}/children")) {
        return String::from_utf8_lossy(&list)
            .split_ascii_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
    }
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|other| stat(*other).is_ok_and(|stat| stat.parent == pid))
        .collect()
}

/// Returns true if the process is in lagtrace's own namespace of this kind (`Net` or `Uts`); `None`
/// if this is unknown.
pub(crate) fn shares_namespace_with_us(pid: u32, kind: ProcessLink) -> Option<bool> {
    let theirs = privilege::link(pid, kind).ok()?;
    let ours = std::fs::read_link(format!("/proc/self/{}", kind.path())).ok()?;
    Some(theirs == ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = b"12 (a) b (c) S 7 12 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0 0 \
                     0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 1000 1050 1050 1200 0\n";
        let stat = Stat::parse(line).expect("well-formed");
        assert_eq!(
            stat,
            Stat {
                parent: 7,
                start_ticks: 4242,
                title_room: 200
            }
        );
        assert_eq!(Stat::parse(b"12 (x"), None);
        assert_eq!(Stat::parse(b"12 (x) S"), None);
    }

    #[test]
    fn this_process_started_a_short_while_ago() {
        let own = stat(std::process::id()).expect("our own");
        let age = SystemTime::now()
            .duration_since(own.started())
            .expect("in the past");
        assert!(age < Duration::from_secs(24 * 3600), "{age:?}");
    }

    #[test]
    fn arguments_of_this_process_begin_with_its_name() {
        let own = arguments(std::process::id()).expect("our own");
        let first = std::env::args().next().expect("a name");
        assert_eq!(own[0], first.as_bytes());
    }
}

//! Objects of another process: its file descriptors, its links below `/proc`, and files below its
//! root directory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use super::client::{keeper, unexpected};
use super::message::{ProcFile, ProcessLink, Reply, Request};
use super::{Capability, HostError};

/// Magic numbers of the file systems whose files the kernel makes up (`statfs(2)`): procfs, sysfs,
/// debugfs, tracefs, securityfs, both versions of cgroups, EFI variables, eBPF, configfs, pstore,
/// SELinux.
const OF_KERNEL: [u64; 12] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x0027_e0eb,
    0x6367_7270,
    0xde5e_81e4,
    0xcafe_4a11,
    0x6265_6570,
    0x6165_676c,
    0xf97c_ff8c,
];

/// Flags that open a folder for lookups only.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Maximum number of links that are followed from one to the next, as the kernel's.
const MOST_LINKS: usize = 40;
/// Maximum number of folders above a file.
const MOST_FOLDERS: usize = 4096;

/// A handle on another process. It ensures that the PID does not refer to a later process.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: u32,
    pidfd: OwnedFd,
}

impl ProcessHandle {
    /// Opens a handle on process `pid`.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn open(pid: u32) -> Result<Self, HostError> {
        let gone = || HostError::Gone {
            what: format!("process {pid}"),
        };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd = rustix::process::pidfd_open(number.ok_or_else(gone)?, PidfdFlags::empty())
            .map_err(|e| {
                HostError::new(
                    format!("pidfd_open({pid})"),
                    e.into(),
                    Capability::SysPtrace,
                )
            })?;
        Ok(Self { pid, pidfd })
    }

    /// Returns the PID of the process in lagtrace's own PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the descriptor that becomes readable when the process ends.
    pub(crate) fn end(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Returns true if the process has ended: its descriptor is readable (`pidfd_open(2)`).
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Returns true if this is the process itself.
    pub(crate) fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Duplicates the process's descriptor `fd`. The duplicate refers to the same socket, so a
    /// `close` in that process does not close the connection while the duplicate exists. The caller
    /// should drop it as soon as possible.
    ///
    /// # Errors
    /// Returns an error if `CAP_SYS_PTRACE` is missing, or if the process has closed `fd`.
    pub fn duplicate(&self, fd: u32) -> Result<OwnedFd, HostError> {
        let operation = || format!("pidfd_getfd of descriptor {fd} of process {}", self.pid);
        let number = i32::try_from(fd).map_err(|_| HostError::Gone { what: operation() })?;
        if self.is_own() {
            return duplicate_own(number).map_err(|_| HostError::Gone { what: operation() });
        }
        rustix::process::pidfd_getfd(&self.pidfd, number, PidfdGetfdFlags::empty()).map_err(|e| {
            if e == rustix::io::Errno::BADF {
                HostError::Gone { what: operation() }
            } else {
                HostError::new(operation(), e.into(), Capability::SysPtrace)
            }
        })
    }
}

/// Duplicates a descriptor of this process.
#[allow(unsafe_code)]
fn duplicate_own(fd: i32) -> rustix::io::Result<OwnedFd> {
    if fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the descriptor is borrowed for this call only. If it has been closed in the meantime,
    // the kernel answers with EBADF; if it was opened again, the callers see another cookie.
    let own = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_dupfd_cloexec(own, 0)
}

/// Returns the open sockets of process `pid`, as `(inode, descriptor)`. At most `most` descriptors
/// are read. lagtrace needs no privilege for its own sockets.
///
/// # Errors
/// Returns an error if the process belongs to another user and `CAP_SYS_PTRACE` is missing, or if
/// the process has ended.
pub fn sockets_of(pid: u32, most: usize) -> Result<Vec<(u32, u32)>, HostError> {
    if pid != std::process::id()
        && let Some(keeper) = keeper()
    {
        return match keeper.ask(&Request::Sockets { pid, most })? {
            (Reply::Sockets(sockets), _) => Ok(sockets),
            _ => Err(unexpected()),
        };
    }
    let path = format!("/proc/{pid}/fd");
    let refuse = |e| HostError::new(format!("reading {path}"), e, Capability::SysPtrace);
    let mut sockets = Vec::new();
    let mut refusal = None;
    for entry in fs::read_dir(&path).map_err(refuse)?.take(most).flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        match fs::read_link(entry.path()) {
            Ok(link) => {
                sockets.extend(
                    link.to_str()
                        .and_then(socket_inode)
                        .map(|inode| (inode, fd)),
                );
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => refusal = Some(e),
            Err(_) => {} // closed in the meantime
        }
    }
    match refusal {
        Some(e) if sockets.is_empty() => Err(refuse(e)),
        _ => Ok(sockets),
    }
}

/// Returns the target of a link of process `pid`.
///
/// # Errors
/// Returns an error if the process belongs to another user and `CAP_SYS_PTRACE` is missing, or if
/// the process has ended.
pub(crate) fn link(pid: u32, link: ProcessLink) -> Result<PathBuf, HostError> {
    if let Some(keeper) = keeper() {
        return match keeper.ask(&Request::Link(pid, link))? {
            (Reply::Bytes(bytes), _) => Ok(std::ffi::OsString::from_vec(bytes).into()),
            _ => Err(unexpected()),
        };
    }
    let path = format!("/proc/{pid}/{}", link.path());
    fs::read_link(&path)
        .map_err(|e| HostError::new(format!("reading {path}"), e, Capability::SysPtrace))
}

/// Opens the program that process `pid` runs, even if its file was deleted.
///
/// # Errors
/// Returns the same errors as [`link`].
pub(crate) fn program(pid: u32) -> Result<File, HostError> {
    if let Some(keeper) = keeper() {
        return Ok(keeper.descriptor(&Request::Program(pid))?.into());
    }
    let path = format!("/proc/{pid}/exe");
    File::open(&path)
        .map_err(|e| HostError::new(format!("opening {path}"), e, Capability::SysPtrace))
}

/// Returns a small file of process `pid` below `/proc`, at most `most` bytes. What it shows depends
/// on the privileges of the reader.
///
/// # Errors
/// Returns the same errors as [`link`].
pub(crate) fn proc_file(pid: u32, file: ProcFile, most: u64) -> Result<Vec<u8>, HostError> {
    if let Some(keeper) = keeper() {
        return match keeper.ask(&Request::ProcFile(pid, file))? {
            (Reply::Bytes(bytes), _) => Ok(bytes),
            _ => Err(unexpected()),
        };
    }
    let path = format!("/proc/{pid}/{}", file.name());
    let mut bytes = Vec::new();
    File::open(&path)
        .and_then(|opened| opened.take(most).read_to_end(&mut bytes))
        .map_err(|e| HostError::new(format!("reading {path}"), e, Capability::SysPtrace))?;
    Ok(bytes)
}

/// Opens the root directory of process `pid`, for lookups only.
///
/// # Errors
/// Returns the same errors as [`link`].
pub(crate) fn root(pid: u32) -> io::Result<OwnedFd> {
    let path = format!("/proc/{pid}/root");
    Ok(rustix::fs::open(path, FOLDER, Mode::empty())?)
}

/// Opens a regular file or a folder below `root` for reading. Symbolic links are resolved within
/// that root.
///
/// # Errors
/// Returns an error if the path does not exist or is of another kind, or if reading it is not
/// permitted.
pub(crate) fn open_below(root: &OwnedFd, path: &Path, is_folder: bool) -> io::Result<OwnedFd> {
    find_below(root, path, is_folder)?.open()
}

/// A regular file or a folder that has not been opened for reading yet. To open other kinds of files
/// can have effects: a writer that waits at a pipe goes on, a watchdog begins to run.
#[derive(Debug)]
pub(crate) struct FoundFile {
    /// The place of the file, which cannot be read (`O_PATH`).
    place: OwnedFd,
    is_folder: bool,
    is_for_everybody: bool,
}

impl FoundFile {
    fn of(root: &OwnedFd, path: &Path, place: OwnedFd, is_folder: bool) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&place)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let (wanted, what) = if is_folder {
            (FileType::Directory, "not a folder")
        } else {
            (FileType::RegularFile, "not a regular file")
        };
        let invalid = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if kind != wanted {
            return invalid(what);
        }
        if is_of_kernel(&place)? {
            return invalid("made up by the kernel");
        }
        let above = || {
            if is_folder {
                Ok(rustix::fs::openat(&place, "..", FOLDER, Mode::empty())?)
            } else {
                folder_of(root, path)
            }
        };
        Ok(Self {
            // A folder that cannot be looked up may be private.
            is_for_everybody: stat.st_mode & 0o004 != 0
                && above().and_then(is_passable).unwrap_or(false),
            place,
            is_folder,
        })
    }

    /// Returns true if everybody may read the file or list the folder, and may pass all folders above
    /// it.
    pub(crate) fn is_for_everybody(&self) -> bool {
        self.is_for_everybody
    }

    /// Returns the path of the file itself, after all links.
    ///
    /// # Errors
    /// Returns an error if `/proc` is not mounted.
    pub(crate) fn resolved(&self) -> io::Result<PathBuf> {
        fs::read_link(self.link())
    }

    /// Opens this very file for reading.
    ///
    /// # Errors
    /// Returns an error if reading is not permitted.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        flags.set(OFlags::DIRECTORY, self.is_folder);
        Ok(rustix::fs::open(self.link(), flags, Mode::empty())?)
    }

    fn link(&self) -> String {
        format!("/proc/self/fd/{}", self.place.as_raw_fd())
    }
}

/// Returns true for files that the kernel makes up. Many of them show a process or the host to
/// everybody who opens them with the right to do so.
fn is_of_kernel(place: &OwnedFd) -> io::Result<bool> {
    let kind = rustix::fs::fstatfs(place)?.f_type;
    Ok(u64::try_from(kind).is_ok_and(|kind| OF_KERNEL.contains(&kind)))
}

/// Finds a regular file or a folder below `root`, and does not open it.
///
/// # Errors
/// Returns an error if the path does not exist or is of another kind.
pub(crate) fn find_below(root: &OwnedFd, path: &Path, is_folder: bool) -> io::Result<FoundFile> {
    let place = look_up(root, path, OFlags::empty())?;
    FoundFile::of(root, path, place, is_folder)
}

/// Looks up a path below `root`, and does not open what is there.
fn look_up(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    // The kernel returns EAGAIN if a rename happened during the path lookup.
    for _ in 0..16 {
        match rustix::fs::openat2(root.as_fd(), path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            looked_up => return Ok(looked_up?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// Returns the folder that a file below `root` is in, after all links.
fn folder_of(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let above = path.parent().unwrap_or(Path::new("/"));
        let folder = look_up(root, above, OFlags::DIRECTORY)?;
        match rustix::fs::readlinkat(&folder, name, Vec::new()) {
            // It is no link.
            Err(Errno::INVAL) => return Ok(folder),
            target => path = above.join(OsStr::from_bytes(target?.as_bytes())),
        }
    }
    Err(Errno::LOOP.into())
}

/// Returns true if everybody may pass a folder and all folders above it.
fn is_passable(mut folder: OwnedFd) -> io::Result<bool> {
    let mut stat = rustix::fs::fstat(&folder)?;
    for _ in 0..MOST_FOLDERS {
        if stat.st_mode & 0o001 == 0 {
            return Ok(false);
        }
        folder = rustix::fs::openat(&folder, "..", FOLDER, Mode::empty())?;
        let above = rustix::fs::fstat(&folder)?;
        if (above.st_dev, above.st_ino) == (stat.st_dev, stat.st_ino) {
            return Ok(true);
        }
        stat = above;
    }
    Ok(false)
}

/// Returns the inode number in text of the form `socket:[12345]`.
fn socket_inode(link: &str) -> Option<u32> {
    let number = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_are_read_from_links() {
        assert_eq!(socket_inode("socket:[4711]"), Some(4711));
        for link in [
            "pipe:[4711]",
            "socket:[]",
            "socket:[-1]",
            "/dev/null",
            "socket:[99999999999]",
        ] {
            assert_eq!(socket_inode(link), None, "{link}");
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_gone() {
        let error = ProcessHandle::open(u32::MAX).expect_err("no such process");
        assert!(matches!(error, HostError::Gone { .. }), "{error}");
    }
}

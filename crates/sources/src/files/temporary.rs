//! A file without a name, or with a temporary one, which gets its name when it is whole.
//!
//! Where the file system can make files without a name (`O_TMPFILE`), nothing remains of a run
//! that is killed. Elsewhere (NFS, FUSE) the file is hidden under a random name, and only SIGKILL
//! can leave it behind.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::place::Place;

/// Maximum number of random names to try.
const ATTEMPTS: usize = 16;

/// The present name of a file.
#[derive(Debug)]
pub(super) struct Temporary {
    /// The temporary name; `None` if the file has none.
    name: Option<OsString>,
}

/// Creates a file in the folder of a place, by default without a name.
pub(super) fn create(place: &Place, mode: Mode) -> io::Result<(OwnedFd, Temporary)> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(&place.folder, ".", flags, mode) {
        Ok(file) if by_descriptor(file.as_fd()).exists() => Ok((file, Temporary { name: None })),
        // EISDIR comes from kernels and file systems that do not know the flag (`open(2)`).
        Ok(_) | Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            named(place, mode)
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates a file with a temporary name, which file systems of all kinds can do.
pub(super) fn named(place: &Place, mode: Mode) -> io::Result<(OwnedFd, Temporary)> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    for _ in 0..ATTEMPTS {
        let name = random_name();
        match rustix::fs::openat(&place.folder, &name, flags | OFlags::NOFOLLOW, mode) {
            Ok(file) => return Ok((file, Temporary { name: Some(name) })),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

impl Temporary {
    /// Gives the file its name, if it may in place of a file that has it.
    pub(super) fn publish(
        &mut self,
        file: BorrowedFd<'_>,
        place: &Place,
        replaces: bool,
    ) -> io::Result<()> {
        if self.name.is_none() {
            match link(file, place, &place.name) {
                Err(Errno::EXIST) if replaces => self.name = Some(under_random_name(file, place)?),
                linked => return Ok(linked?),
            }
        }
        if let Some(name) = &self.name {
            let (from, to) = (&place.folder, &place.name);
            if replaces {
                rustix::fs::renameat(from, name, from, to)?;
            } else {
                rustix::fs::linkat(from, name, from, to, AtFlags::empty())?;
                rustix::fs::unlinkat(from, name, AtFlags::empty())?;
            }
            self.name = None;
        }
        Ok(())
    }

    /// Removes the file's temporary name.
    pub(super) fn remove(&mut self, place: &Place) {
        if let Some(name) = self.name.take() {
            rustix::fs::unlinkat(&place.folder, &name, AtFlags::empty()).ok();
        }
    }
}

fn under_random_name(file: BorrowedFd<'_>, place: &Place) -> io::Result<OsString> {
    for _ in 0..ATTEMPTS {
        let name = random_name();
        match link(file, place, &name) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// Links a file without a name, by procfs: without it, this needs a capability.
fn link(file: BorrowedFd<'_>, place: &Place, name: &OsStr) -> rustix::io::Result<()> {
    let from = by_descriptor(file);
    rustix::fs::linkat(CWD, &from, &place.folder, name, AtFlags::SYMLINK_FOLLOW)
}

fn by_descriptor(file: BorrowedFd<'_>) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

/// Returns a name that nobody can guess before it is used: the standard library seeds its hashes
/// from the kernel's random numbers.
fn random_name() -> OsString {
    let number = RandomState::new().hash_one(std::process::id());
    OsString::from(format!(".lagtrace-{number:016x}"))
}

//! The place of an output: a folder that is held open, and a name in it.
//!
//! The path is followed step by step, because in a folder to which others may write (everyone, as in
//! `/tmp`, or a group), a symbolic link may be another user's trap: it would lead the output, or its
//! secrets, to a file of that user's choice. Such links are refused, wherever in the path they are.
//! In other folders links lead on, as everywhere. All later steps use the open folder, so that
//! nobody can exchange it meanwhile.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use super::claim::Key;
use super::owner::is_ours;
use super::refusal::Refusal;

/// Maximum number of symbolic links in a path, the same as in the kernel (`path_resolution(7)`).
const MOST_LINKS: usize = 40;

/// A name in a folder, behind all symbolic links.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: OwnedFd,
    pub(super) name: OsString,
    /// True if the name is a link of procfs to an open file, such as `/proc/self/fd/1`.
    is_open_file: bool,
}

/// The way that remains, in reverse order.
struct Way {
    left: Vec<OsString>,
    links: usize,
}

impl Way {
    /// Puts the steps of a path before those that remain, and returns the folder at which they
    /// begin; `None` for the present one.
    fn add(&mut self, path: &Path) -> io::Result<Option<OwnedFd>> {
        // A path that ends with a slash names a folder.
        if path.as_os_str().as_bytes().ends_with(b"/") {
            self.left.push(OsString::from("."));
        }
        let steps = path.components().rev().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        });
        self.left.extend(steps);
        Ok(if path.is_absolute() {
            Some(folder(CWD, OsStr::new("/"))?)
        } else {
            None
        })
    }
}

impl Place {
    /// Finds the place that a path names.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut way = Way {
            left: Vec::new(),
            links: 0,
        };
        let mut at = match way.add(path)? {
            Some(root) => root,
            None if path.as_os_str().is_empty() => return Err(Errno::NOENT.into()),
            None => folder(CWD, OsStr::new("."))?,
        };
        while let Some(name) = way.left.pop() {
            let is_last = way.left.is_empty();
            if name == "." || name == ".." {
                at = folder(&at, &name)?;
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let step = match rustix::fs::openat(&at, &name, flags, Mode::empty()) {
                Err(Errno::NOENT) if is_last => return Ok(Self::new(at, name)),
                step => step?,
            };
            let about = rustix::fs::fstat(&step)?;
            if !FileType::from_raw_mode(about.st_mode).is_symlink() {
                if is_last {
                    return Ok(Self::new(at, name));
                }
                at = folder(&at, &name)?;
            } else if is_procfs(&at)? {
                // Links of procfs lead to open files, which need not have a name.
                if is_last {
                    let is_open_file = true;
                    return Ok(Self {
                        is_open_file,
                        ..Self::new(at, name)
                    });
                }
                at = followed(&at, &name)?;
            } else if is_trap(&at, &about)? {
                return Err(Refusal::Link.into());
            } else if way.links == MOST_LINKS {
                return Err(Errno::LOOP.into());
            } else {
                way.links += 1;
                // The very link that was examined.
                let target = rustix::fs::readlinkat(&step, "", Vec::new())?;
                let target = OsString::from_vec(target.into_bytes());
                at = way.add(Path::new(&target))?.unwrap_or(at);
            }
        }
        Err(Errno::ISDIR.into())
    }

    /// Finds the place of a file that does not exist yet, in a folder that exists. The name is not
    /// followed if it is a symbolic link.
    pub(super) fn of_new(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::ISDIR)?;
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        let at = folder(CWD, parent.unwrap_or(Path::new(".")).as_os_str())?;
        Ok(Self::new(at, name.to_owned()))
    }

    fn new(folder: OwnedFd, name: OsString) -> Self {
        let is_open_file = false;
        Self {
            folder,
            name,
            is_open_file,
        }
    }

    /// Returns what has the name now; `None` if there is nothing.
    ///
    /// # Errors
    /// An error if it is a folder, or another user's file in a shared folder.
    pub(super) fn about(&self) -> io::Result<Option<Stat>> {
        let flags = if self.is_open_file {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        let about = match rustix::fs::statat(&self.folder, &self.name, flags) {
            Err(Errno::NOENT) => return Ok(None),
            about => about?,
        };
        match FileType::from_raw_mode(about.st_mode) {
            FileType::Directory => Err(Errno::ISDIR.into()),
            // The name was no link a moment ago: somebody is exchanging it.
            FileType::Symlink => Err(Refusal::Link.into()),
            _ if !is_ours(&about) && is_shared(&self.folder)? => Err(Refusal::Foreign.into()),
            _ => Ok(Some(about)),
        }
    }

    /// Returns true if the name stands for an open file of procfs, not for a file of its own.
    pub(super) fn is_open_file(&self) -> bool {
        self.is_open_file
    }

    /// Opens what has the name for writing. An open file of this process is opened by its
    /// descriptor: it keeps its position, so that what was written before is not overwritten.
    pub(super) fn open(&self, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        if !self.is_open_file {
            let flags = flags | OFlags::NOFOLLOW;
            return Ok(rustix::fs::openat(&self.folder, &self.name, flags, mode)?);
        }
        match self.own_descriptor() {
            Some(own) => Ok(own),
            None => Ok(rustix::fs::openat(&self.folder, &self.name, flags, mode)?),
        }
    }

    /// Returns a copy of the descriptor of this process that the name stands for.
    fn own_descriptor(&self) -> Option<OwnedFd> {
        let number = self.name.to_str()?.parse().ok()?;
        let own = rustix::fs::stat("/proc/self/fd").ok()?;
        let folder = rustix::fs::fstat(&self.folder).ok()?;
        if (own.st_dev, own.st_ino) != (folder.st_dev, folder.st_ino) {
            return None;
        }
        let process = pidfd_open(getpid(), PidfdFlags::empty()).ok()?;
        pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok()
    }

    /// Removes the name, if it still is that of `file`.
    pub(super) fn remove(&self, file: BorrowedFd<'_>) {
        let (flags, number) = (AtFlags::SYMLINK_NOFOLLOW, |it: Stat| (it.st_dev, it.st_ino));
        let named = rustix::fs::statat(&self.folder, &self.name, flags).map(number);
        if named.is_ok() && named == rustix::fs::fstat(file).map(number) {
            rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty()).ok();
        }
    }

    /// Returns what identifies the place, however its path is written.
    pub(super) fn key(&self) -> io::Result<Key> {
        let folder = rustix::fs::fstat(&self.folder)?;
        Ok((folder.st_dev, folder.st_ino, self.name.clone()))
    }
}

/// Opens a folder that is no link, to find names in it.
fn folder(at: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

/// Opens the folder to which a link of procfs leads.
fn followed(at: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at.as_fd(), name, flags, Mode::empty())?)
}

/// Returns true if others than the folder's owner may create files and links in it.
fn is_shared(folder: &OwnedFd) -> io::Result<bool> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode);
    Ok(mode.intersects(Mode::WOTH | Mode::WGRP))
}

/// Returns true if a link in a folder may be another user's: any link where everyone may write, and
/// a link of another user where a group may.
fn is_trap(folder: &OwnedFd, link: &Stat) -> io::Result<bool> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode);
    Ok(mode.contains(Mode::WOTH) || mode.contains(Mode::WGRP) && !is_ours(link))
}

fn is_procfs(folder: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(folder)?.f_type == PROC_SUPER_MAGIC)
}

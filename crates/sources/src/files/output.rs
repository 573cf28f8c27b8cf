//! Files that are written.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::claim::Claim;
use super::owner::Owner;
use super::place::Place;
use super::refusal::Refusal;
use super::temporary::{self, Temporary};
use crate::privilege::client::{Client, keeper, unexpected};
use crate::privilege::message::{Purpose, Reply, Request};

impl Purpose {
    /// Returns the mode of a new file, from which the umask is taken.
    fn mode(self) -> Mode {
        match self {
            // Requests, payload and addresses are for the user alone.
            Self::Result | Self::Stream => Mode::RUSR | Mode::WUSR,
            Self::Public => Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH,
        }
    }
}

/// A file, device or pipe that is written. What was written becomes the file by
/// [`commit`](Self::commit); without it, a new file disappears again.
///
/// - A new file can only be read by its owner (mode 0600). A file that exists keeps its mode and,
///   if permitted, its owner.
/// - With sudo, a new file in a folder of the user behind sudo belongs to that user. In other
///   folders it belongs to root: whoever may read there is not known.
/// - In a folder to which others may write, no file of another user is written, and no symbolic link
///   of another user is followed; where everyone may write, none at all.
/// - Devices, pipes and open files (`/dev/fd/3`) are written directly.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: File,
    state: State,
}

/// The way in which the file is written.
#[derive(Debug)]
enum State {
    /// A device, a pipe or an open file.
    Direct,
    /// An output that the keeper has opened under this number, and that gets its name there.
    Kept {
        number: u32,
        /// True if the keeper must know of the first byte.
        is_announced: bool,
        /// True once it knows.
        is_used: bool,
    },
    /// A regular file in its place.
    InPlace {
        place: Place,
        _claim: Claim,
        /// True if this run created the file.
        is_new: bool,
        /// True once a byte was written, or the file was committed.
        is_used: bool,
    },
    /// A file that takes its place when it is committed.
    Apart {
        place: Place,
        _claim: Claim,
        temporary: Temporary,
        /// True if the file may take the place of another one.
        replaces: bool,
    },
}

impl Output {
    /// Opens an output. A pipe waits for its reader.
    ///
    /// # Errors
    /// The error of the operating system, or a [`Refusal`] within it.
    pub fn create(path: &Path, purpose: Purpose) -> io::Result<Self> {
        if let Some(keeper) = keeper() {
            return Self::create_by(keeper, path, purpose);
        }
        let place = Place::of(path)?;
        let about = place.about()?;
        let is_regular = |about: &Stat| FileType::from_raw_mode(about.st_mode).is_file();
        let (file, state) = match about {
            Some(_) if place.is_open_file() => {
                (place.open(OFlags::empty(), Mode::empty())?, State::Direct)
            }
            Some(about) if !is_regular(&about) => (open_old(&place, &about)?, State::Direct),
            None if place.is_open_file() => return Err(Errno::NOENT.into()),
            about => regular(place, about, purpose)?,
        };
        Ok(Self {
            path: path.to_owned(),
            file: file.into(),
            state,
        })
    }

    /// Opens an output that does not exist yet, for a name that the user has not typed. No other file
    /// is replaced, and no symbolic link with that name is followed.
    ///
    /// # Errors
    /// Returns an error if something has the name, and the errors of [`create`](Self::create).
    pub fn create_new(path: &Path) -> io::Result<Self> {
        if let Some(keeper) = keeper() {
            return Self::create_by(keeper, path, Purpose::Result);
        }
        let place = Place::of_new(path)?;
        if place.about()?.is_some() {
            return Err(Errno::EXIST.into());
        }
        let claim = Claim::new(place.key()?)?;
        let (file, state) = created_apart(place, claim, Purpose::Result, false)?;
        Ok(Self {
            path: path.to_owned(),
            file: file.into(),
            state,
        })
    }

    fn create_by(keeper: &Client, path: &Path, purpose: Purpose) -> io::Result<Self> {
        let request = Request::Output(path.to_owned(), purpose);
        let (reply, descriptors) = keeper.ask(&request)?;
        match (reply, descriptors.into_iter().next()) {
            (Reply::Output(number, is_announced), Some(file)) => Ok(Self {
                path: path.to_owned(),
                file: file.into(),
                state: State::Kept {
                    number,
                    is_announced,
                    is_used: false,
                },
            }),
            _ => Err(unexpected().into()),
        }
    }

    /// Returns true if an old file is emptied by the first byte.
    pub(crate) fn is_announced(&self) -> bool {
        matches!(self.state, State::InPlace { .. })
    }

    /// Returns an error if an output could not be opened. A device or pipe is not opened for this,
    /// because its reader would see the end.
    ///
    /// # Errors
    /// The same errors as [`create`](Self::create).
    pub fn check(path: &Path, purpose: Purpose) -> io::Result<()> {
        if let Some(keeper) = keeper() {
            keeper.ask(&Request::CheckOutput(path.to_owned(), purpose))?;
            return Ok(());
        }
        let place = Place::of(path)?;
        let about = place.about()?;
        let is_file = |about: Stat| FileType::from_raw_mode(about.st_mode).is_file();
        if !place.is_open_file() && about.is_none_or(is_file) {
            Self::create(path, purpose)?;
        }
        Ok(())
    }

    /// Takes standard output as an output like any other.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn standard() -> io::Result<Self> {
        let file = rustix::io::dup(rustix::stdio::stdout())?;
        Ok(Self {
            path: PathBuf::from("-"),
            file: file.into(),
            state: State::Direct,
        })
    }

    /// Returns the path as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the output for data that others read while it is written. Nothing may have been
    /// written yet.
    ///
    /// # Errors
    /// The same errors as [`create`](Self::create).
    pub fn into_stream(self) -> io::Result<Self> {
        let is_in_place = match self.state {
            State::Direct | State::InPlace { .. } => true,
            State::Kept { is_announced, .. } => is_announced,
            State::Apart { .. } => false,
        };
        if is_in_place {
            return Ok(self);
        }
        let path = self.path.clone();
        drop(self);
        Self::create(&path, Purpose::Stream)
    }

    /// Cuts the output after `len` bytes, if it is a file of its own.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn truncate(&self, len: u64) -> io::Result<()> {
        match self.state {
            State::Direct => Ok(()),
            // Devices and pipes have no length.
            State::Kept { .. } => match self.file.set_len(len) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                cut => cut,
            },
            State::InPlace { .. } | State::Apart { .. } => self.file.set_len(len),
        }
    }

    /// Keeps what was written: once it is stored, the file gets its name, in place of the old one.
    ///
    /// # Errors
    /// The error of the operating system, also one that tells only now of what was written before.
    pub fn commit(mut self) -> io::Result<()> {
        self.begin()?;
        let file = self.file.as_fd();
        match &mut self.state {
            State::Direct => close_once(file),
            State::InPlace { .. } => store(file),
            State::Kept { number, .. } => tell(Request::CommitOutput(*number)),
            State::Apart {
                place,
                temporary,
                replaces,
                ..
            } => {
                store(file)?;
                temporary.publish(file, place, *replaces)
            }
        }
    }

    /// Empties an old file that is written in place, once.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        if let State::Kept {
            number,
            is_announced: true,
            is_used: is_used @ false,
        } = &mut self.state
        {
            tell(Request::BeginOutput(*number))?;
            *is_used = true;
        }
        if let State::InPlace {
            is_used: is_used @ false,
            ..
        } = &mut self.state
        {
            self.file.set_len(0)?;
            *is_used = true;
        }
        Ok(())
    }
}

/// Waits until what was written to a file is stored. Quotas and file systems on a network may refuse
/// only now what was written before.
fn store(file: BorrowedFd<'_>) -> io::Result<()> {
    match rustix::fs::fdatasync(file) {
        // The file system stores nothing later (`fsync(2)`).
        Ok(()) | Err(Errno::INVAL | Errno::ROFS) => close_once(file),
        Err(error) => Err(error.into()),
    }
}

/// Closes a copy of a descriptor: some file systems (NFS, FUSE) write when a descriptor is closed, and
/// tell of an error only to whoever closes it.
fn close_once(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(nix::unistd::close(rustix::io::dup(file)?)?)
}

/// Tells the keeper something of an output.
fn tell(request: Request) -> io::Result<()> {
    let keeper = keeper().ok_or(io::ErrorKind::NotConnected)?;
    keeper.ask(&request)?;
    Ok(())
}

/// Opens a regular file, which exists if `about` says so.
fn regular(place: Place, about: Option<Stat>, purpose: Purpose) -> io::Result<(OwnedFd, State)> {
    let claim = Claim::new(place.key()?)?;
    let Some(about) = about else {
        return created(place, claim, purpose);
    };
    // Opening it shows whether it may be changed: a file that its owner protects stays.
    let old = open_old(&place, &about)?;
    let apart = match purpose {
        Purpose::Stream => None,
        Purpose::Result | Purpose::Public => replacement(&place, &about)?,
    };
    Ok(match apart {
        Some((file, temporary)) => {
            let state = State::Apart {
                place,
                _claim: claim,
                temporary,
                replaces: true,
            };
            (file, state)
        }
        None => (old, in_place(place, claim, false)),
    })
}

fn in_place(place: Place, claim: Claim, is_new: bool) -> State {
    State::InPlace {
        place,
        _claim: claim,
        is_new,
        is_used: false,
    }
}

/// Creates a file where there is none.
fn created(place: Place, claim: Claim, purpose: Purpose) -> io::Result<(OwnedFd, State)> {
    let (file, state) = match purpose {
        Purpose::Stream => {
            let flags = OFlags::CREATE | OFlags::EXCL;
            let file = place.open(flags, purpose.mode())?;
            give_to_user(&file, &place);
            (file, in_place(place, claim, true))
        }
        Purpose::Result | Purpose::Public => created_apart(place, claim, purpose, true)?,
    };
    Ok((file, state))
}

/// Creates a file that takes its place later.
fn created_apart(
    place: Place,
    claim: Claim,
    purpose: Purpose,
    replaces: bool,
) -> io::Result<(OwnedFd, State)> {
    let (file, temporary) = temporary::create(&place, purpose.mode())?;
    give_to_user(&file, &place);
    let state = State::Apart {
        place,
        _claim: claim,
        temporary,
        replaces,
    };
    Ok((file, state))
}

/// Opens a file that exists. It must be the one that was examined: in a folder in which others may
/// rename files, another one may have its name now. Some file systems (overlayfs) give a file another
/// number when it is opened for writing, so that another number is examined too.
pub(super) fn open_old(place: &Place, about: &Stat) -> io::Result<OwnedFd> {
    let old = place.open(OFlags::empty(), Mode::empty())?;
    let opened = rustix::fs::fstat(&old)?;
    // A file that was removed may have left its number to one of another owner.
    let of = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_uid);
    let is_it = |about: &Stat| of(&opened) == of(about);
    if is_it(about) || place.about()?.as_ref().is_some_and(is_it) {
        Ok(old)
    } else {
        Err(Refusal::Exchanged.into())
    }
}

/// Creates the file that will replace an old one, with its mode and, if permitted, its owner;
/// `None` if the old one can only be written in place: it is a mount point, or its folder may not
/// be changed.
fn replacement(place: &Place, old: &Stat) -> io::Result<Option<(OwnedFd, Temporary)>> {
    if is_mount_point(place) {
        return Ok(None);
    }
    let created = temporary::create(place, Mode::RUSR | Mode::WUSR);
    let (file, temporary) = match created {
        Err(error) if is_forbidden(&error) => return Ok(None),
        created => created?,
    };
    give(&file, Owner::of(old));
    // A file system without modes refuses it, and has nothing to keep.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(old.st_mode & 0o777)).ok();
    Ok(Some((file, temporary)))
}

/// Gives a new file to the user behind sudo, if the folder belongs to that user.
fn give_to_user(file: &OwnedFd, place: &Place) {
    let Some(user) = Owner::behind_sudo() else {
        return;
    };
    let folder = rustix::fs::fstat(&place.folder);
    if folder.is_ok_and(|folder| Owner::of(&folder).user == user.user) {
        give(file, user);
    }
}

/// Gives a file to its owner. Without the privilege, it stays with this program's user.
fn give(file: &OwnedFd, owner: Owner) {
    rustix::fs::fchown(file, Some(owner.user), owner.group).ok();
}

/// Returns true if a folder cannot get a new file, though a file in it may be writable.
fn is_forbidden(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

/// Returns true if something is mounted on the file, as containers do with single files.
fn is_mount_point(place: &Place) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let about = rustix::fs::statx(&place.folder, &place.name, flags, StatxFlags::TYPE);
    about.is_ok_and(|about| about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Output {
    /// Removes a file that was not committed: a temporary one, or one to which nothing was written.
    fn drop(&mut self) {
        match &mut self.state {
            State::Apart {
                place, temporary, ..
            } => temporary.remove(place),
            State::InPlace {
                place,
                is_new: true,
                is_used: false,
                ..
            } => place.remove(self.file.as_fd()),
            State::Kept { number, .. } => tell(Request::DropOutput(*number)).unwrap_or_default(),
            State::Direct | State::InPlace { .. } => {}
        }
    }
}

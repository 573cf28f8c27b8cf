//! The files that the user names: every output is made here, and every input is opened here.
//!
//! No other module opens, creates, renames or inspects a path from the command line, so that the
//! rules for them are in one place. Outputs can contain payload and secrets; [`Output`] says how
//! they are protected.

mod claim;
mod clash;
mod output;
mod owner;
mod place;
mod refusal;
mod temporary;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::privilege::client::keeper;
pub use crate::privilege::message::Purpose;
use crate::privilege::message::{Reply, Request};

pub use self::clash::{Clash, Stream, clash};
pub use self::output::Output;
pub use self::refusal::Refusal;

/// The kind of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, which can be read several times.
    Regular,
    /// A device, a pipe, a socket or a folder.
    Other,
    /// Nothing has this name, or it cannot be found out.
    Unknown,
}

impl Kind {
    /// Returns the number that stands for the kind in a message.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Regular => 1,
            Self::Other => 2,
        }
    }

    fn of_number(number: u64) -> Self {
        match number {
            1 => Self::Regular,
            2 => Self::Other,
            _ => Self::Unknown,
        }
    }
}

/// Opens an input.
///
/// # Errors
/// The error of the operating system.
pub fn open(path: &Path) -> io::Result<File> {
    match keeper() {
        Some(keeper) => Ok(keeper.descriptor(&Request::Input(path.to_owned()))?.into()),
        None => File::open(path),
    }
}

/// Opens an input to pass it to another process. Opening a pipe ends when a signal arrives.
pub(crate) fn open_once(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens standard input a second time, as an input like any other.
///
/// # Errors
/// The error of the operating system.
pub fn standard_input() -> io::Result<File> {
    Ok(rustix::io::dup(rustix::stdio::stdin())?.into())
}

/// Returns the content of an input; `None` if it has more than `most` bytes. It may be a pipe or a
/// device, whose length is not known before.
///
/// # Errors
/// The error of the operating system.
pub fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    open(path)?
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Returns the kind of an input.
pub fn kind(path: &Path) -> Kind {
    if let Some(keeper) = keeper() {
        return match keeper.ask(&Request::Kind(path.to_owned())) {
            Ok((Reply::Number(number), _)) => Kind::of_number(number),
            _ => Kind::Unknown,
        };
    }
    match fs::metadata(path) {
        Ok(about) if about.is_file() => Kind::Regular,
        Ok(_) => Kind::Other,
        Err(_) => Kind::Unknown,
    }
}

/// Returns true if all inputs are regular files, which can be read several times.
pub fn are_regular<'p>(paths: impl IntoIterator<Item = &'p Path>) -> bool {
    paths.into_iter().all(|path| kind(path) == Kind::Regular)
}

/// Creates a folder for outputs, if it does not exist yet.
///
/// # Errors
/// The error of the operating system.
pub fn create_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

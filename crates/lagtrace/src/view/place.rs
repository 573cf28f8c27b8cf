//! The private file of a page, and the user who reads it.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use rustix::fs::{Gid, Uid, fchown};
use tempfile::NamedTempFile;

use crate::failure::Result;

/// Number of random characters in the name of the file.
const RANDOM: usize = 22;

/// The user who reads the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// The user of this program.
    Own,
    /// The user who started this program by sudo.
    Behind { user: u32, group: Option<u32> },
    /// Root, for whom no browser is started.
    Root,
}

impl Reader {
    /// Returns the reader of this run.
    pub(super) fn of_this_run() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self::Own;
        }
        let number = |name| env::var(name).ok()?.parse::<u32>().ok();
        match number("SUDO_UID") {
            Some(user @ 1..) => Self::Behind {
                user,
                group: number("SUDO_GID"),
            },
            _ => Self::Root,
        }
    }

    fn id(&self) -> u32 {
        match self {
            Self::Own => rustix::process::geteuid().as_raw(),
            Self::Behind { user, .. } => *user,
            Self::Root => 0,
        }
    }
}

/// Creates an empty file that only the reader can read, with an unpredictable name.
pub(super) fn temporary(reader: &Reader) -> Result<NamedTempFile> {
    let folder = folder(reader);
    let named = || format!("cannot create a file in {}", folder.display());
    let file = tempfile::Builder::new()
        .prefix("lagtrace-")
        .suffix(".html")
        .rand_bytes(RANDOM)
        .tempfile_in(&folder)
        .with_context(named)?;
    if let Reader::Behind { user, group } = reader {
        // By the open file and not by its name, which the user could let point to another file.
        let group = group.map(Gid::from_raw);
        fchown(file.as_file(), Some(Uid::from_raw(*user)), group)
            .map_err(io::Error::from)
            .with_context(named)?;
    }
    Ok(file)
}

/// Returns the reader's own folder for the files of a session, or else the folder for temporary
/// files.
fn folder(reader: &Reader) -> PathBuf {
    let own = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let is_readers = |folder: &PathBuf| {
        let about = fs::metadata(folder);
        about.is_ok_and(|about| about.is_dir() && about.uid() == reader.id())
    };
    own.filter(|folder| folder.is_absolute() && is_readers(folder))
        .unwrap_or_else(env::temp_dir)
}

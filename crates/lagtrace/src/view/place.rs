//! The private file of a page, and the user who reads it.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use lagtrace_sources::keeper;
use lagtrace_sources::privilege::{SudoUser, user_behind_sudo};
use rustix::fs::{Gid, Uid, fchown};
use tempfile::NamedTempFile;

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
        match user_behind_sudo() {
            Some(SudoUser { user, group }) => Self::Behind { user, group },
            None => Self::Root,
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

/// The private file of a page. It is removed again unless it is kept.
pub(super) enum Private {
    /// A file that this process has created.
    Own(NamedTempFile),
    /// A file that the keeper has created, and its path.
    Kept(File, PathBuf),
}

impl Private {
    /// Creates the file, by the keeper if there is one.
    pub(super) fn create() -> io::Result<Self> {
        match keeper::create_page() {
            Some(created) => created.map(|(file, path)| Self::Kept(file, path)),
            None => temporary(&Reader::of_this_run()).map(Self::Own),
        }
    }

    pub(super) fn file(&mut self) -> &mut File {
        match self {
            Self::Own(file) => file.as_file_mut(),
            Self::Kept(file, _) => file,
        }
    }

    /// Keeps the file, and returns its path.
    pub(super) fn keep(self) -> io::Result<PathBuf> {
        match self {
            Self::Own(file) => Ok(file.into_temp_path().keep()?),
            Self::Kept(_, path) => keeper::keep_page().map(|()| path),
        }
    }
}

/// Creates an empty file that only the reader can read, with an unpredictable name.
pub(super) fn temporary(reader: &Reader) -> io::Result<NamedTempFile> {
    let folder = folder(reader);
    let named = |error: io::Error| {
        let text = format!("cannot create a file in {}: {error}", folder.display());
        io::Error::new(error.kind(), text)
    };
    let file = tempfile::Builder::new()
        .prefix("lagtrace-")
        .suffix(".html")
        .rand_bytes(RANDOM)
        .tempfile_in(&folder)
        .map_err(named)?;
    if let Reader::Behind { user, group } = reader {
        // By the open file and not by its name, which the user could let point to another file.
        let group = group.map(Gid::from_raw);
        fchown(file.as_file(), Some(Uid::from_raw(*user)), group)
            .map_err(|errno| named(errno.into()))?;
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

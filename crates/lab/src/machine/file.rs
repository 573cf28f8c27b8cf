//! Files that other users and other processes read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::Error;

/// Makes a folder or file readable for everybody, regardless of the umask, because the workers of a
/// web server run as another user.
pub(crate) fn open_up(path: &Path) -> Result<(), Error> {
    let metadata = fs::metadata(path).map_err(Error::file("look at", path))?;
    let mode = if metadata.is_dir() { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(Error::file("open up", path))
}

/// Replaces a file atomically, so that no reader sees an incomplete file.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    let fresh = path.with_extension("new");
    let write = || -> io::Result<()> {
        File::create(&fresh)?.write_all(content)?;
        fs::rename(&fresh, path)
    };
    write().map_err(Error::file("write", path))
}

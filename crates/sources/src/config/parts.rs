//! Configuration files that are parts of one text, for the fuzz targets.

use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::files::{Contents, Files, Stamps};

const STAMPS: Stamps = Stamps {
    modified: UNIX_EPOCH,
    changed: UNIX_EPOCH,
};

/// The files of a folder: parts of a text, separated by zero bytes. The first is any file by
/// another name; the others are called `1`, `2` and so on.
pub(super) struct Parts<'a>(pub(super) Vec<&'a [u8]>);

impl<'a> Parts<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes.split(|&byte| byte == 0).collect())
    }
}

impl Files for Parts<'_> {
    fn read(&self, path: &Path, limit: usize) -> io::Result<Contents> {
        let name = path.file_name().and_then(|name| name.to_str());
        let number: usize = name.and_then(|name| name.parse().ok()).unwrap_or(0);
        let bytes = self.0.get(number).ok_or(io::ErrorKind::NotFound)?;
        Ok(Contents {
            bytes: bytes.iter().copied().take(limit).collect(),
            is_cut: bytes.len() > limit,
            stamps: STAMPS,
        })
    }

    fn list(&self, _: &Path) -> io::Result<(Vec<Vec<u8>>, Stamps)> {
        let names = 1..self.0.len();
        Ok((
            names.map(|name| name.to_string().into_bytes()).collect(),
            STAMPS,
        ))
    }
}

//! Files whose content a request sends.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use lagtrace_sources::files;

use crate::failure::{Failure, Result};

/// Maximum size of a body and of each file for it, in bytes.
pub(super) const MAX_BODY: u64 = 64 * 1024 * 1024;

/// Returns bytes as a path.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::OsStr::from_bytes(bytes).into()
}

/// Returns the content of a file; `-` is standard input.
pub(super) fn read(name: &Path) -> Result<Vec<u8>> {
    let shown = name.display();
    let failed = || format!("cannot read {shown}, which the request names");
    if name == Path::new("-") {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        let input = files::standard_input().with_context(failed)?;
        input
            .take(MAX_BODY + 1)
            .read_to_end(&mut bytes)
            .with_context(failed)?;
        return Ok(bytes);
    }
    let read = files::read(name, MAX_BODY).with_context(failed)?;
    read.ok_or_else(|| Failure::new(format!("{shown} is longer than 64 MiB")))
}

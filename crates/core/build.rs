//! Cuts the traces off the pages of causes. They are tests, not for users, and nearly two thirds of
//! the text.

#![allow(
    clippy::disallowed_methods,
    reason = "only the core itself does no I/O"
)]

use std::path::Path;
use std::{env, fs, io};

/// The line with which the traces begin.
const TRACES: &str = "\n## Traces\n";

fn main() -> io::Result<()> {
    let variable = |name| env::var(name).map_err(io::Error::other);
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("src/cause");
    let pages = Path::new(&variable("OUT_DIR")?).join("pages");
    fs::create_dir_all(&pages)?;
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == "md") {
            println!("cargo::rerun-if-changed={}", path.display());
            let page = fs::read_to_string(&path)?;
            let without_traces = page.split(TRACES).next().unwrap_or_default();
            fs::write(pages.join(name), without_traces)?;
        }
    }
    Ok(())
}

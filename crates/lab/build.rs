//! Builds every scenario of the repository's `lab/` folder into the program. Each file in that
//! folder is a scenario, so there is no list of scenarios to maintain.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?)
        .join("../../lab")
        .canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path);
        }
    }
    files.sort();
    let mut list = "&[\n".to_owned();
    for path in files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let _ = writeln!(list, "({name:?}, include_str!({path:?})),");
    }
    list.push_str("]\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("scenarios.rs"), list)
}

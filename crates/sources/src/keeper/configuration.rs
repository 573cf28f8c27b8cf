//! The configuration files of a server that only some may read. The worker gets those that the
//! server's command line names, and those below the folders of a server that includes further files.
//! It may list these folders. It gets nothing elsewhere: other programs keep their keys in files of
//! such names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::config::files::Root;
use crate::config::launch::USUAL_FILE;
use crate::config::nginx::Build;
use crate::config::process;
use crate::privilege::message::ProcessLink;
use crate::privilege::{link, program};

/// Programs whose configuration includes further files.
const INCLUDING: [&str; 6] = ["angie", "apache2", "haproxy", "httpd", "nginx", "openresty"];
/// The folders of their packages.
const USUAL: [&str; 6] = [
    "/etc/angie",
    "/etc/apache2",
    "/etc/haproxy",
    "/etc/httpd",
    "/etc/nginx",
    "/usr/local/etc/nginx",
];
/// Maximum number of words of a command line that may name files.
const MOST_WORDS: usize = 256;

/// Returns true if `path`, which has no links, is a configuration of process `pid`, or a folder of
/// configurations that it includes.
pub(super) fn is_of(pid: u32, root: &Root, path: &Path, is_folder: bool) -> bool {
    if is_folder {
        return is_included(pid, root, path);
    }
    has_name(path) && (is_named(pid, root, path) || is_included(pid, root, path))
}

fn has_name(path: &Path) -> bool {
    let end = path.extension().and_then(OsStr::to_str);
    matches!(
        end,
        Some("conf" | "cfg" | "lua" | "py" | "ini" | "toml" | "yaml" | "yml")
    )
}

/// Returns true if the command line names the file, or if the program reads it without that.
fn is_named(pid: u32, root: &Root, file: &Path) -> bool {
    let folder = process::working_directory(pid);
    let mut named = named(pid, std::slice::from_ref(&folder));
    named.push(folder.join(USUAL_FILE));
    let is_file = |path: &PathBuf| resolved(root, path, false).is_some_and(|it| it == file);
    named.iter().any(is_file)
}

/// Returns true if the program includes further files, and the file is below one of its folders.
fn is_included(pid: u32, root: &Root, file: &Path) -> bool {
    if !includes(pid) {
        return false;
    }
    let build = program(pid).ok().and_then(|it| Build::read(it).ok()?);
    let mut bases = vec![process::working_directory(pid)];
    bases.extend(build.as_ref().map(|build| build.prefix.clone()));
    let mut folders: Vec<PathBuf> = USUAL.iter().map(PathBuf::from).collect();
    if let Some(build) = build {
        folders.extend(build.prefix.join(build.conf).parent().map(Path::to_owned));
    }
    for path in named(pid, &bases) {
        if root.find(&path, true).is_ok() {
            folders.push(path);
        } else if has_name(&path) {
            folders.extend(path.parent().map(Path::to_owned));
        }
    }
    let is_above = |folder: PathBuf| {
        resolved(root, &folder, true)
            .is_some_and(|folder| folder != Path::new("/") && file.starts_with(folder))
    };
    folders.into_iter().any(is_above)
}

fn includes(pid: u32) -> bool {
    let Ok(program) = link(pid, ProcessLink::Exe) else {
        return false;
    };
    let name = program.file_name().map_or(&[][..], OsStr::as_bytes);
    // As the kernel shows a program whose file was replaced.
    let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
    INCLUDING.iter().any(|known| known.as_bytes() == name)
}

/// Returns the path of a file or folder after all links; `None` if it is not there.
fn resolved(root: &Root, path: &Path, is_folder: bool) -> Option<PathBuf> {
    root.find(path, is_folder).ok()?.resolved().ok()
}

/// Returns the paths that a command line may name: whole words, and the ends of options such as
/// `--config=FILE` and `-cFILE`. Relative paths are below one of the bases. A title has spaces where
/// a command line has ends of words.
fn named(pid: u32, bases: &[PathBuf]) -> Vec<PathBuf> {
    let arguments = process::arguments(pid).unwrap_or_default();
    let words = arguments.iter().flat_map(|word| {
        let parts = word
            .split(|byte| *byte == b' ')
            .filter(move |part| *part != word);
        std::iter::once(word.as_slice()).chain(parts)
    });
    let words = words.filter(|word| !word.is_empty()).take(MOST_WORDS);
    let ends = words.flat_map(|word| {
        let value = word
            .iter()
            .position(|byte| *byte == b'=')
            .map(|at| &word[at + 1..]);
        let joined = word.strip_prefix(b"-").and_then(|rest| rest.get(1..));
        [Some(word), value, joined]
    });
    let paths = ends.flatten().filter(|path| !path.is_empty());
    let paths = paths.map(|path| Path::new(OsStr::from_bytes(path)));
    paths
        .flat_map(|path| bases.iter().map(move |base| base.join(path)))
        .collect()
}

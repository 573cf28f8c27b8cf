//! A host's own files, such as `/etc/resolv.conf`, as given by a scenario.
//!
//! The files are in the run's folder. Processes on the host see them in place of the machine's
//! files, which are not changed; [`crate::machine::namespace`] implements this.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::address::Addresses;
use crate::error::Error;
use crate::machine::file::open_up;
use crate::machine::namespace::HostFile;
use crate::path::PathSpec;
use crate::side::Side;

/// Maximum size of a host's file, in bytes.
const LONGEST: usize = 64 << 10;

/// The socket of the name service cache daemon, which the C library asks before it reads any file.
/// It must be hidden because the daemon knows the machine's names, not the host's.
const NAME_CACHE: &str = "/run/nscd/socket";

/// Checks the files that a scenario gives to a host; the error is the reason why they are invalid.
pub(crate) fn check(files: &BTreeMap<String, String>) -> Result<(), String> {
    let is_sound = |path: &str| {
        path.strip_prefix("/etc/").is_some_and(|rest| {
            !rest.is_empty()
                && rest.split('/').all(|part| !matches!(part, "" | "." | ".."))
                && rest
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'/'))
        })
    };
    if let Some(path) = files.keys().find(|path| !is_sound(path)) {
        return Err(format!("`{path}` is no file below /etc"));
    }
    match files.iter().find(|(_, text)| text.len() > LONGEST) {
        Some((path, _)) => Err(format!("`{path}` is longer than 64 KiB")),
        None => Ok(()),
    }
}

/// Writes a host's files into the run's folder, with addresses inserted for `{server}`,
/// `{server6}`, `{client}` and `{client6}`.
pub(crate) fn lay(
    folder: &Path,
    side: Side,
    files: &BTreeMap<String, String>,
    hosts: &PathSpec,
) -> Result<(), Error> {
    for (path, text) in files {
        // Only an existing file can be hidden: creating it would change the machine.
        fs::metadata(path).map_err(Error::file("lay a host's own file over", path))?;
        let own = own_path(folder, side, path);
        for made in own.ancestors().skip(1).take_while(|above| *above != folder) {
            fs::create_dir_all(made).map_err(Error::file("create", made))?;
            open_up(made)?;
        }
        fs::write(&own, fill_in(text, hosts)).map_err(Error::file("write", &own))?;
        open_up(&own)?;
    }
    Ok(())
}

/// Returns the files that `lay` wrote, each with the file that it replaces.
pub(crate) fn laid(folder: &Path, side: Side, files: &BTreeMap<String, String>) -> Vec<HostFile> {
    let hide = |source: &Path, target: &str| {
        Some(HostFile {
            source: CString::new(source.as_os_str().as_bytes()).ok()?,
            target: CString::new(target).ok()?,
        })
    };
    let mut laid: Vec<HostFile> = files
        .keys()
        .filter_map(|path| hide(&own_path(folder, side, path), path))
        .collect();
    if !laid.is_empty() && Path::new(NAME_CACHE).exists() {
        laid.extend(hide(Path::new("/dev/null"), NAME_CACHE));
    }
    laid
}

fn own_path(folder: &Path, side: Side, path: &str) -> PathBuf {
    let host = match side {
        Side::Client => "client-files",
        Side::Server => "server-files",
    };
    folder.join(host).join(path.trim_start_matches('/'))
}

/// Replaces `{server}`, `{client}` and similar placeholders in a text with the addresses of a
/// path's hosts.
pub(crate) fn fill_in(text: &str, hosts: &PathSpec) -> String {
    let server = Addresses::of(hosts, Side::Server);
    let client = Addresses::of(hosts, Side::Client);
    [
        ("{server}", server.v4.to_string()),
        ("{server6}", server.v6.to_string()),
        ("{client}", client.v4.to_string()),
        ("{client6}", client.v6.to_string()),
    ]
    .iter()
    .fold(text.to_owned(), |text, (name, address)| {
        text.replace(name, address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(path: &str) -> Result<(), String> {
        check(&BTreeMap::from([(path.to_owned(), String::new())]))
    }

    #[test]
    fn only_files_below_etc_are_taken() {
        assert_eq!(reason("/etc/resolv.conf"), Ok(()));
        assert_eq!(reason("/etc/ssl/openssl.cnf"), Ok(()));
        for path in [
            "/etc/",
            "/etc/../bin/sh",
            "/usr/bin/env",
            "etc/hosts",
            "/etc//hosts",
        ] {
            assert!(reason(path).is_err(), "{path}");
        }
    }

    #[test]
    fn addresses_are_filled_in() {
        let text = "nameserver {server}\nnameserver {server6} # {client}";
        let mut path = PathSpec::default();
        assert_eq!(
            fill_in(text, &path),
            "nameserver 10.77.0.2\nnameserver fd77::2 # 10.77.0.1"
        );
        path.loopback = true;
        assert_eq!(
            fill_in(text, &path),
            "nameserver 127.0.0.1\nnameserver ::1 # 127.0.0.1"
        );
    }
}

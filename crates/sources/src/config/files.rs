//! Files as another process sees them: below its root directory, through its symbolic links. The
//! number of bytes read is limited.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Dir;

use super::{Error, glob, process};
use crate::privilege::client::keeper;
use crate::privilege::message::{Reply, Request};
use crate::privilege::{self, FoundFile};

/// Maximum number of entries taken from one directory.
const MAX_ENTRIES: usize = 65_536;
/// Maximum number of paths that one pattern expands to.
const MAX_MATCHES: usize = 4096;

/// The part of a file that was read.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// True if the file is longer than the limit.
    pub(crate) is_cut: bool,
    /// The times of the file's last changes.
    pub(crate) stamps: Stamps,
}

/// A file's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// `st_mtime`: the last change of the content.
    pub(crate) modified: SystemTime,
    /// `st_ctime`: the last change of the content, the path or the permissions.
    pub(crate) changed: SystemTime,
}

/// A source of configuration files.
pub(crate) trait Files {
    /// Reads the regular file at this absolute path, at most `limit` bytes.
    fn read(&self, path: &Path, limit: usize) -> io::Result<Contents>;
    /// Lists the names in a directory, in no order, and returns the directory's own times.
    fn list(&self, directory: &Path) -> io::Result<(Vec<Vec<u8>>, Stamps)>;
}

/// The file system below a process's root directory.
#[derive(Debug)]
pub(crate) struct Root {
    directory: Directory,
    /// True if this is lagtrace's own root directory. It is used if the root of the process cannot
    /// be opened, and need not be the same directory.
    pub(crate) is_assumed: bool,
}

/// The process that opens the files below a root directory.
#[derive(Debug)]
enum Directory {
    /// The process itself.
    Open(OwnedFd),
    /// The keeper, below the root of a process.
    Kept(u32),
}

impl Root {
    /// Opens the root directory of a process. Without the permission to do so, lagtrace's own root
    /// is used if the mounts show that both processes have the same root file system.
    pub(crate) fn of(pid: u32) -> Result<Self, Error> {
        let foreign = |source| Error::ForeignRoot { pid, source };
        if let Some(keeper) = keeper() {
            return match keeper.ask(&Request::Root(pid)) {
                Ok((Reply::Number(is_assumed), _)) => Ok(Self {
                    directory: Directory::Kept(pid),
                    is_assumed: is_assumed != 0,
                }),
                Ok(_) => Err(foreign(io::ErrorKind::InvalidData.into())),
                Err(error) => Err(foreign(error.into())),
            };
        }
        let (directory, is_assumed) = match privilege::root(pid) {
            Ok(directory) => (directory, false),
            Err(source) => {
                let is_assumed = match root_of_mounts(pid) {
                    Shared::Exactly => false,
                    Shared::RootOnly => true,
                    Shared::No => return Err(foreign(source)),
                };
                let own = privilege::root(std::process::id()).map_err(|_| foreign(source))?;
                (own, is_assumed)
            }
        };
        Ok(Self {
            directory: Directory::Open(directory),
            is_assumed,
        })
    }

    /// Finds a regular file or a folder below the root, as [`Self::open`] does, without opening it.
    /// Only the process that opened the root can do this.
    pub(crate) fn find(&self, path: &Path, is_folder: bool) -> io::Result<FoundFile> {
        match &self.directory {
            Directory::Open(directory) => privilege::find_below(directory, path, is_folder),
            Directory::Kept(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Opens a regular file or a folder below the root; symbolic links are resolved within that
    /// root.
    pub(crate) fn open(&self, path: &Path, is_folder: bool) -> io::Result<OwnedFd> {
        match &self.directory {
            Directory::Open(directory) => privilege::open_below(directory, path, is_folder),
            Directory::Kept(pid) => {
                let request = Request::File {
                    pid: *pid,
                    path: path.to_owned(),
                    is_folder,
                };
                let keeper = keeper().ok_or(io::ErrorKind::NotConnected)?;
                Ok(keeper.descriptor(&request)?)
            }
        }
    }
}

impl Files for Root {
    fn read(&self, path: &Path, limit: usize) -> io::Result<Contents> {
        let file = self.open(path, false)?;
        let stat = rustix::fs::fstat(&file)?;
        let mut bytes = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        File::from(file).take(most).read_to_end(&mut bytes)?;
        let is_cut = bytes.len() > limit;
        bytes.truncate(limit);
        Ok(Contents {
            bytes,
            is_cut,
            stamps: Stamps::of(&stat),
        })
    }

    fn list(&self, directory: &Path) -> io::Result<(Vec<Vec<u8>>, Stamps)> {
        let handle = self.open(directory, true)?;
        let stamps = Stamps::of(&rustix::fs::fstat(&handle)?);
        let mut names = Vec::new();
        for entry in Dir::new(handle)?.take(MAX_ENTRIES) {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        Ok((names, stamps))
    }
}

impl Stamps {
    fn of(stat: &rustix::fs::Stat) -> Self {
        let instant = |seconds: i64, nanos: u64| {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            UNIX_EPOCH + Duration::new(seconds, u32::try_from(nanos).unwrap_or(0))
        };
        Self {
            modified: instant(stat.st_mtime, stat.st_mtime_nsec),
            changed: instant(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// The paths that match a pattern.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    /// The paths, sorted bytewise as `glob(3)` does in the C locale.
    pub(crate) paths: Vec<PathBuf>,
    /// The directories that were searched.
    pub(crate) searched: Vec<(PathBuf, Stamps)>,
    /// The directories that may not be listed. Paths in them may match too.
    pub(crate) closed: Vec<PathBuf>,
}

/// Returns the paths that match a pattern.
pub(crate) fn expand(files: &dyn Files, pattern: &Path) -> Expanded {
    let mut found = vec![PathBuf::from("/")];
    let mut expanded = Expanded::default();
    for component in pattern.components() {
        let name = match component {
            Component::Normal(name) => name,
            Component::ParentDir => OsStr::new(".."),
            _ => continue,
        };
        // Components after a pattern are checked for existence, even those without wildcards.
        let is_plain = expanded.searched.is_empty() && !glob::is_pattern(name.as_bytes());
        if is_plain || name == ".." {
            found.iter_mut().for_each(|path| path.push(name));
        } else {
            found = expand_name(files, &found, name, &mut expanded);
        }
    }
    found.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    expanded.paths = found;
    expanded
}

/// Returns the entries of `directories` that match one component of a pattern.
fn expand_name(
    files: &dyn Files,
    directories: &[PathBuf],
    pattern: &OsStr,
    expanded: &mut Expanded,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in directories {
        let (names, stamps) = match files.list(directory) {
            Ok(listed) => listed,
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied {
                    expanded.closed.push(directory.clone());
                }
                continue;
            }
        };
        let matching = names
            .iter()
            .filter(|name| glob::matches(pattern.as_bytes(), name));
        found.extend(matching.map(|name| directory.join(OsStr::from_bytes(name))));
        found.truncate(MAX_MATCHES);
        expanded.searched.push((directory.clone(), stamps));
    }
    found
}

/// The mounts that the process and lagtrace have in common.
enum Shared {
    /// All mounts: both have the same mount namespace and the same root directory.
    Exactly,
    /// Only the root file system, in separate mount namespaces (a sandboxed service).
    RootOnly,
    /// No mounts, not even the root file system, or the mounts cannot be read.
    No,
}

/// Compares a process's mounts with those of lagtrace (`proc_pid_mountinfo(5)`).
fn root_of_mounts(pid: u32) -> Shared {
    let (Ok(theirs), Ok(ours)) = (
        process::read(pid, "mountinfo"),
        process::read(std::process::id(), "mountinfo"),
    ) else {
        return Shared::No;
    };
    if theirs == ours {
        return Shared::Exactly;
    }
    match (root_mount(&theirs), root_mount(&ours)) {
        (Some(a), Some(b)) if a == b => Shared::RootOnly,
        _ => Shared::No,
    }
}

/// Returns the device that is mounted on `/`, and the mounted directory of that device.
fn root_mount(mounts: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(mounts).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (device, directory) = (fields.next()?, fields.next()?);
        (fields.next()? == "/").then_some((device, directory))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_root_stay_in_it() {
        let jail = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(jail.path().join("etc")).expect("a directory");
        std::fs::write(jail.path().join("etc/real"), "inside").expect("a file");
        std::os::unix::fs::symlink("/etc/real", jail.path().join("etc/link")).expect("a link");
        std::os::unix::fs::symlink("../../../../etc/real", jail.path().join("etc/up"))
            .expect("a link");
        let root = Root {
            directory: Directory::Open(File::open(jail.path()).expect("opens").into()),
            is_assumed: false,
        };
        for name in ["/etc/real", "/etc/link", "/etc/up", "/../etc/real"] {
            let contents = root.read(Path::new(name), 100).expect(name);
            assert_eq!(contents.bytes, b"inside", "{name}");
        }
        assert!(root.read(Path::new("/etc"), 100).is_err(), "a directory");
        let cut = root.read(Path::new("/etc/real"), 3).expect("readable");
        assert!(cut.is_cut && cut.bytes == b"ins");
    }

    #[test]
    fn patterns_expand_sorted_over_directories() {
        let jail = tempfile::tempdir().expect("a directory");
        for name in ["b/x.conf", "a/y.conf", "a/x.conf", "a/.h.conf", "a/x.bak"] {
            let path = jail.path().join(name);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("a directory");
            std::fs::write(path, "").expect("a file");
        }
        let root = Root {
            directory: Directory::Open(File::open(jail.path()).expect("opens").into()),
            is_assumed: false,
        };
        let Expanded {
            paths, searched, ..
        } = expand(&root, Path::new("/*/*.conf"));
        let expected: Vec<PathBuf> = ["/a/x.conf", "/a/y.conf", "/b/x.conf"]
            .iter()
            .map(PathBuf::from)
            .collect();
        assert_eq!(paths, expected);
        assert_eq!(searched.len(), 3);
    }

    /// A file system of which nothing may be listed.
    struct Closed;

    impl Files for Closed {
        fn read(&self, _: &Path, _: usize) -> io::Result<Contents> {
            Err(io::ErrorKind::PermissionDenied.into())
        }

        fn list(&self, _: &Path) -> io::Result<(Vec<Vec<u8>>, Stamps)> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    #[test]
    fn directories_that_may_not_be_listed_are_named() {
        let expanded = expand(&Closed, Path::new("/etc/conf.d/*.conf"));
        assert_eq!(expanded.closed, [Path::new("/etc/conf.d")]);
        assert!(expanded.paths.is_empty() && expanded.searched.is_empty());
    }

    #[test]
    fn our_own_root_can_be_opened() {
        let root = Root::of(std::process::id()).expect("our own");
        assert!(!root.is_assumed);
        assert!(root.list(Path::new("/etc")).is_ok());
    }

    #[test]
    fn the_root_mount_is_found_among_mounts() {
        let text =
            b"22 27 0:21 / /proc rw - proc proc rw\n27 1 254:0 /sub / rw - ext4 /dev/vda rw\n";
        assert_eq!(root_mount(text), Some(("254:0", "/sub")));
        assert_eq!(root_mount(b"junk"), None);
    }
}

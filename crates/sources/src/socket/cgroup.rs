//! Control groups and containers, with their processes and sockets.
//!
//! The group of a process is read from `/proc/PID/cgroup`. For a socket, the kernel reports the
//! number of its creator's group, which is the inode number of the group's directory
//! (`cgroup_id()`). Finding the group of a socket therefore needs no privilege. Containers are
//! identified by the names that docker, podman, containerd, CRI-O and kubernetes give to their
//! groups.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::process;
use crate::privilege;

/// Maximum number of bytes read from `/proc/PID/cgroup`; a longer file is truncated.
const MOST_BYTES: u64 = 64 * 1024;
/// Maximum number of cgroup directories that are searched.
const MOST_FOLDERS: usize = 16_384;
/// Number of hexadecimal digits in a full container ID.
const ID_DIGITS: usize = 64;
/// Number of digits in the short form of a container ID.
const SHORT_DIGITS: usize = 12;

/// A control group, selected by its path or by its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// A group by its path, as in `/proc/PID/cgroup` or as mounted. The groups below it are
    /// included.
    Cgroup(String),
    /// A container by its ID, a prefix of its ID, or its name. The name works only if the
    /// container's group is named after it.
    Container(String),
}

/// A reason why a group was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// There is no directory and no process of this group.
    #[error("there is no control group {0}")]
    NoCgroup(String),
    /// No process is in a container with this name.
    #[error("no process runs in a container {0}")]
    NoContainer(String),
    /// Several containers have an ID with this prefix.
    #[error("{count} containers begin with {asked}: {first}, {second}")]
    ManyContainers {
        /// The given prefix.
        asked: String,
        /// Number of containers whose ID begins with the prefix.
        count: usize,
        /// The first matching ID, in short form.
        first: String,
        /// The second matching ID, in short form.
        second: String,
    },
}

/// The control groups of a selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    wanted: Vec<Group>,
    /// PIDs of the processes in the groups, and inode numbers of the groups' directories, as of the
    /// last refresh.
    pids: HashSet<u32>,
    ids: HashSet<u64>,
}

impl Groups {
    /// Finds the groups.
    ///
    /// # Errors
    /// Returns an error if a group does not exist, or if an ID matches several containers.
    pub fn find(asked: &[Group]) -> Result<Self, GroupError> {
        let all = process::pids().into_iter().map(Membership::of);
        let all: Vec<Membership> = all.collect();
        let wanted = asked.iter().map(|group| group.known(&all));
        let mut groups = Self {
            wanted: wanted.collect::<Result<_, _>>()?,
            ..Self::default()
        };
        groups.refresh();
        Ok(groups)
    }

    /// Reads the processes and directories of the groups again.
    pub(super) fn refresh(&mut self) {
        let mount = mounts().into_iter().find(|mount| mount.is_unified);
        let mut folders: BTreeSet<String> = BTreeSet::new();
        self.pids.clear();
        for pid in process::pids() {
            let membership = Membership::of(pid);
            let of = |group: &&Group| membership.paths().any(|path| group.is(path));
            let Some(group) = self.wanted.iter().find(of) else {
                continue;
            };
            self.pids.insert(pid);
            folders.extend(membership.unified.filter(|path| group.is(path)));
        }
        for group in &self.wanted {
            if let Group::Cgroup(path) = group {
                folders.insert(path.clone());
            }
        }
        self.ids.clear();
        if let Some(mount) = mount {
            let mut left = MOST_FOLDERS;
            for folder in folders {
                add_folders(&mount.folder(&folder), &mut self.ids, &mut left);
            }
        }
    }

    /// Returns the inode numbers of the groups' own directories; `None` if a group has no directory
    /// in version 2. The groups below them are not included.
    #[cfg(feature = "live")]
    pub(crate) fn numbers(&self) -> Option<Vec<u64>> {
        let mount = mounts().into_iter().find(|mount| mount.is_unified)?;
        let all: Vec<Membership> = process::pids().into_iter().map(Membership::of).collect();
        let mut numbers = BTreeSet::new();
        for group in &self.wanted {
            let folders = group.folders(&all);
            let found = folders.iter().filter_map(|path| {
                let folder = fs::metadata(mount.folder(path)).ok()?;
                Some(folder.ino())
            });
            let before = numbers.len();
            numbers.extend(found);
            if numbers.len() == before {
                return None;
            }
        }
        Some(numbers.into_iter().collect())
    }

    /// Returns true if process `pid` is in one of the groups now.
    #[cfg(feature = "live")]
    pub(crate) fn has_now(&self, pid: u32) -> bool {
        let membership = Membership::of(pid);
        let is_in = |group: &Group| membership.paths().any(|path| group.is(path));
        self.wanted.iter().any(is_in)
    }

    /// Returns true if process `pid` was in one of the groups at the last refresh.
    pub(super) fn has_process(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }

    /// Returns true if sockets of group number `cgroup` belong to one of the groups.
    pub(super) fn has_socket(&self, cgroup: u64) -> bool {
        self.ids.contains(&cgroup)
    }
}

impl Group {
    /// Returns the group with its full path or ID.
    fn known(&self, all: &[Membership]) -> Result<Self, GroupError> {
        match self {
            Self::Cgroup(asked) => cgroup(asked, all),
            Self::Container(asked) => container(asked, all),
        }
    }

    /// Returns the group's own directories in version 2. Those of a container are found through its
    /// processes.
    #[cfg(feature = "live")]
    fn folders(&self, all: &[Membership]) -> BTreeSet<String> {
        match self {
            Self::Cgroup(path) => BTreeSet::from([path.clone()]),
            Self::Container(id) => {
                let paths = all.iter().filter_map(|own| own.unified.as_deref());
                paths.filter_map(|path| own_part(path, id)).collect()
            }
        }
    }

    /// Returns true if `path` is the path of this group or of a group below it.
    fn is(&self, path: &str) -> bool {
        match self {
            Self::Cgroup(own) => path
                .strip_prefix(own.as_str())
                .is_some_and(|rest| own == "/" || rest.is_empty() || rest.starts_with('/')),
            Self::Container(id) => path.split('/').any(|part| is_container(part, id)),
        }
    }
}

/// Returns the number of a version 2 group; `None` if the group does not exist.
#[cfg(feature = "live")]
pub(crate) fn number_of(asked: &str) -> Option<u64> {
    let mounts = mounts();
    let path = path_of(asked, &mounts);
    let mount = mounts.iter().find(|mount| mount.is_unified)?;
    fs::metadata(mount.folder(&path))
        .ok()
        .map(|found| found.ino())
}

/// Returns the directories of the groups that can limit a process's CPU time: its own group and all
/// groups above it, in the hierarchy of the `cpu` controller.
#[cfg_attr(not(feature = "live"), allow(dead_code))]
pub(crate) fn folders_of_cpu(pid: u32) -> Vec<PathBuf> {
    let membership = Membership::of(pid);
    let mounts = mounts();
    let folders = mounts.iter().flat_map(|mount| {
        let path = if mount.is_unified {
            membership.unified.as_deref()
        } else {
            mount.has_cpu.then_some(membership.cpu.as_deref()).flatten()
        };
        let above = path
            .into_iter()
            .flat_map(|path| Path::new(path).ancestors());
        above.map(|path| mount.folder(&path.to_string_lossy()))
    });
    folders
        .filter(|folder| folder.join("cpu.stat").exists())
        .collect()
}

/// Returns the group's path. `asked` can also be the path of the group's directory.
fn path_of(asked: &str, mounts: &[Mount]) -> String {
    match asked.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => mounts
            .iter()
            .find_map(|mount| mount.path_in(path))
            .unwrap_or_else(|| format!("/{}", path.trim_start_matches('/'))),
    }
}

fn cgroup(asked: &str, all: &[Membership]) -> Result<Group, GroupError> {
    let mounts = mounts();
    let path = path_of(asked, &mounts);
    let group = Group::Cgroup(path.clone());
    let has_processes = || {
        let mut paths = all.iter().flat_map(Membership::paths);
        paths.any(|path| group.is(path))
    };
    let is_there = mounts.iter().any(|mount| mount.folder(&path).is_dir()) || has_processes();
    if is_there {
        Ok(group)
    } else {
        Err(GroupError::NoCgroup(asked.to_owned()))
    }
}

fn container(asked: &str, all: &[Membership]) -> Result<Group, GroupError> {
    let paths = || all.iter().flat_map(Membership::paths);
    let ids: BTreeSet<&str> = paths()
        .flat_map(|path| path.split('/'))
        .filter_map(container_id)
        .filter(|id| !asked.is_empty() && id.starts_with(asked))
        .collect();
    let mut found = ids.iter().copied();
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(Group::Container(only.to_owned())),
        (Some(first), Some(second)) => Err(GroupError::ManyContainers {
            asked: asked.to_owned(),
            count: ids.len(),
            first: short(first).to_owned(),
            second: short(second).to_owned(),
        }),
        _ => {
            let named = Group::Container(asked.to_owned());
            let is_there = !asked.is_empty() && paths().any(|path| named.is(path));
            is_there
                .then_some(named)
                .ok_or_else(|| GroupError::NoContainer(asked.to_owned()))
        }
    }
}

/// Returns the container ID in one component of a group's path. The component has the form
/// `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`, `crio-ID`,
/// `POD:cri-containerd:ID` or `ID`.
fn container_id(part: &str) -> Option<&str> {
    let is_id = |word: &&str| {
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        word.len() == ID_DIGITS && word.bytes().all(is_digit)
    };
    part.split(['-', ':', '.', '_']).find(is_id)
}

/// Returns true if a component of a group's path names the container with this ID.
fn is_container(part: &str, id: &str) -> bool {
    if let Some(found) = container_id(part) {
        return found == id;
    }
    // The component may be a name instead: `NAME` for containerd, `machine-NAME.scope` for nspawn.
    let name = part.strip_suffix(".scope").unwrap_or(part);
    name == id || name.strip_prefix("machine-") == Some(id)
}

/// Returns the path up to the container's own group; `None` if the path does not contain it.
#[cfg(feature = "live")]
fn own_part(path: &str, id: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    let own = parts.iter().position(|part| is_container(part, id))?;
    parts.truncate(own + 1);
    Some(parts.join("/"))
}

/// Returns the short form of a container ID.
fn short(id: &str) -> &str {
    id.get(..SHORT_DIGITS).unwrap_or(id)
}

/// The control groups of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    /// The group's path in version 2.
    unified: Option<String>,
    /// The groups' paths in the hierarchies of version 1.
    others: Vec<String>,
    /// The group's path in the version 1 hierarchy that has the `cpu` controller.
    cpu: Option<String>,
}

impl Membership {
    /// Returns the groups of process `pid`; empty if the process has ended.
    pub(super) fn of(pid: u32) -> Self {
        let path = format!("/proc/{pid}/cgroup");
        Self::read(&privilege::read_bounded(&path, MOST_BYTES).unwrap_or_default())
    }

    fn read(text: &str) -> Self {
        let mut own = Self::default();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if controllers.split(',').any(|one| one == "cpu") {
                own.cpu = Some(path.to_owned());
            }
            match number {
                "0" => own.unified = Some(path.to_owned()),
                _ => own.others.push(path.to_owned()),
            }
        }
        own
    }

    fn paths(&self) -> impl Iterator<Item = &str> {
        let all = self.unified.iter().chain(&self.others);
        all.map(String::as_str)
    }

    /// Returns the most specific path: that in version 2 or, if version 2 is not used, the longest
    /// one in version 1.
    pub(super) fn path(&self) -> Option<String> {
        let own = self.unified.as_deref().filter(|path| *path != "/");
        let other = || self.others.iter().max_by_key(|path| path.len());
        let root = self.unified.as_deref();
        let path = own.or_else(|| other().map(String::as_str)).or(root);
        path.map(str::to_owned)
    }

    /// Returns the short form of the container's ID; `None` if there is no container.
    pub(super) fn container(&self) -> Option<String> {
        let parts = self.paths().flat_map(|path| path.split('/').rev());
        parts
            .filter_map(container_id)
            .next()
            .map(|id| short(id).to_owned())
    }
}

/// A mounted hierarchy of control groups.
struct Mount {
    point: String,
    /// The group that is mounted at `point`.
    root: String,
    is_unified: bool,
    /// True if this is a version 1 hierarchy with the `cpu` controller.
    has_cpu: bool,
}

impl Mount {
    /// Returns the group whose directory is `path`; `None` if `path` is outside of this mount.
    fn path_in(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&self.point)?;
        let below = rest.is_empty() || rest.starts_with('/');
        let whole = format!("{}{rest}", self.root.trim_end_matches('/'));
        below.then(|| match whole.as_str() {
            "" => "/".to_owned(),
            _ => whole,
        })
    }

    fn folder(&self, path: &str) -> PathBuf {
        let below = path.strip_prefix(self.root.trim_end_matches('/'));
        PathBuf::from(format!("{}{}", self.point, below.unwrap_or(path)))
    }
}

/// Returns true if a file system of control groups is mounted here. Otherwise their limits cannot be
/// read, as in a namespace that `ip netns exec` makes.
pub fn is_mounted() -> bool {
    !mounts().is_empty()
}

fn mounts() -> Vec<Mount> {
    let text = privilege::read_bounded("/proc/self/mountinfo", 1 << 20).unwrap_or_default();
    text.lines().filter_map(mount).collect()
}

/// Parses a line of `mountinfo` (`proc_pid_mountinfo(5)`): `36 35 98:0 /root /mount options - type
/// source options`.
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let is_unified = kind.starts_with("cgroup2 ");
    let mut words = place.split(' ').skip(3);
    let mount = Mount {
        root: words.next()?.to_owned(),
        point: words.next()?.to_owned(),
        is_unified,
        has_cpu: !is_unified
            && kind
                .rsplit(' ')
                .next()
                .is_some_and(|options| options.split(',').any(|one| one == "cpu")),
    };
    (is_unified || kind.starts_with("cgroup ")).then_some(mount)
}

/// Adds the inode numbers of a group's directory and of all directories below it.
fn add_folders(folder: &Path, ids: &mut HashSet<u64>, left: &mut usize) {
    let Ok(own) = fs::metadata(folder) else {
        return;
    };
    ids.insert(own.ino());
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop().filter(|_| *left > 0) {
        *left -= 1;
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            ids.insert(entry.ino());
            open.push(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4fa6e0f0c6786287e131c3852c58a2e01cc697a68231826813597e4994f1d6e2";

    #[test]
    fn containers_are_known_by_the_names_of_their_runtimes() {
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
            format!("/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{ID}"),
            format!("/kubepods/besteffort/pod0f00ab6e-aa11-4b3c-9d0e-1f2a3b4c5d6e/crio-{ID}"),
        ] {
            let own = Membership::read(&format!("3:cpu:/\n0::{path}\n"));
            assert_eq!(own.container().as_deref(), Some("4fa6e0f0c678"), "{path}");
            let all = [own];
            let whole = Ok(Group::Container(ID.to_owned()));
            assert_eq!(container("4fa6e0", &all), whole, "{path}");
            assert!(container("fa6e0", &all).is_err(), "no beginning: {path}");
            assert!(whole.is_ok_and(|group| group.is(&path)));
        }
        let pod = "/kubepods/pod0f00ab6e-aa11-4b3c-9d0e-1f2a3b4c5d6e";
        assert_eq!(
            Membership::read(&format!("0::{pod}\n")).container(),
            None,
            "a pod is no container"
        );
    }

    #[cfg(feature = "live")]
    #[test]
    fn a_containers_own_group_stands_above_those_within() {
        let own = format!("/system.slice/docker-{ID}.scope");
        for path in [own.clone(), format!("{own}/init"), format!("{own}/a/b")] {
            assert_eq!(own_part(&path, ID).as_deref(), Some(own.as_str()), "{path}");
        }
        assert_eq!(own_part("/system.slice", ID), None);
    }

    #[test]
    fn what_begins_several_is_refused() {
        let other = format!("4fa{}", &ID[3..].replace('6', "7"));
        let all = [ID, &other].map(|id| Membership::read(&format!("0::/docker/{id}")));
        let refused = container("4fa", &all);
        assert!(matches!(
            refused,
            Err(GroupError::ManyContainers { count: 2, .. })
        ));
        assert!(container("", &all).is_err() && container("4fa6", &all).is_ok());
        let named = [Membership::read("0::/default/shop\n")];
        assert!(container("shop", &named).is_ok() && container("sho", &named).is_err());
    }

    #[test]
    fn a_group_has_those_below_it_and_no_others() {
        let group = Group::Cgroup("/a/b".to_owned());
        let found = ["/a/b", "/a/b/c", "/a/bc", "/a", "/"].map(|path| group.is(path));
        assert_eq!(found, [true, true, false, false, false]);
        assert!(Group::Cgroup("/".to_owned()).is("/a"));
    }

    #[test]
    fn mounted_paths_are_read() {
        let line = "33 24 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        let found = mount(line).expect("a hierarchy");
        assert!(found.is_unified);
        assert_eq!(
            found.path_in("/sys/fs/cgroup/unified/a").as_deref(),
            Some("/a")
        );
        assert_eq!(
            found.path_in("/sys/fs/cgroup/unified").as_deref(),
            Some("/")
        );
        assert_eq!(found.path_in("/sys/fs/cgroup/unifiedly"), None);
        assert_eq!(
            found.folder("/a"),
            PathBuf::from("/sys/fs/cgroup/unified/a")
        );
        assert!(mount("22 1 0:20 / /proc rw - proc proc rw").is_none());
    }
}

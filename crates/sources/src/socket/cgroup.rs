//! Control groups and containers, and which processes and sockets are theirs.
//!
//! A process's group stands in `/proc/PID/cgroup`. Of a socket the kernel tells
//! the number of the group that its creator was in, which is the inode of the
//! group's folder (`cgroup_id()`), so that it needs no right to know whose
//! socket it is. Containers are known by the names that docker, podman,
//! containerd, CRI-O and kubernetes give their groups.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::process;
use crate::privilege;

/// A longer `/proc/PID/cgroup` is cut.
const MOST_BYTES: u64 = 64 * 1024;
/// Folders of groups that are looked into.
const MOST_FOLDERS: usize = 16_384;
/// Hexadecimal digits of a container's whole id.
const ID_DIGITS: usize = 64;
/// Digits by which people know a container.
const SHORT_DIGITS: usize = 12;

/// A control group, or the one that a container has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// By its path, as `/proc/PID/cgroup` has it or as it is mounted; those
    /// below it belong to it.
    Cgroup(String),
    /// By the container's id, the beginning of it, or its name where its group
    /// is called by that.
    Container(String),
}

/// Why a group is none to look for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// No folder and no process has it.
    #[error("there is no control group {0}")]
    NoCgroup(String),
    /// No process is in a group that is named so.
    #[error("no process runs in a container {0}")]
    NoContainer(String),
    /// Several begin like that.
    #[error("{count} containers begin with {asked}: {first}, {second}")]
    ManyContainers {
        /// What was asked for.
        asked: String,
        /// How many.
        count: usize,
        /// One of them.
        first: String,
        /// Another one.
        second: String,
    },
}

/// Control groups that are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    wanted: Vec<Group>,
    /// The processes in them, and the numbers of their folders, at the last look.
    pids: HashSet<u32>,
    ids: HashSet<u64>,
}

impl Groups {
    /// Finds them.
    ///
    /// # Errors
    /// One is not there, or not clear.
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

    /// Looks for their processes and folders again.
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

    /// The numbers of their own folders in version 2, if each has one there:
    /// those below need not be known then.
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

    /// Whether process `pid` is in one of them now.
    #[cfg(feature = "live")]
    pub(crate) fn has_now(&self, pid: u32) -> bool {
        let membership = Membership::of(pid);
        let is_in = |group: &Group| membership.paths().any(|path| group.is(path));
        self.wanted.iter().any(is_in)
    }

    /// Whether process `pid` is in one of them.
    pub(super) fn has_process(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }

    /// Whether a socket of the group with this number is one of theirs.
    pub(super) fn has_socket(&self, cgroup: u64) -> bool {
        self.ids.contains(&cgroup)
    }
}

impl Group {
    /// The same by its whole name, if there is such a one.
    fn known(&self, all: &[Membership]) -> Result<Self, GroupError> {
        match self {
            Self::Cgroup(asked) => cgroup(asked, all),
            Self::Container(asked) => container(asked, all),
        }
    }

    /// Its own folders in version 2, as far as these processes show them.
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

    /// Whether a group of this path is it, or below it.
    fn is(&self, path: &str) -> bool {
        match self {
            Self::Cgroup(own) => path
                .strip_prefix(own.as_str())
                .is_some_and(|rest| own == "/" || rest.is_empty() || rest.starts_with('/')),
            Self::Container(id) => path.split('/').any(|part| is_container(part, id)),
        }
    }
}

/// The number of a group of version 2; `None` if there is no such one.
#[cfg(feature = "live")]
pub(crate) fn number_of(asked: &str) -> Option<u64> {
    let mounts = mounts();
    let path = path_of(asked, &mounts);
    let mount = mounts.iter().find(|mount| mount.is_unified)?;
    fs::metadata(mount.folder(&path))
        .ok()
        .map(|found| found.ino())
}

/// The folders of the groups that limit a process's processor time: its own
/// and those above it, where the `cpu` controller is.
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

/// The group's path, where it may be asked for as it is mounted.
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

/// The container's id in a part of a group's path: `docker-ID.scope`,
/// `libpod-ID.scope`, `cri-containerd-ID.scope`, `crio-ID`, `POD:cri-containerd:ID`
/// or the id alone.
fn container_id(part: &str) -> Option<&str> {
    let is_id = |word: &&str| {
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        word.len() == ID_DIGITS && word.bytes().all(is_digit)
    };
    part.split(['-', ':', '.', '_']).find(is_id)
}

/// Whether a part of a group's path is the container's own.
fn is_container(part: &str, id: &str) -> bool {
    if let Some(found) = container_id(part) {
        return found == id;
    }
    // One that its runtime named: `NAME` of containerd, `machine-NAME.scope` of nspawn.
    let name = part.strip_suffix(".scope").unwrap_or(part);
    name == id || name.strip_prefix("machine-") == Some(id)
}

/// The path up to the container's own group.
#[cfg(feature = "live")]
fn own_part(path: &str, id: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    let own = parts.iter().position(|part| is_container(part, id))?;
    parts.truncate(own + 1);
    Some(parts.join("/"))
}

/// As people know it.
fn short(id: &str) -> &str {
    id.get(..SHORT_DIGITS).unwrap_or(id)
}

/// The groups of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Membership {
    /// Its path in version 2.
    unified: Option<String>,
    /// In the hierarchies of version 1.
    others: Vec<String>,
    /// Of those, the one that shares out processor time.
    cpu: Option<String>,
}

impl Membership {
    /// Those of process `pid`; none where it ended.
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

    /// The group that its name shows best: that of version 2, or where nobody
    /// uses that, the longest of version 1.
    pub(super) fn path(&self) -> Option<String> {
        let own = self.unified.as_deref().filter(|path| *path != "/");
        let other = || self.others.iter().max_by_key(|path| path.len());
        let root = self.unified.as_deref();
        let path = own.or_else(|| other().map(String::as_str)).or(root);
        path.map(str::to_owned)
    }

    /// The beginning of its container's id, as people know it.
    pub(super) fn container(&self) -> Option<String> {
        let parts = self.paths().flat_map(|path| path.split('/').rev());
        parts
            .filter_map(container_id)
            .next()
            .map(|id| short(id).to_owned())
    }
}

/// A mounted hierarchy.
struct Mount {
    point: String,
    /// The group that stands there.
    root: String,
    is_unified: bool,
    /// Version 1, with the `cpu` controller.
    has_cpu: bool,
}

impl Mount {
    /// The group whose folder is `path`, if it is one here.
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

fn mounts() -> Vec<Mount> {
    let text = privilege::read_bounded("/proc/self/mountinfo", 1 << 20).unwrap_or_default();
    text.lines().filter_map(mount).collect()
}

/// `36 35 98:0 /root /mount options - type source options` (`man 5 proc`).
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

/// Adds the number of a group and of those below it.
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

//! Control groups of a run. They are created next to those of the machine, used only by the run's
//! processes, and removed with the run. No group of the machine is changed, except that cgroup v2
//! must have the `cpu` controller enabled for the children of its root.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::CpuQuota;
use crate::error::Error;
use crate::machine::namespace::before_exec;

/// The mount point of cgroup v2 on a machine without v1.
const V2: &str = "/sys/fs/cgroup";

/// The possible mount points of v1's CPU controller.
const V1: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];

/// Maximum time for which a group may stay busy after its last process was killed.
const EMPTY_LIMIT: Duration = Duration::from_secs(2);

/// A control group.
pub(crate) struct Group {
    folder: PathBuf,
}

impl Group {
    /// Returns the group with this name, which need not exist yet. The name begins with the prefix
    /// that is passed to [`remove_all`].
    pub(crate) fn named(name: &str) -> Self {
        let root = v1_root().unwrap_or(Path::new(V2));
        Self {
            folder: root.join(name),
        }
    }

    /// Creates the group, with a quota.
    pub(crate) fn create(&self, quota: CpuQuota) -> Result<(), Error> {
        let (quota_us, period_us) = (quota.quota.as_micros(), quota.period.as_micros());
        if v1_root().is_none() {
            allow_quotas()?;
        }
        fs::create_dir(&self.folder).map_err(Error::file("create", &self.folder))?;
        if v1_root().is_none() {
            return self.write("cpu.max", &format!("{quota_us} {period_us}"));
        }
        // The period first: the kernel checks the quota against it.
        self.write("cpu.cfs_period_us", &period_us.to_string())?;
        self.write("cpu.cfs_quota_us", &quota_us.to_string())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), Error> {
        let file = self.folder.join(file);
        fs::write(&file, value).map_err(Error::file("write", file))
    }

    /// Makes a command's child start in the group; the processes that the child starts are then in
    /// the group too.
    pub(crate) fn enter(&self, command: &mut Command) -> Result<(), Error> {
        let procs = self.folder.join("cgroup.procs");
        let file = OpenOptions::new().write(true).open(&procs);
        let file: File = file.map_err(Error::file("open", procs))?;
        before_exec::join_group(command, file);
        Ok(())
    }

    /// Returns the file in which the kernel counts how often the group was throttled.
    pub(crate) fn statistics(&self) -> PathBuf {
        self.folder.join("cpu.stat")
    }
}

/// Returns the root of the CPU controller of cgroup v1, if v1 is in use.
fn v1_root() -> Option<&'static Path> {
    let mut roots = V1.iter().map(Path::new);
    roots.find(|root| root.join("tasks").exists())
}

/// Allows CPU quotas for the groups below the root of cgroup v2.
fn allow_quotas() -> Result<(), Error> {
    let switch = Path::new(V2).join("cgroup.subtree_control");
    let on = fs::read_to_string(&switch).map_err(Error::file("read", &switch))?;
    if on.split_whitespace().any(|controller| controller == "cpu") {
        return Ok(());
    }
    fs::write(&switch, "+cpu").map_err(Error::file("switch the CPU controller on in", switch))
}

/// Removes every group whose name begins with `prefix`, once its processes have ended.
pub(crate) fn remove_all(prefix: &str) -> Result<(), Error> {
    let roots = V1.iter().map(Path::new).chain([Path::new(V2)]);
    for root in roots {
        let Ok(entries) = fs::read_dir(root) else {
            continue;
        };
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with(prefix))
        };
        let mut groups = entries.flatten().map(|entry| entry.path()).filter(is_ours);
        groups.try_for_each(|group| remove(&group))?;
    }
    Ok(())
}

fn remove(group: &Path) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match fs::remove_dir(group) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && begun.elapsed() < EMPTY_LIMIT =>
            {
                sleep(Duration::from_millis(5));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => return other.map_err(Error::file("remove", group)),
        }
    }
}

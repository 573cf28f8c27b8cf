//! The master process of an nginx, found from any of its processes, with its command line and
//! workers.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lagtrace_core::observed::event::Note;

use super::build::Build;
use super::invocation::{Invocation, Title, title};
use crate::config::files::{Files, Root};
use crate::config::{Error, process};
use crate::privilege;
use crate::privilege::message::ProcessLink;

/// Maximum number of steps from a process to its parent. The parent of a worker is the master.
const MAX_STEPS: usize = 8;

/// A process that handles connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Process ID, in lagtrace's own PID namespace.
    pub pid: u32,
    /// Start time on this host's realtime clock, with a resolution of 10 ms.
    pub started: SystemTime,
    /// True if the worker was replaced at a reload and only finishes its old connections.
    pub is_retiring: bool,
}

/// A running nginx.
#[derive(Debug)]
pub struct Master {
    /// Process ID of the master, or of the only process if nginx runs without a master.
    pub pid: u32,
    /// The options that nginx was started with.
    pub invocation: Invocation,
    /// The settings that were compiled into nginx.
    pub build: Build,
    /// The workers, oldest first.
    pub workers: Vec<Worker>,
    /// The main configuration file, as nginx names it.
    pub conf: PathBuf,
    /// Notes on the reliability of the other fields.
    pub notes: Vec<Note>,
    pub(crate) root: Root,
}

impl Master {
    /// Finds the master of an nginx process.
    ///
    /// # Errors
    /// Returns an error if the process is not nginx, has ended, or is in a file system that may not
    /// be read.
    pub fn find(pid: u32) -> Result<Self, Error> {
        let (pid, invocation) = climb(pid)?;
        let root = Root::of(pid)?;
        let mut notes = Vec::new();
        if root.is_assumed {
            notes.push(note(
                "nginx-root-assumed",
                "nginx runs in a separate mount namespace that is not readable; its files were \
                 read from this host's root",
            ));
        }
        if is_title_cut(pid) {
            notes.push(note(
                "nginx-title-cut",
                "the process title of the master is too short for all arguments; -c, -p or -g may \
                 be missing or cut",
            ));
        }
        let build = read_build(pid, &invocation, &root).unwrap_or_else(|| {
            notes.push(note(
                "nginx-build-guessed",
                "the binary's compiled-in paths could not be read; the usual paths are assumed",
            ));
            Build::guess(&|path| root.open(path, false).is_ok())
        });
        let conf = conf_path(&invocation, &build, || process::working_directory(pid));
        Ok(Self {
            pid,
            invocation,
            build,
            workers: workers(pid),
            conf,
            notes,
            root,
        })
    }

    /// Returns this nginx with another main configuration file, if the caller knows a better one.
    #[must_use]
    pub fn with_conf(self, conf: PathBuf) -> Self {
        Self { conf, ..self }
    }

    /// Returns the earliest time at which the current configuration can have been loaded: the start
    /// of the oldest worker that is not retiring. Younger workers do not count, because a worker
    /// that crashed is replaced without loading the configuration again.
    pub fn loaded(&self) -> Option<SystemTime> {
        self.workers
            .iter()
            .filter(|worker| !worker.is_retiring)
            .map(|worker| worker.started)
            .min()
    }

    /// Returns the port of a server without `listen`: 80 if nginx runs as root, otherwise 8000.
    pub(crate) fn implied_port(&self) -> u16 {
        match process::real_user(self.pid) {
            Some(0) | None => 80,
            Some(_) => 8000,
        }
    }

    /// Returns the value of `$hostname` in a `server_name`.
    pub(crate) fn hostname(&self) -> Option<String> {
        let is_ours = process::shares_namespace_with_us(self.pid, ProcessLink::Uts) == Some(true);
        let bytes = if is_ours {
            std::fs::read("/proc/sys/kernel/hostname").ok()?
        } else {
            self.root.read(Path::new("/etc/hostname"), 4096).ok()?.bytes
        };
        let name = String::from_utf8(bytes).ok()?.trim().to_ascii_lowercase();
        (!name.is_empty()).then_some(name)
    }
}

pub(crate) fn note(id: &str, text: impl Into<String>) -> Note {
    Note {
        id: id.into(),
        text: text.into(),
    }
}

/// Follows the parents of a process up to the master.
fn climb(start: u32) -> Result<(u32, Invocation), Error> {
    let mut pid = start;
    for _ in 0..MAX_STEPS {
        let arguments = process::arguments(pid)?;
        match title(&arguments) {
            Title::Master(invocation) => return Ok((pid, invocation)),
            Title::Other if pid == start => {
                return Err(Error::NotNginx {
                    pid,
                    title: String::from_utf8_lossy(&arguments.join(&b' ')).into_owned(),
                });
            }
            Title::Other => break,
            Title::Worker | Title::RetiringWorker | Title::Child => {
                pid = process::stat(pid)?.parent;
            }
        }
    }
    Err(Error::NoMaster { pid: start })
}

/// Returns true if the title fills all the space of the arguments and the environment. Its end is
/// probably missing then (`ngx_setproctitle()`).
fn is_title_cut(pid: u32) -> bool {
    let room = process::stat_with_title_room(pid).map_or(0, |stat| stat.title_room);
    let length = process::arguments(pid).map_or(0, |words| match words.as_slice() {
        [title] => title.len(),
        _ => 0,
    });
    // nginx leaves two bytes of the space unused.
    room > 0 && u64::try_from(length).is_ok_and(|length| length + 2 >= room)
}

/// Returns the workers of a master, or the process itself if it has no workers.
fn workers(master: u32) -> Vec<Worker> {
    let worker = |pid, is_retiring| {
        let started = process::stat(pid).ok()?.started();
        Some(Worker {
            pid,
            started,
            is_retiring,
        })
    };
    let mut found: Vec<Worker> = process::children(master)
        .into_iter()
        .filter_map(|pid| match title(&process::arguments(pid).ok()?) {
            Title::Worker => worker(pid, false),
            Title::RetiringWorker => worker(pid, true),
            _ => None,
        })
        .collect();
    if found.is_empty() {
        found.extend(worker(master, false));
    }
    found.sort_by_key(|worker| (worker.started, worker.pid));
    found
}

/// Reads the settings compiled into the running binary, even if it was deleted from the disk.
fn read_build(pid: u32, invocation: &Invocation, root: &Root) -> Option<Build> {
    let running = privilege::program(pid).ok();
    let binary = match running {
        Some(binary) => binary,
        // Without the permission to open the running binary, the file at its path is read.
        None => {
            let path = Path::new(&invocation.program);
            let path = if path.is_absolute() {
                path
            } else {
                Path::new("/usr/sbin/nginx")
            };
            root.open(path, false).ok()?.into()
        }
    };
    Build::read(binary).ok()?
}

/// Returns the main configuration file: that of `-c`, or the compiled-in one. A relative path is
/// resolved against the prefix (`src/core/nginx.c`, `ngx_process_options()`).
fn conf_path(
    invocation: &Invocation,
    build: &Build,
    working_directory: impl Fn() -> PathBuf,
) -> PathBuf {
    let prefix = invocation.prefix.as_ref().map(PathBuf::from);
    let prefix = prefix.as_ref().unwrap_or(&build.prefix);
    let conf = invocation.conf.as_ref().map(PathBuf::from);
    let path = prefix.join(conf.as_ref().unwrap_or(&build.conf));
    if path.is_absolute() {
        path
    } else {
        working_directory().join(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_file_is_found_from_options_and_prefix() {
        let build = Build {
            version: None,
            prefix: "/usr/share/nginx".into(),
            conf: "/etc/nginx/nginx.conf".into(),
        };
        let table = [
            (None, None, "/etc/nginx/nginx.conf"),
            (Some("/x/n.conf"), None, "/x/n.conf"),
            (Some("n.conf"), None, "/usr/share/nginx/n.conf"),
            (Some("n.conf"), Some("/p"), "/p/n.conf"),
            (Some("n.conf"), Some("p"), "/cwd/p/n.conf"),
            (None, Some("/p"), "/etc/nginx/nginx.conf"),
        ];
        for (conf, prefix, expected) in table {
            let invocation = Invocation {
                conf: conf.map(String::from),
                prefix: prefix.map(String::from),
                ..Invocation::default()
            };
            let found = conf_path(&invocation, &build, || "/cwd".into());
            assert_eq!(found, Path::new(expected));
        }
    }

    #[test]
    fn a_process_that_is_no_nginx_is_refused() {
        let error = Master::find(std::process::id()).expect_err("we are no nginx");
        assert!(matches!(error, Error::NotNginx { .. }), "{error}");
    }
}

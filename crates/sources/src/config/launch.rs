//! Programs that are configured when they are started: by their command line, a few environment
//! variables, and a file that the command line names.
//!
//! Of the environment, only the variables in `VARIABLES` are read; others may hold secrets.

mod assigned;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod options;
mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lagtrace_core::observed::event::{ConfigurationLine, SourceLocation, TargetId};

use super::Error;
use super::by_line::Setting;
use super::files::{Files as _, Root};
use super::process::{self, START_RESOLUTION};
use crate::privilege;
use crate::privilege::message::{ProcFile, ProcessLink};
use assigned::Assignment;
pub use server::Server;
pub(crate) use server::USUAL_FILE;

/// The environment variables that are read.
const VARIABLES: [&str; 8] = [
    "GOGC",
    "GOMAXPROCS",
    "GUNICORN_CMD_ARGS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "NODE_OPTIONS",
    "UV_THREADPOOL_SIZE",
    "WEB_CONCURRENCY",
];
/// Maximum number of ancestors whose command line is searched: workers may have a title instead.
const ANCESTORS: usize = 3;
/// Maximum number of bytes read from a configuration file.
const MAX_BYTES: usize = 1 << 18;
/// Number of bytes of a program that are searched for the mark of the Go linker.
const GO_BYTES: usize = 8192;

/// A started program.
#[derive(Clone, Debug, Default)]
struct Launch {
    pid: u32,
    arguments: Vec<String>,
    /// The variables of [`VARIABLES`] that are set.
    environment: BTreeMap<&'static str, String>,
    /// The assignments of the program's configuration file.
    assignments: Vec<Assignment>,
    /// A reason why options may be unknown.
    doubt: Option<String>,
}

impl Launch {
    fn read(pid: u32) -> Result<Self, Error> {
        let arguments = process::arguments(pid)?;
        let lossy = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        Ok(Self {
            pid,
            arguments: arguments.iter().map(lossy).collect(),
            environment: environment(&process::read_as_owner(pid, ProcFile::Environ)?),
            ..Self::default()
        })
    }

    /// Returns the value of a variable, with its place.
    fn variable(&self, name: &'static str) -> Option<(&str, SourceLocation)> {
        let value = self.environment.get(name)?;
        let at = SourceLocation {
            file: format!("{name} in the environment of pid {}", self.pid),
            line: 0,
        };
        Some((value, at))
    }

    fn command_line(&self) -> SourceLocation {
        SourceLocation {
            file: format!("command line of pid {}", self.pid),
            line: 0,
        }
    }
}

/// Keeps the variables of [`VARIABLES`] of an environment. The others may hold secrets.
pub(crate) fn without_secrets(environment: &[u8]) -> Vec<u8> {
    let known = self::environment(environment);
    let line = |(name, value): (&str, &String)| format!("{name}={value}\0").into_bytes();
    known
        .iter()
        .flat_map(|(&name, value)| line((name, value)))
        .collect()
}

/// Returns the variables of [`VARIABLES`] in a process's environment.
fn environment(bytes: &[u8]) -> BTreeMap<&'static str, String> {
    let entries = bytes.split(|&byte| byte == 0);
    let known = entries.filter_map(|entry| {
        let at = entry.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (entry.get(..at)?, entry.get(at + 1..)?);
        let name = VARIABLES.into_iter().find(|of| of.as_bytes() == name)?;
        Some((name, String::from_utf8_lossy(value).into_owned()))
    });
    known.collect()
}

/// Returns the program that a process runs and its settings; `None` for a program that is not
/// known here.
///
/// # Errors
/// The process may not be read.
pub fn settings(
    pid: u32,
    target: TargetId,
) -> Result<Option<(Server, Vec<ConfigurationLine>)>, Error> {
    let Some((server, mut launch)) = find(pid)? else {
        return Ok(None);
    };
    if let Some(path) = server.file(&launch.arguments) {
        read_file(&mut launch, &path);
    }
    let line = |setting: Setting| ConfigurationLine {
        target,
        program: server.name().to_owned(),
        directive: setting.directive,
        value: setting.value,
        set_at: setting.at,
        scope: setting.scope,
        is_newer_than_process: setting.is_newer,
        doubt: setting.doubt,
    };
    let settings = server.settings(&launch);
    Ok(Some((server, settings.into_iter().map(line).collect())))
}

/// Finds the process with the program's own command line: the process itself or an ancestor.
fn find(pid: u32) -> Result<Option<(Server, Launch)>, Error> {
    let mut launch = Launch::read(pid)?;
    if is_go(pid) {
        return Ok(Some((Server::Go, launch)));
    }
    let mut titled = None;
    for _ in 0..ANCESTORS {
        if let Some(server) = Server::of(&launch.arguments) {
            return Ok(Some((server, launch)));
        }
        if let Some(server) = Server::titled(&launch.arguments) {
            let doubt = "the process's title replaces its command line".to_owned();
            launch.doubt = Some(doubt);
            titled = Some((server, launch.clone()));
        }
        let parent = process::stat(launch.pid)?.parent;
        match Launch::read(parent) {
            Ok(next) if parent > 1 => launch = next,
            _ => break,
        }
    }
    Ok(titled)
}

/// Returns true for a program that the Go linker made: its build id is a note of the owner `Go`.
fn is_go(pid: u32) -> bool {
    let Ok(path) = privilege::link(pid, ProcessLink::Exe) else {
        return false;
    };
    let read = Root::of(pid).and_then(|root| {
        let unreadable = |source| Error::Unreadable {
            path: path.clone(),
            source,
        };
        root.read(&path, GO_BYTES).map_err(unreadable)
    });
    let mark = [4, 0, 0, 0, b'G', b'o', 0, 0];
    read.is_ok_and(|contents| {
        contents
            .bytes
            .windows(mark.len())
            .any(|bytes| bytes == mark)
    })
}

/// Adds the assignments of a file; a file that cannot be read makes the settings doubtful.
fn read_file(launch: &mut Launch, named: &Path) {
    // Without the `.` of `./gunicorn.conf.py`.
    let path = process::working_directory(launch.pid).join(named);
    let path: PathBuf = path.components().collect();
    let read = Root::of(launch.pid).ok().and_then(|root| {
        let contents = root.read(&path, MAX_BYTES).ok()?;
        let started = process::stat(launch.pid).ok()?.started();
        let is_newer = contents.stamps.modified > started + START_RESOLUTION;
        Some((contents.bytes, is_newer))
    });
    match read {
        Some((bytes, is_newer)) => {
            let text = String::from_utf8_lossy(&bytes);
            launch.assignments = assigned::assignments(&text, &path, is_newer);
        }
        // The file that is read without being named need not exist.
        None if named == Path::new(server::USUAL_FILE) => {}
        None => launch.doubt = Some(format!("{} could not be read", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_variables_are_read() {
        let bytes = b"PASSWORD=hunter2\0GOMAXPROCS=2\0GOMAXPROCSX=3\0GOGC\0";
        let found = environment(bytes);
        assert_eq!(found, BTreeMap::from([("GOMAXPROCS", "2".to_owned())]));
    }

    #[test]
    fn a_process_that_is_none_of_them_has_no_settings() {
        let own = settings(std::process::id(), TargetId::Subject).expect("our own process");
        assert!(own.is_none(), "{own:?}");
    }
}

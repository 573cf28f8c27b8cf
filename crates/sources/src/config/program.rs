//! The programs whose configuration files have one directive on each line.

use lagtrace_core::observed::event::{ConfigurationLine, TargetId};

use super::by_line::{Reader, Setting};
use super::files::Root;
use super::{Error, apache, haproxy, process};

/// A program whose files have one directive on each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Apache httpd.
    Apache,
    /// haproxy.
    Haproxy,
}

impl Program {
    /// Returns the program with this process name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "apache2" | "httpd" => Some(Self::Apache),
            "haproxy" => Some(Self::Haproxy),
            _ => None,
        }
    }

    /// Returns the program's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apache => "apache",
            Self::Haproxy => "haproxy",
        }
    }
}

/// Returns the settings of a running program for connections to one of its ports.
///
/// # Errors
/// Returns an error if the process or its configuration file cannot be read.
pub fn settings(
    program: Program,
    pid: u32,
    port: u16,
    target: TargetId,
) -> Result<Vec<ConfigurationLine>, Error> {
    let arguments = process::arguments(pid)?;
    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    let starter = process::starter(pid).unwrap_or(pid);
    let root = Root::of(starter)?;
    let mut reader = Reader::new(&root, process::stat(pid)?.started());
    let found = match program {
        Program::Apache => apache::settings(&mut reader, &arguments),
        Program::Haproxy => {
            let directory = process::working_directory(starter);
            haproxy::settings(&mut reader, &arguments, &directory, port)
        }
    }?;
    let line = |setting: Setting| ConfigurationLine {
        target,
        program: program.name().to_owned(),
        directive: setting.directive,
        value: setting.value,
        set_at: setting.at,
        scope: setting.scope,
        is_newer_than_process: setting.is_newer,
        doubt: setting.doubt,
    };
    Ok(found.into_iter().map(line).collect())
}

//! Running of the system's programs, such as `ip` and `nft`.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::error::Error;

/// The folders searched for programs in addition to `PATH`, which lacks the system's folders for
/// some users.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Runs a program to its end; an error contains its stderr.
pub(crate) fn run<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<(), Error> {
    let mut command = command(program);
    command.args(arguments).stdin(Stdio::null());
    let output = command.output().map_err(|source| Error::Start {
        program: program.to_owned(),
        source,
    })?;
    judge(&command, &output)
}

/// Runs a command with this text as its input.
pub(crate) fn run_with_input(mut command: Command, input: &str) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let start = |source| Error::Start {
        program: program.clone(),
        source,
    };
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A write error is ignored: a program that ends early reports the reason itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(start)?;
    judge(&command, &output)
}

/// Runs a command to its end and returns its stdout.
pub(crate) fn output_of(mut command: Command) -> Result<String, Error> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| Error::Start {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    })?;
    judge(&command, &output)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn judge(command: &Command, output: &Output) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let command = words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ");
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Error::Command {
        command,
        message: format!("{}: {}", output.status, stderr.trim()),
    })
}

/// Returns an error unless a program is installed.
pub(crate) fn require(tool: &'static str, package: &'static str) -> Result<(), Error> {
    find(tool)
        .map(|_| ())
        .ok_or(Error::MissingTool { tool, package })
}

/// Returns the command of an installed program, which is found even if `PATH` lacks the system's
/// folders.
pub(crate) fn command(tool: &str) -> Command {
    Command::new(find(tool).unwrap_or_else(|| tool.into()))
}

/// Returns the folders in which distributions install the programs of PostgreSQL, newest version
/// first. Each version has its own folder, and none of these folders is in `PATH`.
fn postgres_folders() -> Vec<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let number = |folder: &PathBuf| -> Option<u32> { folder.file_name()?.to_str()?.parse().ok() };
    let mut folders: Vec<_> = versions.flatten().map(|entry| entry.path()).collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(number(folder)));
    folders
        .into_iter()
        .map(|folder| folder.join("bin"))
        .collect()
}

/// Returns the path at which a program is installed.
pub(crate) fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.map(PathBuf::from))
        .chain(postgres_folders());
    folders
        .map(|folder| folder.join(tool))
        .find(|file| file.is_file())
}

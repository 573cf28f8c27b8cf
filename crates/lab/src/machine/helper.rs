//! The program that runs the lab's own processes: the current one, or another, started with
//! arguments for [`crate::helper_main()`].

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command line of a program that passes the arguments that follow to [`crate::helper_main()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Helper {
    program: PathBuf,
    prefix: Vec<OsString>,
}

/// The path of the current program, valid even if its file has been replaced since.
const THIS_PROGRAM: &str = "/proc/self/exe";

impl Helper {
    /// Returns the current program, which passes the arguments after `subcommand` to
    /// [`crate::helper_main()`].
    pub fn this_program(subcommand: &str) -> Self {
        Self {
            program: THIS_PROGRAM.into(),
            prefix: vec![subcommand.into()],
        }
    }

    /// Returns another program, which passes all its arguments to [`crate::helper_main()`].
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self {
            program: path.into(),
            prefix: Vec::new(),
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.program == Path::new(THIS_PROGRAM) {
            command.arg0(
                std::env::args_os()
                    .next()
                    .unwrap_or_else(|| "lagtrace".into()),
            );
        }
        command.args(&self.prefix);
        command
    }

    /// Returns the prefix, for a helper that starts further helpers.
    pub(crate) fn prefix(&self) -> Vec<String> {
        self.prefix
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    /// Returns the program of the calling helper, with this prefix.
    pub(crate) fn again(prefix: &[String]) -> Self {
        Self {
            program: THIS_PROGRAM.into(),
            prefix: prefix.iter().map(OsString::from).collect(),
        }
    }
}

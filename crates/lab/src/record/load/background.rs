//! Programs that run in parallel to a load.

use std::process::{Child, Stdio};

use super::child::end;
use super::{Words, lay_files};
use crate::error::Error;
use crate::lab::Lab;
use crate::machine::tool;
use crate::scenario::Service;
use crate::side::Family;

/// Programs that run in parallel to a load until this value is dropped.
pub(crate) struct Background {
    running: Vec<Child>,
}

impl Background {
    /// Writes the files of the service's load, which these programs may also use, and starts the
    /// programs.
    pub(crate) fn start(lab: &Lab, service: &Service, family: Family) -> Result<Self, Error> {
        lay_files(&lab.run().folder(), &service.load)?;
        let words = Words::of(lab, service, family);
        let mut background = Self {
            running: Vec::new(),
        };
        for line in &service.background {
            let Some((program, arguments)) = line.split_first() else {
                continue;
            };
            if tool::find(program).is_none() {
                return Err(Error::MissingProgram {
                    program: program.clone(),
                    package: package_of(program).to_owned(),
                });
            }
            let mut command = lab.client().command(program)?;
            command
                .args(arguments.iter().map(|word| words.fill(word)))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let child = command.spawn().map_err(|source| Error::Start {
                program: program.clone(),
                source,
            })?;
            background.running.push(child);
        }
        Ok(background)
    }
}

/// Returns the Debian package of a program; most packages have the program's name.
fn package_of(program: &str) -> &str {
    match program {
        "psql" => "postgresql-client",
        "redis-cli" | "redis-benchmark" => "redis-tools",
        "python3" => "python3-minimal",
        _ => program,
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.running.iter_mut().for_each(end);
    }
}

//! Shell completion scripts and manual pages, generated from the definitions of the arguments.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;
use lagtrace_sources::files::{self, Output, Purpose};

use crate::exit::Outcome;
use crate::failure::Result;

/// The options of `lagtrace completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lagtrace completions bash > /etc/bash_completion.d/lagtrace
  lagtrace completions zsh > ~/.zfunc/_lagtrace
  lagtrace completions fish > ~/.config/fish/completions/lagtrace.fish")]
pub(crate) struct Shell {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// The options of `lagtrace man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lagtrace man | man -l -
  lagtrace man /usr/local/share/man/man1")]
pub(crate) struct Pages {
    /// The directory to which to write one page per command; without it, the main page goes to
    /// standard output
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints a completion script for a program.
pub(crate) fn completions(options: &Shell, mut command: Command) -> Result<Outcome> {
    let mut script = Vec::new();
    let program = command.get_name().to_owned();
    clap_complete::generate(options.shell, &mut command, program, &mut script);
    io::stdout()
        .write_all(&script)
        .context("write the script")?;
    Ok(Outcome::Clean)
}

/// Prints the main manual page, or writes all pages.
pub(crate) fn pages(options: &Pages, command: Command) -> Result<Outcome> {
    let command = command.disable_help_subcommand(true);
    match &options.directory {
        Some(directory) => files::create_folder(directory)
            .and_then(|()| all(command, directory))
            .with_context(|| format!("write manual pages into {}", directory.display()))?,
        None => {
            let mut page = Vec::new();
            Man::new(command)
                .render(&mut page)
                .context("make the manual page")?;
            io::stdout()
                .write_all(&page)
                .context("write the manual page")?;
        }
    }
    Ok(Outcome::Clean)
}

/// Writes the pages of a command and of the commands below it.
fn all(mut command: Command, directory: &Path) -> io::Result<()> {
    // Gives each command its whole name.
    command.build();
    let mut left = vec![command];
    while let Some(command) = left.pop() {
        let below = command.get_subcommands().filter(|it| !it.is_hide_set());
        left.extend(below.cloned());
        let page = Man::new(command);
        let mut file = Output::create(&directory.join(page.get_filename()), Purpose::Public)?;
        page.render(&mut file)?;
        file.commit()?;
    }
    Ok(())
}

//! Shell completion scripts and manual pages, generated from the definitions of the arguments.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;
use lagtrace_sources::files::{self, Output, Purpose};

use crate::delivery::end_standard;
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
    if options.shell == clap_complete::Shell::Fish {
        script.extend_from_slice(causes_in_fish(&command).as_bytes());
    }
    io::stdout()
        .write_all(&script)
        .and_then(|()| end_standard())
        .context("write the script")?;
    Ok(Outcome::Clean)
}

/// Returns a line that completes the causes of `explain`: the generator leaves out the values of an
/// argument that may be repeated.
fn causes_in_fish(command: &Command) -> String {
    let name = command.get_name();
    let explain = command.find_subcommand("explain");
    let causes = explain.and_then(|explain| explain.get_positionals().next());
    let values = causes.map(|causes| causes.get_possible_values());
    let ids: Vec<String> = values
        .unwrap_or_default()
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect();
    if ids.is_empty() {
        return String::new();
    }
    format!(
        "complete -c {name} -n \"__fish_{name}_using_subcommand explain\" -f -a \"{}\"\n",
        ids.join(" ")
    )
}

/// Prints the main manual page, or writes all pages.
pub(crate) fn pages(options: &Pages, command: Command) -> Result<Outcome> {
    let command = command.disable_help_subcommand(true);
    match &options.directory {
        Some(directory) => files::create_folder(directory)
            .and_then(|()| all(command, directory))
            .with_context(|| format!("write manual pages into {}", directory.display()))?,
        None => {
            io::stdout()
                .write_all(&page(command).context("make the manual page")?)
                .and_then(|()| end_standard())
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
        let name = Man::new(command.clone()).get_filename();
        let mut file = Output::create(&directory.join(name), Purpose::Public)?;
        file.write_all(&page(command)?)?;
        file.commit()?;
    }
    Ok(())
}

/// Returns a manual page. What `--help` prints after the options has sections of its own, as
/// man-pages(7) names and orders them.
fn page(command: Command) -> io::Result<Vec<u8>> {
    let is_root = command.get_name() == "lagtrace";
    let others = match command.get_display_name().unwrap_or(command.get_name()) {
        "lagtrace" => "lagtrace-setcap(8), capabilities(7)",
        name if name.starts_with("lagtrace-lab-") => "lagtrace-lab(1)",
        _ => "lagtrace(1)",
    };
    // The help has them apart.
    let command = command.mut_args(|it| {
        let is_hidden = it.is_hide_set() && !(is_root && it.is_global_set());
        it.hide(is_hidden)
    });
    let after = command.get_after_long_help().or(command.get_after_help());
    let [notes, examples, codes] = parts(&after.map(ToString::to_string).unwrap_or_default());
    let man = Man::new(
        command
            .after_help(None::<&str>)
            .after_long_help(None::<&str>),
    );
    let mut page = Vec::new();
    man.source(concat!("lagtrace ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)?;
    section(&mut page, "EXIT STATUS", &codes)?;
    section(&mut page, "NOTES", &notes)?;
    section(&mut page, "EXAMPLES", &examples)?;
    section(&mut page, "SEE ALSO", others)?;
    Ok(page)
}

/// Splits the text after the options into notes, examples and exit codes.
fn parts(text: &str) -> [String; 3] {
    let mut parts = [const { String::new() }; 3];
    let mut at = 0;
    for line in text.lines() {
        match line {
            "Examples:" => at = 1,
            "Exit codes:" => at = 2,
            _ => {
                // A text that is not indented ends the examples.
                if !line.is_empty() && !line.starts_with(' ') {
                    at = 0;
                }
                parts[at].push_str(line);
                parts[at].push('\n');
            }
        }
    }
    parts
}

/// Writes a section whose lines stay as they are; none if there is no text.
fn section(page: &mut Vec<u8>, title: &str, text: &str) -> io::Result<()> {
    let text = text.trim_matches('\n');
    if text.is_empty() {
        return Ok(());
    }
    writeln!(page, ".SH \"{title}\"\n.nf")?;
    for line in text.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A line that begins with one of these would be a request to the formatter.
        let is_request = line.starts_with(['.', '\'']);
        writeln!(page, "{}{line}", if is_request { "\\&" } else { "" })?;
    }
    writeln!(page, ".fi")
}

//! The flags of other tools at lagtrace's commands: taken, renamed or answered.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::flag::{Flag, Means};
use super::tables;
use crate::failure::{Failure, Result};

/// Adds the flags of other tools to the commands, hidden. An option of lagtrace itself has
/// precedence.
pub(crate) fn known(root: Command) -> Command {
    let of_all: BTreeSet<String> = names(&root);
    tables::ALL.iter().fold(root, |root, (name, flags)| {
        root.mut_subcommand(*name, |command| {
            // Listed once, because this is done at each start, whatever is typed.
            let mut taken = &names(&command) | &of_all;
            let flags = flags.iter().copied().flatten();
            flags.fold(command, |command, flag| add(command, flag, &mut taken))
        })
    })
}

/// Returns the names of a command's options, with their dashes.
fn names(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().flat_map(|argument| {
        let short = argument.get_all_short_aliases().unwrap_or_default();
        let short = argument.get_short().into_iter().chain(short);
        let short = short.map(|letter| format!("-{letter}"));
        let long = argument.get_all_aliases().unwrap_or_default();
        let long = argument.get_long().into_iter().chain(long);
        short.chain(long.map(|word| format!("--{word}")))
    });
    let built = ["-h", "--help", "-V", "--version"].map(str::to_owned);
    own.chain(built).collect()
}

fn has(command: &Command, id: &str) -> bool {
    command
        .get_arguments()
        .any(|argument| argument.get_id() == id)
}

/// Adds a flag under those of its names that are not taken, which it then takes.
fn add(command: Command, flag: &'static Flag, taken: &mut BTreeSet<String>) -> Command {
    let is_free = |name: &&str| !taken.contains(*name);
    let free: Vec<&'static str> = flag.names.split(' ').filter(is_free).collect();
    let is_possible = match flag.means {
        // The option may have another name by now: then clap says that there is none.
        Means::Option(id) => has(&command, id),
        Means::Nothing | Means::Answer(_) => true,
    };
    if free.is_empty() || !is_possible {
        return command;
    }
    taken.extend(free.iter().copied().map(str::to_owned));
    let name = |argument: Arg, name: &'static str| match name.strip_prefix("--") {
        Some(long) => argument.alias(long),
        None => argument.short_aliases(name.chars().nth(1)),
    };
    match flag.means {
        Means::Option(id) => command.mut_arg(id, |it| free.into_iter().fold(it, name)),
        Means::Nothing | Means::Answer(_) => {
            let argument = Arg::new(flag.names).hide(true);
            let argument = if flag.has_value {
                let value = value_parser!(OsString);
                argument.action(ArgAction::Append).value_parser(value)
            } else {
                argument.action(ArgAction::Count)
            };
            // An argument without a name of its own would be one without a flag.
            let first = free.first().copied().unwrap_or_default();
            let argument = match first.strip_prefix("--") {
                Some(long) => argument.long(long),
                None => argument.short(first.chars().nth(1)),
            };
            command.arg(free.into_iter().skip(1).fold(argument, name))
        }
    }
}

/// Answers the first flag of another tool that is given and means something else here.
pub(crate) fn answered(matches: &ArgMatches) -> Result<()> {
    let Some((name, given)) = matches.subcommand() else {
        return Ok(());
    };
    let flags = tables::ALL.iter().filter(|(command, _)| *command == name);
    let flags = flags.flat_map(|(_, flags)| flags.iter().copied().flatten());
    let is_given = |flag: &&Flag| {
        given.try_contains_id(flag.names).unwrap_or_default()
            && given.value_source(flag.names) == Some(ValueSource::CommandLine)
    };
    for flag in flags.filter(is_given) {
        if let Means::Answer(instead) = flag.means {
            let shown = match flag.names.split_once(' ') {
                Some((first, others)) => format!("{first} ({})", others.replace(' ', ", ")),
                None => flag.names.to_owned(),
            };
            let error = format!("{shown} is not supported");
            return Err(Failure::new(error).hint(instead));
        }
    }
    Ok(())
}

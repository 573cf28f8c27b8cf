//! Parsing of the command line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{ArgMatches, Command, Parser};

use crate::render::escape::escape;
use crate::request;

/// Number of letters, with the dashes, that a suggested option has in common with the typed one.
const ALIKE: usize = 5;

/// Parses the command line, and returns its values as they were written too; ends the program if it
/// is wrong, or asks for help. The error repeats arguments, such as names of files that others
/// chose, so it is that of the escaped arguments.
pub(crate) fn parsed<P: Parser>(mut command: Command, words: Vec<OsString>) -> (P, ArgMatches) {
    // From here on, other users see no secrets of requests in `ps`.
    request::blank();
    let parsed = command
        .try_get_matches_from_mut(&words)
        .and_then(|matches| {
            let parsed = P::from_arg_matches(&matches)?;
            Ok((parsed, matches))
        });
    parsed.unwrap_or_else(|error| {
        if is_data_as_duration(&error) {
            let told = "-d is the duration of the load, such as 10s, and its value is none; --data \
                        sends a body";
            command.error(error.kind(), told).exit()
        }
        let escaped = words.iter().map(|argument| {
            let text = argument.to_string_lossy();
            OsString::from(escape(&text).into_owned())
        });
        match command.try_get_matches_from_mut(escaped) {
            Err(error) => advised(error, &command).exit(),
            // Only the escapes are right: then the error does not depend on them.
            Ok(_) => command.error(error.kind(), "an argument is wrong").exit(),
        }
    })
}

/// Returns true if the value of `-d` seems to be data, as with curl. The error must not repeat it.
fn is_data_as_duration(error: &Error) -> bool {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let value = text(ContextKind::InvalidValue);
    let is_word = value.len() < 12 && value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text(ContextKind::InvalidArg).starts_with("--duration") && !is_word
}

/// Returns the error with advice that helps: no similar option that does something else, and no
/// `--` before what was meant as an option.
fn advised(mut error: Error, root: &Command) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::Suggested);
    let text = |value: Option<&ContextValue>| match value {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let typed = text(error.get(ContextKind::InvalidArg));
    let similar = text(error.get(ContextKind::SuggestedArg));
    let is_alike = typed.len() >= ALIKE && typed.get(..ALIKE) == similar.get(..ALIKE);
    if !is_alike {
        error.remove(ContextKind::SuggestedArg);
        let owners = owners(&typed, root);
        if !owners.is_empty() {
            let told = format!("{} has '{typed}'", owners.join(", "));
            error.insert(
                ContextKind::Suggested,
                ContextValue::StyledStrs(vec![told.into()]),
            );
        }
    }
    error
}

/// Returns the commands that have an option.
fn owners(option: &str, root: &Command) -> Vec<String> {
    let has = |command: &&Command| {
        command.get_arguments().any(|argument| {
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            let is_it = |name: &String| name == option;
            !argument.is_hide_set() && (long.iter().any(is_it) || short.iter().any(is_it))
        })
    };
    let commands = root.get_subcommands().filter(has);
    commands
        .map(|command| format!("`{} {}`", root.get_name(), command.get_name()))
        .collect()
}

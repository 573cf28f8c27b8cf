//! Parsing of the command line.

use std::env;
use std::ffi::OsString;

use clap::{ArgMatches, Parser};

use crate::render::escape::escape;

/// Parses the command line, and returns its values as they were written too; ends the program if it
/// is wrong, or asks for help. The error repeats arguments, such as names of files that others
/// chose, so it is that of the escaped arguments.
pub(crate) fn parsed<P: Parser>() -> (P, ArgMatches) {
    let parsed = P::command().try_get_matches().and_then(|matches| {
        let parsed = P::from_arg_matches(&matches)?;
        Ok((parsed, matches))
    });
    parsed.unwrap_or_else(|error| {
        let escaped = env::args_os().map(|argument| {
            let text = argument.to_string_lossy();
            OsString::from(escape(&text).into_owned())
        });
        match P::try_parse_from(escaped) {
            Err(error) => error.exit(),
            // Only the escapes are right: then the error does not depend on them.
            Ok(_) => P::command()
                .error(error.kind(), "an argument is wrong")
                .exit(),
        }
    })
}

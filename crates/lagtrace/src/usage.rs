//! Parsing of the command line, and errors of it.

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::{ArgMatches, Parser};

use crate::render::escape::{has_unsafe, laid_out};

/// Parses the command line, and returns its values as they were written too; ends the program if it
/// is wrong, or asks for help.
pub(crate) fn parsed<P: Parser>() -> (P, ArgMatches) {
    let parsed = P::command().try_get_matches().and_then(|matches| {
        let parsed = P::from_arg_matches(&matches)?;
        Ok((parsed, matches))
    });
    parsed.unwrap_or_else(|error| leave(&error))
}

/// Ends the program with an error of the command line. The error repeats arguments, such as names
/// of files that others chose; if a terminal would obey them, they are escaped and without colour.
pub(crate) fn leave(error: &clap::Error) -> ! {
    let is_hostile = |argument: OsString| has_unsafe(&argument.to_string_lossy());
    if !std::env::args_os().any(is_hostile) {
        error.exit()
    }
    let text = error.render().to_string();
    let mut to = io::stderr().lock();
    to.write_all(laid_out(&text).as_bytes()).ok();
    std::process::exit(error.exit_code())
}

//! Words and flags that people know from other tools.
//!
//! [`read`] goes through the command line before it is parsed: what can mean only one thing becomes
//! that, and what lagtrace does in another way is answered with what to type. [`known`] adds the
//! flags of other tools to the commands where people type them, hidden from help and completions,
//! and [`answered`] answers those that are given. No file is read, and nothing is sent.

use std::ffi::OsString;

use clap::Command;

use crate::failure::{Failure, Result};

mod carried;
mod clashes;
mod expression;
mod flag;
mod flags;
mod tables;
#[cfg(test)]
mod tests;
mod tools;
mod typed;
mod word;

pub(crate) use flags::{answered, known};
use typed::Typed;

/// Returns the command line as it is meant, or what to type instead.
pub(crate) fn read(words: Vec<OsString>, root: &Command) -> Result<Vec<OsString>> {
    let mut typed = Typed::new(words, root);
    word::settle(&mut typed)?;
    clashes::settle(&mut typed)?;
    Ok(typed.into_words())
}

/// Returns the answer to a word or flag of another tool.
fn answer(wrong: impl Into<String>, instead: impl Into<String>) -> Failure {
    Failure::new(wrong.into()).hint(instead)
}

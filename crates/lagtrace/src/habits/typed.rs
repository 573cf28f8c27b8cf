//! The words of a command line, with the place of its command.

use std::ffi::OsString;

use clap::Command;

/// A command line before it is parsed.
pub(super) struct Typed<'c> {
    words: Vec<OsString>,
    /// Position of the first word that is no option: the command.
    at: Option<usize>,
    root: &'c Command,
}

impl<'c> Typed<'c> {
    pub(super) fn new(words: Vec<OsString>, root: &'c Command) -> Self {
        let at = first_word(&words, root);
        Self { words, at, root }
    }

    /// Returns the first word that is no option; `None` if there is none, or if it is not text.
    pub(super) fn word(&self) -> Option<&str> {
        self.words.get(self.at?)?.to_str()
    }

    /// Returns true if the first word is a command.
    pub(super) fn has_command(&self) -> bool {
        let word = self.word();
        word == Some("help") || word.is_some_and(|word| self.root.find_subcommand(word).is_some())
    }

    /// Returns what follows the first word. What is not text is replaced by similar text.
    pub(super) fn rest(&self) -> Vec<String> {
        let from = self.at.map_or(self.words.len(), |at| at + 1);
        let rest = self.words.iter().skip(from);
        rest.map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    /// Puts a command before the first word.
    pub(super) fn begin_with(&mut self, command: &str) {
        if let Some(at) = self.at {
            self.words.insert(at, command.into());
        }
    }

    /// Replaces the first word.
    pub(super) fn replace_word(&mut self, word: String) {
        if let Some(old) = self.at.and_then(|at| self.words.get_mut(at)) {
            *old = word.into();
        }
    }

    /// Passes each word after the command to `change`, with the one after it, until one is `--`.
    pub(super) fn change(&mut self, mut change: impl FnMut(&str, Option<&str>) -> Replacement) {
        let mut at = self.at.map_or(self.words.len(), |at| at + 1);
        while let Some(word) = self.words.get(at).and_then(|word| word.to_str()) {
            if word == "--" {
                return;
            }
            let next = self.words.get(at + 1).and_then(|next| next.to_str());
            let (replaced, by) = match change(word, next) {
                Replacement::Keep => (0, Vec::new()),
                Replacement::One(by) => (1, by),
                Replacement::Two(by) => (2, by),
                Replacement::ToEnd => {
                    self.words.remove(at);
                    let value = self.words.remove(at);
                    self.words.push(value);
                    return;
                }
            };
            let by: Vec<OsString> = by.into_iter().map(OsString::from).collect();
            let advance = if replaced == 0 { 1 } else { by.len() };
            self.words.splice(at..at + replaced, by).for_each(drop);
            at += advance;
        }
    }

    /// Replaces an option that stands before the command.
    pub(super) fn replace_before(&mut self, option: &str, by: &str) {
        let end = self.at.unwrap_or(self.words.len());
        for word in self.words.iter_mut().take(end).skip(1) {
            if word == option {
                *word = by.into();
            }
        }
    }

    pub(super) fn into_words(self) -> Vec<OsString> {
        self.words
    }
}

/// What becomes of a word.
pub(super) enum Replacement {
    /// The word stays.
    Keep,
    /// Other words take its place.
    One(Vec<String>),
    /// Other words take its place and that of the next word.
    Two(Vec<String>),
    /// The word goes, and the next word moves to the end.
    ToEnd,
}

fn first_word(words: &[OsString], root: &Command) -> Option<usize> {
    let mut at = 1;
    loop {
        let word = words.get(at)?.to_string_lossy();
        match word.strip_prefix('-') {
            None | Some("") => return Some(at),
            Some("-") => return None,
            Some(flag) if takes_next(flag, root) => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// Returns true if an option of all commands takes the next word as its value.
fn takes_next(flag: &str, root: &Command) -> bool {
    let mut valued = root
        .get_arguments()
        .filter(|it| it.get_action().takes_values());
    match flag.strip_prefix('-') {
        Some(long) => valued.any(|it| it.get_long() == Some(long)),
        None => {
            let is_last = |letter: Option<char>| letter.is_some() && flag.chars().last() == letter;
            valued.any(|it| is_last(it.get_short()))
        }
    }
}

//! The configuration as a tree of directives, with all includes resolved.

use std::path::PathBuf;
use std::time::SystemTime;

use super::lex::Word;
use lagtrace_core::observed::event::SourceLocation;

/// Index of a file in [`Tree::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(pub(crate) u32);

/// A line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: FileId,
    /// Line number, from 1.
    pub(crate) line: u32,
}

/// A directive with its block, if it opens one.
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    /// The name.
    pub(crate) name: Word,
    /// The words after the name.
    pub(crate) args: Vec<Word>,
    /// Place of the name.
    pub(crate) at: Place,
    /// The directives in the block; `None` for a directive that ends with `;`.
    pub(crate) block: Option<Vec<Directive>>,
}

impl Directive {
    /// Returns the directives inside the block; empty for a directive without a block.
    pub(crate) fn inner(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Returns the blocks with this name that are directly inside the block.
    pub(crate) fn blocks<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Self> {
        blocks(self.inner(), name)
    }

    /// Returns the directives with this name and no block that are directly inside the block.
    pub(crate) fn lines<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Self> {
        lines(self.inner(), name)
    }

    /// Returns the arguments as they would be written.
    pub(crate) fn arguments(&self) -> String {
        let words: Vec<String> = self.args.iter().map(Word::to_string).collect();
        words.join(" ")
    }
}

/// Returns the directives with this name that open a block.
pub(crate) fn blocks<'s>(
    directives: &'s [Directive],
    name: &'s str,
) -> impl Iterator<Item = &'s Directive> {
    directives
        .iter()
        .filter(move |directive| directive.block.is_some() && directive.name == *name)
}

/// Returns the directives with this name that end with `;`.
pub(crate) fn lines<'s>(
    directives: &'s [Directive],
    name: &'s str,
) -> impl Iterator<Item = &'s Directive> {
    directives
        .iter()
        .filter(move |directive| directive.block.is_none() && directive.name == *name)
}

/// A file that was read, or a directory that was searched for includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigurationFile {
    /// The path as nginx names it; `-g` for the directives of the command line.
    pub(crate) path: PathBuf,
    /// True for a directory in which an `include` pattern was expanded.
    pub(crate) is_directory: bool,
    /// Time when the content was last written; `None` for `-g`.
    pub(crate) modified: Option<SystemTime>,
    /// Time when the file was last written or renamed into place, or when its permissions
    /// changed; `None` for `-g`.
    pub(crate) changed: Option<SystemTime>,
}

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// The directives outside all blocks; those of `-g` come first.
    pub(crate) main: Vec<Directive>,
    /// The files that the configuration was read from.
    pub(crate) files: Vec<ConfigurationFile>,
    /// Parts that could not be read or understood, with `file:line:column`.
    pub(crate) issues: Vec<String>,
}

impl Tree {
    /// Returns the file of a place.
    pub(crate) fn file(&self, place: Place) -> Option<&ConfigurationFile> {
        self.files.get(usize::try_from(place.file.0).ok()?)
    }

    /// Returns a place in the form of the report.
    pub(crate) fn location(&self, place: Place) -> SourceLocation {
        let file = self.file(place);
        SourceLocation {
            file: file.map_or_else(String::new, |file| file.path.display().to_string()),
            line: place.line,
        }
    }

    /// Returns a place as `file:line`.
    pub(crate) fn show(&self, place: Place) -> String {
        let location = self.location(place);
        format!("{}:{}", location.file, location.line)
    }

    /// Returns the `http` block. nginx allows only one.
    pub(crate) fn http(&self) -> Option<&Directive> {
        blocks(&self.main, "http").next()
    }
}

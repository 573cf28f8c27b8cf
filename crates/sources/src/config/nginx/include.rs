//! Reads the main configuration file and all included files into a [`Tree`]. Only an unreadable
//! main file is an error. Other parts that cannot be read or parsed are noted and skipped.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::lex::{Position, Word};
use super::parse::{self, MAX_DEPTH};
use super::tree::{ConfigurationFile, Directive, FileId, Place, Tree};
use crate::config::files::{Files, Stamps, expand};
use crate::config::glob;

/// Maximum number of bytes of all files together. A file counts each time it is included.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// Maximum number of different files.
const MAX_FILES: usize = 2000;
/// Maximum number of inclusions, of the same file or of others.
const MAX_INCLUSIONS: usize = 20_000;
/// Maximum number of directives kept.
const MAX_DIRECTIVES: usize = 500_000;
/// Maximum number of issues kept. Each damaged file causes one issue, and there can be many such
/// files.
const MAX_ISSUES: usize = 100;

/// Reads a configuration.
///
/// `main` is the absolute path of the main file; relative includes are resolved against its
/// directory (`src/core/ngx_conf_file.c`, `ngx_conf_include()`). `globals` are the directives of
/// `-g`, which come before those of the file.
pub(crate) fn read(files: &dyn Files, main: &Path, globals: Option<&str>) -> io::Result<Tree> {
    let mut loader = Loader {
        files,
        base: main.parent().unwrap_or(Path::new("/")).to_path_buf(),
        tree: Tree::default(),
        known: HashMap::new(),
        open: Vec::new(),
        bytes_left: MAX_BYTES,
        inclusions_left: MAX_INCLUSIONS,
        directives_left: MAX_DIRECTIVES,
    };
    let mut directives = Vec::new();
    if let Some(text) = globals {
        let file = loader.add_file(Path::new("-g"), false, None);
        directives.extend(parse::parse(&mut loader, file, text.as_bytes(), 0));
    }
    let source = loader.fetch(main)?;
    directives.extend(loader.parse_source(main, &source, 0));
    loader.tree.main = directives;
    Ok(loader.tree)
}

/// A file's number and bytes.
#[derive(Clone)]
struct Source {
    file: FileId,
    bytes: Rc<[u8]>,
}

/// The state of reading one configuration.
struct Loader<'f> {
    files: &'f dyn Files,
    /// The directory that relative includes are resolved against.
    base: PathBuf,
    tree: Tree,
    known: HashMap<PathBuf, Source>,
    /// The files being read, outermost first.
    open: Vec<FileId>,
    bytes_left: usize,
    inclusions_left: usize,
    directives_left: usize,
}

impl parse::Reader for Loader<'_> {
    fn note_at(&mut self, file: FileId, at: Position, text: &str) {
        let place = self.tree.show(Place {
            file,
            line: at.line,
        });
        self.note(format!("{place}:{}: {text}", at.column));
    }

    fn admit_directive(&mut self) -> bool {
        match self.directives_left.checked_sub(1) {
            Some(left) => {
                self.directives_left = left;
                true
            }
            None => false,
        }
    }

    fn include(&mut self, file: FileId, at: Position, name: &Word, depth: usize) -> Vec<Directive> {
        if depth >= MAX_DEPTH {
            let text = format!("includes nested deeper than {MAX_DEPTH} levels");
            self.note_at(file, at, &text);
            return Vec::new();
        }
        let mut directives = Vec::new();
        for path in self.named_files(name) {
            let Some(left) = self.inclusions_left.checked_sub(1) else {
                let text = format!("more than {MAX_INCLUSIONS} inclusions, the rest is left out");
                self.note_at(file, at, &text);
                break;
            };
            self.inclusions_left = left;
            match self.fetch(&path) {
                Ok(source) => directives.extend(self.parse_source(&path, &source, depth + 1)),
                Err(error) => {
                    let text = format!("cannot read {}: {error}", path.display());
                    self.note_at(file, at, &text);
                }
            }
        }
        directives
    }
}

impl Loader<'_> {
    /// Returns the files that the argument of an `include` names. A pattern may match no file; a
    /// name without wildcards must exist.
    fn named_files(&mut self, name: &Word) -> Vec<PathBuf> {
        let path = self.base.join(OsStr::from_bytes(name));
        if !glob::is_pattern(path.as_os_str().as_bytes()) {
            return vec![path];
        }
        let expanded = expand(self.files, &path);
        for directory in &expanded.closed {
            self.note(format!(
                "{}: may not be listed; what is included from it is not known",
                directory.display()
            ));
        }
        for (directory, stamps) in expanded.searched {
            if !self.tree.files.iter().any(|file| file.path == directory) {
                self.add_file(&directory, true, Some(stamps));
            }
        }
        expanded.paths
    }

    fn add_file(&mut self, path: &Path, is_directory: bool, stamps: Option<Stamps>) -> FileId {
        let number = u32::try_from(self.tree.files.len()).unwrap_or(u32::MAX);
        self.tree.files.push(ConfigurationFile {
            path: path.to_path_buf(),
            is_directory,
            modified: stamps.map(|stamps| stamps.modified),
            changed: stamps.map(|stamps| stamps.changed),
        });
        FileId(number)
    }

    fn note(&mut self, text: String) {
        if self.tree.issues.len() < MAX_ISSUES {
            self.tree.issues.push(text);
        }
    }

    /// Reads a file, or returns its contents if it has been read before.
    fn fetch(&mut self, path: &Path) -> io::Result<Source> {
        if let Some(source) = self.known.get(path) {
            return Ok(source.clone());
        }
        if self.known.len() == MAX_FILES {
            return Err(io::Error::other(format!("more than {MAX_FILES} files")));
        }
        let contents = self.files.read(path, self.bytes_left)?;
        if contents.is_cut {
            self.note(format!(
                "{}: not read to its end, all files together exceed {MAX_BYTES} bytes",
                path.display()
            ));
        }
        let source = Source {
            file: self.add_file(path, false, Some(contents.stamps)),
            bytes: contents.bytes.into(),
        };
        self.known.insert(path.to_path_buf(), source.clone());
        Ok(source)
    }

    /// Parses a file, unless it is being read already and would include itself.
    fn parse_source(&mut self, path: &Path, source: &Source, depth: usize) -> Vec<Directive> {
        if self.open.contains(&source.file) {
            self.note(format!("{}: includes itself; left out", path.display()));
            return Vec::new();
        }
        let Some(left) = self.bytes_left.checked_sub(source.bytes.len()) else {
            self.note(format!(
                "{}: left out, all files together exceed {MAX_BYTES} bytes",
                path.display()
            ));
            return Vec::new();
        };
        self.bytes_left = left;
        self.open.push(source.file);
        let directives = parse::parse(self, source.file, &source.bytes, depth);
        self.open.pop();
        directives
    }
}

//! Configuration files with one directive on each line, as used by Apache httpd and haproxy.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lagtrace_core::observed::event::SourceLocation;

use super::Error;
use super::files::Files;
use super::process::START_RESOLUTION;

/// Maximum number of bytes read from one file.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of bytes of all files together, after which no more are included. A file counts each
/// time.
const MAX_ALL_BYTES: usize = 4 << 20;
/// Maximum number of files and folders read.
const MAX_FILES: usize = 256;
/// Maximum depth of includes.
const MAX_DEPTH: usize = 16;

/// The effective value of a directive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) directive: String,
    pub(super) value: String,
    pub(super) at: Option<SourceLocation>,
    pub(super) scope: String,
    pub(super) is_newer: Option<bool>,
    pub(super) doubt: Option<String>,
}

/// A line of a file: its directive and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) words: Vec<String>,
    pub(super) at: SourceLocation,
    pub(super) is_newer: Option<bool>,
}

impl Line {
    /// Returns word number `at` in lower case; empty if the line has fewer words.
    pub(super) fn word(&self, at: usize) -> String {
        self.words
            .get(at)
            .map_or(String::new(), |word| word.to_ascii_lowercase())
    }

    /// Returns a setting whose place is this line.
    pub(super) fn setting(&self, directive: &str, value: String, scope: &str) -> Setting {
        Setting {
            directive: directive.to_owned(),
            value,
            at: Some(self.at.clone()),
            scope: scope.to_owned(),
            is_newer: self.is_newer,
            doubt: None,
        }
    }
}

/// A reader of configuration files, limited to [`MAX_FILES`] files and folders.
pub(super) struct Reader<'f> {
    pub(super) files: &'f dyn Files,
    /// Start time of the program. Later changes of files may not be in effect.
    started: SystemTime,
    read: usize,
    /// Number of bytes read.
    bytes: usize,
}

impl<'f> Reader<'f> {
    /// Creates a reader of `files` for a program that started at `started`.
    pub(super) fn new(files: &'f dyn Files, started: SystemTime) -> Self {
        Self {
            files,
            started,
            read: 0,
            bytes: 0,
        }
    }

    /// Returns the lines of a main file and of the files that it includes. `included` is called with
    /// each line, in order, and returns the pattern if the line includes files.
    pub(super) fn lines(
        &mut self,
        path: &Path,
        mut included: impl FnMut(&Line) -> Option<PathBuf>,
    ) -> Result<Vec<Line>, Error> {
        let mut lines = Vec::new();
        self.append(path, &mut included, MAX_DEPTH, &mut lines)
            .map_err(|source| Error::Unreadable {
                path: path.to_owned(),
                source,
            })?;
        Ok(lines)
    }

    fn append(
        &mut self,
        path: &Path,
        included: &mut dyn FnMut(&Line) -> Option<PathBuf>,
        depth: usize,
        lines: &mut Vec<Line>,
    ) -> std::io::Result<()> {
        let contents = self.files.read(path, MAX_BYTES)?;
        self.read += 1;
        self.bytes += contents.bytes.len();
        let is_newer = contents.stamps.modified > self.started + START_RESOLUTION;
        let text = String::from_utf8_lossy(&contents.bytes);
        for (number, words) in logical(&text) {
            let at = SourceLocation {
                file: path.display().to_string(),
                line: number,
            };
            let line = Line {
                words,
                at,
                is_newer: Some(is_newer),
            };
            let Some(pattern) = included(&line) else {
                lines.push(line);
                continue;
            };
            let paths = super::files::expand(self.files, &pattern).paths;
            for path in paths {
                self.append_included(&path, included, depth, lines);
            }
        }
        Ok(())
    }

    /// Appends the lines of an included file, or of all files in a folder, sorted by name
    /// (`process_resource_config_nofnmatch()` in httpd's `server/config.c`). What cannot be read is
    /// left out.
    fn append_included(
        &mut self,
        path: &Path,
        included: &mut dyn FnMut(&Line) -> Option<PathBuf>,
        depth: usize,
        lines: &mut Vec<Line>,
    ) {
        let has_room = depth > 0 && self.read < MAX_FILES && self.bytes < MAX_ALL_BYTES;
        if !has_room || self.append(path, included, depth - 1, lines).is_ok() {
            return;
        }
        let Ok((mut names, _)) = self.files.list(path) else {
            return;
        };
        // A folder can contain itself by a link.
        self.read += 1;
        names.sort();
        for name in names.iter().take(MAX_FILES) {
            let inside = path.join(OsStr::from_bytes(name));
            self.append_included(&inside, included, depth - 1, lines);
        }
    }
}

/// Returns the words of each line that has words, with the line's number. Continued lines are
/// joined.
fn logical(text: &str) -> Vec<(u32, Vec<String>)> {
    let mut found = Vec::new();
    let mut open: Option<(u32, String)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let (first, mut whole) = open.take().unwrap_or((number, String::new()));
        match line.strip_suffix('\\') {
            Some(part) => {
                whole += part;
                open = Some((first, whole));
                continue;
            }
            None => whole += line,
        }
        let words = words(&whole);
        if !words.is_empty() {
            found.push((first, words));
        }
    }
    found
}

/// Returns the words of a line up to a comment. Quoted text is one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut is_open) = (String::new(), None, false);
    for letter in line.chars() {
        match (letter, quote) {
            ('#', None) if !is_open => break,
            ('"' | '\'', None) => (quote, is_open) = (Some(letter), true),
            (letter, Some(end)) if letter == end => quote = None,
            (letter, None) if letter.is_whitespace() => {
                if std::mem::take(&mut is_open) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (letter, _) => {
                word.push(letter);
                is_open = true;
            }
        }
    }
    if is_open {
        words.push(word);
    }
    words
}

/// Returns the value of a command-line option, which is the next word or joined to the option.
pub(super) fn option<'a>(arguments: &[&'a [u8]], name: &str) -> Option<&'a Path> {
    options(arguments, name).first().copied()
}

/// Returns the values of an option that may be given several times.
pub(super) fn options<'a>(arguments: &[&'a [u8]], name: &str) -> Vec<&'a Path> {
    let mut values = Vec::new();
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        let value = match argument.strip_prefix(name.as_bytes()) {
            Some([]) => rest.next().copied(),
            joined => joined,
        };
        values.extend(value.map(|value| Path::new(OsStr::from_bytes(value))));
    }
    values
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;
    use std::io;
    use std::time::UNIX_EPOCH;

    use super::super::files::{Contents, Stamps};
    use super::*;

    const STAMPS: Stamps = Stamps {
        modified: UNIX_EPOCH,
        changed: UNIX_EPOCH,
    };

    /// Files in memory only.
    pub(in super::super) struct Memory(pub(in super::super) HashMap<&'static str, &'static str>);

    impl Files for Memory {
        fn read(&self, path: &Path, _: usize) -> io::Result<Contents> {
            let text = path.to_str().and_then(|path| self.0.get(path));
            Ok(Contents {
                bytes: text.ok_or(io::ErrorKind::NotFound)?.as_bytes().to_vec(),
                is_cut: false,
                stamps: STAMPS,
            })
        }

        fn list(&self, directory: &Path) -> io::Result<(Vec<Vec<u8>>, Stamps)> {
            if self.0.keys().any(|file| Path::new(file) == directory) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            let paths = self.0.keys().map(Path::new);
            let inside = paths.filter_map(|path| path.strip_prefix(directory).ok()?.iter().next());
            Ok((
                inside.map(|name| name.as_bytes().to_vec()).collect(),
                STAMPS,
            ))
        }
    }

    /// Returns a reader of files for a program that started after all of them were written.
    pub(in super::super) fn reader(files: &Memory) -> Reader<'_> {
        Reader {
            files,
            started: UNIX_EPOCH,
            read: 0,
            bytes: 0,
        }
    }

    #[test]
    fn lines_are_joined_and_comments_end_them() {
        let text = "# all\n a \"b c\" \\\n d # e\n\nf#g 'h\n";
        let found = logical(text);
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(
            found,
            [(2, words(&["a", "b c", "d"])), (5, words(&["f#g", "h"]))]
        );
    }

    #[test]
    fn options_of_the_command_line_are_found_joined_or_not() {
        let of = |arguments: &[&'static [u8]]| option(arguments, "-f").map(Path::to_owned);
        assert_eq!(of(&[b"x", b"-f", b"/a"]), Some("/a".into()));
        assert_eq!(of(&[b"x", b"-D", b"-f/a"]), Some("/a".into()));
        assert_eq!(of(&[b"-f", b"-k", b"start"]), None);
        let all = options(&[b"x", b"-f", b"/a", b"-D", b"-f/b", b"-f"], "-f");
        assert_eq!(all, [Path::new("/a"), Path::new("/b")]);
    }

    #[test]
    fn includes_that_never_end_are_cut() {
        let files = Memory(HashMap::from([("/a", "include /a\ninclude /a\nb")]));
        let included = |line: &Line| (line.word(0) == "include").then(|| line.word(1).into());
        let lines = reader(&files).lines(Path::new("/a"), included);
        let lines = lines.expect("a main file");
        assert!(!lines.is_empty() && lines.len() <= MAX_FILES);
    }

    #[test]
    fn folders_that_never_end_are_cut() {
        struct Endless;
        impl Files for Endless {
            fn read(&self, path: &Path, _: usize) -> io::Result<Contents> {
                Memory(HashMap::from([("/a", "include /b")])).read(path, 1)
            }
            fn list(&self, _: &Path) -> io::Result<(Vec<Vec<u8>>, Stamps)> {
                Ok(((0..99).map(|name| vec![name]).collect(), STAMPS))
            }
        }
        let mut reader = Reader::new(&Endless, UNIX_EPOCH);
        let included = |line: &Line| Some(line.word(1).into());
        let lines = reader.lines(Path::new("/a"), included);
        assert!(lines.expect("a main file").is_empty());
        assert!(reader.read <= MAX_FILES);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            logical(&text);
        }
    }
}

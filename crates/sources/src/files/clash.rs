//! Files that a command line names twice, of which at least one is written.
//!
//! An output that is also an input would destroy what is to be read, and two outputs in one file
//! destroy each other. Names do not matter: symbolic links, hard links and redirected standard
//! streams lead to the same file too. Devices and pipes may be named as often as one likes.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FileType, Stat};
use rustix::stdio::{stdin, stdout};

use super::claim::Key;
use super::place::Place;

/// A standard stream that a shell can redirect to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
}

/// What is the same file as an output or, for [`Clash::Redirected`], as an input. Numbers are
/// positions in the lists that [`clash`] was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// An output would overwrite an input.
    Input {
        /// The output.
        output: usize,
        /// The input.
        input: usize,
    },
    /// Both outputs are one file.
    Output(usize, usize),
    /// An output is the file to which a standard stream is redirected.
    Stream(usize, Stream),
    /// Standard output is redirected to this input.
    Redirected(usize),
}

/// The device and number of a regular file.
type Number = (u64, u64);

/// What identifies an output.
struct Written {
    /// The folder and name; `None` for devices and pipes, and if the path is refused for another
    /// reason.
    key: Option<Key>,
    /// The regular file that exists there.
    number: Option<Number>,
    /// True for a path such as `/dev/stdout`, which means a stream of this process.
    is_stream: bool,
}

/// Finds the first file that is named twice. It must be asked before any of them is opened, by a
/// process that may see them all.
pub fn clash(inputs: &[&Path], outputs: &[&Path]) -> Option<Clash> {
    let read: Vec<_> = inputs.iter().map(|path| number(path)).collect();
    let written: Vec<_> = outputs.iter().map(|path| Written::of(path)).collect();
    let (from, to) = (redirected(stdin()), redirected(stdout()));
    let is = |one: Option<Number>, other: Option<Number>| one.is_some() && one == other;
    for (output, it) in written.iter().enumerate() {
        if let Some(input) = read.iter().position(|&read| is(it.number, read)) {
            return Some(Clash::Input { output, input });
        }
        let earlier = written.iter().take(output);
        if let Some(other) = earlier.into_iter().position(|other| other.is_same(it)) {
            return Some(Clash::Output(other, output));
        }
        if is(it.number, from) {
            return Some(Clash::Stream(output, Stream::Input));
        }
        if is(it.number, to) && !it.is_stream {
            return Some(Clash::Stream(output, Stream::Output));
        }
    }
    let input = read.iter().position(|&read| is(to, read))?;
    Some(Clash::Redirected(input))
}

impl Written {
    fn of(path: &Path) -> Self {
        let Ok(place) = Place::of(path) else {
            // Opening it will say why.
            return Self {
                key: None,
                number: number(path),
                is_stream: false,
            };
        };
        let is_stream = place.is_open_file();
        let is_special = fs::metadata(path).is_ok_and(|about| !about.is_file());
        Self {
            key: place.key().ok().filter(|_| !is_stream && !is_special),
            number: number(path),
            is_stream,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let has_same_key = self.key.is_some() && self.key == other.key;
        has_same_key || self.number.is_some() && self.number == other.number
    }
}

fn number(path: &Path) -> Option<Number> {
    let about = fs::metadata(path).ok()?;
    about.is_file().then(|| (about.dev(), about.ino()))
}

/// Returns the regular file to which a standard stream is redirected.
fn redirected(stream: impl AsFd) -> Option<Number> {
    let is_file = |about: &Stat| FileType::from_raw_mode(about.st_mode).is_file();
    let about: io::Result<Stat> = rustix::fs::fstat(stream).map_err(Into::into);
    let about = about.ok().filter(is_file)?;
    Some((about.st_dev, about.st_ino))
}

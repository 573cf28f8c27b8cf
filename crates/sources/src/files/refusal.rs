//! The refusals of outputs.

use std::io;

use thiserror::Error;

/// A reason why an output is refused, besides those of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The path leads through another user's symbolic link in a folder to which others may write.
    #[error(
        "the path has a symbolic link in a folder to which others may write. Name the file itself, \
         or use a folder of your own"
    )]
    Link,
    /// A file of another user exists, in a folder to which others may write.
    #[error(
        "the file belongs to another user, in a folder to which others may write. Use another name, \
         or a folder of your own"
    )]
    Foreign,
    /// The file that was opened is not the one that was examined before.
    #[error("another file got this name while it was opened")]
    Exchanged,
    /// Another output of this run has the same name.
    #[error("another output of this command is the same file")]
    NamedTwice,
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(io::ErrorKind::InvalidInput, refusal)
    }
}

//! The form in which the error of a system call or library is sent to another process.

use std::io;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The part of an error that is sent.
#[derive(Serialize, Deserialize)]
enum Portable {
    /// The number of a system call's error.
    Number(i32),
    /// Another error.
    Text(Kind, String),
}

/// The kinds of errors that are told apart.
#[derive(Serialize, Deserialize)]
enum Kind {
    PermissionDenied,
    NotFound,
    InvalidData,
    Other,
}

/// Writes the number of a system call's error, or the kind and text of another one.
pub(super) fn serialize<S: Serializer>(error: &io::Error, to: S) -> Result<S::Ok, S::Error> {
    let portable = match error.raw_os_error() {
        Some(number) => Portable::Number(number),
        None => Portable::Text(Kind::of(error), error.to_string()),
    };
    portable.serialize(to)
}

/// Reads what `serialize` has written.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<io::Error, D::Error> {
    Ok(match Portable::deserialize(from)? {
        Portable::Number(number) => io::Error::from_raw_os_error(number),
        Portable::Text(kind, text) => io::Error::new(kind.into(), text),
    })
}

impl Kind {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::InvalidData => Self::InvalidData,
            _ => Self::Other,
        }
    }
}

impl From<Kind> for io::ErrorKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::PermissionDenied => Self::PermissionDenied,
            Kind::NotFound => Self::NotFound,
            Kind::InvalidData => Self::InvalidData,
            Kind::Other => Self::Other,
        }
    }
}

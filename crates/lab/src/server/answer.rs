//! The responses of an nginx of the lab.

use serde::{Deserialize, Serialize};

use crate::quantity::Size;

/// Maximum size of a file served as a response; limited because the run's folder is in memory.
const LARGEST_FILE: Size = Size::from_bytes(50_000_000);

/// The responses of an nginx.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// A page of about 600 bytes from a file: header and body are sent in separate writes.
    #[default]
    Page,
    /// `return STATUS` with a short text: header and body are sent in one write.
    Return(u16),
    /// Text files of these sizes: one size, or a list of sizes. The first file is served at `/`;
    /// each is also served at its size, such as `/300kB`.
    Bytes(Sizes),
}

/// The sizes of an nginx's files, at least one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "OneOrMany", into = "Vec<Size>")]
pub struct Sizes(Vec<Size>);

impl Sizes {
    /// Returns the sizes, the first of which is the size of `/`.
    pub fn as_slice(&self) -> &[Size] {
        &self.0
    }

    pub(crate) fn change(&mut self, to: impl Fn(Size) -> Size) {
        for size in &mut self.0 {
            *size = to(*size);
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        match self.0.iter().find(|size| **size > LARGEST_FILE) {
            Some(size) => Err(format!("a file of {size} is more than {LARGEST_FILE}")),
            None if self.0.is_empty() => Err("it answers with no file".to_owned()),
            None => Ok(()),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Size),
    Many(Vec<Size>),
}

impl From<OneOrMany> for Sizes {
    fn from(sizes: OneOrMany) -> Self {
        match sizes {
            OneOrMany::One(size) => Self(vec![size]),
            OneOrMany::Many(sizes) => Self(sizes),
        }
    }
}

impl From<Sizes> for Vec<Size> {
    fn from(sizes: Sizes) -> Self {
        sizes.0
    }
}

//! Outputs that are open, so that none is named twice.

use std::ffi::OsString;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::refusal::Refusal;

/// The device and number of a folder, and a name in it.
pub(super) type Key = (u64, u64, OsString);

/// The outputs that are open in this process: a few, one per option.
static CLAIMED: Mutex<Vec<Key>> = Mutex::new(Vec::new());

/// The right to write to a file. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Claim(Key);

impl Claim {
    /// Claims a file, unless another output of this process has it.
    pub(super) fn new(key: Key) -> io::Result<Self> {
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        if claimed.contains(&key) {
            return Err(Refusal::NamedTwice.into());
        }
        claimed.push(key.clone());
        Ok(Self(key))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.retain(|key| *key != self.0);
    }
}

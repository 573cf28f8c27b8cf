//! Changes that a keeper has made for its worker and must undo: switched options, outputs that are
//! not whole, and the page.
//!
//! The thread that ends the keeper shares the list, because a request may be stuck when the worker
//! ends. eBPF programs need no undoing: the kernel detaches them with the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::files::Output;
use crate::socket::option::ForeignOption;

/// The number of attempts to take what another thread is using, and the time between them.
const ATTEMPTS: u32 = 50;
const TURN: Duration = Duration::from_millis(10);

/// The changes that must be undone, shared between threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo(Arc<Lists>);

/// Operations that block are not performed while a list is locked.
#[derive(Debug, Default)]
struct Lists {
    switched: Mutex<BTreeMap<u32, ForeignOption>>,
    outputs: Mutex<BTreeMap<u32, Output>>,
    page: Mutex<Option<NamedTempFile>>,
}

impl Undo {
    /// Returns the options that are switched at present. They are restored when they are dropped.
    pub(super) fn switched(&self) -> MutexGuard<'_, BTreeMap<u32, ForeignOption>> {
        locked(&self.0.switched)
    }

    /// Returns the outputs that the worker has opened. Those that are not whole are removed when
    /// they are dropped.
    pub(super) fn outputs(&self) -> MutexGuard<'_, BTreeMap<u32, Output>> {
        locked(&self.0.outputs)
    }

    /// Returns the file of the page; it is removed when it is dropped.
    pub(super) fn page(&self) -> MutexGuard<'_, Option<NamedTempFile>> {
        locked(&self.0.page)
    }

    /// Undoes everything, except what another thread does not release.
    pub(super) fn all(&self) {
        empty(&self.0.switched);
        empty(&self.0.outputs);
        empty(&self.0.page);
    }
}

/// A panic ends the keeper (`process::end_at_panics`), which takes what the thread has left.
fn locked<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

fn empty<T: Default>(list: &Mutex<T>) {
    for _ in 0..ATTEMPTS {
        let mut held = match list.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => {
                thread::sleep(TURN);
                continue;
            }
        };
        let left = std::mem::take(&mut *held);
        drop(held);
        drop(left);
        return;
    }
}

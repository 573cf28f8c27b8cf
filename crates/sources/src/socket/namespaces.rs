//! The network namespaces of this host.

use std::collections::{BTreeMap, btree_map};

use super::process;
use crate::privilege::{self, HostError, NetworkNamespace};

/// Maximum number of network namespaces that are searched in addition to lagtrace's own.
const MOST_NAMESPACES: usize = 256;

/// The network namespaces of this host that have processes. The first one is lagtrace's own.
pub(super) struct Namespaces {
    own: Option<NetworkNamespace>,
    others: Option<btree_map::IntoIter<u64, u32>>,
    /// The error of the first namespace that lagtrace may not examine.
    pub(super) refusal: Option<HostError>,
}

impl Namespaces {
    pub(super) fn new() -> Self {
        Self {
            own: NetworkNamespace::own().ok(),
            others: None,
            refusal: None,
        }
    }

    /// Returns the other namespaces: one process of each, by the namespace's inode number.
    fn list_others(&mut self) -> BTreeMap<u64, u32> {
        let own = NetworkNamespace::own().map_or(0, |own| own.id());
        let mut others = BTreeMap::new();
        for pid in process::pids() {
            match privilege::namespace_id(pid) {
                Ok(id) if id != own && others.len() < MOST_NAMESPACES => {
                    others.entry(id).or_insert(pid);
                }
                Ok(_) | Err(HostError::Gone { .. }) => {}
                Err(e) => {
                    self.refusal.get_or_insert(e);
                }
            }
        }
        others
    }
}

impl Iterator for Namespaces {
    type Item = NetworkNamespace;

    fn next(&mut self) -> Option<NetworkNamespace> {
        if let Some(own) = self.own.take() {
            return Some(own);
        }
        let mut others = match self.others.take() {
            Some(others) => others,
            None => self.list_others().into_iter(),
        };
        let next = others.by_ref().find_map(|(id, pid)| {
            let namespace = NetworkNamespace::of(pid).ok()?;
            (namespace.id() == id).then_some(namespace)
        });
        self.others = Some(others);
        next
    }
}

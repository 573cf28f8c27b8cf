//! Processes of this host and their sockets, as listed in `/proc`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;

use crate::privilege::limits::MOST_DESCRIPTORS;
use crate::privilege::{self, HostError};

/// Maximum number of processes that are examined.
const MOST_PROCESSES: usize = 32_768;

/// A holder of a socket: its PID and the descriptor's number.
pub(super) type Holder = (u32, u32);

/// Returns the PIDs of this host's processes in ascending order.
pub(super) fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pids: BTreeSet<u32> = numbers.take(MOST_PROCESSES).collect();
    pids.into_iter().collect()
}

/// Returns the processes whose main thread is in network namespace `id`, and the first error.
/// Processes that the user may not examine are left out.
pub(super) fn pids_in_namespace(id: u64) -> (Vec<u32>, Option<HostError>) {
    let mut refusal = None;
    let mut pids = pids();
    pids.retain(|&pid| match privilege::namespace_id(pid) {
        Ok(found) => found == id,
        Err(HostError::Gone { .. }) => false,
        Err(e) => {
            refusal.get_or_insert(e);
            false
        }
    });
    (pids, refusal)
}

/// Returns the process's name (`comm`): at most 15 bytes, with control characters replaced.
pub fn name(pid: u32) -> String {
    let text = privilege::read_bounded(&format!("/proc/{pid}/comm"), 64).unwrap_or_default();
    let printable = |c: char| if c.is_control() { '?' } else { c };
    text.trim_end_matches('\n').chars().map(printable).collect()
}

/// The result of a search for holders.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// Holders by the socket's inode number. After a `fork`, a socket has several holders.
    pub(super) by_inode: HashMap<u32, Vec<Holder>>,
    /// The first error, if a process could not be examined.
    pub(super) refusal: Option<HostError>,
}

/// Searches the processes `pids` for the holders of the sockets in `wanted`; `None`: of all
/// sockets.
pub(super) fn holders(pids: &[u32], wanted: Option<&HashSet<u32>>) -> Holders {
    let mut found = Holders::default();
    let mut left = MOST_DESCRIPTORS;
    for &pid in pids {
        match privilege::sockets_of(pid, left) {
            Ok(sockets) => {
                left = left.saturating_sub(sockets.len().max(1));
                for (inode, fd) in sockets {
                    if wanted.is_none_or(|wanted| wanted.contains(&inode)) {
                        found.by_inode.entry(inode).or_default().push((pid, fd));
                    }
                }
            }
            Err(HostError::Gone { .. }) => {}
            Err(refusal) => {
                found.refusal.get_or_insert(refusal);
            }
        }
        if left == 0 {
            break;
        }
    }
    found
}

//! The network namespace that the user specifies.

use lagtrace_sources::privilege::{HostError, NetworkNamespace};

use crate::failure::{Failure, Result};

/// Returns the namespace of a process, or the namespace with this name or path. A name that is a
/// number is the id of a process.
pub(super) fn named(place: &str) -> Result<NetworkNamespace> {
    let (found, hint) = match place.parse::<u32>() {
        Ok(pid) => (
            NetworkNamespace::of(pid),
            "use the PID in this host's own namespace, from `pgrep NAME`",
        ),
        Err(_) => (
            NetworkNamespace::at(place),
            "`ip netns list` lists the names; a path looks like /proc/PID/ns/net",
        ),
    };
    found.map_err(|error: HostError| Failure::from(error).hint(hint))
}

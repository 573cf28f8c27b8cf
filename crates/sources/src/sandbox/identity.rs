//! The user and the capabilities of the worker.

use std::io;

use rustix::fs::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::privilege::user_behind_sudo;

/// User and group `nobody`, which own no files (`include/linux/highuid.h`).
const NOBODY: u32 = 65_534;

/// Changes from root to the user behind `sudo`, else to `nobody`. Other users stay who they are.
pub(super) fn become_unprivileged(keeps_net_raw: bool) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() && !rustix::process::getuid().is_root() {
        return Ok(());
    }
    let behind = user_behind_sudo();
    let user = behind.map_or(NOBODY, |behind| behind.user);
    let group = behind.and_then(|behind| behind.group).unwrap_or(NOBODY);
    become_user(user, group, keeps_net_raw)
}

/// Changes from root to another user.
pub(super) fn become_user(user: u32, group: u32, keeps_net_raw: bool) -> io::Result<()> {
    // Dropping these needs a privilege that goes with the user.
    for capability in CapabilitySet::all().iter() {
        remove_capability_from_bounding_set(capability).unwrap_or_default();
    }
    set_keep_capabilities(keeps_net_raw)?;
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

/// Drops all capabilities, except that for raw sockets if the worker needs it.
pub(super) fn drop_capabilities(keeps_net_raw: bool) -> io::Result<()> {
    clear_ambient_capability_set().unwrap_or_default();
    let held = rustix::thread::capabilities(None)?;
    let kept = if keeps_net_raw {
        held.permitted & CapabilitySet::NET_RAW
    } else {
        CapabilitySet::empty()
    };
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, sets)?)
}

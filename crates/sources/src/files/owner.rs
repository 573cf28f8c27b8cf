//! The user behind sudo, to whom outputs in the user's own folders are given.

use std::env;

use rustix::fs::{Gid, Stat, Uid};

/// A user and the user's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) user: Uid,
    pub(super) group: Option<Gid>,
}

impl Owner {
    /// Returns the user who started this program by sudo; `None` without sudo.
    pub(super) fn behind_sudo() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let number = |name| env::var(name).ok()?.parse::<u32>().ok();
        let user = number("SUDO_UID").filter(|&user| user != 0 && user != u32::MAX)?;
        Some(Self {
            user: Uid::from_raw(user),
            group: number("SUDO_GID")
                .filter(|&group| group != u32::MAX)
                .map(Gid::from_raw),
        })
    }

    /// Returns the owner of something that exists.
    pub(super) fn of(about: &Stat) -> Self {
        Self {
            user: Uid::from_raw(about.st_uid),
            group: Some(Gid::from_raw(about.st_gid)),
        }
    }
}

/// Returns true if something belongs to this program's user, or to the user behind sudo.
pub(super) fn is_ours(about: &Stat) -> bool {
    let user = Uid::from_raw(about.st_uid);
    user == rustix::process::geteuid() || Owner::behind_sudo().is_some_and(|it| it.user == user)
}

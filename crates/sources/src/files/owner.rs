//! The user behind sudo, to whom outputs in the user's own folders are given.

use rustix::fs::{Gid, Stat, Uid};

use crate::privilege::user_behind_sudo;

/// A user and the user's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) user: Uid,
    pub(super) group: Option<Gid>,
}

impl Owner {
    /// Returns the user who started this program by sudo; `None` without sudo.
    pub(super) fn behind_sudo() -> Option<Self> {
        let behind = user_behind_sudo()?;
        Some(Self {
            user: Uid::from_raw(behind.user),
            group: behind.group.map(Gid::from_raw),
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

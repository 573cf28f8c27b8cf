//! The user who reached root by `sudo`.

use std::env;

/// A user and the user's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SudoUser {
    /// Number of the user; never root's.
    pub user: u32,
    /// Number of the group, if it is known.
    pub group: Option<u32>,
}

/// Returns the user who started this program by `sudo`; `None` if it does not run as root, or was
/// started by root.
pub fn user_behind_sudo() -> Option<SudoUser> {
    let is_root = rustix::process::geteuid().is_root();
    is_root.then(sudo_user).flatten()
}

/// Returns the user whom `sudo` names to a program that was started as root, even if it is not root
/// any more.
pub fn sudo_user() -> Option<SudoUser> {
    let number = |name| env::var(name).ok()?.parse::<u32>().ok();
    // The highest number stands for no user (`setresuid(2)`).
    let number = |name| number(name).filter(|&number| number != u32::MAX);
    Some(SudoUser {
        user: number("SUDO_UID").filter(|&user| user != 0)?,
        group: number("SUDO_GID"),
    })
}

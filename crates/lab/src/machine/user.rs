//! Users of the machine, by name.

use std::fs;

use rustix::process::{Gid, Uid};

/// A user of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

impl User {
    /// Returns the user with this name, if the machine has one.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        let mut lines = passwd.lines().map(|line| line.split(':'));
        lines.find_map(|mut fields| {
            (fields.next()? == name).then_some(())?;
            let uid = fields.nth(1)?.parse().ok()?;
            let gid = fields.next()?.parse().ok()?;
            Some(Self {
                uid: Uid::from_raw(uid),
                gid: Gid::from_raw(gid),
            })
        })
    }
}

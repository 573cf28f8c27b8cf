//! The privileges that the lab needs to create its own hosts, checked before anything is created.

use std::fs;

use crate::error::Error;

/// The capabilities that the lab needs, by bit (`include/uapi/linux/capability.h`): for devices,
/// addresses, routes and rules inside its namespaces, and for the namespaces themselves.
const NEEDED: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];

/// Returns an error unless the process is root with the capabilities that a lab needs, which are
/// often missing in a container.
pub(crate) fn check() -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NeedsRoot);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match effective(&status).map(missing) {
        Some(missing) if !missing.is_empty() => Err(Error::NeedsCapabilities {
            missing: missing.join(" and "),
        }),
        // Without /proc nothing is known: the first step that fails reports it.
        _ => Ok(()),
    }
}

/// Returns the effective capabilities, from the line `CapEff:` (proc_pid_status(5)).
fn effective(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn missing(effective: u64) -> Vec<&'static str> {
    let lacks = NEEDED.iter().filter(|(bit, _)| effective >> bit & 1 == 0);
    lacks.map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_containers_root_lacks_is_named() {
        let status = |set: &str| format!("Name:\tx\nCapInh:\t0\nCapEff:\t{set}\nSeccomp:\t0\n");
        let lacks = |set| effective(&status(set)).map(missing);
        assert_eq!(lacks("000001ffffffffff"), Some(vec![]));
        // The capabilities that a container engine leaves to root by default.
        assert_eq!(
            lacks("00000000a80425fb"),
            Some(vec!["CAP_NET_ADMIN", "CAP_SYS_ADMIN"])
        );
        assert_eq!(lacks("nonsense"), None);
    }
}

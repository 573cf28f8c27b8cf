//! Files and ports, restricted by Landlock (`landlock(7)`).

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, LandlockStatus, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, Scope,
};

use super::{Lacking, Rules, Step};

/// The version of Landlock whose rights on files are restricted. Later ones restrict `ioctl` on
/// terminals, which the live pages need.
const FILES: ABI = ABI::V4;

/// Files that every worker may read: the time zone, random numbers, and the terminal.
const ALWAYS: [&str; 5] = [
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/null",
    "/dev/urandom",
    "/dev/tty",
];
/// Files and folders that resolving names, checking certificates and observing this host read.
const NETWORK: [&str; 25] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ld.so.cache",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/lib/ssl",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/nscd",
    "/proc",
    "/sys",
];

/// The rules, not in force yet.
pub(super) struct Prepared {
    files: RulesetCreated,
    ports: Option<RulesetCreated>,
}

/// Makes the rules. Paths that do not exist are left out.
pub(super) fn prepare(rules: &Rules) -> io::Result<Prepared> {
    let files = files(rules).map_err(io::Error::other)?;
    let ports = rules.ports.as_deref().map(ports);
    Ok(Prepared {
        files,
        ports: ports.transpose().map_err(io::Error::other)?,
    })
}

fn files(rules: &Rules) -> Result<RulesetCreated, RulesetError> {
    let network = if rules.network { &NETWORK[..] } else { &[] };
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"]
        .into_iter()
        .filter(|_| rules.network);
    let paths = ALWAYS
        .iter()
        .chain(network)
        .map(PathBuf::from)
        .chain(named.filter_map(|name| std::env::var_os(name).map(PathBuf::from)))
        .chain(rules.reads.iter().cloned());
    let mut created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(FILES))?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?
        .create()?;
    for path in paths {
        let Ok(opened) = PathFd::new(&path) else {
            continue;
        };
        let mut rights = AccessFs::ReadFile | AccessFs::ReadDir;
        if path.starts_with("/dev") {
            rights |= AccessFs::WriteFile;
        }
        if !path.is_dir() {
            rights &= AccessFs::from_file(FILES);
        }
        created = created.add_rule(PathBeneath::new(opened, rights))?;
    }
    Ok(created)
}

fn ports(allowed: &[u16]) -> Result<RulesetCreated, RulesetError> {
    let handled = AccessNet::ConnectTcp | AccessNet::BindTcp;
    let mut created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(handled)?
        .create()?;
    for &port in allowed {
        created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    // A connection from a named source address binds to port 0, which the kernel replaces.
    created.add_rule(NetPort::new(0, AccessNet::BindTcp))
}

/// Puts the rules in force; returns those that could not be set. An older kernel sets a part of them
/// without an error.
pub(super) fn restrict(prepared: Prepared) -> Vec<Lacking> {
    let has_ports = prepared.ports.is_some();
    let ports = prepared.ports.map(RulesetCreated::restrict_self);
    let ports = ports
        .transpose()
        .map_err(|error| failed(Step::Ports, error));
    let files = prepared.files.restrict_self();
    let files = files.map_err(|error| failed(Step::Files, error));
    match (files, ports) {
        (Ok(files), Ok(_)) => unknown_to(files.landlock, has_ports),
        (files, ports) => files.err().into_iter().chain(ports.err()).collect(),
    }
}

/// Returns the restrictions that a kernel does not know.
fn unknown_to(kernel: LandlockStatus, has_ports: bool) -> Vec<Lacking> {
    let (version, reason) = match kernel {
        LandlockStatus::NotEnabled => (ABI::Unsupported, "Landlock is not enabled"),
        LandlockStatus::NotImplemented => (ABI::Unsupported, "not in this kernel"),
        LandlockStatus::Available { effective_abi, .. } => (effective_abi, "not in this kernel"),
    };
    // A right to rename files into other folders (version 2) is not given by version 1.
    let since = [
        (Step::Files, ABI::V1),
        (Step::Truncation, ABI::V3),
        (Step::Ports, ABI::V4),
        (Step::Scopes, ABI::V6),
    ];
    let unknown = since
        .into_iter()
        .filter(|&(step, since)| version < since && (has_ports || step != Step::Ports));
    let unknown = unknown.map(|(step, _)| Lacking {
        step,
        reason: io::Error::new(io::ErrorKind::Unsupported, reason),
    });
    unknown.collect()
}

fn failed(step: Step, error: RulesetError) -> Lacking {
    Lacking {
        step,
        reason: io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(version: ABI, has_ports: bool) -> Vec<Step> {
        let kernel = LandlockStatus::Available {
            effective_abi: version,
            kernel_abi: None,
        };
        let unknown = unknown_to(kernel, has_ports);
        unknown.into_iter().map(|lacking| lacking.step).collect()
    }

    #[test]
    fn what_an_older_landlock_lacks_is_named() {
        use Step::{Files, Ports, Scopes, Truncation};
        assert_eq!(named(ABI::V6, true), []);
        assert_eq!(named(ABI::V5, true), [Scopes]);
        assert_eq!(named(ABI::V3, true), [Ports, Scopes]);
        assert_eq!(named(ABI::V3, false), [Scopes]);
        assert_eq!(named(ABI::V2, false), [Truncation, Scopes]);
        let none = unknown_to(LandlockStatus::NotEnabled, true);
        let steps: Vec<Step> = none.iter().map(|lacking| lacking.step).collect();
        assert_eq!(steps, [Files, Truncation, Ports, Scopes]);
        assert!(none[0].to_string().contains("not enabled"), "{none:?}");
    }
}

//! Files and ports, restricted by Landlock (`landlock(7)`).

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, NetPort, PathBeneath,
    PathFd, RestrictionStatus, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope,
};

use super::Rules;

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
        .scope(Scope::Signal)?
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

/// Puts the rules in force; returns the outcome for files and for ports.
pub(super) fn restrict(prepared: Prepared) -> (io::Result<()>, io::Result<()>) {
    let ports = prepared
        .ports
        .map_or(Ok(()), |ports| outcome(ports.restrict_self()));
    (outcome(prepared.files.restrict_self()), ports)
}

fn outcome(restricted: Result<RestrictionStatus, RulesetError>) -> io::Result<()> {
    let status = restricted.map_err(io::Error::other)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "not in this kernel",
        ));
    }
    Ok(())
}

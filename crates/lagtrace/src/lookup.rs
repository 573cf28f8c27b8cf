//! From a host to the address to use.

use std::net::IpAddr;
use std::time::Duration;

use lagtrace_core::event::Event;
use lagtrace_sources::resolve::resolve;
use lagtrace_sources::url::Host;

use crate::failure::{Failure, Result};

/// How long the system's resolver may take for a name.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which versions of IP may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    /// IPv4 only.
    pub(crate) ipv4: bool,
    /// IPv6 only.
    pub(crate) ipv6: bool,
}

/// The host's first address of the family; what was observed lands in `events`.
pub(crate) fn address(host: &Host, family: Family, events: &mut Vec<Event>) -> Result<IpAddr> {
    let resolution = resolve(host, PATIENCE, |event| events.push(event));
    if let Some(why) = resolution.failure {
        let told = format!("cannot resolve `{}`: {why}", resolution.name);
        let hint = "check the name's spelling, and the resolver with `getent ahosts NAME`";
        return Err(Failure::new(told).hint(hint));
    }
    let is_wanted = |address: &&IpAddr| match address {
        IpAddr::V4(_) => !family.ipv6,
        IpAddr::V6(_) => !family.ipv4,
    };
    let found = resolution.addresses.iter().find(is_wanted).copied();
    found.ok_or_else(|| {
        let name = resolution.name;
        let told = format!("`{name}` has no address of the version of IP asked for");
        Failure::new(told).hint("leave out -4 and -6")
    })
}

//! Devices, addresses and routes of the two hosts, laid with `ip` inside their namespaces.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::error::Error;
use crate::namespace::Namespace;
use crate::scenario::HostSpec;
use crate::tool;

/// What each host calls its device to the other.
pub(crate) const INTERFACE: &str = "path0";

/// The addresses of the two hosts. They exist in the lab's namespaces only, so every run may
/// use the same ones.
pub(crate) const CLIENT: Addresses = Addresses::of_host(1);
pub(crate) const SERVER: Addresses = Addresses::of_host(2);

/// A host's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
}

impl Addresses {
    const fn of_host(number: u8) -> Self {
        Self {
            v4: Ipv4Addr::new(10, 77, 0, number),
            v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number as u16),
        }
    }
}

/// How many packets a device holds for a reader that is busy: 20 ms at 200,000 packets/s.
const DEVICE_QUEUE: &str = "4096";

/// A veth pair, each end made inside its own namespace and never seen in another.
pub(crate) fn join(client: &Namespace, server: &Namespace) -> Result<(), Error> {
    tool::run(
        "ip",
        [
            "-netns",
            client.name(),
            "link",
            "add",
            INTERFACE,
            "type",
            "veth",
            "peer",
            "name",
            INTERFACE,
            "netns",
            server.name(),
        ],
    )
}

/// Brings a host's loopback and its device up, with addresses, and the route to the other host
/// with what the scenario pins there.
pub(crate) fn configure(
    namespace: &Namespace,
    addresses: Addresses,
    host: &HostSpec,
) -> Result<(), Error> {
    set_sysctls(namespace, host)?;
    let Addresses { v4, v6 } = addresses;
    let pinned = pinned_at_the_route(host);
    // No link-local address, hence no solicitation of routers: recordings hold what was asked
    // for. In a line of its own, because it has to be said before the device is up.
    let batch = format!(
        "link set lo up\n\
         link set {INTERFACE} addrgenmode none\n\
         link set {INTERFACE} txqueuelen {DEVICE_QUEUE} up\n\
         address add {v4}/24 dev {INTERFACE} noprefixroute\n\
         address add {v6}/64 dev {INTERFACE} noprefixroute nodad\n\
         route add 10.77.0.0/24 dev {INTERFACE} scope link src {v4} {pinned}\n\
         route add fd77::/64 dev {INTERFACE} {pinned}\n"
    );
    let mut ip = tool::command("ip");
    ip.args(["-netns", namespace.name(), "-batch", "-"]);
    tool::run_with_input(ip, &batch)
}

fn pinned_at_the_route(host: &HostSpec) -> String {
    let rto_min = host
        .rto_min
        .map(|time| format!(" rto_min {}", whole_milliseconds(time)));
    let quickack = if host.quickack { " quickack 1" } else { "" };
    format!(
        "congctl {}{}{quickack}",
        host.congestion_control,
        rto_min.unwrap_or_default()
    )
}

/// The kernel keeps a route's `rto_min` in milliseconds.
fn whole_milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis().max(1))
}

fn set_sysctls(namespace: &Namespace, host: &HostSpec) -> Result<(), Error> {
    for (key, value) in &host.sysctl {
        let file = format!("/proc/sys/{}", key.replace('.', "/"));
        namespace.within("set a sysctl", || std::fs::write(&file, value))?;
    }
    Ok(())
}

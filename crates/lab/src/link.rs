//! Devices, addresses and routes of the two hosts, laid with `ip` inside their namespaces.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::error::Error;
use crate::namespace::Namespace;
use crate::path::PathSpec;
use crate::scenario::{HostSpec, Shaper};
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
/// with what the scenario pins there; where the path has routers, the route to them too.
pub(crate) fn configure(
    namespace: &Namespace,
    addresses: Addresses,
    host: &HostSpec,
    path: &PathSpec,
) -> Result<(), Error> {
    set_sysctls(namespace, host)?;
    let Addresses { v4, v6 } = addresses;
    let pinned = pinned_at_the_route(host);
    // No link-local address, hence no solicitation of routers: recordings hold what was asked
    // for. In a line of its own, because it has to be said before the device is up.
    let mut batch = format!(
        "link set lo up\n\
         link set {INTERFACE} addrgenmode none\n\
         link set {INTERFACE} txqueuelen {DEVICE_QUEUE} up\n\
         address add {v4}/24 dev {INTERFACE} noprefixroute\n\
         address add {v6}/64 dev {INTERFACE} noprefixroute nodad\n\
         route add 10.77.0.0/24 dev {INTERFACE} scope link src {v4} {pinned}\n\
         route add fd77::/64 dev {INTERFACE} {pinned}\n"
    );
    if path.has_routers() {
        batch.push_str(&format!(
            "route add 10.77.1.0/24 dev {INTERFACE} scope link src {v4}\n\
             route add fd77:0:0:1::/64 dev {INTERFACE}\n"
        ));
    }
    if !path.is_emulated() && !path.is_offloaded() {
        // Segments that the stack itself cuts to size, before the device sees them.
        batch.push_str(&format!("link set {INTERFACE} gso_max_segs 1\n"));
    }
    let mut ip = tool::command("ip");
    ip.args(["-netns", namespace.name(), "-batch", "-"]);
    tool::run_with_input(ip, &batch)?;
    host.shaper
        .map_or(Ok(()), |shaper| shape(namespace, shaper))
}

fn shape(namespace: &Namespace, shaper: Shaper) -> Result<(), Error> {
    let Shaper { rate, burst, queue } = shaper;
    let rate = format!("{}bit", rate.bits_per_second());
    let [burst, queue] = [burst, queue].map(|size| format!("{}b", size.bytes()));
    let device = [
        "-netns",
        namespace.name(),
        "qdisc",
        "add",
        "dev",
        INTERFACE,
        "root",
    ];
    let bucket = ["tbf", "rate", &rate, "burst", &burst, "limit", &queue];
    tool::run("tc", device.into_iter().chain(bucket))
}

fn pinned_at_the_route(host: &HostSpec) -> String {
    let rto_min = host
        .rto_min
        .map(|time| format!(" rto_min {}", whole_milliseconds(time)));
    let quickack = if host.quickack { " quickack 1" } else { "" };
    let further = host.route.as_ref().map(|words| format!(" {words}"));
    format!(
        "congctl {}{}{quickack}{}",
        host.congestion_control,
        rto_min.unwrap_or_default(),
        further.unwrap_or_default()
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

//! Devices, addresses and routes, configured with `ip` inside the namespaces of the two hosts, or
//! of the single host on loopback.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::address::Addresses;
use super::spec::{HostSpec, Shaper};
use crate::error::Error;
use crate::machine::namespace::Namespace;
use crate::machine::tool;
use crate::path::{INTERFACE, PathSpec};
use crate::side::Side;

/// The name of the loopback device, for a host that talks to itself.
const LOOPBACK: &str = "lo";

/// Returns the name of the hosts' devices towards each other on this path.
pub(crate) fn interface(path: &PathSpec) -> &'static str {
    if path.loopback { LOOPBACK } else { INTERFACE }
}

/// Maximum number of packets that a device holds while the reader is busy (`txqueuelen`): 20 ms at
/// 200,000 packets/s.
const DEVICE_QUEUE: &str = "4096";

/// Joins the hosts with a veth pair. Each end is created inside its own namespace and is never
/// visible in another.
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

/// Brings up a host's loopback and its device, with addresses and with the route to the other host.
/// The route has the attributes that the scenario sets for it. If the path has routers, a route to
/// the routers is added.
pub(crate) fn configure(
    namespace: &Namespace,
    side: Side,
    host: &HostSpec,
    path: &PathSpec,
) -> Result<(), Error> {
    set_sysctls(namespace, host)?;
    let Addresses { v4, v6 } = Addresses::of(path, side);
    let (mtu, pinned) = (path.device_mtu(), pinned_at_the_route(host));
    // No link-local address means no router solicitation, so that recordings contain only the
    // requested traffic. The setting has its own line because it must precede the activation of the
    // device.
    let mut batch = format!(
        "link set lo up\n\
         link set {INTERFACE} addrgenmode none\n\
         link set {INTERFACE} mtu {mtu} txqueuelen {DEVICE_QUEUE} up\n\
         address add {v4}/24 dev {INTERFACE} noprefixroute\n\
         route add 10.77.0.0/24 dev {INTERFACE} scope link src {v4} {pinned}\n"
    );
    if path.has_ipv6() {
        batch.push_str(&format!(
            "address add {v6}/64 dev {INTERFACE} noprefixroute nodad\n\
             route add fd77::/64 dev {INTERFACE} {pinned}\n"
        ));
    }
    if path.has_routers() {
        batch.push_str(&to_routers(path, v4));
    }
    batch.push_str(&cut_to_size(path));
    lay(namespace, &batch)?;
    shape(namespace, host, path)
}

/// Returns the routes to the routers of a path.
fn to_routers(path: &PathSpec, own: Ipv4Addr) -> String {
    let mut batch = format!("route add 10.77.1.0/24 dev {INTERFACE} scope link src {own}\n");
    if path.has_ipv6() {
        batch.push_str(&format!("route add fd77:0:0:1::/64 dev {INTERFACE}\n"));
    }
    batch
}

/// Brings up the loopback of the single host that is both client and server. The routes to its own
/// addresses have the attributes that the scenario sets for them.
pub(crate) fn configure_loopback(
    namespace: &Namespace,
    client: &HostSpec,
    server: &HostSpec,
    path: &PathSpec,
) -> Result<(), Error> {
    set_sysctls(namespace, client)?;
    set_sysctls(namespace, server)?;
    let Addresses { v4, v6 } = Addresses::ITSELF;
    let (mtu, pinned) = (path.device_mtu(), pinned_at_the_route(server));
    let mut batch = format!(
        "link set {LOOPBACK} mtu {mtu} up\n\
         route replace local {v4} dev {LOOPBACK} table local proto kernel scope host src {v4} {pinned}\n"
    );
    if path.has_ipv6() {
        // The kernel's own route has a lower metric than any that `ip` can set, so it is replaced.
        batch.push_str(&format!(
            "route delete local {v6} dev {LOOPBACK} table local\n\
             route add local {v6} dev {LOOPBACK} table local {pinned}\n"
        ));
    }
    batch.push_str(&cut_to_size(path));
    lay(namespace, &batch)?;
    shape(namespace, server, path)
}

/// Returns the line for `ip` that makes the stack itself cut segments to size before they reach the
/// device; empty on an emulated path and with offload.
fn cut_to_size(path: &PathSpec) -> String {
    if path.is_emulated() || path.is_offloaded() {
        return String::new();
    }
    format!("link set {} gso_max_segs 1\n", interface(path))
}

/// Passes each line of a batch to `ip`.
fn lay(namespace: &Namespace, batch: &str) -> Result<(), Error> {
    let mut ip = tool::command("ip");
    ip.args(["-netns", namespace.name(), "-batch", "-"]);
    tool::run_with_input(ip, batch)
}

/// Installs a host's shaper before its device, if it has one.
fn shape(namespace: &Namespace, host: &HostSpec, path: &PathSpec) -> Result<(), Error> {
    let Some(shaper) = host.shaper else {
        return Ok(());
    };
    let Shaper { rate, burst, queue } = shaper;
    let rate = format!("{}bit", rate.bits_per_second());
    let [burst, queue] = [burst, queue].map(|size| format!("{}b", size.bytes()));
    let device = [
        "-netns",
        namespace.name(),
        "qdisc",
        "add",
        "dev",
        interface(path),
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

/// Returns a route's `rto_min`, which the kernel keeps in milliseconds.
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

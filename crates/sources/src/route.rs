//! The kernel's choice of route and source address, as `ip route get` shows it. It is read over
//! rtnetlink, which needs no privilege.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use lagtrace_core::observed::event::KernelRoute;

use crate::netlink::message::{Attributes, array_at, push_attribute, text, u32_at};
use crate::netlink::{NetlinkProtocol, NetlinkSocket, attributes_after};
use crate::privilege::HostError;

/// Message types (`include/uapi/linux/rtnetlink.h`).
const RTM_GETLINK: u16 = 18;
const RTM_GETROUTE: u16 = 26;
/// Bytes of `struct rtmsg` and `struct ifinfomsg`.
const ROUTE_HEADER_BYTES: usize = 12;
const LINK_HEADER_BYTES: usize = 16;
/// `rtm_type` of a route to this host.
const RTN_LOCAL: u8 = 2;
/// Attributes of a route.
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
/// Metrics of a route.
const RTAX_MTU: u16 = 2;
const RTAX_RTO_MIN: u16 = 13;
const RTAX_QUICKACK: u16 = 15;
/// Attributes of a link.
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
/// `IFNAMSIZ`.
const LONGEST_INTERFACE_NAME: usize = 16;

/// Returns the route that the calling thread's namespace uses to reach `target`.
///
/// # Errors
/// Returns an error if there is no route, or if the route is prohibited. The error contains the
/// kernel's message.
pub fn lookup(target: IpAddr) -> Result<KernelRoute, HostError> {
    NetlinkSocket::open(NetlinkProtocol::Route)
        .map(RouteSocket::from)
        .map_err(|e| HostError::failed("opening an rtnetlink socket", e))?
        .lookup(target)
}

/// An rtnetlink socket that looks up routes in the namespace in which it was opened.
#[derive(Debug)]
pub struct RouteSocket {
    netlink: NetlinkSocket,
}

impl From<NetlinkSocket> for RouteSocket {
    fn from(netlink: NetlinkSocket) -> Self {
        Self { netlink }
    }
}

impl RouteSocket {
    /// Returns the route to `target`.
    ///
    /// # Errors
    /// Returns an error if there is no route, or if the route is prohibited. The error contains the
    /// kernel's message.
    pub fn lookup(&mut self, target: IpAddr) -> Result<KernelRoute, HostError> {
        let failed = |e| HostError::failed(format!("looking up the route to {target}"), e);
        let mut answer = None;
        self.netlink
            .request(RTM_GETROUTE, &route_request(target), |message| {
                answer = parse_route(message.payload);
            })
            .map_err(failed)?;
        let answer = answer.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let link = answer.interface.map(|index| self.link(index));
        let link = link.transpose().map_err(failed)?.unwrap_or_default();
        Ok(KernelRoute {
            target,
            source: answer.source,
            interface: link.name,
            gateway: answer.gateway,
            is_local: answer.is_local,
            mtu: answer.mtu.or(link.mtu),
            quickack: answer.quickack,
            rto_min: answer.rto_min,
        })
    }

    /// Returns the MTU of the interface towards `target`; `None` if the kernel does not report it.
    /// A path MTU that the kernel has learnt has no influence.
    pub(crate) fn device_mtu(&mut self, target: IpAddr) -> Option<u32> {
        let mut interface = None;
        self.netlink
            .request(RTM_GETROUTE, &route_request(target), |message| {
                interface = parse_route(message.payload).and_then(|route| route.interface);
            })
            .ok()?;
        self.link(interface?).ok()?.mtu
    }

    /// Returns the name and MTU of the interface with this number.
    fn link(&mut self, index: u32) -> io::Result<Link> {
        let mut link = Link::default();
        self.netlink
            .request(RTM_GETLINK, &link_request(index), |message| {
                link = parse_link(message.payload);
            })?;
        Ok(link)
    }
}

/// The used fields of a reply to a route lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RouteAnswer {
    is_local: bool,
    interface: Option<u32>,
    source: Option<IpAddr>,
    gateway: Option<IpAddr>,
    mtu: Option<u32>,
    quickack: bool,
    rto_min: Option<Duration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Link {
    name: String,
    mtu: Option<u32>,
}

/// Encodes a lookup of one address: `struct rtmsg` and the address.
fn route_request(target: IpAddr) -> Vec<u8> {
    let mut request = vec![0; ROUTE_HEADER_BYTES];
    let (family, bits) = match target {
        IpAddr::V4(_) => (libc::AF_INET, 32),
        IpAddr::V6(_) => (libc::AF_INET6, 128),
    };
    request[0] = u8::try_from(family).unwrap_or(0);
    request[1] = bits;
    match target {
        IpAddr::V4(address) => push_attribute(&mut request, RTA_DST, &address.octets()),
        IpAddr::V6(address) => push_attribute(&mut request, RTA_DST, &address.octets()),
    }
    request
}

/// Encodes `struct ifinfomsg` for one interface.
fn link_request(index: u32) -> [u8; LINK_HEADER_BYTES] {
    let mut request = [0; LINK_HEADER_BYTES];
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    request
}

/// Parses a route; `None` if the message is shorter than its header.
fn parse_route(payload: &[u8]) -> Option<RouteAnswer> {
    let kind = *payload.get(..ROUTE_HEADER_BYTES)?.get(7)?;
    let mut route = RouteAnswer {
        is_local: kind == RTN_LOCAL,
        ..RouteAnswer::default()
    };
    for (attribute, value) in attributes_after(payload, ROUTE_HEADER_BYTES) {
        match attribute {
            RTA_OIF => route.interface = u32_at(value, 0),
            RTA_PREFSRC => route.source = address(value),
            RTA_GATEWAY => route.gateway = address(value),
            // `struct rtvia`: the next hop has another address family.
            RTA_VIA => route.gateway = value.get(2..).and_then(address),
            RTA_METRICS => route.read_metrics(value),
            _ => {}
        }
    }
    Some(route)
}

impl RouteAnswer {
    fn read_metrics(&mut self, metrics: &[u8]) {
        for (metric, value) in Attributes::new(metrics) {
            let Some(value) = u32_at(value, 0) else {
                continue;
            };
            match metric {
                RTAX_MTU => self.mtu = Some(value),
                RTAX_QUICKACK => self.quickack = value != 0,
                RTAX_RTO_MIN => self.rto_min = Some(Duration::from_millis(u64::from(value))),
                _ => {}
            }
        }
    }
}

fn parse_link(payload: &[u8]) -> Link {
    let mut link = Link::default();
    for (attribute, value) in attributes_after(payload, LINK_HEADER_BYTES) {
        match attribute {
            IFLA_IFNAME => link.name = text(value, LONGEST_INTERFACE_NAME),
            IFLA_MTU => link.mtu = u32_at(value, 0),
            _ => {}
        }
    }
    link
}

/// Returns the address in `value`. The length determines the family; `None` if the length is not
/// that of an address.
fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => array_at(value, 0).map(|octets: [u8; 4]| Ipv4Addr::from(octets).into()),
        16 => array_at(value, 0).map(|octets: [u8; 16]| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn loopback_is_this_host() {
        for target in ["127.0.0.1", "::1"] {
            let target: IpAddr = target.parse().expect("an address");
            let route = lookup(target).expect("loopback has a route");
            assert!(route.is_local && !route.quickack, "{route:?}");
            assert_eq!(
                (route.interface.as_str(), route.source),
                ("lo", Some(target))
            );
            assert_eq!((route.gateway, route.mtu), (None, Some(65_536)));
        }
    }

    #[test]
    fn metrics_are_read() {
        let mut metrics = Vec::new();
        push_attribute(&mut metrics, RTAX_MTU, &1400_u32.to_ne_bytes());
        push_attribute(&mut metrics, RTAX_RTO_MIN, &5_u32.to_ne_bytes());
        push_attribute(&mut metrics, RTAX_QUICKACK, &1_u32.to_ne_bytes());
        push_attribute(&mut metrics, RTAX_QUICKACK, &[1]);
        let mut payload = vec![0; ROUTE_HEADER_BYTES];
        push_attribute(&mut payload, RTA_METRICS, &metrics);
        push_attribute(&mut payload, RTA_VIA, &[10, 0, 10, 1, 2, 3]);
        let route = parse_route(&payload).expect("a whole header");
        assert_eq!((route.mtu, route.quickack), (Some(1400), true));
        assert_eq!(route.rto_min, Some(Duration::from_millis(5)));
        assert_eq!(route.gateway, Some(Ipv4Addr::new(10, 1, 2, 3).into()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let route = parse_route(&bytes);
            prop_assert_eq!(route.is_some(), bytes.len() >= ROUTE_HEADER_BYTES);
            prop_assert!(parse_link(&bytes).name.len() <= 3 * LONGEST_INTERFACE_NAME);
        }
    }
}

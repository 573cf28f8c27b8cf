//! Rejection of flags that cannot be combined.

use super::{Method, Options};
use crate::failure::{Failure, Result};

/// Rejects flags that would otherwise be ignored.
pub(super) fn check(options: &Options, port: Option<u16>) -> Result<()> {
    let (probes, look) = (&options.probes, &options.look);
    let method = probes.method();
    if probes.first_ttl > probes.max_hops {
        return refuse(
            "the first hop is greater than the last one",
            "give -f a number that is not greater than that of -m",
        );
    }
    let has_own_port = matches!(
        method,
        Method::TcpConnect | Method::InConnection | Method::Icmp
    );
    if probes.packets.source_port.is_some() && has_own_port {
        return refuse(
            "the source port cannot be set with this method",
            "--source-port works with tcp, udp, paris and dublin",
        );
    }
    if probes.packets.size.is_some() && matches!(method, Method::InConnection | Method::TcpConnect)
    {
        return refuse(
            "the packet size cannot be set with this method",
            "leave out --size, or use --method tcp",
        );
    }
    if look.paths > 1 && matches!(method, Method::Udp | Method::TcpConnect) {
        return refuse(
            "this method cannot show parallel paths, because each probe is a separate flow",
            "--paths works with tcp, paris, dublin, in-connection and icmp",
        );
    }
    // A port that is part of the target is accepted: an echo request goes to the target's host.
    if method == Method::Icmp && probes.port.is_some() {
        return refuse("ICMP echo requests have no port", "leave out -p");
    }
    if probes.port.is_some_and(|own| port != Some(own)) {
        return refuse(
            "the port is given twice, with the host and with -p",
            "leave out one of them",
        );
    }
    Ok(())
}

fn refuse(what: &str, hint: &str) -> Result<()> {
    Err(Failure::new(what.to_owned()).hint(hint))
}

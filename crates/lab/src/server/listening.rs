//! The listening ports of a namespace, read from the kernel's tables. A test connection is not
//! used, because it would appear in recordings and counters.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use crate::error::Error;
use crate::machine::namespace::Namespace;

/// Returns the TCP ports with a listener inside a namespace, over either IP version.
pub(crate) fn ports(namespace: &Namespace) -> Result<BTreeSet<u16>, Error> {
    namespace.within("read the listening ports", || {
        let mut ports = BTreeSet::new();
        for table in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
            match fs::read_to_string(table) {
                Ok(text) => ports.extend(text.lines().filter_map(listening_port)),
                // A kernel without IPv6 has no such table.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ports)
    })
}

/// Returns the local port of a line `sl local_address rem_address st …`, if the state is TCP_LISTEN
/// (0A).
fn listening_port(line: &str) -> Option<u16> {
    let mut columns = line.split_whitespace().skip(1);
    let local = columns.next()?;
    let state = columns.nth(1)?;
    let (_, port) = local.rsplit_once(':')?;
    (state == "0A")
        .then(|| u16::from_str_radix(port, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::listening_port;

    #[test]
    fn only_listeners_count() {
        let listener = "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1 1 0 100 0 0 10 0";
        let established =
            "   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000 0 0 1";
        let header =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid";
        assert_eq!(listening_port(listener), Some(8080));
        assert_eq!(listening_port(established), None);
        assert_eq!(listening_port(header), None);
        assert_eq!(listening_port(""), None);
    }
}

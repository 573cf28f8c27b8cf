//! Who serves what is watched. It is said at once: a watch of a port at which nobody listens stays
//! empty, and so does that of a process that leaves the requests to others.

use std::collections::{BTreeMap, BTreeSet};

use lagtrace_core::observed::sockets::{Ends, Holder, LiveSocket};
use lagtrace_sources::socket::survey::{Choice, Survey};

use super::Options;

/// Maximum number of other servers that are named.
const MOST: usize = 5;

/// Returns the listening sockets of this host; `None` if they cannot be listed, or if those of
/// another namespace are wanted, which are not seen from here.
pub(super) fn listeners(options: &Options) -> Option<Vec<LiveSocket>> {
    if options.netns.is_some() {
        return None;
    }
    let choice = Choice {
        listening: true,
        ..Choice::default()
    };
    Survey::open(choice).ok()?.look().ok()
}

/// Returns what to watch instead, if nobody listens at a watched port, or if the watched process
/// shares its listener with others. `None` if all is well.
pub(super) fn remark(options: &Options, listeners: &[LiveSocket]) -> Option<String> {
    match options.pid {
        Some(pid) => shared(pid, listeners),
        None => unserved(&options.wanted().ports, listeners),
    }
}

/// Returns the port of a listener.
pub(super) fn port(socket: &LiveSocket) -> Option<u16> {
    match &socket.ends {
        Ends::Ip { local, .. } => Some(local.port),
        Ends::Unix { .. } => None,
    }
}

fn unserved(wanted: &[u16], listeners: &[LiveSocket]) -> Option<String> {
    // A list of ports may name some that are not in use.
    let [wanted] = wanted else {
        return None;
    };
    if listeners.iter().any(|socket| port(socket) == Some(*wanted)) {
        return None;
    }
    Some(format!(
        "nobody listens at port {wanted} on this host{}. If the port leads into a container, watch \
         the port of the server in it.",
        others(listeners)
    ))
}

/// Returns who listens at other ports.
fn others(listeners: &[LiveSocket]) -> String {
    let mut by_port: BTreeMap<u16, &str> = BTreeMap::new();
    for socket in listeners {
        if let Some(port) = port(socket) {
            let holder = socket.owner.holders.first();
            by_port.insert(port, holder.map_or("", |holder| &holder.name));
        }
    }
    let named = by_port.iter().map(|(port, name)| match *name {
        "" => port.to_string(),
        name => format!("{port} ({name})"),
    });
    let mut named: Vec<String> = named.collect();
    let left = named.len().saturating_sub(MOST);
    named.truncate(MOST);
    if left > 0 {
        named.push(format!("{left} more"));
    }
    match named.as_slice() {
        [] => String::new(),
        named => format!("; others listen at {}", named.join(", ")),
    }
}

fn shared(pid: u32, listeners: &[LiveSocket]) -> Option<String> {
    let holds = |holder: &Holder| holder.pid == pid;
    let own = listeners
        .iter()
        .find(|it| it.owner.holders.iter().any(holds))?;
    let name = &own.owner.holders.iter().find(|it| holds(it))?.name;
    let pids = own.owner.holders.iter().map(|holder| holder.pid);
    let others: BTreeSet<u32> = pids.filter(|other| *other != pid).collect();
    let first = others.first()?;
    Some(format!(
        "process {pid} ({name}) shares port {port} with {} other processes, such as {first}, which may \
         serve its requests: `watch -p {port}` shows those of all",
        others.len(),
        port = port(own)?,
    ))
}

#[cfg(test)]
mod tests {
    use lagtrace_core::observed::flow::Endpoint;
    use lagtrace_core::observed::sockets::{Protocol, Queues, SocketOwner};

    use super::*;

    /// Returns a listener at a port, held by the processes `pids` of one program.
    fn listener(port: u16, name: &str, pids: &[u32]) -> LiveSocket {
        let any = Endpoint::new([0, 0, 0, 0].into(), 0);
        let holder = |&pid: &u32| Holder {
            pid,
            name: name.to_owned(),
            fd: 3,
        };
        LiveSocket {
            protocol: Protocol::Tcp,
            namespace: None,
            cookie: u64::from(port),
            state: "LISTEN",
            ends: Ends::Ip {
                local: Endpoint { port, ..any },
                remote: any,
            },
            owner: SocketOwner {
                holders: pids.iter().map(holder).collect(),
                ..SocketOwner::default()
            },
            queues: Queues::default(),
            timer: None,
            buffers: None,
            congestion: None,
            tcp: None,
            options: None,
            is_chosen: true,
        }
    }

    #[test]
    fn a_port_at_which_nobody_listens_is_told_with_the_others() {
        let others = [listener(8080, "nginx", &[7]), listener(22, "", &[])];
        let text = unserved(&[80], &others).expect("a remark");
        assert!(
            text.starts_with(
                "nobody listens at port 80 on this host; others listen at 22, 8080 (nginx)."
            ),
            "{text}"
        );
        assert_eq!(unserved(&[8080], &others), None);
        assert_eq!(unserved(&[80, 81], &others), None, "some may be in no use");
    }

    #[test]
    fn many_others_are_counted() {
        let all: Vec<_> = (1..=9).map(|port| listener(port, "many", &[1])).collect();
        let text = unserved(&[80], &all).expect("a remark");
        assert!(text.contains("5 (many), 4 more."), "{text}");
    }

    #[test]
    fn a_process_that_shares_its_listener_is_told_to_be_watched_by_port() {
        let all = [
            listener(8080, "nginx", &[7, 8, 9]),
            listener(81, "alone", &[5]),
        ];
        let text = shared(7, &all).expect("a remark");
        assert!(
            text.contains("shares port 8080 with 2 other processes, such as 8"),
            "{text}"
        );
        assert_eq!(shared(5, &all), None);
        assert_eq!(shared(6, &all), None);
    }
}

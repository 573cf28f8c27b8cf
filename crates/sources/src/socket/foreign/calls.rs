//! The upstreams that a server calls, as its open connections show them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use lagtrace_core::observed::event::Upstream;

use super::Server;
use crate::privilege::HostError;
use crate::socket::diag::{DiagSocket, Selection, States};
use crate::socket::process;

/// Maximum number of upstreams that are returned.
const MOST_UPSTREAMS: usize = 8;
/// Maximum number of connections that are examined.
const MOST_CONNECTIONS: usize = 65_536;

impl Server {
    /// Returns the upstreams of the server: both ends of the connections that its processes have
    /// opened, without the local ports; at most eight, those with the most connections first. Upstreams to which
    /// other processes of this host have more connections are left out, and so are those whose
    /// connections the server closes after each call.
    ///
    /// # Errors
    /// Returns an error if `CAP_SYS_ADMIN` or `CAP_SYS_PTRACE` is missing, or if `sock_diag` fails.
    pub fn upstreams(&self) -> Result<Vec<Upstream>, HostError> {
        let mut diag = DiagSocket::open_in(&self.namespace)?;
        let opened = opened(&mut diag)?;
        let inodes = opened.iter().map(|each| each.inode);
        let inodes: HashSet<u32> = inodes.filter(|&inode| inode != 0).collect();
        let pids: Vec<u32> = self.processes.iter().map(|process| process.pid).collect();
        let held = process::holders(&pids, Some(&inodes));
        match held.refusal {
            Some(refusal) if held.by_inode.is_empty() => Err(refusal),
            _ => Ok(called(&opened, |inode| held.by_inode.contains_key(&inode))),
        }
    }
}

/// A connection that a process of this host has opened.
#[derive(Clone, Copy, Debug)]
struct Opened {
    inode: u32,
    upstream: Upstream,
}

/// Returns the connections whose local port is not that of a listener.
fn opened(diag: &mut DiagSocket) -> Result<Vec<Opened>, HostError> {
    let selection = |states| Selection {
        states,
        local_port: None,
        remote_port: None,
    };
    let mut listening = HashSet::new();
    diag.dump(&selection(States::LISTENING), |record| {
        listening.insert(record.local.port);
        ControlFlow::Continue(())
    })?;
    let mut opened = Vec::new();
    let mut examined = 0;
    diag.dump(&selection(States::CONNECTED), |record| {
        examined += 1;
        if !listening.contains(&record.local.port) {
            opened.push(Opened {
                inode: record.inode,
                upstream: Upstream {
                    caller: record.local.addr,
                    endpoint: record.remote,
                },
            });
        }
        if examined < MOST_CONNECTIONS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(opened)
}

/// Returns the upstreams whose connections the server holds (`is_held`), at least half of them.
fn called(opened: &[Opened], is_held: impl Fn(u32) -> bool) -> Vec<Upstream> {
    let mut counts: BTreeMap<Upstream, (usize, usize)> = BTreeMap::new();
    for each in opened {
        let (held, all) = counts.entry(each.upstream).or_default();
        *held += usize::from(is_held(each.inode));
        *all += 1;
    }
    counts.retain(|_, (held, all)| *held > 0 && *held * 2 >= *all);
    let mut found: Vec<(usize, Upstream)> = counts
        .into_iter()
        .map(|(upstream, (held, _))| (held, upstream))
        .collect();
    found.sort_by_key(|&(held, _)| Reverse(held));
    found.truncate(MOST_UPSTREAMS);
    found.into_iter().map(|(_, upstream)| upstream).collect()
}

#[cfg(test)]
mod tests {
    use lagtrace_core::observed::flow::Endpoint;

    use super::*;

    fn upstream(last: u8) -> Upstream {
        Upstream {
            caller: [10, 0, 0, 200].into(),
            endpoint: Endpoint::new([10, 0, 0, last].into(), 5432),
        }
    }

    #[test]
    fn upstreams_are_those_that_the_server_mostly_calls_itself() {
        let held = [
            (1, upstream(1)),
            (2, upstream(2)),
            (3, upstream(2)),
            (4, upstream(3)),
            (50, upstream(3)),
            (51, upstream(3)),
            (0, upstream(4)),
        ];
        let opened = held.map(|(inode, upstream)| Opened { inode, upstream });
        let found = called(&opened, |inode| (1..50).contains(&inode));
        assert_eq!(found, [upstream(2), upstream(1)]);
    }

    #[test]
    fn of_many_upstreams_those_with_the_most_connections_are_kept() {
        let numbers = (1..=20_u8).flat_map(|last| (0..last).map(move |_| last));
        let opened: Vec<_> = numbers
            .map(|last| Opened {
                inode: last.into(),
                upstream: upstream(last),
            })
            .collect();
        let found = called(&opened, |_| true);
        let expected: Vec<_> = (13..=20).rev().map(upstream).collect();
        assert_eq!(found, expected);
    }
}

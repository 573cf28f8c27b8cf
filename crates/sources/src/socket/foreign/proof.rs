//! The proof that a socket is the remote end of a connection, although its addresses alone do not
//! show it: NAT translates the target's address, or the socket is in another network namespace,
//! where another host may have equal addresses.
//!
//! Both ends must be connected and have counted the same bytes, and no other client on this host
//! may fit. Without the last condition, whoever controls this process could open a connection from
//! the address and port of another client, and take that client's server for its own.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use super::{far_end, flow_of};
use crate::privilege::{HostError, NetworkNamespace};
use crate::socket::diag::{DiagSocket, Selection, States};
use crate::socket::namespaces::Namespaces;
use crate::socket::record::{SocketRecord, TcpState};

/// Maximum time in which both ends must once have counted the same bytes. They have not while
/// segments are in flight.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between checks during this time.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Maximum difference between the bytes that one end has sent and those that the other end counts as
/// received: it counts a FIN.
const FIN: u64 = 1;
/// Maximum difference between the bytes that one end counts as acknowledged and those that the other
/// end has received: the first one counts SYN and FIN.
const SYN_AND_FIN: u64 = 2;

/// Returns the socket at the remote end of `near`, which is a socket of lagtrace's own namespace;
/// `None` if there is none, or if it may be the end of another connection.
///
/// # Errors
/// Returns an error if `CAP_SYS_ADMIN` is missing, or if `sock_diag` fails.
pub(crate) fn proven_far_end(
    namespace: &NetworkNamespace,
    near: &SocketRecord,
) -> Result<Option<SocketRecord>, HostError> {
    let mut diag = DiagSocket::open_in(namespace)?;
    let flow = flow_of(near);
    let Some(far) = far_end(&mut diag, flow)? else {
        return Ok(None);
    };
    // Within one namespace, no two connections have the same ends.
    let is_exact = namespace.is_own() && far.local == flow.remote;
    if is_exact {
        return Ok(fins(near, &far).map(|_| far));
    }
    let is_proven = have_agreed(&mut diag, near, &far)? && !has_rival(&mut diag, near, &far)?;
    Ok(is_proven.then_some(far))
}

/// Returns the number of FINs that the far end has received of a connection whose ends have these
/// states; `None` if these cannot be the ends of one connection that can still transfer data.
fn fins(near: &SocketRecord, far: &SocketRecord) -> Option<u64> {
    match (near.state, far.state) {
        (TcpState::Established, TcpState::Established) => Some(0),
        // A search may have closed its own end.
        (TcpState::FinWait1 | TcpState::FinWait2, TcpState::CloseWait) => Some(1),
        _ => None,
    }
}

/// The bytes that one end has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Number of bytes that were sent, without repetitions.
    sent: u64,
    /// Number of bytes that the peer has acknowledged.
    acked: u64,
    /// Number of bytes that were received.
    received: u64,
}

impl Counts {
    /// Returns the counts of a socket; `None` if the kernel (before 4.19) does not report them.
    fn of(record: &SocketRecord) -> Option<Self> {
        let info = record.info.as_ref()?;
        Some(Self {
            sent: info.bytes_sent?.checked_sub(info.bytes_retrans?)?,
            acked: info.bytes_acked?,
            received: info.bytes_received?,
        })
    }

    /// Returns true if these are the counts of the remote end of a connection whose near end had
    /// the counts `before` a moment earlier and `after` a moment later.
    fn may_face(self, before: Self, after: Self) -> bool {
        self.received <= after.sent + FIN
            && before.acked <= self.received + SYN_AND_FIN
            && before.received <= self.sent + FIN
            && self.acked <= after.received + SYN_AND_FIN
    }
}

/// Returns true if both ends have the same counts at some time soon.
fn have_agreed(
    diag: &mut DiagSocket,
    near: &SocketRecord,
    far: &SocketRecord,
) -> Result<bool, HostError> {
    let mut own = DiagSocket::open()?;
    let end = Instant::now() + PATIENCE;
    loop {
        let before = again(&mut own, near)?;
        let there = again(diag, far)?;
        let after = again(&mut own, near)?;
        let (Some(before), Some(there), Some(after)) = (before, there, after) else {
            return Ok(false);
        };
        let Some(fins) = fins(&before, &there) else {
            return Ok(false);
        };
        if agree(&before, &there, &after, fins) {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn agree(before: &SocketRecord, far: &SocketRecord, after: &SocketRecord, fins: u64) -> bool {
    match [before, far, after].map(Counts::of) {
        [Some(before), Some(far), Some(after)] => are_equal(before, far, after, fins),
        _ => false,
    }
}

fn are_equal(before: Counts, far: Counts, after: Counts, fins: u64) -> bool {
    before == after && before.sent + fins == far.received && far.sent == before.received
}

/// Returns true if another socket of this host has the local end of `near` and may be the far end's
/// client.
fn has_rival(
    diag: &mut DiagSocket,
    near: &SocketRecord,
    far: &SocketRecord,
) -> Result<bool, HostError> {
    // Namespaces that lagtrace may not examine are left out; the counts are a proof of their own.
    for namespace in Namespaces::new() {
        let mut there = DiagSocket::open_in(&namespace)?;
        for rival in clients_at(&mut there, near)? {
            let is_near = namespace.is_own() && rival.cookie == near.cookie;
            if !is_near && !is_apart(&mut there, &rival, diag, far)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the connected sockets of a namespace with the local end of `near`.
fn clients_at(diag: &mut DiagSocket, near: &SocketRecord) -> Result<Vec<SocketRecord>, HostError> {
    let selection = Selection {
        states: States::CONNECTED,
        local_port: Some(near.local.port),
        remote_port: None,
    };
    let mut clients = Vec::new();
    diag.dump(&selection, |record| {
        if record.local == near.local {
            clients.push(record);
        }
        ControlFlow::Continue(())
    })?;
    Ok(clients)
}

/// Returns true if the counts show that `client` is not the client of `far`.
fn is_apart(
    diag: &mut DiagSocket,
    client: &SocketRecord,
    far_diag: &mut DiagSocket,
    far: &SocketRecord,
) -> Result<bool, HostError> {
    let there = again(far_diag, far)?;
    let later = again(diag, client)?;
    let counts = [Some(client), there.as_ref(), later.as_ref()];
    let [Some(before), Some(there), Some(after)] = counts.map(|record| Counts::of(record?)) else {
        return Ok(false);
    };
    Ok(!there.may_face(before, after))
}

/// Reads a socket's record again; `None` if the socket is gone.
fn again(diag: &mut DiagSocket, record: &SocketRecord) -> Result<Option<SocketRecord>, HostError> {
    let found = diag.find(record.local, record.remote)?;
    Ok(found.filter(|found| found.cookie == record.cookie))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sent: u64, acked: u64, received: u64) -> Counts {
        Counts {
            sent,
            acked,
            received,
        }
    }

    #[test]
    fn only_ends_that_counted_the_same_agree() {
        let near = counts(10, 11, 200);
        assert!(are_equal(near, counts(200, 200, 10), near, 0));
        // The near end has closed.
        assert!(are_equal(near, counts(200, 200, 11), near, 1));
        for far in [
            counts(201, 200, 10),
            counts(200, 200, 9),
            counts(10, 11, 200),
        ] {
            assert!(!are_equal(near, far, near, 0), "{far:?}");
        }
        // Something was sent in the meantime.
        let later = counts(11, 11, 200);
        assert!(!are_equal(near, counts(200, 200, 10), later, 0));
    }

    #[test]
    fn ends_face_each_other_while_segments_are_in_flight() {
        let (before, after) = (counts(100, 51, 20), counts(120, 61, 40));
        for far in [counts(40, 30, 60), counts(20, 20, 50), counts(90, 41, 120)] {
            assert!(far.may_face(before, after), "{far:?}");
        }
        for far in [
            counts(40, 30, 122), // received what was never sent
            counts(40, 30, 48),  // not received what is acknowledged
            counts(18, 18, 60),  // not sent what is received
            counts(100, 43, 60), // acknowledged what is not received
        ] {
            assert!(!far.may_face(before, after), "{far:?}");
        }
    }
}

//! Remarks on Unix sockets where one process waits for another.

use super::{backlog, names, unread};
use crate::observed::sockets::{LiveSocket, Protocol};

/// Returns the remarks on a process that waits for another.
pub(super) fn remarks(socket: &LiveSocket, peer: Option<&LiveSocket>) -> Vec<String> {
    let further = "further ones wait, or fail with EAGAIN if non-blocking";
    let told = match socket.state {
        "LISTEN" => [backlog(socket, further), None],
        _ => [unread(socket, peer), unread_by_peer(socket, peer)],
    };
    told.into_iter().flatten().collect()
}

/// Returns the remark on data that stays in the peer's queue because the peer does not read it.
fn unread_by_peer(socket: &LiveSocket, peer: Option<&LiveSocket>) -> Option<String> {
    let buffers = socket.buffers.filter(|_| socket.is_full() == Some(true))?;
    let who = names(peer).unwrap_or_else(|| match socket.protocol {
        Protocol::UnixDatagram => "a receiver".to_owned(),
        _ => "the peer".to_owned(),
    });
    let what = if buffers.send_used >= buffers.send_limit {
        "a write waits"
    } else {
        "the socket is not writable"
    };
    Some(format!(
        "{who} has not read data that takes {} of at most {} of kernel memory: {what} until it \
         reads.",
        buffers.send_used, buffers.send_limit
    ))
}

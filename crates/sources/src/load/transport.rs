//! The transport of a lane's connections.

use lagtrace_core::observed::event::{LoadTls, LoadTransport};
use lagtrace_core::observed::experiment::Experiment;

use super::plan::{Lane, Plan};
use super::socket_options::SocketOptions;
use crate::tls::secure::Secured;

/// Returns the transport of `lane` in a run of `plan`. The TLS version and cipher are added after
/// handshakes.
pub(super) fn of(plan: &Plan, lane: &Lane) -> LoadTransport {
    let SocketOptions {
        unix,
        sources,
        receive_buffer,
        send_buffer,
    } = &plan.sockets;
    let is_tcp = unix.is_none();
    let is_nodelay = plan.nodelay && lane.experiment != Some(Experiment::ClientNagle);
    let is_quickack = lane.experiment == Some(Experiment::QuickAck);
    let options = [
        (is_tcp && is_nodelay).then(|| "TCP_NODELAY".to_owned()),
        (is_tcp && is_quickack).then(|| "TCP_QUICKACK".to_owned()),
        receive_buffer.map(|bytes| format!("SO_RCVBUF {bytes}")),
        send_buffer.map(|bytes| format!("SO_SNDBUF {bytes}")),
    ];
    LoadTransport {
        target: lane.target.id,
        protocol: if plan.protocol.http2 {
            "HTTP/2"
        } else {
            "HTTP/1.1"
        }
        .to_owned(),
        at_once: plan.protocol.at_once,
        unix_socket: unix.as_ref().map(|path| path.display().to_string()),
        options: options.into_iter().flatten().collect(),
        sources: sources.clone(),
        ..LoadTransport::default()
    }
}

/// Adds the results of a TLS handshake.
pub(super) fn learn(transport: &mut LoadTransport, tls: &Secured) {
    let known = transport.tls.get_or_insert_with(|| LoadTls {
        version: tls.version,
        cipher: tls.cipher.to_owned(),
        ..LoadTls::default()
    });
    let of_kind = if tls.is_resumed {
        &mut known.resumed
    } else {
        &mut known.full
    };
    of_kind.record(tls.took);
}

//! The store of sessions for resumption. It is as large as a browser's. The library's own store
//! keeps only eight tickets per server. With that store, a hundred simultaneous connections would
//! do full handshakes because tickets are missing, which is not the server's fault.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Maximum number of tickets kept for each server. The oldest are removed first.
const MOST_TICKETS: usize = 1_024;
/// Maximum number of servers whose sessions are kept. A run has few servers.
const MOST_SERVERS: usize = 64;

/// The sessions of each server.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    servers: Mutex<HashMap<ServerName<'static>, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    group: Option<NamedGroup>,
    session: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, Known>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, server: ServerName<'static>, note: impl FnOnce(&mut Known)) {
        let mut servers = self.lock();
        if servers.len() < MOST_SERVERS || servers.contains_key(&server) {
            note(servers.entry(server).or_default());
        }
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.learn(server, |known| known.group = Some(group));
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().get(server)?.group
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.learn(server, |known| known.session = Some(value));
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.lock().get(server)?.session.clone()
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        if let Some(known) = self.lock().get_mut(server) {
            known.session = None;
        }
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.learn(server, |known| {
            if known.tickets.len() >= MOST_TICKETS {
                known.tickets.pop_front();
            }
            known.tickets.push_back(value);
        });
    }

    /// Removes and returns the newest ticket. Each ticket is used only once (RFC 8446 §C.4).
    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock().get_mut(server)?.tickets.pop_back()
    }
}

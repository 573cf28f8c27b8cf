//! nginx's configuration files and requests from anyone.

use std::path::Path;

use super::server::read_hosts;
use super::{Configuration, Request, Surroundings, include};
use crate::config::parts::Parts;

/// Resolves nginx's files for a request. The text before the first zero byte is the request's URI,
/// the text before the second its host, and the file for the addresses of names.
pub fn nginx(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |&byte| byte == 0);
    let mut next = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (uri, host) = (next(), next());
    let files = Parts::of(parts.next().unwrap_or_default());
    let Ok(tree) = include::read(&files, Path::new("/etc/nginx/nginx.conf"), None) else {
        return;
    };
    let configuration = Configuration {
        tree,
        surroundings: Surroundings {
            implied_port: 80,
            hosts: read_hosts(&host),
            ..Surroundings::default()
        },
        version: None,
        loaded: None,
        notes: Vec::new(),
    };
    let _ = configuration.resolve(&Request {
        local_addr: Some([10, 0, 0, 2].into()),
        port: 80,
        host: &host,
        uri: &uri,
    });
}

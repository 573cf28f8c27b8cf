//! Configuration files and command lines from anyone.

use std::path::Path;
use std::time::SystemTime;

use super::by_line::Reader;
use super::parts::Parts;
use super::{apache as apache_files, haproxy as haproxy_files};

pub use super::launch::fuzzing::launch;
pub use super::nginx::fuzzing::nginx;

/// Resolves Apache's files.
pub fn apache(bytes: &[u8]) {
    let files = Parts::of(bytes);
    let mut reader = Reader::new(&files, SystemTime::UNIX_EPOCH);
    let _ = apache_files::settings(&mut reader, &[b"apache2"]);
}

/// Resolves haproxy's file for port 80.
pub fn haproxy(bytes: &[u8]) {
    let files = Parts::of(bytes);
    let mut reader = Reader::new(&files, SystemTime::UNIX_EPOCH);
    let here = Path::new("/etc/haproxy");
    let _ = haproxy_files::settings(&mut reader, &[b"haproxy"], here, 80);
}

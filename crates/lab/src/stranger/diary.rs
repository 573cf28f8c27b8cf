//! The rows that the two programs write for each request. All times are in ns since 1970
//! (CLOCK_REALTIME), the clock of captures, or lengths in ns.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A request, as its client saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedEntry {
    /// The number of the request.
    pub id: u64,
    /// The begin and the end of connecting, if the request has a new connection.
    pub connect_ns: Option<(u64, u64)>,
    /// The time at which the connection was there and the client still paused.
    pub idle_ns: u64,
    /// The begin of the first write.
    pub send_ns: u64,
    /// The end of the last write.
    pub sent_ns: u64,
    /// The pauses that the fault made within the request.
    pub paused_ns: u64,
    /// The first byte of the response.
    pub first_ns: u64,
    /// The last byte of the response.
    pub last_ns: u64,
    /// The pauses between reads.
    pub unread_ns: u64,
    /// The size of the response, in bytes.
    pub bytes: u64,
}

/// A request, as its server saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The number of the request.
    pub id: u64,
    /// The first byte of the request.
    pub first_ns: u64,
    /// The last byte of the request.
    pub whole_ns: u64,
    /// The time at which a worker took the request.
    pub taken_ns: u64,
    /// The length of the usual think time.
    pub think_ns: u64,
    /// The think time that the fault added.
    pub extra_ns: u64,
    /// The length of the call of another service.
    pub upstream_ns: u64,
    /// The begin of the first write.
    pub write_ns: u64,
    /// The end of the last write.
    pub written_ns: u64,
    /// The pauses that the fault made within the response.
    pub paused_ns: u64,
}

/// Reads a diary, one JSON object per line.
pub(super) fn read<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>, Error> {
    let text = fs::read_to_string(file).map_err(Error::file("read", file))?;
    let lines = text.lines().enumerate();
    lines
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|source| Error::BadLog {
                path: file.into(),
                line: number + 1,
                source,
            })
        })
        .collect()
}

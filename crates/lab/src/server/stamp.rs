//! Timestamps recorded by the servers themselves, for comparison with a diagnosis.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A request as recorded by the `think` or `pause` server. All timestamps are CLOCK_REALTIME in
/// nanoseconds since 1970, the clock of a recording's packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The client's address and port; an IPv4 client has its IPv4 address.
    pub peer: SocketAddr,
    /// The request's number on its connection, from 1.
    pub number: u64,
    /// The time at which the whole request had been read.
    pub read_ns: u64,
    /// The times at which each `write` of the response had returned, in order.
    pub written_ns: Vec<u64>,
}

/// A line of an nginx's access log, kept if the service sets `access_log = true`.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLine {
    /// The time at which the response had been passed to the kernel (`$msec`), in seconds since
    /// 1970, with ms resolution.
    pub written_s: f64,
    /// The time from reading the request's first bytes to writing the log line (`$request_time`),
    /// in seconds, with ms resolution.
    pub request_time_s: f64,
    /// The client's address and port.
    pub peer: SocketAddr,
    /// The request's number on its connection, from 1 (`$connection_requests`).
    pub number: u64,
    /// The response's status.
    pub status: u16,
}

/// Returns the file of a service's own timestamps, within the folder of the lab's run.
pub(crate) fn stamp_log(folder: &Path, service: &str) -> PathBuf {
    folder.join(format!("{service}.stamps.ndjson"))
}

/// Reads the timestamps that a `think` or `pause` server has written so far; there are none before
/// its first request.
pub(crate) fn read_stamps(path: &Path) -> Result<Vec<Stamp>, Error> {
    let text = read_or_empty(path)?;
    let lines = complete_lines(&text).enumerate();
    lines
        .map(|(n, line)| {
            serde_json::from_str(line).map_err(|source| Error::BadLog {
                path: path.to_owned(),
                line: n + 1,
                source,
            })
        })
        .collect()
}

/// Reads an nginx's access log; other lines are skipped.
pub(crate) fn read_access_log(path: &Path) -> Result<Vec<AccessLine>, Error> {
    let text = read_or_empty(path)?;
    Ok(complete_lines(&text).filter_map(access_line).collect())
}

fn read_or_empty(path: &Path) -> Result<String, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

/// Returns the complete lines; the last line may still be incomplete.
fn complete_lines(text: &str) -> impl Iterator<Item = &str> {
    let end = text.rfind('\n').map_or(0, |last| last + 1);
    text[..end].lines()
}

fn access_line(line: &str) -> Option<AccessLine> {
    let mut words = line.split(' ');
    Some(AccessLine {
        written_s: words.next()?.parse().ok()?,
        request_time_s: words.next()?.parse().ok()?,
        peer: SocketAddr::new(words.next()?.parse().ok()?, words.next()?.parse().ok()?),
        number: words.next()?.parse().ok()?,
        status: words.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_line_reads() {
        let line = access_line("1700000000.123 0.044 10.77.0.1 51234 3 200 GET / HTTP/1.1")
            .expect("an access line");
        assert_eq!((line.number, line.status), (3, 200));
        assert_eq!(line.peer, "10.77.0.1:51234".parse().expect("an address"));
        assert!((line.request_time_s - 0.044).abs() < 1e-9);
        assert_eq!(access_line(""), None);
        assert_eq!(access_line("1 2 3"), None);
        let v6 = access_line("1.5 0.000 fd77::1 9 1 503 -").expect("an access line");
        assert_eq!(v6.peer, "[fd77::1]:9".parse().expect("an address"));
    }

    #[test]
    fn a_line_under_way_is_left_for_later() {
        assert_eq!(complete_lines("a\nb\nc").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(complete_lines("").count(), 0);
    }
}

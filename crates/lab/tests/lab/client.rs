//! A small HTTP client on the lab's client host, which records when header and body arrived.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lagtrace_lab::server::stamp::Stamp;
use lagtrace_lab::{Family, Host, Lab};

/// A request and its response, on the client's clock.
#[derive(Debug, Clone)]
pub(crate) struct Fetched {
    pub(crate) status: u16,
    /// The time from the write of the request to the end of the header.
    pub(crate) header: Duration,
    /// The time from the end of the header to the end of the body.
    pub(crate) body: Duration,
    pub(crate) length: usize,
}

impl Fetched {
    pub(crate) fn total(&self) -> Duration {
        self.header + self.body
    }
}

pub(crate) fn address(lab: &Lab, service: &str, family: Family) -> SocketAddr {
    let port = lab
        .service(service)
        .expect("a service of the scenario")
        .port;
    SocketAddr::new(lab.server().address(family), port)
}

/// Connects from a host; returns the connection and the time that connecting took.
pub(crate) fn connect(
    from: &Host,
    to: SocketAddr,
    limit: Duration,
) -> io::Result<(TcpStream, Duration)> {
    let connected = from.within(|| {
        let begun = Instant::now();
        // A failed connection is a result, not an error of the host.
        Ok(TcpStream::connect_timeout(&to, limit).map(|stream| (stream, begun.elapsed())))
    });
    let (stream, took) = connected.expect("a thread on the host")?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.set_nodelay(true)?;
    Ok((stream, took))
}

/// Sends this number of requests, one after the other, on one new kept-alive connection.
pub(crate) fn fetch(lab: &Lab, service: &str, requests: usize) -> Vec<Fetched> {
    let to = address(lab, service, Family::V4);
    let (mut stream, _) = connect(lab.client(), to, Duration::from_secs(10)).expect("connects");
    (0..requests)
        .map(|_| exchange(&mut stream, "lab").expect("a response"))
        .collect()
}

/// Sends a request and reads its response.
pub(crate) fn exchange(stream: &mut TcpStream, host: &str) -> io::Result<Fetched> {
    let begun = Instant::now();
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(stream, &mut bytes)?;
    };
    let header = begun.elapsed();
    let text = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let malformed = || io::Error::other(format!("no response: {text}"));
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<usize>().ok())
    };
    let length = field("content-length:").ok_or_else(malformed)?;
    let status = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or_else(malformed)?;
    while bytes.len() < end + length {
        read_more(stream, &mut bytes)?;
    }
    Ok(Fetched {
        status,
        header,
        body: begun.elapsed().saturating_sub(header),
        length,
    })
}

fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut chunk = [0; 4096];
    match stream.read(&mut chunk)? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        length => {
            bytes.extend_from_slice(&chunk[..length]);
            Ok(())
        }
    }
}

/// Waits until a service has this many timestamps, because each is written after its response, and
/// returns them. After 5 s, returns those that exist.
pub(crate) fn stamps_once(lab: &Lab, service: &str, count: usize) -> Vec<Stamp> {
    let begun = Instant::now();
    loop {
        let stamps = lab.stamps(service).expect("reads");
        if stamps.len() >= count || begun.elapsed() > Duration::from_secs(5) {
            return stamps;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the median of the times.
pub(crate) fn median(times: impl IntoIterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.into_iter().collect();
    times.sort();
    times[times.len() / 2]
}

//! A server for one page: for a browser that cannot read the file, or while a watch runs.
//!
//! Any web site that the user visits can make the browser send requests to this host. So the page
//! has a path that nobody can guess, and the name of the host must be this server's own: a site
//! that lets its own name point here (DNS rebinding) gets nothing.

use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use lagtrace_sources::keeper;
use rustix::event::{PollFd, PollFlags, poll};

use crate::failure::Result;
use crate::interrupt::{Interrupt, LONGEST_POLL};
use crate::render::html::{self, Place};

mod capture;
mod connection;
mod places;
mod query;
mod readers;
mod request;
mod served_page;

pub(crate) use capture::Capture;
pub(super) use capture::Reading;
use places::{Held, Places};
use readers::Readers;
use request::{Refusal, Request};
pub(crate) use served_page::{ASKED_EVERY, ServedPage, Version};

/// Maximum number of connections at a time; others wait in the kernel's queue. Browsers open a few
/// before they use them.
const MAX_CONNECTIONS: usize = 16;
/// The types of the answers.
const HTML: &str = "text/html";
const JSON: &str = "application/json";
/// The end of the path in a request for the number of the page's latest version.
const VERSION: &str = "version";
/// Number of random bytes in the path.
const RANDOM: usize = 16;

/// Parses an address to serve at, with or without a port.
pub(crate) fn parse_address(text: &str) -> std::result::Result<SocketAddr, String> {
    let address = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    let address = address.or_else(|_| text.parse::<SocketAddr>());
    address.map_err(|_| format!("`{text}` is not an address: write it like 127.0.0.1:8000"))
}

/// The address at which a page is served by default, at a port that the kernel chooses.
pub(crate) const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A server of one page.
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    readers: Readers,
    path: String,
    page: Arc<ServedPage>,
    /// The capture of the page, if there is one that can be read again.
    capture: Option<Capture>,
}

impl Server {
    /// Starts to listen.
    pub(crate) fn bind(
        address: SocketAddr,
        page: Arc<ServedPage>,
        capture: Option<Capture>,
    ) -> Result<Self> {
        let listener = keeper::listen().unwrap_or_else(|| TcpListener::bind(address));
        let listener = listener.with_context(|| format!("cannot listen at {address}"))?;
        listener.set_nonblocking(true).context("serve the page")?;
        let address = listener.local_addr().context("serve the page")?;
        Ok(Self {
            readers: Readers::of(&listener).context("serve the page")?,
            listener,
            address,
            path: format!("/{}/", random().context("read /dev/urandom")?),
            page,
            capture,
        })
    }

    /// Returns the URL of the page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// Returns the address, and the path of the page there.
    pub(crate) fn place(&self) -> (SocketAddr, &str) {
        (self.address, &self.path)
    }

    /// Returns the port.
    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Answers requests until the user stops the command.
    pub(crate) fn run(&self, interrupt: &Interrupt) -> Result<()> {
        let places = Places::new(MAX_CONNECTIONS);
        thread::scope(|scope| {
            while !interrupt.is_requested() {
                let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
                match poll(&mut ready, Some(&LONGEST_POLL)) {
                    Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                    Ok(_) if !places.make_room() => {
                        thread::sleep(Duration::from_millis(20));
                        continue;
                    }
                    Ok(_) => {}
                    Err(error) => return Err(io::Error::from(error)),
                }
                // A connection that was reset meanwhile is not a failure of the server.
                let Ok((stream, _)) = self.listener.accept() else {
                    continue;
                };
                let Ok(held) = places.take(&stream) else {
                    continue;
                };
                // A peer that goes away hurts nobody else.
                scope.spawn(move || self.answer(stream, held, interrupt).ok());
            }
            Ok(())
        })
        .context("serve the page")?;
        Ok(())
    }

    /// Reads one request and answers it.
    fn answer(
        &self,
        mut stream: TcpStream,
        mut held: Held<'_>,
        interrupt: &Interrupt,
    ) -> io::Result<()> {
        connection::prepare(&stream)?;
        let is_over = || interrupt.is_requested();
        let Some(head) = connection::read(&mut stream, is_over)? else {
            return Ok(());
        };
        let mut asked = head.and_then(|head| self.asked(&head));
        if asked.is_ok() && !self.readers.include(&stream)? {
            asked = Err(Refusal::Reader);
        }
        if asked.is_ok() && !held.keep() {
            return Ok(());
        }
        // A reader who has gone does not let others wait while a capture is read.
        let interrupt = interrupt.or_gone(stream.try_clone()?);
        let answer = asked.and_then(|asked| self.find(&asked, &interrupt));
        let (status, body, kind) = match &answer {
            Ok((body, kind)) => ("200 OK", &**body, *kind),
            Err(refusal) => (refusal.status(), "", HTML),
        };
        let header = header(status, body.len(), kind);
        connection::write(&mut stream, header.as_bytes(), is_over)?;
        connection::write(&mut stream, body.as_bytes(), is_over)?;
        connection::part(&mut stream)
    }

    /// Returns what a request asks for below the path of the page.
    fn asked(&self, head: &[u8]) -> std::result::Result<String, Refusal> {
        let request = Request::parse(head)?;
        if !self.is_own(&request.host) {
            return Err(Refusal::Host);
        }
        if request.method != "GET" {
            return Err(Refusal::Method);
        }
        let asked = request.target.strip_prefix(&self.path);
        Ok(asked.ok_or(Refusal::Path)?.to_owned())
    }

    /// Returns the page or the part of the capture that is asked for, with the type of the
    /// content.
    fn find(
        &self,
        asked: &str,
        interrupt: &Interrupt,
    ) -> std::result::Result<(Arc<str>, &'static str), Refusal> {
        match (asked, &self.capture) {
            ("", _) => Ok((self.page.text(), HTML)),
            (VERSION, _) => Ok((self.page.news(), JSON)),
            (asked, Some(capture)) => Ok((capture.answer(asked, interrupt)?.into(), JSON)),
            (_, None) => Err(Refusal::Path),
        }
    }

    /// Returns true if a host is this server: its address, or `localhost` if that is its address.
    /// If the server listens at all addresses, any address of this host with its port is.
    fn is_own(&self, host: &str) -> bool {
        let port = self.address.port();
        if self.address.ip().is_loopback() && host == format!("localhost:{port}") {
            return true;
        }
        let Ok(named) = host.parse::<SocketAddr>() else {
            return false;
        };
        named == self.address || self.address.ip().is_unspecified() && named.port() == port
    }
}

/// Returns the header of an answer.
fn header(status: &str, length: usize, kind: &str) -> String {
    let policy = html::policy(Place::Server);
    format!(
        "HTTP/1.1 {status}\r\n\
         Content-Type: {kind}; charset=utf-8\r\n\
         Content-Length: {length}\r\n\
         Content-Security-Policy: {policy}; frame-ancestors 'none'\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n\
         X-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\n\
         Cache-Control: no-store\r\n\
         Allow: GET\r\n\
         Connection: close\r\n\r\n"
    )
}

/// Returns random digits from the kernel.
fn random() -> io::Result<String> {
    let mut bytes = [0; RANDOM];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(server: &Server, head: &str) -> &'static str {
        let interrupt = Interrupt::listen().expect("signals can be handled");
        let asked = server.asked(head.as_bytes());
        match asked.and_then(|asked| server.find(&asked, &interrupt)) {
            Ok(_) => "200 OK",
            Err(refusal) => refusal.status(),
        }
    }

    #[test]
    fn only_the_page_is_served_and_only_under_its_own_name() {
        let page = ServedPage::new(Version::only("page".to_owned()));
        let server = Server::bind(DEFAULT, Arc::new(page), None).expect("a port");
        let (port, path) = (server.address.port(), server.path.clone());
        assert_eq!(path.len(), 2 * RANDOM + 2);
        let own = format!("Host: 127.0.0.1:{port}\r\n");
        let local = format!("hOST: localhost:{port}\r\n");
        let get = format!("GET {path} HTTP/1.1\r\n");
        for (head, status) in [
            (format!("{get}{own}\r\n"), "200 OK"),
            (format!("{get}{local}\r\n"), "200 OK"),
            (format!("GET {path}version HTTP/1.1\r\n{own}\r\n"), "200 OK"),
            (
                format!("GET {path}version/ HTTP/1.1\r\n{own}\r\n"),
                "404 Not Found",
            ),
            (
                format!("GET /version HTTP/1.1\r\n{own}\r\n"),
                "404 Not Found",
            ),
            (
                format!("{get}Host: evil.example:{port}\r\n\r\n"),
                "421 Misdirected Request",
            ),
            (
                format!("{get}Host: 127.0.0.1\r\n\r\n"),
                "421 Misdirected Request",
            ),
            (format!("{get}\r\n"), "400 Bad Request"),
            (format!("{get}{own}{own}\r\n"), "400 Bad Request"),
            (format!("GET / HTTP/1.1\r\n{own}\r\n"), "404 Not Found"),
            (
                format!("GET {path}x HTTP/1.1\r\n{own}\r\n"),
                "404 Not Found",
            ),
            (
                format!("GET {path}packets/0 HTTP/1.1\r\n{own}\r\n"),
                "404 Not Found",
            ),
            (
                format!("POST {path} HTTP/1.1\r\n{own}\r\n"),
                "405 Method Not Allowed",
            ),
            (format!("GET {path}\r\n\r\n"), "400 Bad Request"),
            ("\0\0\r\n\r\n".to_owned(), "400 Bad Request"),
        ] {
            assert_eq!(asked(&server, &head), status, "{head:?}");
        }
    }

    #[test]
    fn addresses_may_lack_a_port() {
        assert_eq!(parse_address("127.0.0.1"), Ok(DEFAULT));
        assert!(parse_address("[::1]:80").is_ok() && parse_address("::1").is_ok());
        assert!(parse_address("slow.pcap").is_err());
    }
}

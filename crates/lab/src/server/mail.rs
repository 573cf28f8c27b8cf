//! A mail server with the commands that a client needs to deliver a message (RFC 5321). It is
//! included because its protocol starts with data from the server, unlike HTTP.

#![allow(unsafe_code)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::accept::serve_all;
use crate::error::Error;

/// Maximum number of connections served in parallel; further ones are closed.
const MOST_CONNECTIONS: usize = 256;

/// The idle time after which a connection is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// Maximum number of bytes read from one connection.
const LONGEST_DIALOGUE: u64 = 1 << 20;

/// Maximum `TCP_DEFER_ACCEPT` in a scenario, in whole seconds, which is the option's unit.
const LONGEST_DEFERRAL_S: u8 = 60;

/// A mail server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mail {
    /// The seconds of `TCP_DEFER_ACCEPT` on the listening socket: the program is notified of a
    /// connection only once data has arrived, or once the kernel has retransmitted its SYN/ACK for
    /// that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defer_accept_s: Option<u8>,
}

impl Mail {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.defer_accept_s {
            Some(time) if !(1..=LONGEST_DEFERRAL_S).contains(&time) => Err(format!(
                "a connection is deferred for 1 to {LONGEST_DEFERRAL_S} s"
            )),
            _ => Ok(()),
        }
    }
}

/// The plan for the process of one such service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MailPlan {
    pub(crate) mail: Mail,
    pub(crate) port: u16,
}

/// Serves until the process is ended.
pub(crate) fn run(plan: MailPlan) -> Result<(), Error> {
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, plan.port));
    let listener =
        TcpListener::bind(address).map_err(Error::file("listen on", address.to_string()))?;
    if let Some(time) = plan.mail.defer_accept_s {
        defer_accept(&listener, time.into())
            .map_err(Error::file("defer connections on", address.to_string()))?;
    }
    serve_all(&listener, MOST_CONNECTIONS, Duration::ZERO, |connection| {
        // An error on one connection does not affect the others.
        let _ = converse(connection);
    });
    Ok(())
}

fn converse(connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(IDLE_LIMIT))?;
    let mut to = connection;
    to.write_all(b"220 mail.lab.test ready\r\n")?;
    let mut lines = BufReader::new(connection.take(LONGEST_DIALOGUE)).split(b'\n');
    let mut is_message = false;
    while let Some(line) = lines.next().transpose()? {
        if is_message && line.trim_ascii_end() != b"." {
            continue;
        }
        let answer = answer(&line, is_message);
        is_message = answer.starts_with("354");
        to.write_all(answer.as_bytes())?;
        if answer.starts_with("221") {
            break;
        }
    }
    Ok(())
}

/// Returns the reply to a command, or to the end of a message.
fn answer(line: &[u8], is_message: bool) -> &'static str {
    let verb = line.get(..4).unwrap_or(line).to_ascii_uppercase();
    match &verb[..] {
        _ if is_message => "250 taken\r\n",
        b"EHLO" | b"HELO" => "250 mail.lab.test\r\n",
        b"MAIL" | b"RCPT" | b"RSET" | b"NOOP" => "250 so be it\r\n",
        b"DATA" => "354 go on, and end with a dot\r\n",
        b"QUIT" => "221 goodbye\r\n",
        _ => "502 no such command here\r\n",
    }
}

/// Sets `TCP_DEFER_ACCEPT`.
fn defer_accept(listener: &TcpListener, seconds: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is the borrowed listener's; the kernel reads the bytes that
    // `seconds` holds, whose size is given.
    let set = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::answer;

    #[test]
    fn a_message_is_handed_over() {
        let dialogue: [(&[u8], bool, &str); 7] = [
            (b"EHLO client\r", false, "250"),
            (b"mail from:<a@lab.test>\r", false, "250"),
            (b"DATA\r", false, "354"),
            (b".\r", true, "250"),
            (b"QUIT\r", false, "221"),
            (b"", false, "502"),
            (b"\xff\xff\xff\xff\xff", false, "502"),
        ];
        for (line, is_message, wanted) in dialogue {
            assert!(answer(line, is_message).starts_with(wanted), "{line:?}");
        }
    }
}

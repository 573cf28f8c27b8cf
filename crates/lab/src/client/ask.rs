//! The connections of one client, and their requests.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};

use super::incoming::Incoming;
use super::{Asked, Ending, OwnClient};
use crate::server::own::{realtime_ns, text};

/// Maximum time to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Performs the actions of all connections and prints their results.
pub(super) fn all(client: &OwnClient, to: SocketAddr) -> io::Result<()> {
    // Without timer slack, so that a client sleeps for the time that it is set to. Threads inherit
    // it.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let asking = Asking {
        client,
        to,
        writes: writes(client),
        begun: Instant::now(),
        wanted: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let connections = (0..client.connections).map(|_| scope.spawn(|| asking.connection()));
        let connections: Vec<_> = connections.collect();
        connections.into_iter().try_for_each(|connection| {
            let ended = connection.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("a connection's thread panicked")))
        })
    })
}

/// The state that all connections of a client share.
struct Asking<'a> {
    client: &'a OwnClient,
    to: SocketAddr,
    writes: Vec<Vec<u8>>,
    begun: Instant,
    /// The number of actions that connections have taken so far.
    wanted: AtomicU64,
}

impl Asking<'_> {
    /// Runs one connection from start to end.
    fn connection(&self) -> io::Result<()> {
        let mut open = None;
        for _ in 0..self.client.requests {
            if open.is_none() && !self.client.fresh {
                open = self.connect().ok();
            }
            let begun = self.wait_until_wanted().unwrap_or_else(Instant::now);
            // The elapsed time is read before the clock: if the thread loses its processor in
            // between, the action seems to begin late, but still before its first packet, and not
            // to end early.
            let elapsed = begun.elapsed();
            let begin_ns = realtime_ns().saturating_sub(nanoseconds(elapsed));
            let ok = self.act(&mut open).is_ok();
            let latency = begun.elapsed();
            if self.client.fresh || self.client.ending != Ending::Keep {
                open = None;
            }
            say(&Asked {
                begin_ns,
                latency_ns: nanoseconds(latency),
                ok,
            })?;
            sleep(self.client.pause);
        }
        Ok(())
    }

    /// Waits until the next action is due and returns that time; `None` if actions have no due
    /// times.
    fn wait_until_wanted(&self) -> Option<Instant> {
        if self.client.every.is_zero() {
            return None;
        }
        let number = self.wanted.fetch_add(1, Ordering::Relaxed);
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let due = self.begun + self.client.every.saturating_mul(number);
        sleep(due.saturating_duration_since(Instant::now()));
        Some(due)
    }

    /// Performs one action. If the connection was opened for an earlier action and turns out to be
    /// dead, the action is repeated once on a new connection, as connection pools do.
    fn act(&self, open: &mut Option<TcpStream>) -> io::Result<()> {
        if let Some(connection) = open.take() {
            let mut incoming = Incoming::new(&connection, &self.client.response);
            let done = self.exchange_all(&connection, &mut incoming);
            let (has_begun, has_ended) = (incoming.has_begun, incoming.has_ended);
            if done.is_ok() && !has_ended {
                *open = Some(connection);
            }
            if done.is_ok() || has_begun || self.client.ending != Ending::Keep {
                return done;
            }
        }
        let connection = self.connect()?;
        let mut incoming = Incoming::new(&connection, &self.client.response);
        self.exchange_all(&connection, &mut incoming)?;
        if !incoming.has_ended {
            *open = Some(connection);
        }
        Ok(())
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.to), Type::STREAM, None)?;
        if let Some(size) = self.client.socket.receive_buffer {
            let size = usize::try_from(size.bytes()).unwrap_or(usize::MAX);
            socket.set_recv_buffer_size(size)?;
        }
        if let Some(port) = self.client.socket.local_port {
            socket.set_reuse_address(true)?;
            let any: IpAddr = match self.to {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            socket.bind(&SocketAddr::new(any, port).into())?;
        }
        socket.connect_timeout(&self.to.into(), CONNECT_LIMIT)?;
        let connection = TcpStream::from(socket);
        connection.set_nodelay(!self.client.socket.nagle)?;
        connection.set_read_timeout(Some(self.client.patience))?;
        connection.set_write_timeout(Some(self.client.patience))?;
        sleep(self.client.request.after_connecting);
        Ok(connection)
    }

    /// Performs the requests of one action.
    fn exchange_all(
        &self,
        connection: &TcpStream,
        incoming: &mut Incoming<'_, &TcpStream>,
    ) -> io::Result<()> {
        if self.client.pipelined {
            let requests = self.writes.concat().repeat(self.client.action.into());
            (&mut &*connection).write_all(&requests)?;
            return (0..self.client.action).try_for_each(|_| incoming.response());
        }
        for n in 0..self.client.action {
            if n > 0 {
                sleep(self.client.think);
            }
            self.write(connection)?;
            match self.client.ending {
                Ending::Keep => incoming.response()?,
                Ending::HalfClose => {
                    connection.shutdown(Shutdown::Write)?;
                    incoming.response()?;
                }
                Ending::Reset => {
                    incoming.begin()?;
                    return SockRef::from(connection).set_linger(Some(Duration::ZERO));
                }
            }
        }
        Ok(())
    }

    fn write(&self, mut to: &TcpStream) -> io::Result<()> {
        for (n, bytes) in self.writes.iter().enumerate() {
            if n > 0 {
                sleep(self.client.request.between);
            }
            to.write_all(bytes)?;
        }
        Ok(())
    }
}

/// Returns the request's bytes, split into the writes.
fn writes(client: &OwnClient) -> Vec<Vec<u8>> {
    let Some(length) = client.request.body else {
        return vec![b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n".to_vec()];
    };
    let body = text(Some(length.bytes()));
    let piece = client.request.piece.map_or(u64::MAX, |size| size.bytes());
    let piece = usize::try_from(piece).unwrap_or(usize::MAX).max(1);
    let header = format!(
        "POST / HTTP/1.1\r\nHost: lab\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut writes = vec![header.into_bytes()];
    writes.extend(body.chunks(piece).map(<[u8]>::to_vec));
    if !client.request.apart && writes.len() > 1 {
        let first = writes.remove(1);
        writes[0].extend(first);
    }
    writes
}

/// Prints one action in a single write, so that the lines of several threads are not mixed.
fn say(asked: &Asked) -> io::Result<()> {
    let mut line = serde_json::to_vec(asked)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Size;

    #[test]
    fn a_request_is_cut_as_asked() {
        let mut client = OwnClient::default();
        assert_eq!(writes(&client).len(), 1);
        client.request.body = Some(Size::from_bytes(10));
        assert_eq!(writes(&client).len(), 1);
        client.request.apart = true;
        assert_eq!(writes(&client).len(), 2);
        client.request.piece = Some(Size::from_bytes(4));
        let lengths: Vec<usize> = writes(&client)[1..].iter().map(Vec::len).collect();
        assert_eq!(lengths, [4, 4, 2]);
    }
}

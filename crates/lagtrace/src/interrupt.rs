//! Handling of Ctrl-C, which ends the measurement; the report is still printed.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Result;

/// The interval at which work that waits checks whether the user requested a stop.
pub(crate) const CHECKED_EVERY: Duration = Duration::from_millis(50);
/// Maximum time for which an input is awaited before that is checked.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// [`LONGEST_WAIT`], for `poll`.
pub(crate) const LONGEST_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: LONGEST_WAIT.subsec_nanos() as _,
};

/// The user's request to stop. A second request ends the program immediately. The default is one
/// that only the program makes, for a part of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    /// The peer for whom the work is done, if there is one.
    peer: Option<Arc<TcpStream>>,
}

impl Interrupt {
    /// Starts listening for SIGINT and SIGTERM.
    pub(crate) fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal must only set the flag.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .context("install the handler for Ctrl-C")?;
        }
        Ok(Self { asked, peer: None })
    }

    /// Returns a request to stop that also counts as made when the peer closes the connection.
    pub(crate) fn or_gone(&self, peer: TcpStream) -> Self {
        Self {
            asked: Arc::clone(&self.asked),
            peer: Some(Arc::new(peer)),
        }
    }

    /// Returns true if the user requested a stop.
    pub(crate) fn is_requested(&self) -> bool {
        self.asked.load(Ordering::Relaxed) || self.peer.as_deref().is_some_and(has_gone)
    }

    /// Stops as if the user had requested it, for example because the output's reader has exited.
    pub(crate) fn request(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Returns the flag itself, for sources that poll it.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.asked
    }
}

/// Returns true if the peer has closed the connection.
fn has_gone(peer: &TcpStream) -> bool {
    let mut gone = [PollFd::new(peer, PollFlags::RDHUP)];
    poll(&mut gone, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn work_for_a_peer_ends_when_it_goes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer = TcpStream::connect(listener.local_addr().expect("its address"));
        let (accepted, _) = listener.accept().expect("the connection");
        let interrupt = Interrupt::listen().expect("signals can be handled");
        let own = interrupt.or_gone(accepted);
        assert!(!own.is_requested());
        drop(peer);
        while !own.is_requested() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(!interrupt.is_requested());
    }
}

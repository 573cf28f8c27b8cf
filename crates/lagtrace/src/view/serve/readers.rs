//! The users on this host who get the page.
//!
//! The path of the page is a secret, but a browser is started with it as an argument, which every
//! user of the host can read. So a connection must belong to the reader, or to root. The kernel
//! tells the owner of the socket at its other end. A page that root serves for nobody in particular
//! is for all who know the path; root starts no browser.

use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};

use lagtrace_core::observed::flow::Endpoint;
use lagtrace_sources::privilege::sudo_user;
use lagtrace_sources::socket::diag::DiagSocket;

const ROOT: u32 = 0;

/// The users who may read.
#[derive(Debug)]
pub(super) struct Readers {
    /// The user who started the program; `None` if that is root.
    user: Option<u32>,
    /// `None` if the kernel does not tell the owners of sockets.
    sockets: Option<Mutex<DiagSocket>>,
}

impl Readers {
    /// Returns the users for whom this listener was opened: its owner, or the user behind sudo.
    pub(super) fn of(listener: &TcpListener) -> io::Result<Self> {
        let owner = File::from(listener.as_fd().try_clone_to_owned()?);
        let owner = owner.metadata()?.uid();
        let user = match owner {
            ROOT => sudo_user().map(|behind| behind.user),
            owner => Some(owner),
        };
        Ok(Self {
            user,
            sockets: DiagSocket::open().ok().map(Mutex::new),
        })
    }

    /// Returns true unless the socket at the other end is on this host and belongs to another user.
    pub(super) fn include(&self, stream: &TcpStream) -> io::Result<bool> {
        let (Some(user), Some(sockets)) = (self.user, &self.sockets) else {
            return Ok(true);
        };
        let (theirs, ours) = (stream.peer_addr()?, stream.local_addr()?);
        let (theirs, ours) = (Endpoint::from(theirs), Endpoint::from(ours));
        let mut sockets = sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let found = sockets.find(theirs, ours).ok().flatten();
        Ok(found.is_none_or(|socket| socket.uid == user || socket.uid == ROOT))
    }
}

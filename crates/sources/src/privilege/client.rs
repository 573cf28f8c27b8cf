//! The worker's end of the connection to its keeper.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::HostError;
use super::channel::Channel;
use super::message::{Reply, Request};

/// The keeper of this process. A process has one from its start, or never.
static KEEPER: OnceLock<Client> = OnceLock::new();

/// A connection to the keeper. Requests of several threads are answered one after the other.
#[derive(Debug)]
pub(crate) struct Client {
    /// `None` once the connection was closed.
    channel: Mutex<Option<Channel>>,
}

/// Returns the connection to this process's keeper, if it has one.
pub(crate) fn keeper() -> Option<&'static Client> {
    KEEPER.get()
}

/// Makes all further privileged operations of this process requests to the keeper.
pub(crate) fn connect(channel: Channel) {
    let client = Client {
        channel: Mutex::new(Some(channel)),
    };
    KEEPER.set(client).unwrap_or_default();
}

/// Closes the connection. The keeper then restores what it changed, and ends.
pub(crate) fn disconnect() {
    if let Some(client) = KEEPER.get() {
        let mut channel = client
            .channel
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Another descriptor of the socket is open to wait for the keeper's end.
        if let Some(channel) = channel.take() {
            channel.shut();
        }
    }
}

impl Client {
    /// Asks for an operation.
    ///
    /// # Errors
    /// Returns the error of the operation, or an error if the keeper has ended.
    pub(crate) fn ask(&self, request: &Request) -> Result<(Reply, Vec<OwnedFd>), HostError> {
        self.ask_with(request, &[])
    }

    /// Asks for an operation on descriptors of this process.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::ask`].
    pub(crate) fn ask_with(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>), HostError> {
        // A panic of another thread between request and answer ends the process.
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = channel.as_ref().ok_or_else(unexpected)?;
        let answer = channel
            .send_request(request, descriptors)
            .and_then(|()| channel.receive())
            .and_then(|answer| answer.ok_or_else(|| io::ErrorKind::BrokenPipe.into()));
        match answer {
            Ok((Reply::Refused(refusal), _)) => Err(refusal.into()),
            Ok(answer) => Ok(answer),
            Err(error) => Err(HostError::failed("asking the privileged process", error)),
        }
    }

    /// Asks for an operation that returns a descriptor.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::ask`].
    pub(crate) fn descriptor(&self, request: &Request) -> Result<OwnedFd, HostError> {
        let (_, descriptors) = self.ask(request)?;
        descriptors.into_iter().next().ok_or_else(unexpected)
    }

    /// Asks for an operation that returns an open file, and reads at most `most` bytes of it.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::ask`].
    pub(crate) fn text(&self, request: &Request, most: u64) -> Result<String, HostError> {
        let file = File::from(self.descriptor(request)?);
        let mut bytes = Vec::new();
        file.take(most)
            .read_to_end(&mut bytes)
            .map_err(|error| HostError::failed("reading a file of the kernel", error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the socket of the connection, to wait for the keeper's end.
    pub(crate) fn socket(&self) -> io::Result<OwnedFd> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = channel.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        channel.as_fd().try_clone_to_owned()
    }
}

/// Returns the error for an answer that does not fit the request.
pub(crate) fn unexpected() -> HostError {
    HostError::failed(
        "asking the privileged process",
        io::Error::from(io::ErrorKind::InvalidData),
    )
}

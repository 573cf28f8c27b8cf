//! The socket pair between the worker and its keeper. A message is one datagram, with at most a
//! few descriptors.
//!
//! The two directions differ. A request of the worker is short and in the datagram itself: what it
//! passes in a descriptor could make its keeper wait, or take any memory. An answer of the keeper
//! may be long.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
    recvmsg, sendmsg, shutdown, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum size of a request in bytes: that of the longest one, for eBPF programs. Next are two paths
/// of 4096 bytes each.
pub(crate) const MOST_REQUEST: usize = (16 << 10) + 64;
/// Maximum size of an answer's datagram in bytes. A longer answer is passed in memory that both
/// processes can read.
const MOST_INLINE: usize = 32 << 10;
/// Maximum size of an answer in bytes.
const MOST: u64 = 64 << 20;
/// The first byte of a datagram: the message follows, or it is in the last descriptor.
const INLINE: u8 = 0;
const IN_MEMORY: u8 = 1;

/// One end of the socket pair.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

impl Channel {
    /// Returns the two ends of a new socket pair.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Sends a request with at most one descriptor, which the receiver gets as a duplicate.
    ///
    /// # Errors
    /// Returns an error if the other process has ended, or if the request is too long.
    pub(crate) fn send_request<T: Serialize>(
        &self,
        request: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = postcard::to_stdvec(request).map_err(io::Error::other)?;
        if bytes.len() > MOST_REQUEST {
            return Err(io::ErrorKind::ArgumentListTooLong.into());
        }
        self.send_datagram(&[&[INLINE], &bytes], descriptors)
    }

    /// Sends an answer with descriptors, which the receiver gets as duplicates.
    ///
    /// # Errors
    /// Returns an error if the other process has ended.
    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
        if bytes.len() <= MOST_INLINE {
            return self.send_datagram(&[&[INLINE], &bytes], descriptors);
        }
        let mut memory = File::from(rustix::fs::memfd_create(
            "lagtrace-message",
            MemfdFlags::CLOEXEC,
        )?);
        memory.write_all(&bytes)?;
        memory.rewind()?;
        let with_memory = [descriptors, &[memory.as_fd()]].concat();
        self.send_datagram(&[&[IN_MEMORY]], &with_memory)
    }

    /// Ends the connection, even if other descriptors of this end are open.
    pub(crate) fn shut(self) {
        shutdown(&self.0, Shutdown::Both).unwrap_or_default();
    }

    fn send_datagram(&self, parts: &[&[u8]], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors))
        {
            return Err(io::ErrorKind::ArgumentListTooLong.into());
        }
        let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        loop {
            match sendmsg(&self.0, &parts, &mut ancillary, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                other => return other.map(|_| ()).map_err(io::Error::from),
            }
        }
    }

    /// Receives a request; `None` if the other process has ended.
    ///
    /// # Errors
    /// Returns an error for a request that is malformed or too long, or has more than one
    /// descriptor. None of it is kept.
    pub(crate) fn receive_request<T: DeserializeOwned>(
        &self,
    ) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        let mut bytes = vec![0; 1 + MOST_REQUEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut descriptors = self.receive_datagram(&mut bytes, &mut space)?;
        match bytes.split_first() {
            None => Ok(None),
            Some((&INLINE, request)) => {
                let request = postcard::from_bytes(request).map_err(|_| malformed())?;
                // The space for one descriptor may be enough for two (`CMSG_SPACE(3)`).
                match (descriptors.pop(), descriptors.is_empty()) {
                    (one, true) => Ok(Some((request, one))),
                    _ => Err(malformed()),
                }
            }
            Some(_) => Err(malformed()),
        }
    }

    /// Receives an answer; `None` if the other process has ended.
    ///
    /// # Errors
    /// Returns an error for an answer that is malformed or too long.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut bytes = vec![0; 1 + MOST_INLINE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
        let mut descriptors = self.receive_datagram(&mut bytes, &mut space)?;
        let bytes = match bytes.split_first() {
            None => return Ok(None),
            Some((&INLINE, message)) => message.to_vec(),
            Some((&IN_MEMORY, [])) => {
                let memory = descriptors.pop().ok_or_else(malformed)?;
                let mut message = Vec::new();
                File::from(memory).take(MOST).read_to_end(&mut message)?;
                message
            }
            _ => return Err(malformed()),
        };
        let message = postcard::from_bytes(&bytes).map_err(|_| malformed())?;
        Ok(Some((message, descriptors)))
    }

    /// Receives a datagram that fits into the space for its bytes and descriptors. It is empty if the
    /// other process has ended.
    fn receive_datagram(
        &self,
        bytes: &mut Vec<u8>,
        space: &mut [MaybeUninit<u8>],
    ) -> io::Result<Vec<OwnedFd>> {
        let mut ancillary = RecvAncillaryBuffer::new(space);
        let received = loop {
            let parts = &mut [IoSliceMut::new(bytes)];
            match recvmsg(&self.0, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        let descriptors = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            })
            .flatten()
            .collect();
        let is_cut = received
            .flags
            .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
        if is_cut {
            return Err(malformed());
        }
        bytes.truncate(received.bytes);
        Ok(descriptors)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a malformed message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_any_length_arrive_with_their_descriptors() {
        let (one, other) = Channel::pair().expect("a pair");
        for length in [0, 1, MOST_INLINE - 8, MOST_INLINE, 1 << 20] {
            let sent = vec![7u8; length];
            let file = File::open("/dev/null").expect("opens");
            one.send(&sent, &[file.as_fd()]).expect("sent");
            let (got, descriptors) = other
                .receive::<Vec<u8>>()
                .expect("well-formed")
                .expect("one");
            assert_eq!((got, descriptors.len()), (sent, 1), "{length} bytes");
        }
        drop(one);
        assert!(other.receive::<Vec<u8>>().expect("the end").is_none());
    }

    #[test]
    fn a_malformed_message_is_refused() {
        let (one, other) = Channel::pair().expect("a pair");
        for bytes in [
            &[9][..],
            &[INLINE],
            &[INLINE, 200],
            &[IN_MEMORY],
            &[IN_MEMORY, 1],
        ] {
            one.send_datagram(&[bytes], &[]).expect("sent");
            other.receive::<Vec<u8>>().expect_err("malformed");
            one.send_datagram(&[bytes], &[]).expect("sent");
            other.receive_request::<Vec<u8>>().expect_err("malformed");
        }
    }

    #[test]
    fn a_request_is_in_its_datagram_and_short() {
        let (one, other) = Channel::pair().expect("a pair");
        // Two bytes say the length.
        let mut request = vec![7u8; MOST_REQUEST - 3];
        one.send_request(&request, &[]).expect("sent");
        let received = other.receive_request::<Vec<u8>>().expect("well-formed");
        assert_eq!(received.expect("one").0, request);
        request.extend([7; 4]);
        one.send_request(&request, &[]).expect_err("too long");
        one.send(&request, &[]).expect("sent");
        other.receive_request::<Vec<u8>>().expect_err("too long");
    }

    #[test]
    fn a_request_reads_no_file_of_the_worker() {
        let (one, other) = Channel::pair().expect("a pair");
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        // To read the pipe would wait for ever.
        one.send_datagram(&[&[IN_MEMORY]], &[reader.as_fd()])
            .expect("sent");
        other.receive_request::<Vec<u8>>().expect_err("malformed");
    }

    #[test]
    fn a_request_has_one_descriptor() {
        let (one, other) = Channel::pair().expect("a pair");
        let file = File::open("/dev/null").expect("opens");
        for count in 0..=5 {
            let descriptors = vec![file.as_fd(); count];
            one.send_request(&7u8, &descriptors).expect("sent");
            let received = other.receive_request::<u8>();
            assert_eq!(received.is_ok(), count <= 1, "{count}");
        }
    }
}

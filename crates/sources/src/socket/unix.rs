//! A Unix socket's record in a `sock_diag` reply (`include/uapi/linux/unix_diag.h`).

use lagtrace_core::observed::sockets::{Buffers, Protocol};

use super::record::{self, TcpState};
use crate::netlink::attributes_after;
use crate::netlink::message::{array_at, u32_at};

/// Bytes of `struct unix_diag_msg`.
const RECORD_BYTES: usize = 16;
/// Bytes of `struct unix_diag_req`.
const REQUEST_BYTES: usize = 24;
/// Attributes requested: `UDIAG_SHOW_NAME`, `_PEER`, `_RQLEN`, `_MEMINFO`, `_UID`.
const SHOW: u32 = 1 | 4 | 0x10 | 0x20 | 0x40;
/// Attributes that are used.
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_RQLEN: u16 = 4;
const UNIX_DIAG_MEMINFO: u16 = 5;
const UNIX_DIAG_UID: u16 = 7;
/// Maximum length of a path in bytes (`UNIX_PATH_MAX`).
const LONGEST_PATH: usize = 108;

/// A Unix socket as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixRecord {
    /// Kind of Unix socket.
    pub protocol: Protocol,
    /// State, with the number of the corresponding TCP state.
    pub state: TcpState,
    /// Unique number of the socket in the kernel (`SO_COOKIE`).
    pub cookie: u64,
    /// Inode number; 0 for a connection that has not been accepted yet.
    pub inode: u32,
    /// Inode number of the peer.
    pub peer: Option<u32>,
    /// Path that the socket is bound to. An abstract name is shown with a leading `@`.
    pub path: Option<String>,
    /// User ID of the socket's creator; `None` before Linux 5.3.
    pub uid: Option<u32>,
    /// Bytes that have not been read; for a datagram socket, only those of the next datagram. For a
    /// listener, number of connections in the accept queue.
    pub receive_queue: u32,
    /// Kernel memory in bytes of data that the peer has not read. For a listener, maximum length of
    /// the accept queue.
    pub send_queue: u32,
    /// Buffer sizes and limits; `None` if the kernel does not report them.
    pub memory: Option<Buffers>,
}

/// Encodes `struct unix_diag_req` for all sockets in these states.
pub(super) fn request(states: u32) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    request[0] = libc::AF_UNIX as u8;
    request[4..8].copy_from_slice(&states.to_ne_bytes());
    request[12..16].copy_from_slice(&SHOW.to_ne_bytes());
    request[16..24].fill(0xff); // no cookie
    request
}

/// Parses a record; `None` if it is shorter than in any kernel, or has an unknown type or state.
pub fn parse(payload: &[u8]) -> Option<UnixRecord> {
    let [family, kind, state, _] = array_at::<4>(payload, 0)?;
    if i32::from(family) != libc::AF_UNIX {
        return None;
    }
    let mut record = UnixRecord {
        protocol: protocol(kind)?,
        state: TcpState::from_number(state)?,
        cookie: u64::from(u32_at(payload, 8)?) | u64::from(u32_at(payload, 12)?) << 32,
        inode: u32_at(payload, 4)?,
        peer: None,
        path: None,
        uid: None,
        receive_queue: 0,
        send_queue: 0,
        memory: None,
    };
    for (kind, value) in attributes_after(payload, RECORD_BYTES) {
        match kind {
            UNIX_DIAG_NAME => record.path = path(value),
            UNIX_DIAG_PEER => record.peer = u32_at(value, 0).filter(|&inode| inode != 0),
            UNIX_DIAG_RQLEN => {
                record.receive_queue = u32_at(value, 0).unwrap_or_default();
                record.send_queue = u32_at(value, 4).unwrap_or_default();
            }
            UNIX_DIAG_MEMINFO => record.memory = record::memory(value),
            UNIX_DIAG_UID => record.uid = u32_at(value, 0),
            _ => {}
        }
    }
    Some(record)
}

fn protocol(kind: u8) -> Option<Protocol> {
    match i32::from(kind) {
        libc::SOCK_STREAM => Some(Protocol::UnixStream),
        libc::SOCK_DGRAM => Some(Protocol::UnixDatagram),
        libc::SOCK_SEQPACKET => Some(Protocol::UnixSeqpacket),
        _ => None,
    }
}

/// Returns the printable form of a socket's name. The leading zero byte of an abstract name is
/// shown as `@`. Control characters are replaced.
fn path(value: &[u8]) -> Option<String> {
    let value = value.get(..value.len().min(LONGEST_PATH))?;
    let (sign, name) = match value {
        [] => return None,
        [0, name @ ..] => ("@", name),
        name => ("", name.split(|&b| b == 0).next()?),
    };
    let text = String::from_utf8_lossy(name);
    let shown = text.chars().map(|c| match c {
        '\0' => '@',
        c if c.is_control() => '?',
        c => c,
    });
    Some(format!("{sign}{}", shown.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::message::push_attribute;

    fn header() -> Vec<u8> {
        let mut bytes = vec![0; RECORD_BYTES];
        (bytes[0], bytes[1], bytes[2]) = (1, 1, 10);
        bytes[4..8].copy_from_slice(&77_u32.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_record_is_read_field_by_field() {
        let mut bytes = header();
        push_attribute(&mut bytes, UNIX_DIAG_NAME, b"/run/a.sock");
        push_attribute(&mut bytes, UNIX_DIAG_RQLEN, &[3, 0, 0, 0, 128, 0, 0, 0]);
        let record = parse(&bytes).expect("a whole record");
        assert_eq!(
            (record.protocol, record.state),
            (Protocol::UnixStream, TcpState::Listen)
        );
        assert_eq!((record.inode, record.peer), (77, None));
        assert_eq!(record.path.as_deref(), Some("/run/a.sock"));
        if cfg!(target_endian = "little") {
            assert_eq!((record.receive_queue, record.send_queue), (3, 128));
        }
    }

    #[test]
    fn names_are_made_harmless() {
        assert_eq!(path(b"\0a\0b").as_deref(), Some("@a@b"));
        assert_eq!(path(b"/a\0rest").as_deref(), Some("/a"));
        assert_eq!(path(b"/a\x1b[2J").as_deref(), Some("/a?[2J"));
        assert_eq!(path(b""), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
            shape in any::<bool>(),
        ) {
            if let (true, [family, kind, state, ..]) = (shape, bytes.as_mut_slice()) {
                *family = 1;
                (*kind, *state) = (*kind % 6, *state % 12);
            }
            if let Some(record) = parse(&bytes) {
                prop_assert!(bytes.len() >= RECORD_BYTES);
                prop_assert!(record.path.is_none_or(|path| path.len() <= 3 * LONGEST_PATH + 1));
            }
        }
    }
}

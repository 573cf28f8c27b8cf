//! TCP streams with kernel timestamps of some bytes. For the last byte of a send, these are the
//! times at which it left this host and was acknowledged. For received bytes, it is the time of
//! arrival.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::{ARRIVALS, stamp};

/// Makes the kernel count bytes from the first one sent after this option is set, even if earlier
/// bytes are not acknowledged yet (`include/uapi/linux/net_tstamp.h`, Linux 6.2).
const OPT_ID_TCP: libc::c_uint = 1 << 16;
/// Flags for timestamps of a send: when it reaches the device, and when it is acknowledged.
const SENDS: u32 = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_TX_ACK;

/// Length in bytes of a control message that contains one number.
const CONTROL_LEN: usize = 32;

/// Enables timestamps on a connected TCP socket that has sent no data yet. The kernel counts its
/// bytes from 0.
pub(crate) fn watch(socket: impl AsFd) -> io::Result<()> {
    let with = ARRIVALS | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    let socket = socket.as_fd();
    // Older kernels count from the first unacknowledged byte, which is the same byte here.
    stamp(socket, with | OPT_ID_TCP).or_else(|_| stamp(socket, with))
}

/// Sends without blocking, and requests timestamps of the last byte sent.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    #[repr(C, align(8))]
    struct Control([u8; CONTROL_LEN]);
    let mut control = Control([0; CONTROL_LEN]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all fields of the message may be zero. The memory that it points to exists during the
    // call, and the kernel does not write to it. The control message fits into its buffer: the
    // header is aligned, and there is space for a number.
    let sent = unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<u32>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SO_TIMESTAMPING;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u32>() as u32) as _;
        libc::CMSG_DATA(header).cast::<u32>().write_unaligned(SENDS);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, flags)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

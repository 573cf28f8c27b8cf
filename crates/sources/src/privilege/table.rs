//! A table of legacy iptables, as bytes. It is read with `getsockopt`; the structures are
//! documented only in `include/uapi/linux/netfilter_ipv4/ip_tables.h`.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::netlink::NetlinkSocket;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

/// `IPT_SO_GET_INFO` and `IPT_SO_GET_ENTRIES`; the IPv6 values are the same.
const GET_INFO: libc::c_int = 64;
const GET_ENTRIES: libc::c_int = 65;
/// Size of `struct ipt_getinfo` in bytes. Its last field is the size of the entries.
const INFO_BYTES: usize = 84;
/// Number of bytes before the entries in `struct ipt_get_entries`, including the padding that
/// aligns the entries to 8 bytes.
const ENTRIES_HEADER_BYTES: usize = 40;
/// Maximum number of bytes of entries. A larger table is rejected.
const MOST_ENTRIES_BYTES: usize = 64 << 20;

/// Size of `struct nfgenmsg` in bytes.
const NFGENMSG_BYTES: usize = 4;

/// The address family of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableFamily {
    /// iptables.
    Ipv4,
    /// ip6tables.
    Ipv6,
}

impl TableFamily {
    /// Returns the file of `/proc/net/` that lists the existing tables.
    pub(crate) fn names_file(self) -> &'static str {
        match self {
            Self::Ipv4 => "ip_tables_names",
            Self::Ipv6 => "ip6_tables_names",
        }
    }

    fn level(self) -> libc::c_int {
        match self {
            Self::Ipv4 => libc::IPPROTO_IP,
            Self::Ipv6 => libc::IPPROTO_IPV6,
        }
    }

    fn socket(self) -> io::Result<OwnedFd> {
        let domain = match self {
            Self::Ipv4 => AddressFamily::INET,
            Self::Ipv6 => AddressFamily::INET6,
        };
        let udp = Some(ipproto::UDP);
        Ok(rustix::net::socket_with(
            domain,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            udp,
        )?)
    }
}

/// Reads all nftables objects of a kind, each as the payload of its message. A kernel without
/// nftables has no objects.
pub(super) fn objects(netlink: &mut NetlinkSocket, kind: u16) -> io::Result<Vec<Vec<u8>>> {
    let every_family = [0; NFGENMSG_BYTES];
    let (mut objects, mut bytes) = (Vec::new(), 0);
    let outcome = netlink.dump(kind, &every_family, |message| {
        bytes += message.payload.len();
        if bytes > MOST_ENTRIES_BYTES {
            return ControlFlow::Break(());
        }
        objects.push(message.payload.to_vec());
        ControlFlow::Continue(())
    });
    match outcome {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(objects),
        other => other.map(|()| objects),
    }
}

/// Reads a table's `struct ipt_getinfo` and its entries.
pub(super) fn read(family: TableFamily, name: &str) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let socket = family.socket()?;
    let mut info = vec![0; INFO_BYTES];
    let named = |buffer: &mut [u8]| {
        let place = buffer.get_mut(..name.len())?;
        place.copy_from_slice(name.as_bytes());
        Some(())
    };
    named(&mut info).ok_or(io::ErrorKind::InvalidInput)?;
    option(&socket, family.level(), GET_INFO, &mut info)?;
    let size = info.last_chunk().copied().map_or(0, u32::from_ne_bytes);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > MOST_ENTRIES_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut entries = vec![0; ENTRIES_HEADER_BYTES + size];
    named(&mut entries).ok_or(io::ErrorKind::InvalidInput)?;
    if let (Some(place), Some(size)) = (entries.get_mut(32..36), info.get(80..84)) {
        place.copy_from_slice(size);
    }
    option(&socket, family.level(), GET_ENTRIES, &mut entries)?;
    Ok((info, entries.split_off(ENTRIES_HEADER_BYTES)))
}

/// Calls `getsockopt` with the argument in `buffer`, which also receives the result.
#[allow(unsafe_code)]
fn option(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut length = libc::socklen_t::try_from(buffer.len()).map_err(io::Error::other)?;
    // SAFETY: `buffer` is writable for `length` bytes, the kernel writes at most that many, and
    // `length` outlives the call.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            buffer.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

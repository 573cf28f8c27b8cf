//! The rules of packet filters, as bytes: nftables objects, and tables of legacy iptables. The
//! latter are read with `getsockopt`; the structures are documented only in
//! `include/uapi/linux/netfilter_ipv4/ip_tables.h`.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};

use serde::{Deserialize, Serialize};

use super::read_bounded;
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
/// Maximum number of bytes of the list of existing tables.
pub(super) const MOST_NAMES_BYTES: u64 = 4_096;
/// Maximum number of bytes of entries. A larger table is rejected.
const MOST_ENTRIES_BYTES: usize = 64 << 20;

/// Size of `struct nfgenmsg` in bytes.
const NFGENMSG_BYTES: usize = 4;
/// `NFNL_SUBSYS_NFTABLES` in the upper byte of a message type.
const NFTABLES: u16 = 10 << 8;
const NFT_MSG_GETCHAIN: u16 = NFTABLES | 4;
const NFT_MSG_GETRULE: u16 = NFTABLES | 7;

/// A kind of nftables objects. The worker cannot name a message type, because some types of the
/// same family of messages delete objects or reset their counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterObject {
    /// Chains.
    Chain,
    /// Rules.
    Rule,
}

impl FilterObject {
    /// Returns the type of the message that requests these objects.
    fn message_type(self) -> u16 {
        match self {
            Self::Chain => NFT_MSG_GETCHAIN,
            Self::Rule => NFT_MSG_GETRULE,
        }
    }
}

/// A table of legacy iptables. The kernel has no others, and it tries to load a module for any
/// other name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterTable {
    /// `filter`.
    Filter,
    /// `nat`.
    Nat,
    /// `mangle`.
    Mangle,
    /// `raw`.
    Raw,
    /// `security`.
    Security,
}

impl FilterTable {
    const ALL: [Self; 5] = [
        Self::Filter,
        Self::Nat,
        Self::Mangle,
        Self::Raw,
        Self::Security,
    ];

    /// Returns the table with this name; `None` if the kernel cannot have such a table.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Returns the name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
            Self::Mangle => "mangle",
            Self::Raw => "raw",
            Self::Security => "security",
        }
    }
}

/// The address family of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableFamily {
    /// iptables.
    Ipv4,
    /// ip6tables.
    Ipv6,
}

impl TableFamily {
    /// Returns the path of the list of existing tables, for a thread in the namespace.
    pub(super) fn names_path(self) -> String {
        format!("/proc/thread-self/net/{}", self.names_file())
    }

    /// Returns the file of `/proc/net/` that lists the existing tables.
    pub(super) fn names_file(self) -> &'static str {
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
pub(super) fn objects(netlink: &mut NetlinkSocket, kind: FilterObject) -> io::Result<Vec<Vec<u8>>> {
    let every_family = [0; NFGENMSG_BYTES];
    let (mut objects, mut bytes) = (Vec::new(), 0);
    let outcome = netlink.dump(kind.message_type(), &every_family, |message| {
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

/// Reads an existing table's `struct ipt_getinfo` and its entries. The kernel would create a
/// missing table.
pub(super) fn read(family: TableFamily, table: FilterTable) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let names = read_bounded(&family.names_path(), MOST_NAMES_BYTES)?;
    let name = table.name();
    if !names.lines().any(|existing| existing == name) {
        return Err(io::ErrorKind::NotFound.into());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Other messages of the same family delete objects or reset counters (`NFT_MSG_DELTABLE`,
    /// `NFT_MSG_GETRULE_RESET`), and some of other families do (`IPCTNL_MSG_CT_DELETE`).
    #[test]
    fn only_chains_and_rules_can_be_asked_for() {
        let named = |number: u16| {
            let bytes = postcard::to_stdvec(&number).expect("a number");
            postcard::from_bytes::<FilterObject>(&bytes).ok()
        };
        let types = (0..=u16::MAX).filter_map(named);
        let types: Vec<u16> = types.map(FilterObject::message_type).collect();
        assert_eq!(types, [0x0a04, 0x0a07]);
    }

    #[test]
    fn a_table_that_does_not_exist_is_not_created() {
        for family in [TableFamily::Ipv4, TableFamily::Ipv6] {
            let path = family.names_path();
            let Ok(before) = read_bounded(&path, MOST_NAMES_BYTES) else {
                continue; // only root may read it, and not every kernel has it
            };
            for table in FilterTable::ALL {
                assert_eq!(FilterTable::named(table.name()), Some(table));
                let is_there = before.lines().any(|name| name == table.name());
                assert_eq!(read(family, table).is_ok(), is_there, "{table:?}");
            }
            let after = read_bounded(&path, MOST_NAMES_BYTES).expect("it is there");
            assert_eq!(after, before);
        }
    }
}

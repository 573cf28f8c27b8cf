//! Other network namespaces. A separate thread enters the namespace for each request, and ends
//! after the request.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::thread;

use rustix::fs::fstatfs;
use rustix::thread::LinkNameSpaceType;

use super::client::{keeper, unexpected};
use super::message::{KernelFile, Reply, Request};
use super::table::{self, FilterObject, FilterTable, MOST_NAMES_BYTES, TableFamily};
use super::{Capability, HostError, read_bounded};
use crate::netlink::{NetlinkProtocol, NetlinkSocket};

/// Directory in which `ip netns` mounts its named namespaces.
const NAMED: &str = "/run/netns";
/// Magic number of the namespaces' file system (`NSFS_MAGIC` in `include/uapi/linux/magic.h`).
const NAMESPACES: u64 = 0x6e73_6673;

/// An open network namespace. While this value exists, no later namespace can get the same inode
/// number.
#[derive(Debug)]
pub struct NetworkNamespace {
    id: u64,
    is_own: bool,
    file: OwnedFd,
}

impl NetworkNamespace {
    /// Opens the calling thread's namespace.
    ///
    /// # Errors
    /// Returns an error if `/proc` is not mounted.
    pub fn own() -> Result<Self, HostError> {
        Self::open("/proc/thread-self/ns/net".to_owned(), None)
    }

    /// Opens the namespace of process `pid`.
    ///
    /// # Errors
    /// Returns an error if the process belongs to another user and `CAP_SYS_PTRACE` is missing, or
    /// if the process has ended.
    pub fn of(pid: u32) -> Result<Self, HostError> {
        if let Some(keeper) = keeper() {
            return Self::of_file(keeper.descriptor(&Request::NamespaceOf(pid))?);
        }
        let own = Self::own()?;
        Self::open(format!("/proc/{pid}/ns/net"), Some(own.id))
    }

    /// Opens the namespace with this `ip netns` name, or the namespace that is mounted at this
    /// path.
    ///
    /// # Errors
    /// Returns an error if there is no such namespace.
    pub fn at(name_or_path: &str) -> Result<Self, HostError> {
        if let Some(keeper) = keeper() {
            let request = Request::NamespaceAt(name_or_path.to_owned());
            return Self::of_file(keeper.descriptor(&request)?);
        }
        let path = if name_or_path.contains('/') {
            name_or_path.to_owned()
        } else {
            format!("{NAMED}/{name_or_path}")
        };
        let own = Self::own()?;
        let namespace = Self::open(path.clone(), Some(own.id))?;
        let kind = fstatfs(&namespace.file).map(|system| u64::try_from(system.f_type));
        match kind {
            Ok(Ok(NAMESPACES)) => Ok(namespace),
            _ => Err(HostError::Gone {
                what: format!("a network namespace at {path}"),
            }),
        }
    }

    /// Returns the namespace of an open file.
    ///
    /// # Errors
    /// Returns an error if `/proc` is not mounted.
    pub(crate) fn of_file(file: OwnedFd) -> Result<Self, HostError> {
        let refuse = |e: rustix::io::Errno| HostError::failed("reading a namespace's number", e);
        let id = rustix::fs::fstat(&file).map_err(refuse)?.st_ino;
        let own = Self::own()?;
        Ok(Self {
            id,
            is_own: own.id == id,
            file,
        })
    }

    /// Returns the file of the namespace, to pass it to another process.
    pub(crate) fn as_file(&self) -> &OwnedFd {
        &self.file
    }

    fn open(path: String, own: Option<u64>) -> Result<Self, HostError> {
        let refuse = |e| HostError::new(format!("opening {path}"), e, Capability::SysPtrace);
        let file = File::open(&path).map_err(refuse)?;
        let id = file.metadata().map_err(refuse)?.ino();
        Ok(Self {
            id,
            is_own: own.is_none_or(|own| own == id),
            file: file.into(),
        })
    }

    /// Returns the namespace's inode number, which `ip netns identify` and `lsns` also use.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns true if this is the namespace of the thread that opened it.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Opens a netlink socket in this namespace.
    ///
    /// # Errors
    /// Returns an error if the namespace is not lagtrace's own and `CAP_SYS_ADMIN` is missing.
    pub(crate) fn netlink(&self, protocol: NetlinkProtocol) -> Result<NetlinkSocket, HostError> {
        if let Some(keeper) = keeper().filter(|_| !self.is_own) {
            let namespace = self.id;
            let request = Request::Netlink {
                namespace,
                protocol,
            };
            return Ok(NetlinkSocket::from_descriptor(keeper.descriptor(&request)?));
        }
        self.enter("opening a netlink socket", move || {
            NetlinkSocket::open(protocol)
        })
    }

    /// Opens a netlink socket in this namespace, to pass it to another process.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::netlink`].
    pub(crate) fn netlink_descriptor(
        &self,
        protocol: NetlinkProtocol,
    ) -> Result<OwnedFd, HostError> {
        self.netlink(protocol).map(NetlinkSocket::into_descriptor)
    }

    /// Opens a file of the kernel in this namespace, to pass it to another process.
    ///
    /// # Errors
    /// Returns an error if the namespace is not lagtrace's own and `CAP_SYS_ADMIN` is missing, or
    /// if the kernel lacks the file.
    pub(crate) fn open_file(&self, file: &KernelFile) -> Result<OwnedFd, HostError> {
        let path = file.path();
        let is_setting = matches!(file, KernelFile::Setting(_));
        self.enter(&format!("reading {path}"), move || {
            let opened = File::open(&path)?;
            // Settings with keys, such as that of TCP Fast Open, are for root alone.
            if is_setting && opened.metadata()?.mode() & 0o004 == 0 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Ok(opened.into())
        })
    }

    /// Reads a number from `/proc/sys/` in this namespace. If a setting has several numbers,
    /// returns the first.
    ///
    /// # Errors
    /// Returns an error if the namespace is not lagtrace's own and `CAP_SYS_ADMIN` is missing, or
    /// if the kernel lacks the setting.
    pub fn sysctl(&self, name: &str) -> Result<u64, HostError> {
        let text = self.sysctl_text(name)?;
        let number = text.split_whitespace().next().unwrap_or_default();
        let no_number = |_| {
            let error = io::Error::from(io::ErrorKind::InvalidData);
            HostError::failed(format!("reading /proc/sys/{name}"), error)
        };
        number.parse().map_err(no_number)
    }

    /// Reads a complete setting from `/proc/sys/`. Its values are separated by single spaces.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::sysctl`].
    pub(crate) fn sysctl_text(&self, name: &str) -> Result<String, HostError> {
        let text = self.kernel_file(KernelFile::Setting(name.to_owned()), 256)?;
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Returns the names of the existing tables of legacy iptables, one in each line.
    ///
    /// # Errors
    /// Returns an error if the namespace is not lagtrace's own and `CAP_SYS_ADMIN` is missing, or
    /// if the kernel lacks the file.
    pub(crate) fn table_names(&self, family: TableFamily) -> Result<String, HostError> {
        self.kernel_file(KernelFile::TableNames(family), MOST_NAMES_BYTES)
    }

    fn kernel_file(&self, file: KernelFile, most_bytes: u64) -> Result<String, HostError> {
        // The lists of tables are for root alone, and settings are for everybody.
        let is_open = self.is_own && matches!(file, KernelFile::Setting(_));
        if let Some(keeper) = keeper().filter(|_| !is_open) {
            let namespace = self.id;
            return keeper.text(&Request::KernelFile { namespace, file }, most_bytes);
        }
        let path = file.path();
        self.enter(&format!("reading {}", file.shown()), move || {
            read_bounded(&path, most_bytes)
        })
    }

    /// Reads all nftables objects of a kind. A kernel without nftables has none.
    ///
    /// # Errors
    /// Returns an error if `CAP_NET_ADMIN` is missing, or if the namespace is not lagtrace's own
    /// and `CAP_SYS_ADMIN` is missing.
    pub(crate) fn filter_objects(&self, kind: FilterObject) -> Result<Vec<Vec<u8>>, HostError> {
        if let Some(keeper) = keeper() {
            let namespace = self.id;
            return match keeper.ask(&Request::FilterObjects { namespace, kind })? {
                (Reply::Pieces(objects), _) => Ok(objects),
                _ => Err(unexpected()),
            };
        }
        let mut netlink = match self.netlink(NetlinkProtocol::Netfilter) {
            // A kernel without netfilter cannot block.
            Err(HostError::Failed { source, .. })
                if source.raw_os_error() == Some(libc::EPROTONOSUPPORT) =>
            {
                return Ok(Vec::new());
            }
            opened => opened?,
        };
        table::objects(&mut netlink, kind)
            .map_err(|e| HostError::new("reading the nftables rules", e, Capability::NetAdmin))
    }

    /// Reads a packet filter table of legacy iptables: its `struct ipt_getinfo` (or the IPv6
    /// counterpart) and its entries.
    ///
    /// # Errors
    /// Returns an error if `CAP_NET_ADMIN` is missing, or if the namespace is not lagtrace's own
    /// and `CAP_SYS_ADMIN` is missing.
    pub(crate) fn filter_table(
        &self,
        family: TableFamily,
        table: FilterTable,
    ) -> Result<(Vec<u8>, Vec<u8>), HostError> {
        if let Some(keeper) = keeper() {
            let request = Request::FilterTable {
                namespace: self.id,
                family,
                table,
            };
            return match keeper.ask(&request)? {
                (Reply::Pieces(pieces), _) => <[Vec<u8>; 2]>::try_from(pieces)
                    .map(Into::into)
                    .map_err(|_| unexpected()),
                _ => Err(unexpected()),
            };
        }
        let operation = format!("reading the iptables table {}", table.name());
        self.enter(&operation, move || table::read(family, table))
    }

    /// Runs `request` in this namespace. If the current thread is in another namespace, a separate
    /// thread enters this one, runs the request and ends.
    fn enter<T: Send + 'static>(
        &self,
        operation: &str,
        request: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, HostError> {
        let outcome = if self.is_own {
            request()
        } else {
            self.file.try_clone().and_then(|namespace| {
                let visit = move || {
                    rustix::thread::move_into_link_name_space(
                        namespace.as_fd(),
                        Some(LinkNameSpaceType::Network),
                    )?;
                    request()
                };
                let thread = thread::Builder::new().name("namespace".to_owned());
                thread.spawn(visit)?.join().unwrap_or_else(|_| {
                    Err(io::Error::other("the thread in the namespace panicked"))
                })
            })
        };
        // In lagtrace's own namespace, only access to packet filters can be refused.
        let (place, needs) = if self.is_own {
            (operation.to_owned(), Capability::NetAdmin)
        } else {
            let place = format!("{operation} in network namespace {}", self.id);
            (place, Capability::SysAdmin)
        };
        outcome.map_err(|e| HostError::new(place, e, needs))
    }
}

/// Returns the inode number of process `pid`'s network namespace, without opening the namespace.
///
/// # Errors
/// Returns an error if the process belongs to another user and `CAP_SYS_PTRACE` is missing, or if
/// the process has ended.
pub fn namespace_id(pid: u32) -> Result<u64, HostError> {
    // A process may always examine itself.
    if let Some(keeper) = keeper().filter(|_| pid != std::process::id()) {
        return match keeper.ask(&Request::NamespaceId(pid))? {
            (Reply::Number(id), _) => Ok(id),
            _ => Err(unexpected()),
        };
    }
    let path = format!("/proc/{pid}/ns/net");
    fs::metadata(&path)
        .map(|namespace| namespace.ino())
        .map_err(|e| HostError::new(format!("reading {path}"), e, Capability::SysPtrace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_namespace_needs_no_privilege() {
        let namespace = NetworkNamespace::of(std::process::id()).expect("our own");
        assert!(namespace.is_own());
        assert_eq!(
            namespace.id(),
            namespace_id(std::process::id()).expect("our own")
        );
        namespace.netlink(NetlinkProtocol::SockDiag).expect("ours");
        assert!(namespace.sysctl("net/core/somaxconn").expect("exists") > 0);
        assert!(namespace.sysctl("net/core/no-such").is_err());
    }
}

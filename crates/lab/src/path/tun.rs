//! TUN devices. Packets that a host sends are read from its device as bare IP packets, and packets
//! written to the device are received by the host. The device is removed when its descriptor is
//! closed.
//!
//! With offload, each packet has a [`Head`] of ten bytes, `struct virtio_net_hdr`
//! (include/uapi/linux/virtio_net.h), and may be a super-segment whose checksum is not completed.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::ioctl;

use super::icmp::checksum;
use super::packet::Packet;
use crate::error::Error;
use crate::machine::namespace::Namespace;

/// Maximum length of a packet read from a device, including its head.
pub(super) const LONGEST: usize = 65_535 + Head::LENGTH;

/// The end of an emulated path at one host.
#[derive(Debug)]
pub(super) struct Tun {
    device: File,
}

/// The header that precedes a packet's IP header, present only if the hosts offload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    None,
    VirtioNet,
}

impl Head {
    const LENGTH: usize = 10;
    /// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the sum of the bytes from `csum_start` on must be stored
    /// `csum_offset` bytes after that position; the sum of the pseudo-header is already stored
    /// there.
    const NEEDS_CHECKSUM: u8 = 1;

    pub(super) fn length(self) -> usize {
        match self {
            Self::None => 0,
            Self::VirtioNet => Self::LENGTH,
        }
    }

    /// Returns the packet after the head. Fields are in this machine's byte order.
    pub(super) fn packet(self, raw: &[u8]) -> Packet<'_> {
        let (head, ip) = raw.split_at(self.length().min(raw.len()));
        let is_super = head.get(1).is_some_and(|gso_type| *gso_type != 0);
        let segment = is_super.then(|| word(head, 4).into());
        Packet::cut_to(ip, segment)
    }

    /// Returns a packet created by the emulator, with an empty head before it.
    pub(super) fn before(self, ip: &[u8]) -> Vec<u8> {
        let mut raw = vec![0; self.length()];
        raw.extend_from_slice(ip);
        raw
    }

    /// Completes the checksum of a packet and returns the packets into which `cut` divides it;
    /// `None` for super-segments, which are not cut.
    pub(super) fn fragments(
        self,
        raw: &[u8],
        cut: impl FnOnce(&[u8]) -> Option<Vec<Vec<u8>>>,
    ) -> Option<Vec<Vec<u8>>> {
        let (head, ip) = raw.split_at_checked(self.length())?;
        if head.get(1).is_some_and(|gso_type| *gso_type != 0) {
            return None;
        }
        let mut ip = ip.to_vec();
        if head
            .first()
            .is_some_and(|flags| flags & Self::NEEDS_CHECKSUM != 0)
        {
            let (start, offset) = (usize::from(word(head, 6)), usize::from(word(head, 8)));
            let sum = checksum(0, ip.get(start..)?);
            let at = start + offset;
            ip.get_mut(at..at + 2)?.copy_from_slice(&sum.to_be_bytes());
        }
        let parts = cut(&ip)?;
        Some(parts.iter().map(|part| self.before(part)).collect())
    }
}

fn word(head: &[u8], at: usize) -> u16 {
    let bytes = head.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u16::from_ne_bytes)
}

impl Tun {
    /// Creates a TUN device called `name` inside a namespace; the device never exists in any other
    /// namespace.
    pub(super) fn create(namespace: &Namespace, name: &str, head: Head) -> Result<Self, Error> {
        namespace.within("create a TUN device", || Self::create_here(name, head))
    }

    fn create_here(name: &str, head: Head) -> io::Result<Self> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        let request = tun_request(name, head)?;
        // SAFETY: TUNSETIFF takes a `struct ifreq` of which it reads name and flags
        // (Documentation/networking/tuntap.rst); `request` is such a struct, fully initialised.
        unsafe {
            ioctl::ioctl(
                &device,
                ioctl::Setter::<{ libc::TUNSETIFF as ioctl::Opcode }, libc::ifreq>::new(request),
            )
        }?;
        if head == Head::VirtioNet {
            let offload = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
            // SAFETY: TUNSETOFFLOAD takes flags by value and accesses no memory of this process.
            unsafe {
                ioctl::ioctl(
                    &device,
                    ioctl::IntegerSetter::<{ libc::TUNSETOFFLOAD as ioctl::Opcode }>::new_usize(
                        offload as usize,
                    ),
                )
            }?;
        }
        Ok(Self { device })
    }

    /// Returns the next packet that the host sent, or `None` if there is none now.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a mut [u8]>> {
        match (&self.device).read(buffer) {
            Ok(length) => Ok(Some(&mut buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a packet to the host.
    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.device).write_all(packet)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Returns a request for a device of bare IP packets with this name.
fn tun_request(name: &str, head: Head) -> io::Result<libc::ifreq> {
    let mut ifr_name = [0; libc::IFNAMSIZ];
    if name.len() >= ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let head = match head {
        Head::None => 0,
        Head::VirtioNet => libc::IFF_VNET_HDR,
    };
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI | head) as libc::c_short;
    Ok(libc::ifreq {
        ifr_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags },
    })
}

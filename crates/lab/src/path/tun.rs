//! A TUN device: what a host sends comes out of it as bare IP packets, and what is written
//! into it, the host receives. It goes away with its descriptor.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::ioctl;

use crate::error::Error;
use crate::namespace::Namespace;

/// One host's end of an emulated path.
#[derive(Debug)]
pub(super) struct Tun {
    device: File,
}

impl Tun {
    /// Makes a TUN device called `name` inside a namespace; it never exists in any other.
    pub(super) fn create(namespace: &Namespace, name: &str) -> Result<Self, Error> {
        namespace.within("create a TUN device", || Self::create_here(name))
    }

    fn create_here(name: &str) -> io::Result<Self> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        let request = tun_request(name)?;
        // SAFETY: TUNSETIFF takes a `struct ifreq` of which it reads name and flags
        // (Documentation/networking/tuntap.rst); `request` is one, fully initialised.
        unsafe {
            ioctl::ioctl(
                &device,
                ioctl::Setter::<{ libc::TUNSETIFF as ioctl::Opcode }, libc::ifreq>::new(request),
            )
        }?;
        Ok(Self { device })
    }

    /// The next packet that the host sent, or `None` if there is none now.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        match (&self.device).read(buffer) {
            Ok(length) => Ok(Some(&buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands the host a packet.
    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.device).write_all(packet)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// A request for a device of bare IP packets with this name.
fn tun_request(name: &str) -> io::Result<libc::ifreq> {
    let mut ifr_name = [0; libc::IFNAMSIZ];
    if name.len() >= ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    Ok(libc::ifreq {
        ifr_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags },
    })
}

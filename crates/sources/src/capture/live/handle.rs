//! Opening of interfaces, the only part of capturing that needs a privilege.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use lagtrace_core::decode::{LinkType, MAX_CAPTURED, Record};
use lagtrace_core::observed::event::{CaptureSummary, PointId};
use lagtrace_core::observed::time::Timestamp;
use nix::net::if_::if_nameindex;
use pcap::{Active, Capture, Linktype, Precision};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice};

use super::LiveOptions;
use crate::capture::CaptureError;

/// The maximum time in which the kernel keeps packets in a block of its ring that is not full.
/// Packets can arrive late by twice this time, with correct timestamps.
pub(super) const BLOCK_TIMEOUT: Duration = Duration::from_millis(20);

/// The pseudo-interface that stands for all interfaces.
const ANY: &str = "any";

/// The name of Linux's only loopback interface, which no other interface can have.
const LOOPBACK: &str = "lo";

/// An interface with a running capture.
pub(super) struct Handle {
    capture: Capture<Active>,
    point: PointId,
    link: LinkType,
    last: Timestamp,
    is_over: bool,
    summary: CaptureSummary,
}

impl Handle {
    /// Begins to capture on an interface.
    pub(super) fn open(
        interface: &str,
        point: PointId,
        options: &LiveOptions,
    ) -> Result<Self, CaptureError> {
        let mut capture =
            activate(interface, options).map_err(|source| explain(interface, source))?;
        if let Some(filter) = &options.filter {
            capture
                .filter(filter, true)
                .map_err(|source| CaptureError::Filter {
                    filter: filter.clone(),
                    interface: interface.to_owned(),
                    source,
                })?;
        }
        if interface == LOOPBACK {
            ignore_outgoing(&capture);
        }
        let dlt = u16::try_from(capture.get_datalink().0).unwrap_or(u16::MAX);
        let name = interface.to_owned();
        Ok(Self {
            capture,
            point,
            link: LinkType::from_dlt(dlt),
            last: Timestamp::MIN,
            is_over: false,
            summary: CaptureSummary {
                name,
                ..CaptureSummary::default()
            },
        })
    }

    /// Returns the file descriptor that becomes readable when packets wait.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.capture.as_fd()
    }

    /// Returns the link type of the frames.
    pub(super) fn link(&self) -> LinkType {
        self.link
    }

    /// Returns the time of the last packet read.
    pub(super) fn last(&self) -> Timestamp {
        self.last
    }

    /// Returns true if the interface failed: it went down or was removed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Passes up to `limit` waiting packets to `visit` and returns their number. `visit` assigns
    /// the packet numbers.
    pub(super) fn read(
        &mut self,
        limit: usize,
        mut visit: impl FnMut(PointId, &mut CaptureSummary, Record<'_>),
    ) -> usize {
        let (link, point) = (self.link, self.point);
        let (summary, last) = (&mut self.summary, &mut self.last);
        let read = self.capture.dispatch(Some(limit), |packet| {
            // The field for microseconds contains nanoseconds, because the capture was opened with
            // that precision.
            let stamp = packet.header.ts;
            let nanos = u32::try_from(stamp.tv_usec).unwrap_or_default();
            let captured = u32::try_from(packet.data.len()).unwrap_or(u32::MAX);
            *last = Timestamp::from_parts(stamp.tv_sec, nanos);
            let record = Record {
                number: 0,
                at: Some(*last),
                link,
                interface: 0,
                original_len: packet.header.len.max(captured),
                bytes: packet.data,
            };
            visit(point, summary, record);
        });
        read.unwrap_or_else(|error| {
            self.is_over = true;
            self.summary.damage = Some(format!("the capture ended early: {error}"));
            0
        })
    }

    /// Closes the interface. Packets that the kernel dropped are added to those that did not reach
    /// the consumer.
    pub(super) fn close(mut self) -> (PointId, CaptureSummary) {
        let lost = self.capture.stats().map(|stats| u64::from(stats.dropped));
        let undelivered = self.summary.dropped.unwrap_or_default();
        self.summary.dropped = lost.ok().map(|lost| lost + undelivered);
        (self.point, self.summary)
    }
}

/// Activates a capture, which needs `CAP_NET_RAW`; the returned handle works without that
/// privilege.
///
/// libpcap uses the third version of the kernel's ring (`TPACKET_V3`) unless immediate mode is on.
/// That version stores packets with their actual length. In immediate mode, every slot has the
/// maximum packet length, so that a buffer holds only a few hundred packets.
fn activate(interface: &str, options: &LiveOptions) -> Result<Capture<Active>, pcap::Error> {
    let size = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
    let capture = Capture::from_device(interface)?
        .precision(Precision::Nano)
        .snaplen(size(options.snap_len.clamp(1, MAX_CAPTURED)))
        .buffer_size(size(options.buffer_bytes))
        // libpcap has no promiscuous mode for `any`, and the crate `pcap` treats libpcap's warning
        // as a failure.
        .promisc(options.is_promiscuous && interface != ANY)
        .timeout(BLOCK_TIMEOUT.as_millis() as i32)
        .open()?
        .setnonblock()?;
    let cooked = Linktype(i32::from(LinkType::LINUX_SLL2.0));
    if interface == ANY && capture.list_datalinks()?.contains(&cooked) {
        let mut capture = capture;
        capture.set_datalink(cooked)?;
        return Ok(capture);
    }
    Ok(capture)
}

/// Makes the kernel deliver each packet of the loopback interface only once, when it is received,
/// and not also when it is sent. libpcap discards the sent copies itself, but they have taken half
/// of the ring by then. Kernels older than 4.20 do not have this option and still deliver both.
/// `inbound` in a filter expression is no alternative: libpcap itself applies a new filter to the
/// packets in the ring's first block, and treats none of them as inbound.
#[allow(unsafe_code)]
fn ignore_outgoing(capture: &Capture<Active>) {
    let on: libc::c_int = 1;
    let len = size_of_val(&on) as libc::socklen_t;
    let option = (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING);
    // SAFETY: the descriptor is open as long as `capture` exists. The option takes an int, and the
    // pointer and length are those of an int.
    unsafe {
        libc::setsockopt(
            capture.as_raw_fd(),
            option.0,
            option.1,
            (&raw const on).cast(),
            len,
        );
    }
}

/// Determines why an interface could not be opened. libpcap reports the reason only as text.
fn explain(interface: &str, source: pcap::Error) -> CaptureError {
    let interface = interface.to_owned();
    if interface != ANY && !exists(&interface) {
        let known = if_nameindex().map_or_else(
            |_| Vec::new(),
            |interfaces| {
                let name =
                    |each: &nix::net::if_::Interface| each.name().to_string_lossy().into_owned();
                interfaces.iter().map(name).collect()
            },
        );
        return CaptureError::NoSuchInterface { interface, known };
    }
    if is_permitted() {
        CaptureError::Interface { interface, source }
    } else {
        CaptureError::NotPermitted { interface, source }
    }
}

/// Returns false if there is no such interface. The function of the C library would open a Unix
/// socket to ask, which the worker may not.
fn exists(interface: &str) -> bool {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None);
    let index = socket.and_then(|socket| netdevice::name_to_index(socket, interface));
    !matches!(index, Err(Errno::NODEV))
}

/// Returns true if this thread may open packet sockets. The socket that is opened for this test
/// receives no packets.
fn is_permitted() -> bool {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None);
    !matches!(socket, Err(Errno::PERM | Errno::ACCESS))
}

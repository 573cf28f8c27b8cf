//! The names of requests, and the limits of the lists and texts in them.

use std::path::Path;

use super::message::{KernelFile, Request};

/// Maximum number of bytes of a path, as for the kernel (`PATH_MAX`).
const MOST_PATH: usize = 4096;
/// Maximum number of bytes of a URL.
const MOST_URL: usize = 256;
/// Maximum number of sockets whose options are read at once.
pub(crate) const MOST_SOCKETS: usize = 256;
/// Maximum number of processes that are searched for a socket before all others are.
pub(crate) const MOST_SEARCHED_FIRST: usize = 256;
/// Maximum number of descriptors that are examined in one search.
pub(crate) const MOST_DESCRIPTORS: usize = 200_000;
/// Maximum number of bytes of a request for eBPF programs.
const MOST_KERNEL: usize = 16 << 10;

impl Request {
    /// Returns the name of the operation. A request is never formatted as a whole: it may be long.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Answer => "Answer",
            Self::NamespaceOf(_) => "NamespaceOf",
            Self::NamespaceAt(_) => "NamespaceAt",
            Self::NamespaceId(_) => "NamespaceId",
            Self::Netlink { .. } => "Netlink",
            Self::KernelFile { .. } => "KernelFile",
            Self::FilterTable { .. } => "FilterTable",
            Self::FilterObjects { .. } => "FilterObjects",
            Self::Sockets { .. } => "Sockets",
            Self::Options(_) => "Options",
            Self::Serving(_) => "Serving",
            Self::Link(..) => "Link",
            Self::ProcFile(..) => "ProcFile",
            Self::Program(_) => "Program",
            Self::Root(_) => "Root",
            Self::File { .. } => "File",
            Self::SwitchOn(_) => "SwitchOn",
            Self::IsOn(_) => "IsOn",
            Self::Restore(_) => "Restore",
            Self::Input(_) => "Input",
            Self::Kind(_) => "Kind",
            Self::Output(..) => "Output",
            Self::CheckOutput(..) => "CheckOutput",
            Self::BeginOutput(_) => "BeginOutput",
            Self::CommitOutput(_) => "CommitOutput",
            Self::DropOutput(_) => "DropOutput",
            Self::Page => "Page",
            Self::KeepPage => "KeepPage",
            Self::Listen => "Listen",
            Self::Show(_) => "Show",
            Self::ConnectUnix => "ConnectUnix",
            Self::Kernel(_) => "Kernel",
        }
    }

    /// Returns true if no list and no text is longer than the worker makes it.
    pub(crate) fn is_within_limits(&self) -> bool {
        let is_path = |path: &Path| path.as_os_str().len() <= MOST_PATH;
        match self {
            Self::Options(sockets) => sockets.len() <= MOST_SOCKETS,
            Self::SwitchOn(far) => far.pids.len() <= MOST_SEARCHED_FIRST,
            Self::Sockets { most, .. } => *most <= MOST_DESCRIPTORS,
            Self::NamespaceAt(text)
            | Self::KernelFile {
                file: KernelFile::Setting(text),
                ..
            } => text.len() <= MOST_PATH,
            Self::Input(path)
            | Self::Kind(path)
            | Self::Output(path, _)
            | Self::CheckOutput(path, _)
            | Self::File { path, .. } => is_path(path),
            Self::Show(url) => url.as_ref().is_none_or(|url| url.len() <= MOST_URL),
            Self::Kernel(bytes) => bytes.len() <= MOST_KERNEL,
            // These have numbers only, or texts that are compared with fixed ones.
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use lagtrace_core::observed::flow::Endpoint;

    use super::super::channel::{Channel, MOST_REQUEST};
    use super::super::message::{FarEnd, HeldSocket, OwnFlow, Purpose};
    use super::*;

    /// Returns a request whose list or text has this many elements, and whether that is its limit.
    fn of_length(kind: usize, length: usize) -> Request {
        let path = || "p".repeat(length).into();
        let endpoint = Endpoint {
            addr: std::net::Ipv6Addr::from([255; 16]).into(),
            port: u16::MAX,
        };
        match kind {
            0 => Request::Options(vec![
                HeldSocket {
                    pid: u32::MAX,
                    fd: u32::MAX,
                    cookie: u64::MAX,
                };
                length
            ]),
            1 => Request::SwitchOn(Box::new(FarEnd {
                namespace: u64::MAX,
                endpoint,
                flow: OwnFlow {
                    local: endpoint,
                    remote: endpoint,
                },
                pids: vec![u32::MAX; length],
            })),
            2 => Request::Sockets {
                pid: u32::MAX,
                most: length,
            },
            3 => Request::NamespaceAt("p".repeat(length)),
            4 => Request::Input(path()),
            5 => Request::Output(path(), Purpose::Result),
            6 => Request::Show(Some("p".repeat(length))),
            _ => Request::Kernel(vec![255; length]),
        }
    }

    #[test]
    fn the_longest_requests_arrive_and_longer_ones_are_outside_the_limits() {
        let (one, other) = Channel::pair().expect("a pair");
        let limits = [
            MOST_SOCKETS,
            MOST_SEARCHED_FIRST,
            MOST_DESCRIPTORS,
            MOST_PATH,
            MOST_PATH,
            MOST_PATH,
            MOST_URL,
            MOST_KERNEL,
        ];
        for (kind, most) in limits.into_iter().enumerate() {
            let longest = of_length(kind, most);
            assert!(longest.is_within_limits(), "{}", longest.name());
            one.send_request(&longest, &[]).expect("sent");
            let received = other.receive_request::<Request>().expect("well-formed");
            assert_eq!(received.expect("one").0, longest);
            let longer = of_length(kind, most + 1);
            assert!(!longer.is_within_limits(), "{}", longer.name());
        }
        let longest = postcard::to_stdvec(&of_length(7, MOST_KERNEL)).expect("a request");
        assert!((MOST_REQUEST - 64..=MOST_REQUEST).contains(&longest.len()));
    }
}

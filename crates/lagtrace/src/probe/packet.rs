//! The options for the packets and requests of probes.

use clap::Args;
use lagtrace_core::observed::segment::TcpFlags;
use lagtrace_sources::probe::{Sizes, SourcePorts};

use super::values::{self, Flags};

/// The flag combinations that `--matrix` sends: those of `nmap`'s SYN, ACK, FIN, Maimon, Xmas and
/// NULL scans, and SYN/ACK. Open and closed ports answer them differently, and filters pass some
/// and drop others.
const MATRIX: [TcpFlags; 7] = [
    TcpFlags::SYN,
    TcpFlags::ACK,
    TcpFlags::SYN.with(TcpFlags::ACK),
    TcpFlags::FIN,
    TcpFlags::FIN.with(TcpFlags::ACK),
    TcpFlags::FIN.with(TcpFlags::PSH).with(TcpFlags::URG),
    TcpFlags(0),
];
/// The path of probes that are HTTP requests.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Request")]
pub(super) struct RequestPath {
    /// Path for targets that are not URLs
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = path)]
    pub(super) path: String,
}

/// Options for the packets of probes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Packets")]
pub(super) struct Packet {
    /// Send from PORT, or from each port of FIRST-LAST in turn, instead of a new port each time
    #[arg(short, long, value_name = "PORT", value_parser = values::parse_source_ports)]
    pub(super) source_port: Option<SourcePorts>,
    /// Send over this interface instead of the one that the kernel's route uses
    #[arg(short = 'I', long, value_name = "IF")]
    pub(super) interface: Option<String>,
    /// Payload bytes, or a sweep FIRST-LAST/STEP; the default for ICMP is 56
    #[arg(long, value_name = "BYTES", value_parser = values::parse_sizes)]
    pub(super) size: Option<Sizes>,
    /// Never fragment packets, even if the path's MTU is known to be smaller; always on in a sweep
    /// of sizes
    #[arg(long)]
    pub(super) dont_fragment: bool,
    /// Send segments with these flags in turn, instead of SYNs: S, A, FA, FPU, or 0 for none. Needs
    /// CAP_NET_RAW
    #[arg(long, value_name = "FLAGS,…", value_parser = values::parse_flags)]
    pub(super) flags: Option<Flags>,
    /// Send --flags S,A,SA,F,FA,FPU,0 in turn: the answers show what kind of filter is before a
    /// port
    #[arg(long, conflicts_with = "flags")]
    pub(super) matrix: bool,
    /// Time to live, or hop limit
    #[arg(long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) ttl: Option<u8>,
    /// Type of service or traffic class, 0 to 255
    #[arg(long, value_name = "BYTE")]
    pub(super) tos: Option<u8>,
    /// Maximum segment size (MSS) in SYNs
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) mss: Option<u16>,
}

impl Packet {
    /// Returns the flags of the segments to send; empty if only SYNs are sent.
    pub(super) fn flags(&self) -> Vec<TcpFlags> {
        match (&self.flags, self.matrix) {
            (Some(Flags(flags)), _) if flags[..] == [TcpFlags::SYN] => Vec::new(),
            (Some(Flags(flags)), _) => flags.clone(),
            (None, true) => MATRIX.to_vec(),
            (None, false) => Vec::new(),
        }
    }

    /// Returns true if no packet option is given.
    pub(super) fn is_usual(&self) -> bool {
        let is_told = self.source_port.is_some()
            || self.interface.is_some()
            || self.size.is_some()
            || self.dont_fragment
            || self.ttl.is_some()
            || self.tos.is_some()
            || self.mss.is_some();
        !is_told && !self.has_flags()
    }

    /// Returns true if an option chooses the segments to send.
    pub(super) fn has_flags(&self) -> bool {
        self.matrix || self.flags.is_some()
    }
}

fn path(text: &str) -> std::result::Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("must begin with `/`".to_owned())
    }
}

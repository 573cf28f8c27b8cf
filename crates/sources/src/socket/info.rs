//! The full `struct tcp_info` (`include/uapi/linux/tcp.h`). Its length depends on the kernel.

use lagtrace_core::observed::sockets::{Recovery, TcpInfo};

use crate::netlink::message::{u32_at, u64_at};

/// Number of bytes in the oldest version of the structure. All kernels provide these.
const OLDEST: usize = 104;
/// `TCPI_OPT_WSCALE`: both ends scale their windows.
const OPT_WSCALE: u8 = 4;
/// Slow start threshold before any loss (`TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Parses `struct tcp_info`; `None` if it is shorter than the oldest version.
pub(super) fn parse(info: &[u8]) -> Option<TcpInfo> {
    if info.len() < OLDEST {
        return None;
    }
    let byte = |at: usize| info.get(at).copied().unwrap_or_default();
    let number = |at| u32_at(info, at).unwrap_or_default();
    let micros = |at| u64::from(number(at)) * 1_000;
    let millis = |at| u64::from(number(at)) * 1_000_000;
    let long_micros = |at| u64_at(info, at).map(|micros| micros.saturating_mul(1_000));
    let unless_all_ones = |value: &u32| *value != u32::MAX;
    let (options, scales) = (byte(5), byte(6));
    let scale = |bits: u8| if options & OPT_WSCALE == 0 { 0 } else { bits };
    Some(TcpInfo {
        rtt_ns: micros(68),
        rttvar_ns: micros(72),
        min_rtt_ns: u32_at(info, 148)
            .filter(unless_all_ones)
            .map(|micros| u64::from(micros) * 1_000),
        receiver_rtt_ns: micros(92),
        ato_ns: micros(12),
        rto_ns: micros(8),
        backoff: byte(4),
        retransmits: byte(2),
        probes: byte(3),
        recovery: recovery(byte(1)),
        snd_mss: number(16),
        rcv_mss: number(20),
        advmss: number(84),
        pmtu: number(60),
        window_scales: scales_of(scales).map(scale),
        cwnd: number(80),
        ssthresh: Some(number(76)).filter(|&segments| segments < INFINITE_SSTHRESH),
        unacked: number(24),
        sacked: number(28),
        lost: number(32),
        retrans: number(36),
        total_retrans: number(100),
        reordering: number(88),
        last_data_sent_ns: millis(44),
        last_data_received_ns: millis(52),
        last_ack_received_ns: millis(56),
        notsent_bytes: u32_at(info, 144),
        bytes_sent: u64_at(info, 200),
        bytes_retrans: u64_at(info, 208),
        bytes_acked: u64_at(info, 120),
        bytes_received: u64_at(info, 128),
        pacing_rate: u64_at(info, 104).filter(|&rate| rate != u64::MAX),
        delivery_rate: u64_at(info, 160).filter(|&rate| rate > 0),
        is_app_limited: byte(7) & 1 != 0,
        busy_ns: long_micros(168),
        rwnd_limited_ns: long_micros(176),
        sndbuf_limited_ns: long_micros(184),
        snd_wnd: u32_at(info, 228),
        rcv_wnd: u32_at(info, 232),
        out_of_order: u32_at(info, 224),
        dsack_dups: u32_at(info, 216),
    })
}

/// Splits the byte with the bit fields `tcpi_snd_wscale` and `tcpi_rcv_wscale`. The first of them
/// is the lower half on little-endian hosts, and the upper half on others.
fn scales_of(byte: u8) -> [u8; 2] {
    let (low, high) = (byte & 0x0f, byte >> 4);
    if cfg!(target_endian = "little") {
        [low, high]
    } else {
        [high, low]
    }
}

/// Converts `enum tcp_ca_state`.
fn recovery(state: u8) -> Recovery {
    match state {
        1 => Recovery::Disorder,
        2 => Recovery::Cwr,
        3 => Recovery::Recovery,
        4 => Recovery::Loss,
        _ => Recovery::Open,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        let mut bytes = [0; 248];
        (bytes[1], bytes[2], bytes[5], bytes[6], bytes[7]) = (4, 3, OPT_WSCALE, 0x97, 1);
        for (at, value) in [
            (8, 204_000_u32),
            (68, 44),
            (76, u32::MAX),
            (80, 10),
            (44, 7),
        ] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        bytes[176..184].copy_from_slice(&5_u64.to_ne_bytes());
        bytes[232..236].copy_from_slice(&65_536_u32.to_ne_bytes());
        let info = parse(&bytes).expect("a whole one");
        assert_eq!((info.recovery, info.retransmits), (Recovery::Loss, 3));
        assert_eq!((info.rto_ns, info.rtt_ns), (204_000_000, 44_000));
        assert_eq!(
            (info.ssthresh, info.cwnd, info.min_rtt_ns),
            (None, 10, None)
        );
        assert_eq!(
            (info.rwnd_limited_ns, info.rcv_wnd),
            (Some(5_000), Some(65_536))
        );
        assert_eq!(
            (info.last_data_sent_ns, info.is_app_limited),
            (7_000_000, true)
        );
        if cfg!(target_endian = "little") {
            assert_eq!(info.window_scales, [7, 9]);
        }
    }

    #[test]
    fn what_an_older_kernel_lacks_is_unknown() {
        let info = parse(&[0; 146]).expect("the oldest part and more");
        assert_eq!(
            (info.notsent_bytes, info.min_rtt_ns, info.snd_wnd),
            (None, None, None)
        );
        assert_eq!(parse(&[0; 103]), None);
    }

    proptest! {
        #[test]
        fn any_length_is_read(info in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert_eq!(parse(&info).is_some(), info.len() >= OLDEST);
        }
    }
}

//! The values of options: ports, sizes and flags of segments.

use lagtrace_core::observed::segment::TcpFlags;
use lagtrace_sources::probe::{Sizes, SourcePorts};

/// Maximum payload in bytes: with headers it fits into an IP packet.
const MAX_SIZE: u16 = 65_000;
/// Maximum number of sizes in a sweep, or of kinds of segments.
const MAX_SIZES: u32 = 4_096;
const MAX_FLAGS: usize = 64;
/// Maximum number of ports in a list.
const MAX_PORTS: usize = 1024;

/// A list of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ports(pub(crate) Vec<u16>);

/// Parses a list of ports and port ranges.
pub(crate) fn parse_ports(text: &str) -> std::result::Result<Ports, String> {
    let mut ports = Vec::new();
    for part in text.split(',') {
        let (first, last) = range(part)?;
        ports.extend(first..=last);
        if ports.len() > MAX_PORTS {
            return Err(format!("names more than {MAX_PORTS} ports"));
        }
    }
    Ok(Ports(ports))
}

/// Parses a payload size, or a sweep of sizes.
pub(super) fn parse_sizes(text: &str) -> std::result::Result<Sizes, String> {
    let number = |text: &str| {
        let number = text.trim().parse::<u16>().ok();
        number.filter(|number| *number <= MAX_SIZE).ok_or_else(|| {
            format!("`{text}` is not a length: give 0 to {MAX_SIZE}, or FIRST-LAST/STEP")
        })
    };
    let (range, step) = text.split_once('/').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let sizes = Sizes {
        first: number(first)?,
        last: number(last)?,
        step: number(step)?,
    };
    match sizes {
        Sizes { step: 0, .. } => Err("the step must not be 0".to_owned()),
        Sizes { first, last, .. } if first > last => Err(format!("`{text}` ends before it begins")),
        sizes if sizes.count() > MAX_SIZES => Err(format!(
            "names {} lengths: at most {MAX_SIZES}",
            sizes.count()
        )),
        sizes => Ok(sizes),
    }
}

/// Control bits of segments, in the abbreviations of `hping3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flags(pub(super) Vec<TcpFlags>);

/// Parses a list of control bits.
pub(super) fn parse_flags(text: &str) -> std::result::Result<Flags, String> {
    let one = |letter: char| match letter.to_ascii_uppercase() {
        'F' => Ok(TcpFlags::FIN),
        'S' => Ok(TcpFlags::SYN),
        'R' => Ok(TcpFlags::RST),
        'P' => Ok(TcpFlags::PSH),
        'A' => Ok(TcpFlags::ACK),
        'U' => Ok(TcpFlags::URG),
        'E' => Ok(TcpFlags::ECE),
        'C' => Ok(TcpFlags::CWR),
        _ => Err(format!(
            "`{letter}` is not a flag: give F, S, R, P, A, U, E, C or 0 for none"
        )),
    };
    let segment = |text: &str| match text.trim() {
        "" => Err("names no flags: give 0 for none".to_owned()),
        "0" => Ok(TcpFlags::default()),
        letters => {
            letters.chars().try_fold(
                TcpFlags::default(),
                |all, letter| Ok(all.with(one(letter)?)),
            )
        }
    };
    let flags = text
        .split(',')
        .map(segment)
        .collect::<std::result::Result<Vec<_>, _>>()?;
    match flags.len() {
        0..=MAX_FLAGS => Ok(Flags(flags)),
        many => Err(format!("names {many} segments: at most {MAX_FLAGS}")),
    }
}

/// Parses a source port, or a range of source ports.
pub(super) fn parse_source_ports(text: &str) -> std::result::Result<SourcePorts, String> {
    let (first, last) = range(text)?;
    Ok(SourcePorts::Range { first, last })
}

fn range(text: &str) -> std::result::Result<(u16, u16), String> {
    let port = |text: &str| {
        let port = text.trim().parse::<u16>().ok();
        port.filter(|port| *port > 0)
            .ok_or_else(|| format!("`{text}` is not a port: give 1 to 65535, or FIRST-LAST"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (port(first)?, port(last)?) {
        (first, last) if first > last => Err(format!("`{text}` ends before it begins")),
        ends => Ok(ends),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ports_are_read() {
        let ports = |text| parse_ports(text).map(|Ports(ports)| ports);
        assert_eq!(
            ports("80,443,8000-8002"),
            Ok(vec![80, 443, 8000, 8001, 8002])
        );
        for wrong in ["", "80,", "0", "65536", "9-8", "http", "1-2000"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
        let sizes = |text| parse_sizes(text).map(|sizes| (sizes.first, sizes.last, sizes.step));
        assert_eq!(sizes("56"), Ok((56, 56, 1)));
        assert_eq!(sizes("0-1472/8"), Ok((0, 1472, 8)));
        for wrong in ["", "-1", "65001", "9-8", "1-9/0", "0-65000", "1-9/x"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
        let flags =
            |text| parse_flags(text).map(|Flags(flags)| flags.iter().map(|f| f.0).collect());
        assert_eq!(flags("S,fa,0"), Ok(vec![0x02, 0x11, 0]));
        for wrong in ["", "S,", "X", "S F"] {
            assert!(flags(wrong).is_err(), "{wrong}");
        }
        let expected = SourcePorts::Range { first: 7, last: 9 };
        assert_eq!(parse_source_ports("7-9"), Ok(expected));
    }
}

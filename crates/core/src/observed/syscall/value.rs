//! Values of options and addresses, as `strace` writes them.

use core::fmt::Write as _;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::{Argument, SOL_SOCKET, SOL_TCP};

/// Number of bytes of a string that are shown, as with `strace -s`.
const SHOWN: usize = 32;

const SO_LINGER: i32 = 13;
const SO_RCVTIMEO: i32 = 20;
const SO_SNDTIMEO: i32 = 21;
const SO_BINDTODEVICE: i32 = 25;
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
const TCP_CONGESTION: i32 = 13;
const TCP_ULP: i32 = 31;

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Writes the value of an option.
pub(super) fn option(level: i32, option: i32, value: &Argument) -> String {
    if value.is_secret {
        return "/* a key */".to_owned();
    }
    if value.len == 0 && value.pointer != 0 {
        return "\"\"".to_owned();
    }
    let bytes = value.bytes.as_slice();
    if bytes.is_empty() {
        return pointer(value.pointer);
    }
    let special = match (level, option) {
        (SOL_SOCKET, SO_LINGER) => Some(linger(bytes).unwrap_or_else(|| pointer(value.pointer))),
        (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW) => time(bytes),
        (SOL_SOCKET, SO_BINDTODEVICE) | (SOL_TCP, TCP_CONGESTION | TCP_ULP) => {
            Some(quoted(bytes, value.len))
        }
        _ => None,
    };
    special.unwrap_or_else(|| match (bytes.first_chunk(), bytes.len()) {
        (Some(number), 4) => format!("[{}]", i32::from_ne_bytes(*number)),
        _ => quoted(bytes, value.len),
    })
}

/// Writes a `struct linger`.
fn linger(bytes: &[u8]) -> Option<String> {
    let is_on = i32::from_ne_bytes(*bytes.first_chunk()?);
    let seconds = i32::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    Some(format!("{{l_onoff={is_on}, l_linger={seconds}}}"))
}

/// Writes a `struct timeval` of 64 bits.
fn time(bytes: &[u8]) -> Option<String> {
    let (seconds, micros) = timeval(bytes)?;
    Some(format!("{{tv_sec={seconds}, tv_usec={micros}}}"))
}

/// Returns the seconds and microseconds of a `struct timeval`.
pub(super) fn timeval(bytes: &[u8]) -> Option<(i64, i64)> {
    let seconds = i64::from_ne_bytes(*bytes.first_chunk()?);
    let micros = i64::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
    Some((seconds, micros))
}

/// Writes a direction of `shutdown`.
pub(super) fn direction(how: i32) -> String {
    match how {
        0 => "SHUT_RD".to_owned(),
        1 => "SHUT_WR".to_owned(),
        2 => "SHUT_RDWR".to_owned(),
        _ => format!("{how:#x} /* SHUT_??? */"),
    }
}

/// Writes a `struct sockaddr`.
pub(super) fn address(value: &Argument) -> String {
    let bytes = value.bytes.as_slice();
    let Some((family, rest)) = bytes.split_first_chunk() else {
        return pointer(value.pointer);
    };
    let family = u16::from_ne_bytes(*family);
    let known = match family {
        AF_INET => inet(rest),
        AF_INET6 => inet6(rest),
        AF_UNIX => unix(rest),
        _ => None,
    };
    known.unwrap_or_else(|| other(family, rest))
}

fn inet(rest: &[u8]) -> Option<String> {
    let port = u16::from_be_bytes(*rest.first_chunk()?);
    let address = Ipv4Addr::from(*rest.get(2..)?.first_chunk::<4>()?);
    Some(format!(
        "{{sa_family=AF_INET, sin_port=htons({port}), sin_addr=inet_addr(\"{address}\")}}"
    ))
}

fn inet6(rest: &[u8]) -> Option<String> {
    let port = u16::from_be_bytes(*rest.first_chunk()?);
    let flow = u32::from_be_bytes(*rest.get(2..)?.first_chunk()?);
    let address = Ipv6Addr::from(*rest.get(6..)?.first_chunk::<16>()?);
    let scope = u32::from_ne_bytes(*rest.get(22..)?.first_chunk()?);
    Some(format!(
        "{{sa_family=AF_INET6, sin6_port=htons({port}), sin6_flowinfo=htonl({flow}), \
         inet_pton(AF_INET6, \"{address}\", &sin6_addr), sin6_scope_id={scope}}}"
    ))
}

/// Returns the name of a Unix socket's address. A path ends at the first zero byte. A name that
/// begins with a zero byte is not a path.
fn unix(rest: &[u8]) -> Option<String> {
    let path = match rest.split_first()? {
        (0, name) => format!("@{}", whole(name)),
        _ => {
            let end = rest.iter().position(|&byte| byte == 0);
            whole(rest.get(..end.unwrap_or(rest.len()))?)
        }
    };
    Some(format!("{{sa_family=AF_UNIX, sun_path={path}}}"))
}

fn other(family: u16, rest: &[u8]) -> String {
    let name = match family {
        0 => "AF_UNSPEC".to_owned(),
        AF_UNIX => "AF_UNIX".to_owned(),
        AF_INET => "AF_INET".to_owned(),
        AF_INET6 => "AF_INET6".to_owned(),
        16 => "AF_NETLINK".to_owned(),
        17 => "AF_PACKET".to_owned(),
        40 => "AF_VSOCK".to_owned(),
        _ => format!("{family:#x} /* AF_??? */"),
    };
    if rest.is_empty() || matches!(family, AF_INET | AF_INET6) {
        format!("{{sa_family={name}}}")
    } else {
        let len = i32::try_from(rest.len()).unwrap_or(i32::MAX);
        format!("{{sa_family={name}, sa_data={}}}", quoted(rest, len))
    }
}

fn pointer(pointer: u64) -> String {
    match pointer {
        0 => "NULL".to_owned(),
        _ => format!("{pointer:#x}"),
    }
}

/// Writes a C string, shortened if it is long; `len` is the full length.
fn quoted(bytes: &[u8], len: i32) -> String {
    let shown = bytes.get(..bytes.len().min(SHOWN)).unwrap_or_default();
    let is_cut = usize::try_from(len).is_ok_and(|len| len > shown.len());
    whole(shown) + if is_cut { "..." } else { "" }
}

/// Writes a C string in full.
fn whole(shown: &[u8]) -> String {
    let mut text = "\"".to_owned();
    for (place, &byte) in shown.iter().enumerate() {
        let is_digit_next = shown.get(place + 1).is_some_and(u8::is_ascii_digit);
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            0x0b => text.push_str("\\v"),
            0x0c => text.push_str("\\f"),
            b' '..=b'~' => text.push(char::from(byte)),
            // A following digit must not be read as part of the number.
            _ if is_digit_next => {
                write!(text, "\\{byte:03o}").expect("writing to a string succeeds");
            }
            _ => write!(text, "\\{byte:o}").expect("writing to a string succeeds"),
        }
    }
    text.push('"');
    text
}

//! Recognition of files that are not captures, by their first bytes.

use std::fmt;

/// The kind of a file that is not a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A file without any bytes.
    Empty,
    /// A compressed file: its format, and the command that decompresses it to standard output.
    Compressed(&'static str, &'static str),
    /// Another capture format, which Wireshark's `editcap` can convert.
    OtherCapture(&'static str),
    /// Text: perhaps the printed output of a capture tool instead of the file that it writes.
    Text,
    /// Anything else, with its first bytes.
    Unknown([u8; 4]),
}

const COMPRESSED: [(&[u8], &str, &str); 6] = [
    (b"\x1f\x8b", "gzip-compressed", "gzip -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "zstd -dc"),
    (b"\xfd7zXZ\0", "xz-compressed", "xz -dc"),
    (b"BZh", "bzip2-compressed", "bzip2 -dc"),
    (b"\x04\x22\x4d\x18", "lz4-compressed", "lz4 -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
];

const OTHER_CAPTURES: [(&[u8], &str); 11] = [
    (b"RTSS", "a NetMon capture"),
    (b"GMBU", "a NetMon capture"),
    (b"XCP\0", "a NetXRay capture"),
    (b"TRSNIFF data    \x1a", "a Sniffer capture"),
    (b"\x7fver", "an EtherPeek or OmniPeek capture"),
    (b"iptrace ", "an iptrace capture of AIX"),
    (b"ObserverPktBuffe", "an Observer capture"),
    (b"btsnoop\0", "a Bluetooth capture"),
    (b"\x05VNF", "a Visual Networks capture"),
    (b"\xaa\xaa\xaa\xaa", "a 5Views capture"),
    (b"\x54\x52\x00\x64\x00", "a nettl capture of HP-UX"),
];

impl Foreign {
    /// Recognizes a file by its first bytes.
    pub fn recognize(begin: &[u8]) -> Self {
        let has_magic = |magic: &[u8]| begin.starts_with(magic);
        if let Some((_, what, unpack)) = COMPRESSED.iter().find(|each| has_magic(each.0)) {
            return Self::Compressed(what, unpack);
        }
        if let Some((_, what)) = OTHER_CAPTURES.iter().find(|each| has_magic(each.0)) {
            return Self::OtherCapture(what);
        }
        match begin.get(..512).unwrap_or(begin) {
            [] => Self::Empty,
            begin if is_text(begin) => Self::Text,
            begin => {
                let mut first = [0; 4];
                first
                    .iter_mut()
                    .zip(begin)
                    .for_each(|(to, from)| *to = *from);
                Self::Unknown(first)
            }
        }
    }

    /// Returns advice on the use of such a file; `None` if there is none.
    pub(super) fn hint(self, name: &str) -> Option<String> {
        match self {
            Self::Empty => Some(
                "the capture may have been stopped before its first packets were written; tcpdump \
                 writes packets immediately with -U --immediate-mode"
                    .into(),
            ),
            Self::Compressed(_, unpack) => Some(format!("{unpack} {name} | lagtrace analyze -")),
            Self::OtherCapture(_) => Some(format!("editcap {name} {name}.pcapng converts it")),
            Self::Text => {
                Some("tcpdump writes a capture with -w FILE; without it, it prints text".into())
            }
            Self::Unknown(_) => None,
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "empty"),
            Self::Compressed(what, _) | Self::OtherCapture(what) => write!(f, "{what}"),
            Self::Text => write!(f, "text"),
            Self::Unknown([a, b, c, d]) => {
                write!(
                    f,
                    "of unknown format, beginning {a:02x} {b:02x} {c:02x} {d:02x}"
                )
            }
        }
    }
}

/// Returns true if the bytes are printable UTF-8; the last character may be cut.
fn is_text(bytes: &[u8]) -> bool {
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    let is_printable = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t' | '\x1b');
    valid.chars().all(is_printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_what_people_pass_by_mistake() {
        let cases: [(&[u8], &str); 11] = [
            (b"TRSNIFF data    \x1a\0", "a Sniffer capture"),
            (b"iptrace 2.0", "an iptrace capture of AIX"),
            // The format's name is text as well.
            (b"TRSNIFF data", "text"),
            (b"", "empty"),
            (b"\x1f\x8b\x08\0", "gzip-compressed"),
            (b"\x28\xb5\x2f\xfd\0", "zstd-compressed"),
            (b"GMBU\0\x02\x01\0", "a NetMon capture"),
            (
                b"12:00:01.5 IP 10.0.0.1.80 > 10.0.0.2.9: Flags [S]\n",
                "text",
            ),
            ("Grüße".as_bytes(), "text"),
            (b"Gr\xc3", "text"),
            (b"\x7fE", "of unknown format, beginning 7f 45 00 00"),
        ];
        for (begin, expected) in cases {
            assert_eq!(Foreign::recognize(begin).to_string(), expected);
        }
    }
}

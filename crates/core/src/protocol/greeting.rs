//! Greetings of servers, in the protocols whose clients wait for a greeting before they send
//! anything.

use super::mysql;

/// A protocol in which the server sends a greeting first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Greeting {
    /// SMTP (RFC 5321 §4.2) and FTP (RFC 959 §5.4), whose greetings look alike.
    Mail,
    /// SSH (RFC 4253 §4.2).
    Ssh,
    /// POP3 (RFC 1939 §4).
    Pop3,
    /// IMAP (RFC 9051 §7.1).
    Imap,
    /// MySQL and MariaDB.
    MySql,
    /// VNC (RFC 6143 §7.1.1).
    Vnc,
    /// NNTP (RFC 3977 §5.1).
    News,
    /// rsync's daemon.
    Rsync,
}

/// The first bytes of greetings.
const BEGINNINGS: [(&[u8], Greeting); 10] = [
    (b"220 ", Greeting::Mail),
    (b"220-", Greeting::Mail),
    (b"SSH-", Greeting::Ssh),
    (b"+OK", Greeting::Pop3),
    (b"* OK", Greeting::Imap),
    (b"* PREAUTH", Greeting::Imap),
    (b"RFB 00", Greeting::Vnc),
    (b"200 ", Greeting::News),
    (b"201 ", Greeting::News),
    (b"@RSYNCD:", Greeting::Rsync),
];

impl Greeting {
    /// Returns the protocol whose greeting has these first bytes. `None` for other bytes, and for
    /// greetings for which clients do not wait.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let begins = |&&(beginning, _): &&(&[u8], Self)| bytes.starts_with(beginning);
        let known = BEGINNINGS
            .iter()
            .find(begins)
            .map(|&(_, greeting)| greeting);
        known.or_else(|| mysql::is_greeting(bytes).then_some(Self::MySql))
    }

    /// Returns true if a client sends each command only after the previous reply. Either the
    /// protocol requires this, or clients assume it because pipelining is an extension that the
    /// server must offer.
    pub(crate) const fn is_in_turns(self) -> bool {
        matches!(self, Self::Mail | Self::Pop3 | Self::News)
    }

    /// Returns the protocol's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mail => "SMTP or FTP",
            Self::Ssh => "SSH",
            Self::Pop3 => "POP3",
            Self::Imap => "IMAP",
            Self::MySql => "MySQL or MariaDB",
            Self::Vnc => "VNC",
            Self::News => "NNTP",
            Self::Rsync => "rsync",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_told_from_answers_and_from_bulk() {
        let cases: [(&[u8], Option<Greeting>); 8] = [
            (b"220 mx.example ESMTP\r\n", Some(Greeting::Mail)),
            (b"SSH-2.0-OpenSSH_9.6\r\n", Some(Greeting::Ssh)),
            (b"* OK IMAP4rev1 ready\r\n", Some(Greeting::Imap)),
            (b"RFB 003.008\n", Some(Greeting::Vnc)),
            (b"HTTP/1.1 200 OK\r\n", None),
            (b" !\"#$%&'()*+,-./0123", None),
            (b"22", None),
            (b"", None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Greeting::of(bytes), expected, "{bytes:?}");
        }
    }
}

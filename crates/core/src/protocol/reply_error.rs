//! Errors that servers report in protocols other than HTTP, by their codes.
//!
//! Only codes are kept, never a server's text, which may quote its clients' data.

use core::fmt;

/// An error that a server reports in its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyError {
    /// The code as the server writes it, `-OOM`; empty for an error whose code is not known.
    pub(crate) code: &'static str,
    pub(crate) trouble: Trouble,
}

/// The kind of trouble that an error reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Trouble {
    /// The server has as many connections as it may have.
    Full,
    /// The server has no memory or disk left for the request.
    NoRoom,
    /// The client lacks credentials or a permission.
    Credentials,
    /// The server is starting, stopping, or not in charge.
    NotReady,
    /// Another request or lock is in the way, or the request took too long.
    Busy,
    /// The server accepts no writes.
    ReadOnly,
    /// The request is wrong, or the error's code is not known.
    #[default]
    Request,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("error reply")?;
        if self.code.is_empty() {
            return Ok(());
        }
        write!(f, " {}", self.code)
    }
}

/// A row of a table: how an error begins, its code for reports, and what it means.
type Row = (&'static str, &'static str, Trouble);

/// Prefixes of Redis's errors (redis.io, "Redis serialization protocol specification", and
/// `server.c: createSharedObjects()`).
const REDIS: &[Row] = &[
    (
        "ERR max number of clients",
        "-ERR max number of clients",
        Trouble::Full,
    ),
    ("OOM ", "-OOM", Trouble::NoRoom),
    ("NOAUTH ", "-NOAUTH", Trouble::Credentials),
    ("WRONGPASS ", "-WRONGPASS", Trouble::Credentials),
    ("NOPERM ", "-NOPERM", Trouble::Credentials),
    ("DENIED ", "-DENIED", Trouble::Credentials),
    ("LOADING ", "-LOADING", Trouble::NotReady),
    ("MASTERDOWN ", "-MASTERDOWN", Trouble::NotReady),
    ("CLUSTERDOWN ", "-CLUSTERDOWN", Trouble::NotReady),
    ("TRYAGAIN ", "-TRYAGAIN", Trouble::NotReady),
    ("BUSY ", "-BUSY", Trouble::Busy),
    ("READONLY ", "-READONLY", Trouble::ReadOnly),
    ("MISCONF ", "-MISCONF", Trouble::ReadOnly),
    ("NOREPLICAS ", "-NOREPLICAS", Trouble::ReadOnly),
    ("WRONGTYPE ", "-WRONGTYPE", Trouble::Request),
    ("EXECABORT ", "-EXECABORT", Trouble::Request),
];

/// Redis's errors after which clients do something else: they follow a redirection, send a script's
/// text, or speak the older protocol.
const REDIS_DETOURS: [&str; 4] = ["MOVED ", "ASK ", "NOSCRIPT ", "NOPROTO "];

/// SQLSTATE codes and classes of PostgreSQL (PostgreSQL documentation, appendix A).
const POSTGRES: &[Row] = &[
    ("53300", "SQLSTATE 53300", Trouble::Full),
    ("53400", "SQLSTATE 53400", Trouble::Full),
    ("53100", "SQLSTATE 53100", Trouble::NoRoom),
    ("53200", "SQLSTATE 53200", Trouble::NoRoom),
    ("53", "SQLSTATE 53", Trouble::NoRoom),
    ("57P01", "SQLSTATE 57P01", Trouble::NotReady),
    ("57P03", "SQLSTATE 57P03", Trouble::NotReady),
    ("57P", "SQLSTATE 57P", Trouble::NotReady),
    ("57014", "SQLSTATE 57014", Trouble::Busy),
    ("40001", "SQLSTATE 40001", Trouble::Busy),
    ("40P01", "SQLSTATE 40P01", Trouble::Busy),
    ("55P03", "SQLSTATE 55P03", Trouble::Busy),
    ("25006", "SQLSTATE 25006", Trouble::ReadOnly),
    ("28", "SQLSTATE 28", Trouble::Credentials),
    ("42501", "SQLSTATE 42501", Trouble::Credentials),
    ("3D000", "SQLSTATE 3D000", Trouble::Request),
    ("22", "SQLSTATE 22", Trouble::Request),
    ("23", "SQLSTATE 23", Trouble::Request),
    ("42", "SQLSTATE 42", Trouble::Request),
];

/// Replies of memcached (`doc/protocol.txt`, "Error strings"; `memcached.c: drive_machine()`).
const MEMCACHED: &[Row] = &[
    (
        "ERROR Too many open connections",
        "ERROR Too many open connections",
        Trouble::Full,
    ),
    (
        "SERVER_ERROR out of memory",
        "SERVER_ERROR out of memory",
        Trouble::NoRoom,
    ),
    ("SERVER_ERROR", "SERVER_ERROR", Trouble::Request),
    ("CLIENT_ERROR", "CLIENT_ERROR", Trouble::Request),
    ("ERROR", "ERROR", Trouble::Request),
];

/// Error codes of MySQL and MariaDB (`mysqld_error.h`).
const MYSQL: &[(u16, &str, Trouble)] = &[
    (1021, "1021", Trouble::NoRoom),
    (1037, "1037", Trouble::NoRoom),
    (1038, "1038", Trouble::NoRoom),
    (1040, "1040", Trouble::Full),
    (1041, "1041", Trouble::NoRoom),
    (1044, "1044", Trouble::Credentials),
    (1045, "1045", Trouble::Credentials),
    (1053, "1053", Trouble::NotReady),
    (1114, "1114", Trouble::NoRoom),
    (1129, "1129", Trouble::Credentials),
    (1130, "1130", Trouble::Credentials),
    (1142, "1142", Trouble::Credentials),
    (1203, "1203", Trouble::Full),
    (1205, "1205", Trouble::Busy),
    (1213, "1213", Trouble::Busy),
    (1226, "1226", Trouble::Full),
    (1290, "1290", Trouble::ReadOnly),
    (1317, "1317", Trouble::Busy),
    (1698, "1698", Trouble::Credentials),
    (1836, "1836", Trouble::ReadOnly),
    (1969, "1969", Trouble::Busy),
    (3024, "3024", Trouble::Busy),
    (3572, "3572", Trouble::Busy),
];

/// Errors with which a server that speaks first refuses a connection (memcached, Redis; SMTP and FTP:
/// RFC 5321 §4.2.3, RFC 959 §4.2.1).
const REFUSALS: &[Row] = &[
    (
        "ERROR Too many open connections",
        "ERROR Too many open connections",
        Trouble::Full,
    ),
    (
        "-ERR max number of clients",
        "-ERR max number of clients",
        Trouble::Full,
    ),
    ("-DENIED ", "-DENIED", Trouble::Credentials),
    ("421 ", "421", Trouble::NotReady),
    ("421-", "421", Trouble::NotReady),
];

impl ReplyError {
    /// Returns the error of Redis that begins with `text`, without its first sign; `None` if clients
    /// expect it.
    pub(crate) fn of_redis(text: &[u8]) -> Option<Self> {
        let is_detour = REDIS_DETOURS
            .iter()
            .any(|detour| text.starts_with(detour.as_bytes()));
        (!is_detour).then(|| Self::of(REDIS, text))
    }

    /// Returns PostgreSQL's error with this SQLSTATE.
    pub(crate) fn of_postgres(state: &[u8]) -> Self {
        Self::of(POSTGRES, state)
    }

    /// Returns memcached's error that begins with `text`; `None` if it is none.
    pub(crate) fn of_memcached(text: &[u8]) -> Option<Self> {
        Self::row(MEMCACHED, text)
    }

    /// Returns the error of MySQL and MariaDB with this code.
    pub(crate) fn of_mysql(code: u16) -> Self {
        let row = MYSQL.iter().find(|(known, ..)| *known == code);
        row.map_or(Self::default(), |&(_, code, trouble)| Self {
            code,
            trouble,
        })
    }

    /// Returns the error in a server's first bytes, if it refuses the connection before any request.
    pub(crate) fn of_refusal(bytes: &[u8]) -> Option<Self> {
        Self::row(REFUSALS, bytes)
    }

    fn of(table: &[Row], text: &[u8]) -> Self {
        Self::row(table, text).unwrap_or_default()
    }

    fn row(table: &[Row], text: &[u8]) -> Option<Self> {
        let row = table
            .iter()
            .find(|(beginning, ..)| text.starts_with(beginning.as_bytes()));
        row.map(|&(_, code, trouble)| Self { code, trouble })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_of_a_code_comes_first() {
        for table in [REDIS, POSTGRES, MEMCACHED, REFUSALS] {
            for (at, (longer, ..)) in table.iter().enumerate() {
                let before = table.iter().take(at);
                let hides = |(shorter, ..): &Row| longer.starts_with(shorter);
                assert!(!before.clone().any(hides), "{longer} is never found");
            }
        }
    }

    #[test]
    fn an_error_keeps_its_code_and_nothing_of_its_text() {
        let error =
            ReplyError::of_redis(b"OOM command not allowed when used memory > 'maxmemory'.");
        assert_eq!(error.expect("an error").to_string(), "error reply -OOM");
        let error = ReplyError::of_redis(b"ERR secret@example.com is no number").expect("an error");
        assert_eq!(error.to_string(), "error reply");
        assert_eq!(ReplyError::of_redis(b"MOVED 3999 127.0.0.1:6381"), None);
        assert_eq!(ReplyError::of_postgres(b"53300").trouble, Trouble::Full);
        assert_eq!(
            ReplyError::of_postgres(b"28P01").trouble,
            Trouble::Credentials
        );
        assert_eq!(ReplyError::of_mysql(1040).to_string(), "error reply 1040");
        assert_eq!(ReplyError::of_mysql(1064), ReplyError::default());
        let full = ReplyError::of_refusal(b"ERROR Too many open connections\r\n");
        assert_eq!(full.expect("a refusal").trouble, Trouble::Full);
        assert_eq!(ReplyError::of_refusal(b"220 mx.example ESMTP\r\n"), None);
    }
}

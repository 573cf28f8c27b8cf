//! The options of curl that lagtrace does not map, by what becomes of them.

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The option concerns only what curl prints or stores.
    Harmless,
    /// The option limits how curl works, for which lagtrace has options of its own. The user is told.
    Unused,
    /// The option changes the request or the way in which it is sent.
    Refused,
}

use Class::{Harmless, Refused, Unused};

/// A row: the short name, or 0; the long name; whether a value follows; what becomes of it.
type Row = (u8, &'static str, bool, Class);

/// Options of curl 7.88 and later.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    (b's', "silent", false, Harmless), (b'S', "show-error", false, Harmless),
    (b'v', "verbose", false, Harmless), (b'i', "include", false, Harmless),
    (0, "show-headers", false, Harmless), (b'N', "no-buffer", false, Harmless),
    (b'f', "fail", false, Harmless), (0, "fail-with-body", false, Harmless),
    (0, "fail-early", false, Harmless), (b'#', "progress-bar", false, Harmless),
    (0, "no-progress-meter", false, Harmless), (0, "styled-output", false, Harmless),
    (0, "no-styled-output", false, Harmless), (0, "tcp-nodelay", false, Harmless),
    (0, "no-sessionid", false, Harmless), (0, "no-keepalive", false, Harmless),
    (b'O', "remote-name", false, Harmless), (b'J', "remote-header-name", false, Harmless),
    (0, "remote-name-all", false, Harmless), (b'R', "remote-time", false, Harmless),
    (0, "create-dirs", false, Harmless), (0, "remove-on-error", false, Harmless),
    (0, "no-clobber", false, Harmless), (0, "xattr", false, Harmless),
    (b'q', "disable", false, Harmless), (0, "basic", false, Harmless),
    (0, "http1.1", false, Harmless), (b'1', "tlsv1", false, Harmless),
    (0, "tlsv1.0", false, Harmless), (0, "tlsv1.1", false, Harmless),
    (0, "tlsv1.2", false, Harmless), (0, "trace-time", false, Harmless),
    (0, "trace-ids", false, Harmless), (b'j', "junk-session-cookies", false, Harmless),
    (0, "compressed-ssh", false, Harmless), (0, "ssl-no-revoke", false, Harmless),
    (0, "ssl-revoke-best-effort", false, Harmless), (0, "no-alpn", false, Refused),
    (b'o', "output", true, Harmless), (b'D', "dump-header", true, Harmless),
    (b'w', "write-out", true, Harmless), (b'c', "cookie-jar", true, Harmless),
    (0, "stderr", true, Harmless), (0, "trace", true, Harmless),
    (0, "trace-ascii", true, Harmless), (0, "trace-config", true, Harmless),
    (0, "output-dir", true, Harmless), (0, "libcurl", true, Harmless),
    (0, "create-file-mode", true, Harmless), (0, "etag-save", true, Harmless),

    (b'm', "max-time", true, Unused), (0, "connect-timeout", true, Unused),
    (0, "retry", true, Unused), (0, "retry-delay", true, Unused),
    (0, "retry-max-time", true, Unused), (0, "retry-all-errors", false, Unused),
    (0, "retry-connrefused", false, Unused), (0, "limit-rate", true, Unused),
    (0, "rate", true, Unused), (b'y', "speed-time", true, Unused),
    (b'Y', "speed-limit", true, Unused), (0, "max-filesize", true, Unused),
    (0, "keepalive-time", true, Unused), (0, "expect100-timeout", true, Unused),
    (0, "happy-eyeballs-timeout-ms", true, Unused), (b'Z', "parallel", false, Unused),
    (0, "parallel-max", true, Unused), (0, "parallel-immediate", false, Unused),
    (0, "tlsv1.3", false, Unused), (b'4', "ipv4", false, Unused),
    (b'6', "ipv6", false, Unused), (0, "alt-svc", true, Unused),
    (0, "hsts", true, Unused), (0, "dns-servers", true, Unused),
    (0, "doh-url", true, Unused), (0, "noproxy", true, Unused),
    (0, "proto", true, Unused), (0, "proto-redir", true, Unused),
    (0, "proto-default", true, Unused), (0, "tcp-fastopen", false, Unused),

    (b'T', "upload-file", true, Refused), (b'K', "config", true, Refused),
    (b'x', "proxy", true, Refused), (b'U', "proxy-user", true, Refused),
    (b'p', "proxytunnel", false, Refused), (0, "proxy-header", true, Refused),
    (0, "preproxy", true, Refused), (0, "socks4", true, Refused),
    (0, "socks4a", true, Refused), (0, "socks5", true, Refused),
    (0, "socks5-hostname", true, Refused), (0, "haproxy-protocol", false, Refused),
    (0, "proxy-insecure", false, Refused), (0, "proxy-cacert", true, Refused),
    (0, "digest", false, Refused), (0, "ntlm", false, Refused),
    (0, "negotiate", false, Refused), (0, "anyauth", false, Refused),
    (0, "aws-sigv4", true, Refused), (0, "delegation", true, Refused),
    (0, "pass", true, Refused), (0, "cert-type", true, Refused),
    (0, "key-type", true, Refused), (0, "capath", true, Refused),
    (0, "ca-native", false, Refused), (0, "crlfile", true, Refused),
    (0, "pinnedpubkey", true, Refused), (0, "ciphers", true, Refused),
    (0, "tls13-ciphers", true, Refused), (0, "curves", true, Refused),
    (0, "tls-max", true, Refused), (0, "cert-status", false, Refused),
    (0, "no-npn", false, Refused), (b'2', "sslv2", false, Refused),
    (b'3', "sslv3", false, Refused), (0, "engine", true, Refused),
    (b':', "next", false, Refused), (b'z', "time-cond", true, Refused),
    (b'C', "continue-at", true, Refused), (b'0', "http1.0", false, Refused),
    (0, "http0.9", false, Refused), (0, "http3", false, Refused),
    (0, "http3-only", false, Refused), (0, "interface", true, Refused),
    (0, "local-port", true, Refused), (0, "abstract-unix-socket", true, Refused),
    (0, "tr-encoding", false, Refused), (0, "request-target", true, Refused),
    (0, "location-trusted", false, Refused), (0, "post301", false, Refused),
    (0, "post302", false, Refused), (0, "post303", false, Refused),
    (b'n', "netrc", false, Refused), (0, "netrc-file", true, Refused),
    (0, "netrc-optional", false, Refused), (0, "url-query", true, Refused),
    (0, "etag-compare", true, Refused), (0, "raw", false, Harmless),
    (0, "ignore-content-length", false, Refused), (0, "form-escape", false, Refused),
    (0, "variable", true, Refused), (0, "expand-data", true, Refused),
    (0, "expand-header", true, Refused), (0, "expand-url", true, Refused),
    (b'a', "append", false, Refused), (b'B', "use-ascii", false, Refused),
    (b'l', "list-only", false, Refused), (b'P', "ftp-port", true, Refused),
    (b'Q', "quote", true, Refused), (b't', "telnet-option", true, Refused),
    (0, "mail-from", true, Refused), (0, "mail-rcpt", true, Refused),
    (0, "dns-interface", true, Refused), (0, "ssl", false, Refused),
    (0, "ssl-reqd", false, Refused), (0, "service-name", true, Refused),
];

/// Reasons for refusals, for options that people use; others have a general one.
pub(super) const HINTS: &[(&str, &str)] = &[
    (
        "upload-file",
        "send the file as a body: -X PUT --data-binary @FILE",
    ),
    ("config", "write the options of the file into the command"),
    (
        "proxy",
        "lagtrace measures the path to the service: leave the proxy out, or give its own URL",
    ),
    (
        "digest",
        "log in once, and give the token or the cookie: -H, -b or --oauth2-bearer",
    ),
    (
        "ntlm",
        "log in once, and give the token or the cookie: -H, -b or --oauth2-bearer",
    ),
    (
        "negotiate",
        "log in once, and give the token or the cookie: -H, -b or --oauth2-bearer",
    ),
    (
        "anyauth",
        "use --basic, or give a token: -H or --oauth2-bearer",
    ),
    (
        "aws-sigv4",
        "give the signed fields with -H; a signature is valid for some minutes",
    ),
    ("next", "give one request"),
    ("netrc", "give the credentials with -u, as NAME:PASSWORD"),
    (
        "http1.0",
        "leave it out: lagtrace keeps connections open, as HTTP/1.1 does",
    ),
    ("http3", "use --http2 or HTTP/1.1: lagtrace sends no HTTP/3"),
    (
        "location-trusted",
        "use -L: credentials stay with the first host",
    ),
    (
        "time-cond",
        "give the field itself: -H 'If-Modified-Since: …'",
    ),
    ("url-query", "write the query into the URL"),
    ("cert-type", "convert the certificate to PEM"),
    ("pass", "decrypt the key: openssl pkey -in KEY -out FILE"),
];

/// Returns the row of a long name.
pub(super) fn by_name(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|(_, long, ..)| *long == name)
}

/// Returns the row of a short name.
pub(super) fn by_letter(letter: u8) -> Option<&'static Row> {
    ROWS.iter()
        .find(|(short, ..)| *short == letter && letter != 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_stands_twice() {
        let names: BTreeSet<&str> = ROWS.iter().map(|(_, long, ..)| *long).collect();
        assert_eq!(names.len(), ROWS.len());
        let letters = ROWS
            .iter()
            .map(|(short, ..)| *short)
            .filter(|letter| *letter > 0);
        let letters: Vec<u8> = letters.collect();
        assert_eq!(letters.iter().collect::<BTreeSet<_>>().len(), letters.len());
        for (name, _) in HINTS {
            let row = by_name(name).expect(name);
            assert_eq!(row.3, Refused, "{name}");
        }
    }
}

//! The URLs that lagtrace accepts. They consist of `http` or `https`, a host, a port and a path.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr;

/// Maximum length of an accepted URL, in bytes.
const MAX_LEN: usize = 8 * 1024;
/// Maximum length of a host name (RFC 1035 §2.3.4), in bytes.
const MAX_HOST_LEN: usize = 253;
/// The scheme of a [`Url`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP over TCP.
    #[default]
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// Returns the default port (RFC 9110 §4.2.1, §4.2.2).
    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    /// Returns the scheme as in a URL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The target of a request: `http[s]://HOST[:PORT][/PATH][?QUERY]`.
///
/// Without a scheme, `http` is assumed. A fragment is dropped, because clients do not send
/// fragments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    scheme: Scheme,
    host: Host,
    port: u16,
    path: String,
}

/// The host of a [`Url`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A host name in lower case, to be resolved.
    Name(String),
    /// An IP address.
    Address(IpAddr),
}

/// A reason why a text is not a URL that lagtrace accepts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text is empty, or has no host.
    #[error("`{url}` has no host")]
    NoHost {
        /// The given text.
        url: String,
    },
    /// The scheme is neither `http` nor `https`.
    #[error("`{url}` has the scheme `{scheme}`; `http` and `https` are supported")]
    Scheme {
        /// The given text.
        url: String,
        /// The scheme in the text.
        scheme: String,
    },
    /// The text has a user name or password before the host.
    #[error("`{url}` contains a user name or `@` before the host, which is not supported")]
    Userinfo {
        /// The given text, without the part before the `@`.
        url: String,
    },
    /// The host is neither a host name nor an IP address.
    #[error(
        "`{host}` in `{url}` is neither a host name nor an IP address (IPv6: in brackets, no \
             zone)"
    )]
    Host {
        /// The given text.
        url: String,
        /// The text in place of the host.
        host: String,
    },
    /// The port is not a number from 1 to 65535.
    #[error("`{port}` in `{url}` is not a port from 1 to 65535")]
    Port {
        /// The given text.
        url: String,
        /// The text in place of the port.
        port: String,
    },
    /// The text contains a character that must be percent-encoded.
    #[error("`{url}` contains {character:?} at byte {at}, which must be percent-encoded")]
    Character {
        /// The given text.
        url: String,
        /// The character.
        character: char,
        /// Byte offset of the character in the text, from 0.
        at: usize,
    },
    /// The text is longer than 8 KiB.
    #[error("the URL is {len} bytes long; at most {MAX_LEN} are accepted")]
    TooLong {
        /// Length of the text in bytes.
        len: usize,
    },
}

impl Url {
    /// Returns the `http` URL of `path` at an address. `path` begins with `/` and may have a query.
    pub fn at(address: IpAddr, port: u16, path: &str) -> Self {
        Self {
            scheme: Scheme::Http,
            host: Host::Address(address),
            port,
            path: path.to_owned(),
        }
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns true if the scheme is `https`.
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Returns the host. It is resolved, and sent in the `Host` field.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns path and query in origin form (RFC 9112 §3.2.1), which begins with `/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the value of the `Host` field (RFC 9110 §7.2). It does not contain a default port.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Host {
    /// Writes the host as in a URL, with brackets around an IPv6 address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.as_str();
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        check_characters(text)?;
        let (scheme, rest) = split_scheme(text)?;
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if let Some((_, after)) = authority.rsplit_once('@') {
            return Err(UrlError::Userinfo {
                url: format!("{after}{path}"),
            });
        }
        let (host, port) = split_port(authority, text)?;
        Ok(Self {
            scheme,
            host: parse_host(host, text)?,
            port: parse_port(port, text)?.unwrap_or(scheme.port()),
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
        })
    }
}

/// Returns an error if a character is not allowed in a URL or would end the request line.
fn check_characters(text: &str) -> Result<(), UrlError> {
    if text.len() > MAX_LEN {
        return Err(UrlError::TooLong { len: text.len() });
    }
    match text
        .char_indices()
        .find(|&(_, c)| !c.is_ascii_graphic() || matches!(c, '"' | '<' | '>' | '\\' | '^' | '`'))
    {
        None => Ok(()),
        Some((at, character)) => Err(UrlError::Character {
            url: text.escape_debug().to_string(),
            character,
            at,
        }),
    }
}

fn split_scheme(text: &str) -> Result<(Scheme, &str), UrlError> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok((Scheme::Http, text));
    };
    if scheme.contains(['/', '?', '#']) {
        return Ok((Scheme::Http, text));
    }
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok((Scheme::Http, rest)),
        "https" => Ok((Scheme::Https, rest)),
        _ => Err(UrlError::Scheme {
            url: text.to_owned(),
            scheme: scheme.to_owned(),
        }),
    }
}

/// Splits an authority into the host and the text after the colon.
fn split_port<'a>(authority: &'a str, url: &str) -> Result<(&'a str, Option<&'a str>), UrlError> {
    let wrong = || UrlError::Host {
        url: url.to_owned(),
        host: authority.to_owned(),
    };
    if authority.parse::<Ipv6Addr>().is_ok() {
        return Err(wrong());
    }
    if !authority.starts_with('[') {
        return Ok(match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        });
    }
    let end = authority.find(']').ok_or_else(wrong)?;
    let (host, after) = authority.split_at(end + 1);
    match after.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if after.is_empty() => Ok((host, None)),
        None => Err(wrong()),
    }
}

/// Parses the port; `None` means the scheme's default.
fn parse_port(port: Option<&str>, url: &str) -> Result<Option<u16>, UrlError> {
    // An empty port means the default port (RFC 3986 §3.2.3).
    let Some(port) = port.filter(|port| !port.is_empty()) else {
        return Ok(None);
    };
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(number) if digits && number != 0 => Ok(Some(number)),
        _ => Err(UrlError::Port {
            url: url.to_owned(),
            port: port.to_owned(),
        }),
    }
}

fn parse_host(host: &str, url: &str) -> Result<Host, UrlError> {
    if host.is_empty() {
        return Err(UrlError::NoHost {
            url: url.to_owned(),
        });
    }
    let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let parsed = match bracketed {
        Some(inner) => inner
            .parse::<Ipv6Addr>()
            .ok()
            .map(IpAddr::V6)
            .map(Host::Address),
        None => host
            .parse::<IpAddr>()
            .ok()
            .map(Host::Address)
            .or_else(|| is_name(host).then(|| Host::Name(host.to_ascii_lowercase()))),
    };
    parsed.ok_or_else(|| UrlError::Host {
        url: url.to_owned(),
        host: host.to_owned(),
    })
}

fn is_name(host: &str) -> bool {
    host.len() <= MAX_HOST_LEN
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
        && host.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests;

//! Search for originals in a text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::labels::Labels;
use super::words;

/// The length of an original at the beginning of a text, and its label.
type Found = Option<(usize, String)>;
/// Finds an original at the beginning of a text, of which the character before it is known.
type Finder = fn(&mut Labels, Option<char>, &str) -> Found;

/// Returns the text with labels instead of originals. At each place the longest original counts.
pub(super) fn text(labels: &mut Labels, text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        match original(labels, before, rest) {
            Some((length, label)) => {
                shown.push_str(&label);
                before = label.chars().next_back();
                rest = &rest[length..];
            }
            None => {
                shown.push(c);
                before = Some(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    shown
}

/// Returns the length of the longest original at the beginning of a text, and its label.
fn original(labels: &mut Labels, before: Option<char>, rest: &str) -> Found {
    if before.is_some_and(is_word) {
        return None;
    }
    let finders: [Finder; 5] = [known, url, address, path, host];
    let all = finders.map(|find| find(labels, before, rest));
    all.into_iter().flatten().max_by_key(|(length, _)| *length)
}

/// Returns true for the characters within a word.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Returns true if a word may end before `rest`.
fn is_end(rest: &str) -> bool {
    !rest.starts_with(is_word)
}

fn known(labels: &mut Labels, _: Option<char>, rest: &str) -> Found {
    let (length, label) = labels.known_at(rest)?;
    let ends_in_word = rest[..length].ends_with(is_word);
    (!ends_in_word || is_end(&rest[length..])).then_some((length, label))
}

/// Finds a URL: its scheme and port stay.
fn url(labels: &mut Labels, _: Option<char>, rest: &str) -> Found {
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|scheme| rest.starts_with(scheme))?;
    let whole = &rest[..run(rest, is_of_path)];
    let behind = &whole[scheme.len()..];
    let (authority, target) = behind.split_at(behind.find(['/', '?', '#']).unwrap_or(behind.len()));
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if is_port(port) => (host, format!(":{port}")),
        _ => (authority, String::new()),
    };
    let host = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => labels.address(address),
        Err(_) if host.is_empty() => String::new(),
        Err(_) => labels.name(host),
    };
    let target = match target {
        "" | "/" => target.to_owned(),
        target => format!("/{}", labels.path(target)),
    };
    Some((whole.len(), format!("{scheme}{host}{port}{target}")))
}

/// Finds an address of IP or of a device.
fn address(labels: &mut Labels, before: Option<char>, rest: &str) -> Found {
    if before.is_some_and(|c| c == '.' || c == ':') {
        return None;
    }
    let inner = rest.strip_prefix('[');
    let bracket = usize::from(inner.is_some());
    let inner = inner.unwrap_or(rest);
    let length = run(inner, |c| c.is_ascii_hexdigit() || c == ':' || c == '.');
    let end = (1..=length).rev().find(|&end| {
        let is_whole = is_end(&inner[end..]) || inner[end..].starts_with('-');
        is_whole && is_address(&inner[..end])
    })?;
    let original = &inner[..end];
    let label = match original.parse::<IpAddr>() {
        Ok(address) => labels.address(address),
        Err(_) => labels.hardware(original),
    };
    let closes = bracket == 1 && inner[end..].starts_with(']');
    let label = match (bracket, closes) {
        (1, false) => format!("[{label}"),
        _ => label,
    };
    Some((bracket + end + usize::from(closes), label))
}

fn is_address(text: &str) -> bool {
    let groups = || text.split(':');
    let is_pair = |pair: &str| pair.len() == 2 && !pair.contains('.');
    let is_of_device = groups().count() == 6 && groups().all(is_pair);
    text.parse::<Ipv4Addr>().is_ok()
        || text.len() > 2 && text.parse::<Ipv6Addr>().is_ok()
        || is_of_device
}

/// Finds an absolute path.
fn path(labels: &mut Labels, before: Option<char>, rest: &str) -> Found {
    let begins = before.is_none_or(|c| !['/', ')', '.', '>', '<'].contains(&c));
    if !begins || !rest.starts_with('/') {
        return None;
    }
    let whole = &rest[..run(rest, is_of_path)];
    let whole = whole.trim_end_matches(['.', ':', '!', '?']);
    let (file, line) = match whole.rsplit_once(':') {
        Some((file, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => (file, line),
        _ => (whole, ""),
    };
    if file.len() < 2 {
        return None;
    }
    let label = labels.path(file);
    let line = if line.is_empty() {
        String::new()
    } else {
        format!(":{line}")
    };
    Some((whole.len(), format!("{label}{line}")))
}

/// Returns true if a text is found as one path, wherever it is.
pub(super) fn is_whole_path(text: &str) -> bool {
    text.starts_with('/')
        && text.chars().all(is_of_path)
        && !text.ends_with(['.', ':', '!', '?'])
        && !text.contains(':')
}

fn is_of_path(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !['"', '\'', '`', ')', ',', ';', '<', '>'].contains(&c)
}

/// Finds a host's name: labels with dots, of which the last has letters only.
fn host(labels: &mut Labels, before: Option<char>, rest: &str) -> Found {
    if before.is_some_and(|c| c == '.' || c == '/') {
        return None;
    }
    let length = run(rest, |c| {
        c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.'
    });
    let name = rest[..length].trim_end_matches(['.', '-', '_']);
    let last = name.rsplit_once('.')?.1;
    let is_top = last.len() > 1 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_name = is_top && name.split('.').all(|label| !label.is_empty());
    if !is_name || words::is_known_dotted(name) || words::is_known_program(name) {
        return None;
    }
    Some((name.len(), labels.name(name)))
}

/// Returns the length of the longest beginning of which all characters are `of` a kind.
fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn originals_are_found_in_prose() {
        let mut labels = Labels::default();
        labels.host("db");
        labels.file("slow one.pcap");
        let cases = [
            (
                "10.0.0.5:80 and [fd00::1]:443 at 03:18:22",
                "host-1:80 and host-2:443 at 03:18:22",
            ),
            ("10.0.0.5.", "host-1."),
            (
                "GET http://db:8080/x/y?z=1, db",
                "GET http://name-1:8080/path-1, name-1",
            ),
            ("https://fd@shop.example/", "https://name-2/"),
            ("138/s, 1/2, and/or, /", "138/s, 1/2, and/or, /"),
            ("see /srv/app/nginx.conf:12.", "see path-2:12."),
            (
                "net.core.somaxconn in /etc/resolv.conf",
                "net.core.somaxconn in /etc/resolv.conf",
            ),
            ("shop.example. and Shop.Example", "name-2. and name-2"),
            ("slow one.pcap", "path-3"),
            ("dbx and db-1 and db", "dbx and db-1 and name-1"),
            ("aa:bb:cc:dd:ee:ff", "host-3"),
            ("a::b ::1 1.2.3.4x", "host-4 host-5 1.2.3.4x"),
            (
                "ip.addr == 10.0.0.5 && tcp.port == 80",
                "ip.addr == host-1 && tcp.port == 80",
            ),
        ];
        for (original, redacted) in cases {
            assert_eq!(text(&mut labels, original), redacted, "{original}");
        }
    }
}

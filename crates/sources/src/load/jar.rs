//! The cookies that a server sets on one connection (RFC 6265). They are sent back as by a browser.
//! `Domain` is ignored, because all URLs have the same host. Expiry times are ignored unless they
//! are in the past, because a run is short.

use std::sync::Arc;

/// Maximum number of cookies kept for each connection.
const MAX_COOKIES: usize = 64;
/// Maximum total length of a cookie's name and value, in bytes.
const MAX_LEN: usize = 4_096;
/// Maximum length of a cookie's `Path`, in bytes. A longer one is ignored, as browsers do.
const MAX_PATH: usize = 1_024;
/// A cookie that expires before this year is treated as deleted.
const PAST: u32 = 2_000;

/// The cookies of one connection.
#[derive(Clone, Debug)]
pub(super) struct Jar {
    /// The path of each URL of the plan. The mix chooses a URL by its index (the part number).
    paths: Arc<[String]>,
    is_tls: bool,
    cookies: Vec<Cookie>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    path: String,
}

impl Jar {
    /// Creates a jar with the cookies of `given`, which has the format of a `Cookie` field. `paths`
    /// contains the path of each URL of the plan.
    pub(super) fn new(paths: Arc<[String]>, is_tls: bool, given: &str) -> Self {
        let mut jar = Self {
            paths,
            is_tls,
            cookies: Vec::new(),
        };
        for pair in given.split(';') {
            if let Some((name, value)) = pair.split_once('=') {
                jar.keep(Cookie {
                    name: name.trim().to_owned(),
                    value: value.trim().to_owned(),
                    path: "/".to_owned(),
                });
            }
        }
        jar
    }

    /// Processes a `Set-Cookie` field of a response to a request of `part` (RFC 6265 §5.2).
    pub(super) fn set(&mut self, field: &str, part: u16) {
        let mut attributes = field.split(';');
        let Some((name, value)) = attributes.next().and_then(|pair| pair.split_once('=')) else {
            return;
        };
        let (name, value) = (name.trim(), value.trim());
        let is_bad = |byte: u8| byte.is_ascii_control();
        if name.is_empty() || field.bytes().any(is_bad) || name.len() + value.len() > MAX_LEN {
            return;
        }
        let mut cookie = Cookie {
            name: name.to_owned(),
            value: value.to_owned(),
            path: default_path(self.path(part)).to_owned(),
        };
        let (mut ends_by_age, mut ends_by_date) = (None, false);
        for attribute in attributes {
            let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            let value = value.trim();
            match name.trim().to_ascii_lowercase().as_str() {
                "path" if value.starts_with('/') && value.len() <= MAX_PATH => {
                    value.clone_into(&mut cookie.path);
                }
                "max-age" => ends_by_age = value.parse().ok().map(|age: i64| age <= 0),
                "expires" => ends_by_date = is_past(value),
                "secure" if !self.is_tls => return,
                _ => {}
            }
        }
        if ends_by_age.unwrap_or(ends_by_date) {
            self.forget(&cookie)
        } else {
            self.keep(cookie)
        }
    }

    /// Returns the value of the `Cookie` field for a request of `part`; `None` if there is no
    /// cookie.
    pub(super) fn field(&self, part: u16) -> Option<String> {
        let path = self.path(part);
        let mut sent: Vec<&Cookie> = self.cookies.iter().collect();
        sent.retain(|cookie| is_below(path, &cookie.path));
        // Cookies with longer paths come first (§5.4). Others stay in the order in which they were
        // set.
        sent.sort_by_key(|cookie| core::cmp::Reverse(cookie.path.len()));
        let pairs = sent.iter().map(|c| format!("{}={}", c.name, c.value));
        let pairs: Vec<String> = pairs.collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    fn path(&self, part: u16) -> &str {
        let path = self
            .paths
            .get(usize::from(part))
            .map_or("/", String::as_str);
        path.split(['?', '#']).next().unwrap_or("/")
    }

    fn keep(&mut self, cookie: Cookie) {
        let same = |known: &&mut Cookie| known.name == cookie.name && known.path == cookie.path;
        if let Some(known) = self.cookies.iter_mut().find(same) {
            *known = cookie;
        } else if self.cookies.len() < MAX_COOKIES {
            self.cookies.push(cookie);
        }
    }

    fn forget(&mut self, cookie: &Cookie) {
        let is_other = |known: &Cookie| known.name != cookie.name || known.path != cookie.path;
        self.cookies.retain(is_other);
    }
}

/// Returns the default path of a cookie without a `Path` attribute (§5.1.4).
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(last) => path.get(..last).unwrap_or("/"),
    }
}

/// Returns true if `path` matches the path `of` a cookie: it is the same path or below it (§5.1.4).
fn is_below(path: &str, of: &str) -> bool {
    let rest = path.strip_prefix(of);
    rest.is_some_and(|rest| rest.is_empty() || of.ends_with('/') || rest.starts_with('/'))
}

/// Returns true if the year of a date is long past. Servers delete a cookie with such a date.
fn is_past(date: &str) -> bool {
    let digits = date.split(|byte: char| !byte.is_ascii_digit());
    let mut years = digits.filter(|digits| digits.len() == 4);
    let year = years.next().and_then(|year| year.parse::<u32>().ok());
    year.is_some_and(|year| year < PAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar() -> Jar {
        let paths = ["/", "/shop/cart?x=1", "/shopping"].map(str::to_owned);
        Jar::new(Arc::from(paths), false, "a=1; b=2")
    }

    #[test]
    fn what_was_set_is_sent_where_it_belongs() {
        let mut jar = jar();
        assert_eq!(jar.field(0).as_deref(), Some("a=1; b=2"));
        jar.set("a=3; HttpOnly; SameSite=Lax; Path=/", 1);
        jar.set("cart=x=y; Max-Age=60", 1);
        jar.set("no pair", 0);
        jar.set("s=1; Secure", 0);
        jar.set("evil=1\r\nX: y", 0);
        assert_eq!(jar.field(0).as_deref(), Some("a=3; b=2"));
        assert_eq!(jar.field(1).as_deref(), Some("cart=x=y; a=3; b=2"));
        assert_eq!(jar.field(2).as_deref(), Some("a=3; b=2"), "not below /shop");
    }

    #[test]
    fn a_path_that_is_too_long_is_ignored() {
        let mut jar = jar();
        for length in [MAX_PATH, MAX_PATH + 1] {
            let path = "/".repeat(length);
            jar.set(&format!("c{length}=1; Path={path}"), 1);
        }
        let paths = jar.cookies.iter().map(|cookie| cookie.path.len());
        assert_eq!(paths.collect::<Vec<_>>(), [1, 1, MAX_PATH, "/shop".len()]);
    }

    #[test]
    fn what_ended_is_forgotten_and_there_is_a_limit() {
        let mut jar = jar();
        jar.set("a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; path=/", 0);
        jar.set("b=; Max-Age=0", 0);
        assert_eq!(jar.field(0), None);
        for n in 0..1_000 {
            jar.set(&format!("n{n}=v"), 0);
        }
        jar.set(&format!("long={}", "x".repeat(MAX_LEN)), 0);
        assert_eq!(jar.cookies.len(), MAX_COOKIES);
    }
}

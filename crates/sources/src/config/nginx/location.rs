//! The location of a server that answers a request for a URI.
//!
//! Implemented after nginx's `ngx_http_core_find_location()` (`src/http/ngx_http_core_module.c`).
//! At each level the order of precedence is: an exact name; an exact name or a regular expression
//! nested in the longest prefix; the first regular expression that matches, unless the prefix has
//! `^~`; the longest prefix.

use std::fmt;

use super::pattern::{MAX_TRIED, Match, search};
use super::tree::{Directive, blocks};

/// The pattern of a location, which determines the URIs that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocationPattern {
    /// `= /uri`: only this URI.
    Exact(String),
    /// `/uri`: all URIs that begin with `/uri`.
    Prefix(String),
    /// `^~ /uri`: all URIs that begin with `/uri`; regular expressions are not tried.
    FinalPrefix(String),
    /// `~ expression`, or `~* expression` regardless of case.
    Regex {
        /// The expression as written.
        expression: String,
        /// True if case does not matter.
        is_caseless: bool,
    },
    /// `@name`: only reached by internal redirects of nginx.
    Named(String),
}

impl fmt::Display for LocationPattern {
    /// Writes the pattern as in the configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => write!(f, "= {name}"),
            Self::FinalPrefix(name) => write!(f, "^~ {name}"),
            Self::Prefix(name) | Self::Named(name) => f.write_str(name),
            Self::Regex {
                expression,
                is_caseless,
            } => write!(f, "{} {expression}", if *is_caseless { "~*" } else { "~" }),
        }
    }
}

/// The modifiers. `~*` precedes `~`, so that the longer one is tried first.
const MODIFIERS: [&str; 4] = ["=", "^~", "~*", "~"];

/// Splits a location's arguments into modifier and name. Both may be in one word.
fn parts(location: &Directive) -> Option<(&'static str, &[u8])> {
    match location.args.as_slice() {
        [modifier, name] => {
            let known = MODIFIERS.into_iter().find(|known| *modifier == **known)?;
            Some((known, name))
        }
        [word] => Some(
            MODIFIERS
                .into_iter()
                .find_map(|known| Some((known, word.strip_prefix(known.as_bytes())?)))
                .unwrap_or(("", word)),
        ),
        _ => None,
    }
}

/// Parses the arguments of `location`; `None` if nginx would reject them.
pub(crate) fn pattern(location: &Directive) -> Option<LocationPattern> {
    let (modifier, name) = parts(location)?;
    let name = String::from_utf8_lossy(name).into_owned();
    Some(match modifier {
        "=" => LocationPattern::Exact(name),
        "^~" => LocationPattern::FinalPrefix(name),
        "" if name.starts_with('@') => LocationPattern::Named(name),
        "" => LocationPattern::Prefix(name),
        modifier => LocationPattern::Regex {
            expression: name,
            is_caseless: modifier == "~*",
        },
    })
}

/// The directives that pass a request to another server. A location `/dir/` with one of these makes
/// nginx redirect `/dir` to it.
const PASSING: [&str; 6] = [
    "proxy_pass",
    "fastcgi_pass",
    "uwsgi_pass",
    "scgi_pass",
    "grpc_pass",
    "memcached_pass",
];

/// Returns true if the block itself passes requests to another server.
pub(crate) fn passes_on(location: &Directive) -> bool {
    PASSING
        .iter()
        .any(|name| location.lines(name).next().is_some())
}

/// The location found.
#[derive(Debug, Default)]
pub(crate) struct Found<'c> {
    /// The location and the locations around it, outermost first; empty if only the server's own
    /// settings apply.
    pub(crate) path: Vec<&'c Directive>,
    /// True if nginx answers with a redirect that adds a trailing slash.
    pub(crate) adds_slash: bool,
    /// Reasons why another location might have been found.
    pub(crate) doubts: Vec<String>,
}

/// Finds the location of a normalised URI in the server block's directives.
pub(crate) fn find<'c>(server: &'c [Directive], uri: &[u8]) -> Found<'c> {
    let mut found = Found::default();
    found.search(server, uri);
    found
}

/// The result of matching the literal names at one level.
enum Literal<'c> {
    /// An exact match, which ends the search.
    Exact(&'c Directive),
    /// A location whose name is the URI plus a slash.
    WithoutSlash(&'c Directive),
    /// The longest prefix, which applies unless a nested location or a regular expression matches.
    Prefix(&'c Directive),
    None,
}

impl<'c> Found<'c> {
    /// Searches one level. Returns `true` if the outer levels cannot override the result.
    fn search(&mut self, level: &'c [Directive], uri: &[u8]) -> bool {
        let outside = self.path.len();
        let mut asks_regexes = true;
        match literal(level, uri) {
            Literal::Exact(location) => {
                self.path.push(location);
                return true;
            }
            Literal::WithoutSlash(location) => {
                self.path.push(location);
                self.adds_slash = true;
                return true;
            }
            Literal::Prefix(location) => {
                self.path.push(location);
                asks_regexes = parts(location).is_none_or(|(modifier, _)| modifier != "^~");
                if self.search(location.inner(), uri) {
                    return true;
                }
            }
            Literal::None => {}
        }
        if !asks_regexes {
            return false;
        }
        let Some(location) = self.first_regex(level, uri) else {
            return false;
        };
        self.path.truncate(outside);
        self.path.push(location);
        self.search(location.inner(), uri);
        true
    }

    fn first_regex(&mut self, level: &'c [Directive], uri: &[u8]) -> Option<&'c Directive> {
        let regexes = blocks(level, "location").filter_map(|location| match parts(location)? {
            (modifier @ ("~" | "~*"), expression) => Some((location, modifier, expression)),
            _ => None,
        });
        for (number, (location, modifier, expression)) in regexes.enumerate() {
            if number == MAX_TRIED {
                let text = "there are too many regular expressions in locations; not all were \
                            tried";
                self.doubts.push(text.into());
                break;
            }
            match search(expression, uri, modifier == "~*") {
                Match::Yes => return Some(location),
                Match::No => {}
                Match::Unknown(why) => self.doubts.push(format!(
                    "location {} was not evaluated: {why}",
                    location.arguments()
                )),
            }
        }
        None
    }
}

fn literal<'c>(level: &'c [Directive], uri: &[u8]) -> Literal<'c> {
    let mut longest: Option<(&Directive, usize)> = None;
    // The locations whose name is this URI plus a slash: the exact one, then the prefix.
    let mut slashed = [None, None];
    let mut adds_slash = false;
    for location in blocks(level, "location") {
        let Some((modifier @ ("" | "=" | "^~"), name)) = parts(location) else {
            continue;
        };
        if modifier.is_empty() && name.starts_with(b"@") {
            continue;
        }
        if name == uri && modifier == "=" {
            return Literal::Exact(location);
        }
        if name.strip_suffix(b"/") == Some(uri) {
            slashed[usize::from(modifier != "=")] = Some(location);
            adds_slash |= passes_on(location);
        }
        let is_longer = longest.is_none_or(|(_, length)| name.len() > length);
        if modifier != "=" && uri.starts_with(name) && is_longer {
            longest = Some((location, name.len()));
        }
    }
    let [exact, prefix] = slashed;
    match (longest, exact.or(prefix).filter(|_| adds_slash)) {
        (Some((location, length)), _) if length == uri.len() => Literal::Prefix(location),
        (_, Some(location)) => Literal::WithoutSlash(location),
        (Some((location, _)), None) => Literal::Prefix(location),
        (None, None) => Literal::None,
    }
}

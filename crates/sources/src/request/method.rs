//! Request methods (RFC 9110 §9).

use core::fmt;
use std::borrow::Cow;

/// Maximum length of a method's name, in bytes. The longest registered one has 17.
const MAX_LEN: usize = 32;

/// A request method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method(Cow<'static, str>);

impl Method {
    /// Requests a representation.
    pub const GET: Self = Self(Cow::Borrowed("GET"));
    /// Requests a representation without its body.
    pub const HEAD: Self = Self(Cow::Borrowed("HEAD"));
    /// Asks the resource to process the body.
    pub const POST: Self = Self(Cow::Borrowed("POST"));
    /// Requests the available methods and options.
    pub const OPTIONS: Self = Self(Cow::Borrowed("OPTIONS"));

    /// Returns the method with this name, which is case-sensitive; `None` if a request line cannot
    /// contain the name (RFC 9110 §5.6.2), or if the method makes the connection a tunnel.
    pub fn of(name: &str) -> Option<Self> {
        let is_fit = !name.is_empty() && name.len() <= MAX_LEN && name != "CONNECT";
        (is_fit && name.bytes().all(is_token)).then(|| Self(Cow::Owned(name.to_owned())))
    }

    /// Returns the method's name as used in a request line.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if requests with this method change nothing, so that they can be repeated at
    /// will (RFC 9110 §9.2.1).
    pub fn is_safe(&self) -> bool {
        [Self::GET, Self::HEAD, Self::OPTIONS].contains(self)
    }

    /// Returns true if requests with this method are expected to have content (RFC 9110 §8.6).
    pub fn has_content(&self) -> bool {
        matches!(self.as_str(), "POST" | "PUT" | "PATCH")
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns true if a token can contain this character (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_a_token() {
        for (name, is_safe) in [
            ("GET", true),
            ("PURGE", false),
            ("get", false),
            ("HEAD", true),
        ] {
            let method = Method::of(name).expect(name);
            assert_eq!((method.as_str(), method.is_safe()), (name, is_safe));
        }
        for wrong in ["", "G T", "GET\r\n", "CONNECT", "É", &"X".repeat(33)] {
            assert_eq!(Method::of(wrong), None, "{wrong:?}");
        }
    }
}

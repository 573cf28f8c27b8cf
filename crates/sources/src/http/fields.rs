//! Header fields that determine the end of a response and the reuse of the connection.

use super::NotHttp;

/// The way in which the end of a body is marked (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug)]
pub(super) enum Framing {
    /// By its length in bytes.
    Length(u64),
    /// By its last chunk.
    Chunked,
    /// By the peer closing the connection.
    UntilClose,
}

/// The information in the header fields about framing and reuse.
#[derive(Default)]
pub(super) struct FieldFacts {
    length: Option<u64>,
    has_transfer_encoding: bool,
    is_chunked: bool,
    asks_close: bool,
    asks_keep_alive: bool,
}

impl FieldFacts {
    /// Processes the next field.
    pub(super) fn note(&mut self, field: &httparse::Header<'_>) -> Result<(), NotHttp> {
        match field.name.len() {
            10 if field.name.eq_ignore_ascii_case("connection") => {
                for token in tokens(field.value) {
                    self.asks_close |= token.eq_ignore_ascii_case(b"close");
                    self.asks_keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                for token in tokens(field.value) {
                    let length = parse_length(token).ok_or(NotHttp)?;
                    if self.length.is_some_and(|other| other != length) {
                        return Err(NotHttp);
                    }
                    self.length = Some(length);
                }
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                self.has_transfer_encoding = true;
                for token in tokens(field.value) {
                    // Only the last coding says where the body ends.
                    self.is_chunked = token.eq_ignore_ascii_case(b"chunked");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns true if the connection may carry another request (RFC 9112 §9.3; §6.3 for a response
    /// with both a length and a transfer coding).
    pub(super) fn keeps_alive(&self, is_version_1_1: bool) -> bool {
        let is_ambiguous = self.has_transfer_encoding && self.length.is_some();
        !self.asks_close && !is_ambiguous && (is_version_1_1 || self.asks_keep_alive)
    }

    /// Returns how the end of the body is marked, if there is a body.
    pub(super) fn framing(&self) -> Framing {
        match self.length {
            _ if self.is_chunked => Framing::Chunked,
            Some(length) if !self.has_transfer_encoding => Framing::Length(length),
            _ => Framing::UntilClose,
        }
    }
}

/// Returns the members of a comma-separated list (RFC 9110 §5.6.1).
fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(|token| token.trim_ascii())
        .filter(|token| !token.is_empty())
}

fn parse_length(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |sum, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

//! Header fields that determine the end of a response and the reuse of the connection.

use super::NotHttp;

/// The element that marks the end of a body (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug)]
pub(super) enum Framing {
    /// The length in bytes.
    Length(u64),
    /// The last chunk.
    Chunked,
    /// The close of the connection by the peer.
    UntilClose,
}

/// The header fields that concern framing and reuse.
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
                    // Only the last transfer coding determines where the body ends.
                    self.is_chunked = token.eq_ignore_ascii_case(b"chunked");
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns true if the connection may carry another request (RFC 9112 §9.3). With both a length
    /// and a transfer coding it may not (§6.3).
    pub(super) fn keeps_alive(&self, is_version_1_1: bool) -> bool {
        let is_ambiguous = self.has_transfer_encoding && self.length.is_some();
        !self.asks_close && !is_ambiguous && (is_version_1_1 || self.asks_keep_alive)
    }

    /// Returns the element that marks the end of the body, if there is a body.
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

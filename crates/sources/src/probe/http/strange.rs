//! Explanations of unexpected answers.

use super::ProbePlan;

/// Maximum number of bytes of an unexpected answer that the report shows.
const SHOWN_LEN: usize = 60;

/// Returns the id and text of the note that explains an unexpected answer.
pub(super) fn describe(plan: &ProbePlan, bytes: &[u8]) -> (&'static str, String) {
    let address = plan.address;
    if is_tls_record(bytes) {
        let text = format!(
            "{address} answered a plain request with a TLS record: this port speaks TLS; plain \
             HTTP may be on another port."
        );
        return ("tls-on-plain-port", text);
    }
    if says_tls_port(bytes) {
        let text = format!(
            "{address} answered that a plain HTTP request was sent to an HTTPS port: this port \
             speaks TLS; plain HTTP may be on another port."
        );
        return ("tls-on-plain-port", text);
    }
    let shown = bytes.get(..SHOWN_LEN).unwrap_or(bytes).escape_ascii();
    if bytes.starts_with(b"HTTP/1.") {
        let text = format!("{address} rejects the request or closes the connection: `{shown}`.");
        return ("http-bad-request", text);
    }
    let text = format!("{address} did not answer with HTTP: `{shown}`.");
    ("not-http-answer", text)
}

/// Returns true for a TLS alert or handshake record, from its type and version 3.x (RFC 8446 §5.1).
fn is_tls_record(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 3, 0..=4, ..])
}

/// Returns true for the 400 response of well-known servers to a plain-text request on a TLS port.
fn says_tls_port(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    [
        "plain http request was sent to https port",
        "speaking plain http to an ssl-enabled server port",
        "client sent an http request to an https server",
    ]
    .iter()
    .any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lagtrace_core::observed::event::TargetId;

    #[test]
    fn strange_answers_are_named() {
        let plan = ProbePlan::new(TargetId::Subject, ([127, 0, 0, 1], 443).into());
        for (bytes, id) in [
            (&b"\x15\x03\x01\x00\x02\x02\x46"[..], "tls-on-plain-port"),
            (b"\x16\x03\x03\x00\x7a", "tls-on-plain-port"),
            (
                b"HTTP/1.1 400 Bad Request\r\n\r\n<title>400 The plain HTTP request was sent to HTTPS port</title>",
                "tls-on-plain-port",
            ),
            (
                b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
                "tls-on-plain-port",
            ),
            (b"HTTP/1.1 400 Bad Request\r\n\r\nno", "http-bad-request"),
            (b"SSH-2.0-OpenSSH_9.2\r\n", "not-http-answer"),
            (b"\x15", "not-http-answer"),
        ] {
            let (got, text) = describe(&plan, bytes);
            assert_eq!(got, id, "{}", bytes.escape_ascii());
            assert!(text.contains("127.0.0.1:443"));
            assert!(text.is_ascii() && !text.contains('\r'));
        }
    }
}

//! TLS records in scripts, such as `tls client13,finished,app:100`.

use crate::script::number_of;

/// The random value in hellos. `RETRY` is the special value of a HelloRetryRequest (RFC 8446
/// §4.1.3).
const RANDOM: [u8; 32] = [0x5a; 32];
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
const NAME: &[u8] = b"www.lab.test";

/// Returns the records in a list of words, one after the other.
pub(crate) fn records(words: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for word in words.split(',') {
        let (name, size) = word.split_once(':').unwrap_or((word, "0"));
        let size = number_of(size)? as usize;
        bytes.extend(match name {
            // `client13` offers TLS 1.3, and `client12` at most TLS 1.2. `again` resumes a session,
            // and `h2` offers HTTP/2.
            "client13" => handshake(1, &client(&[0x0304, 0x0303], false, false)),
            "client13-h2" => handshake(1, &client(&[0x0304, 0x0303], false, true)),
            "client12" => handshake(1, &client(&[], false, false)),
            "client12-again" => handshake(1, &client(&[], true, false)),
            "server13" => handshake(2, &server(&RANDOM, Some(0x0304), false)),
            "server13-again" => handshake(2, &server(&RANDOM, Some(0x0304), true)),
            "retry" => handshake(2, &server(&RETRY, Some(0x0304), false)),
            "server12" => handshake(2, &server(&RANDOM, None, false)),
            "server10" => {
                let mut hello = server(&RANDOM, None, false);
                hello[..2].copy_from_slice(&[3, 1]);
                handshake(2, &hello)
            }
            "certificate" => handshake(11, &vec![0; size]),
            "hello-done" => handshake(14, &[]),
            "client-key" => handshake(16, &[0; 33]),
            "change" => record(20, &[1]),
            "finished12" => record(22, &[0x8f; 40]),
            "finished13" => record(23, &[0x8f; 53]),
            // `alert:N` is a fatal alert in clear text, with its number.
            "alert" => record(21, &[2, size as u8]),
            "alert13" => record(23, &[0x8f; 19]),
            // Encrypted data; `app:LENGTH` gives the length of the record's body.
            "app" => record(23, &vec![0x8f; size]),
            other => return Err(format!("`{other}` is no TLS record")),
        });
    }
    Ok(bytes)
}

fn record(content: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![content, 3, 3];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = (body.len() as u32).to_be_bytes().to_vec();
    message[0] = kind;
    message.extend(body);
    // A record has at most 2^14 bytes.
    message
        .chunks(1 << 14)
        .flat_map(|part| record(22, part))
        .collect()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// Returns a ClientHello (RFC 8446 §4.1.2) with a server name, the offered versions and, with
/// `has_http2`, the offer of HTTP/2 (RFC 7301 §3.1).
fn client(versions: &[u16], has_session: bool, has_http2: bool) -> Vec<u8> {
    let mut name = ((NAME.len() + 3) as u16).to_be_bytes().to_vec();
    name.push(0);
    name.extend((NAME.len() as u16).to_be_bytes());
    name.extend(NAME);
    let mut extensions = extension(0, &name);
    if !versions.is_empty() {
        let mut list = vec![2 * versions.len() as u8];
        list.extend(versions.iter().flat_map(|version| version.to_be_bytes()));
        extensions.extend(extension(43, &list));
    }
    if has_http2 {
        extensions.extend(extension(16, b"\x00\x03\x02h2"));
    }
    let mut body = vec![3, 3];
    body.extend(RANDOM);
    if has_session {
        body.extend([&[32_u8][..], &[7; 32]].concat())
    } else {
        body.push(0)
    }
    body.extend([0, 2, 0x13, 0x01, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    body
}

/// Returns a ServerHello (RFC 8446 §4.1.3).
fn server(random: &[u8; 32], version: Option<u16>, has_key: bool) -> Vec<u8> {
    let mut extensions = Vec::new();
    if let Some(version) = version {
        extensions.extend(extension(43, &version.to_be_bytes()));
    }
    if has_key {
        extensions.extend(extension(41, &[0, 0]));
    }
    let mut body = vec![3, 3];
    body.extend(random);
    body.extend([0, 0x13, 0x01, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    body
}

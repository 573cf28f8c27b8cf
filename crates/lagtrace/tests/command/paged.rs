//! The document in a page, and the answers of its server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use flate2::read::GzDecoder;
use serde_json::Value;

/// Returns the document in a page.
pub(crate) fn document(page: &str) -> Value {
    let (_, data) = page.split_once("data-encoding=\"gzip;base64\">").unwrap();
    let (data, _) = data.split_once('<').unwrap();
    let bytes = decoded(data);
    serde_json::from_reader(GzDecoder::new(bytes.as_slice())).unwrap()
}

/// Decodes base64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is no digit"),
    };
    let digits = text.trim_end_matches('=').bytes().map(value);
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in digits {
        (bits, count) = (bits << 6 | u32::from(digit), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// Returns the answer to a request, and its status.
pub(crate) fn ask(address: &str, request: &str) -> (String, u16) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (answer, status)
}

//! HTTP/2 frames in scripts, such as `http2 preface,settings:65535,get:1`.

use crate::script::number_of;

/// Returns the frames in a list of words, one after the other. A word has the form
/// `KIND:STREAM:SIZE`.
pub(crate) fn frames(words: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for word in words.split(',') {
        let mut parts = word.split(':');
        let name = parts.next().unwrap_or_default();
        let mut number = || parts.next().map_or(Ok(0), number_of);
        let (first, second) = (number()?, number()?);
        bytes.extend(match name {
            "preface" => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            // If a size is given, it is SETTINGS_INITIAL_WINDOW_SIZE.
            "settings" if first == 0 => frame(4, 0, 0, &[]),
            "settings" => frame(4, 0, 0, &[&[0, 4][..], &first.to_be_bytes()].concat()),
            // SETTINGS_MAX_CONCURRENT_STREAMS.
            "most" => frame(4, 0, 0, &[&[0, 3][..], &first.to_be_bytes()].concat()),
            // The fields :method GET, :scheme http, :path /.
            "get" => frame(1, 0x5, first, &[0x82, 0x86, 0x84]),
            // The field :status 200.
            "headers" => frame(1, 0x4, first, &[0x88]),
            "data" => frame(0, 0, first, &vec![b'x'; second as usize]),
            "end" => frame(0, 1, first, &[]),
            "window" => frame(8, 0, first, &second.to_be_bytes()),
            "reset" => frame(3, 0, first, &second.to_be_bytes()),
            // `first` is the last stream that the server processes.
            "goaway" => frame(
                7,
                0,
                0,
                &[first.to_be_bytes(), second.to_be_bytes()].concat(),
            ),
            // The head of a gRPC call, whose messages follow.
            "call" => {
                let fields = [&[0x83, 0x86, 0x84][..], &GRPC.concat()].concat();
                frame(1, 0x4, first, &fields)
            }
            // A gRPC message of SIZE bytes, whole in one frame.
            "message" => {
                let prefix = [&[0][..], &second.to_be_bytes()].concat();
                frame(0, 0, first, &[prefix, vec![b'x'; second as usize]].concat())
            }
            // The trailers of a call with `grpc-status`, here from 0 to 9.
            "trailers" => frame(1, 0x5, first, &status(second)),
            // A response that consists of trailers alone.
            "failure" => frame(1, 0x5, first, &[vec![0x88], status(second)].concat()),
            other => return Err(format!("`{other}` is no HTTP/2 frame")),
        });
    }
    Ok(bytes)
}

/// The field content-type of gRPC, as a literal that is not indexed (RFC 7541 §6.2.2).
const GRPC: [&[u8]; 4] = [&[0, 12], b"content-type", &[16], b"application/grpc"];

/// Returns the field grpc-status with one digit.
fn status(status: u32) -> Vec<u8> {
    [&[0, 11][..], b"grpc-status", &[1, b'0' + status as u8]].concat()
}

/// Returns a frame in the format of RFC 9113 §4.1.
fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(body);
    bytes
}

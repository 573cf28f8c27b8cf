use proptest::prelude::*;

use super::*;

/// Feeds `bytes` in pieces of the given lengths; the last length is repeated. The peer then closes
/// the connection. Returns the final heads, and 1 if the close ended a response, otherwise 0.
fn read(bytes: &[u8], pieces: &[usize], is_head: bool) -> Result<(Vec<Head>, usize), NotHttp> {
    let mut reader = ResponseReader::new(is_head);
    let (mut heads, mut at, mut piece) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        let len = pieces
            .get(piece)
            .or(pieces.last())
            .copied()
            .unwrap_or(1)
            .max(1);
        piece += 1;
        let end = bytes.len().min(at + len);
        while at < end {
            match reader.feed(&bytes[at..end])? {
                Progress::More => at = end,
                Progress::Complete { head, used } => {
                    assert!(used > 0 && used <= end - at);
                    heads.push(head);
                    at += used;
                }
            }
        }
    }
    let is_open = !matches!(reader.state, State::Head) || !reader.partial_head.is_empty();
    heads.extend(reader.close()?);
    Ok((heads, usize::from(is_open)))
}

fn statuses(bytes: &[u8], is_head: bool) -> Result<Vec<(u16, bool)>, NotHttp> {
    let whole = read(bytes, &[bytes.len()], is_head);
    for at in 1..bytes.len() {
        assert_eq!(
            read(bytes, &[at, bytes.len()], is_head),
            whole,
            "split at {at}"
        );
    }
    assert_eq!(read(bytes, &[1], is_head), whole, "byte by byte");
    whole.map(|(heads, _)| heads.iter().map(|h| (h.status, h.keeps_alive)).collect())
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";

#[test]
fn finds_the_end_of_every_framing() {
    for (bytes, want) in [
        (OK, (200, true)),
        (b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", (200, true)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3, 3\r\n\r\nabc", (200, true)),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, true)),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", (304, true)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n", (200, false)),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", (200, false)),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", (200, true)),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the peer closes", (200, false)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\nx", (200, false)),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            (200, true),
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA ;x=\"y\"\r\n0123456789\r\n00\r\nX: y\r\nZ: \r\n\r\n",
            (200, true),
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\nContent-Length: 3\r\n\r\n1\na\n0\n\n",
            (200, false),
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
            (503, true),
        ),
    ] {
        assert_eq!(statuses(bytes, false), Ok(vec![want]), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_head_response_has_no_body_whatever_it_says() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n";
    assert_eq!(statuses(bytes, true), Ok(vec![(200, true)]));
}

#[test]
fn leaves_the_bytes_of_a_following_response() {
    let bytes = [
        OK,
        b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK,
    ]
    .concat();
    assert_eq!(
        statuses(&bytes, false),
        Ok(vec![(200, true), (404, true), (200, true)])
    );
}

#[test]
fn refuses_what_is_no_response() {
    let long_head = [
        b"HTTP/1.1 200 OK\r\nX: ",
        &[b'x'; MAX_HEAD_LEN][..],
        b"\r\n\r\n",
    ]
    .concat();
    let many_fields = [
        b"HTTP/1.1 200 OK\r\n",
        "A: b\r\n".repeat(200).as_bytes(),
        b"\r\n",
    ]
    .concat();
    let endless_interim = b"HTTP/1.1 100 C\r\n\r\n".repeat(40);
    for bytes in [
        &b"SSH-2.0-OpenSSH\r\n"[..],
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 099 X\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\rx",
    ] {
        assert_eq!(
            statuses(bytes, false),
            Err(NotHttp),
            "{}",
            bytes.escape_ascii()
        );
    }
    for bytes in [&long_head, &many_fields, &endless_interim] {
        for pieces in [&[usize::MAX][..], &[1000], &[1]] {
            assert_eq!(read(bytes, pieces, false), Err(NotHttp));
        }
    }
}

#[test]
fn trailers_and_extensions_are_bounded() {
    let trailers = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        &b"A: b\r\n".repeat(20_000)[..],
    ]
    .concat();
    let extension = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        &[b'x'; 70_000][..],
    ]
    .concat();
    assert_eq!(read(&trailers, &[5000], false), Err(NotHttp));
    assert_eq!(read(&extension, &[5000], false), Err(NotHttp));
}

#[test]
fn a_response_cut_by_the_peer_is_not_complete() {
    for bytes in [
        &OK[..OK.len() - 1],
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
    ] {
        assert_eq!(
            statuses(bytes, false),
            Ok(vec![]),
            "{}",
            bytes.escape_ascii()
        );
    }
}

/// Generates texts that resemble responses: truncated, repeated and damaged ones.
fn likely_bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 100 C\r\n\r\n",
        "HTTP/1.0 404 N\n",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "X: y\r\n",
        "\r\n",
        "\n",
        "\r",
        "5\r\nabcde\r\n",
        "0\r\n\r\n",
        "abcde",
        "\u{0}",
    ]);
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat().into_bytes())
}

proptest! {
    #[test]
    fn the_result_does_not_depend_on_the_split(
        bytes in likely_bytes(),
        pieces in prop::collection::vec(1_usize..20, 1..12),
        is_head: bool,
    ) {
        let whole = read(&bytes, &[usize::MAX], is_head);
        prop_assert_eq!(read(&bytes, &pieces, is_head), whole.clone());
        prop_assert_eq!(read(&bytes, &[1], is_head), whole);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut prefixed = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        prefixed.extend_from_slice(&bytes);
        prop_assert_eq!(read(&prefixed, &[1], false), read(&prefixed, &[usize::MAX], false));
        prop_assert_eq!(read(&bytes, &[1], false), read(&bytes, &[usize::MAX], false));
    }
}

use proptest::prelude::*;

use super::*;
use crate::protocol::Step;

/// Passes `input` to a parser in the pieces between `cuts`, and lists the steps as short words.
fn steps(role: Role, input: &[u8], cuts: &[usize]) -> Vec<String> {
    let mut messages = Messages::new(role);
    let mut words = Vec::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([input.len()]) {
        let (mut bytes, mut missing) = (&input[from..to], 0);
        loop {
            match messages.step(&mut bytes, &mut missing) {
                Step::NeedMore | Step::Http2(_) | Step::Tls(_) => break,
                Step::Began => words.push("began".into()),
                Step::Ended => words.push("ended".into()),
                Step::Lost => words.push("lost".into()),
                Step::Head(head) => words.push(match head.request {
                    Some(line) => line.text.to_string(),
                    None => format!("{}", head.status.expect("a response has a status")),
                }),
            }
        }
        from = to;
    }
    words
}

const RESPONSES: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
    HTTP/1.1 204 No Content\r\n\r\n\
    HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nT: v\r\n\r\n\
    HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

#[test]
fn messages_end_where_their_framing_says() {
    let words = steps(Role::Response, RESPONSES, &[]);
    let expected = [
        "began", "200", "ended", "began", "204", "ended", "began", "200", "ended", "began", "404",
        "ended",
    ];
    assert_eq!(words, expected);
    let requests =
        b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";
    let words = steps(Role::Request, requests, &[]);
    assert_eq!(
        words,
        ["began", "GET /a", "ended", "began", "POST /b", "ended"]
    );
}

#[test]
fn a_location_leads_to_the_target_that_is_asked_for_next() {
    let cases = [
        ("/home/?q=1#top", Some("/home/?q=1")),
        ("https://example.org/a/b", Some("/a/b")),
        ("https://example.org", Some("/")),
        ("//example.org/c", Some("/c")),
        ("next.html", None),
    ];
    for (location, target) in cases {
        assert_eq!(target_of(location), target, "{location}");
    }
}

#[test]
fn heads_tell_what_rules_ask_for() {
    let mut messages = Messages::new(Role::Request);
    let head = |messages: &mut Messages, mut bytes: &[u8]| {
        let mut missing = 0;
        loop {
            match messages.step(&mut bytes, &mut missing) {
                Step::Head(head) => return head.fields,
                Step::NeedMore | Step::Lost => panic!("no head"),
                _ => {}
            }
        }
    };
    let request = b"POST / HTTP/1.1\r\nContent-Length: 2\r\nexpect: 100-Continue\r\n\r\n";
    assert!(head(&mut messages, request).expects_continue);
    let mut messages = Messages::new(Role::Response);
    let response = b"HTTP/1.1 302 Found\r\nLocation: http://a/b\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(
        head(&mut messages, response).location,
        Some(fingerprint(b"/b"))
    );
    let mut messages = Messages::new(Role::Response);
    let response =
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(head(&mut messages, response).is_encoded_on_the_fly);
    for (kind, is_stream) in [
        ("text/event-stream; charset=utf-8", true),
        ("multipart/x-mixed-replace;boundary=f", true),
        ("text/event-streams", false),
        ("application/json", false),
    ] {
        let mut messages = Messages::new(Role::Response);
        let response = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n");
        let fields = head(&mut messages, response.as_bytes());
        assert_eq!(fields.is_stream, is_stream, "{kind}");
    }
}

#[test]
fn lines_that_break_the_rules_cost_nothing_but_themselves() {
    let cases = [
        "X: a\r\n folded\r\nContent-Length: 2\r\n",
        "no field\r\nContent-Length: 2\r\n",
        "X: \x01\r\nContent-Length: 2\r\n",
        ": nameless\r\nContent-Length: 2\r\n",
        "Content-Length : 2\r\n",
        "Content-Length:2\n",
    ];
    for lines in cases {
        let input = format!("HTTP/1.1 200\r\n{lines}\r\nhiHTTP/1.0 404 \r\n\r\n");
        let words = steps(Role::Response, input.as_bytes(), &[]);
        assert_eq!(words, ["began", "200", "ended", "began", "404"], "{lines}");
    }
}

#[test]
fn every_cut_gives_the_same_steps() {
    let whole = steps(Role::Response, RESPONSES, &[]);
    for cut in 0..RESPONSES.len() {
        assert_eq!(
            steps(Role::Response, RESPONSES, &[cut]),
            whole,
            "cut at {cut}"
        );
    }
}

#[test]
fn uncaptured_body_bytes_are_counted_and_uncaptured_heads_lose_the_thread() {
    let mut messages = Messages::new(Role::Response);
    let (mut bytes, mut missing) = (
        &b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc"[..],
        997,
    );
    let mut words = Vec::new();
    loop {
        match messages.step(&mut bytes, &mut missing) {
            Step::NeedMore => break,
            step => words.push(step),
        }
    }
    assert_eq!(words.last(), Some(&Step::Ended));
    let (mut bytes, mut missing) = (&b"HTTP/1.1 200 OK\r\nContent-Le"[..], 20);
    assert_eq!(messages.step(&mut bytes, &mut missing), Step::Began);
    assert_eq!(messages.step(&mut bytes, &mut missing), Step::Lost);
}

#[test]
fn other_bytes_are_lost_at_once() {
    assert_eq!(
        steps(Role::Response, b"\x16\x03\x01\x02\x00", &[]),
        ["lost"]
    );
    assert_eq!(steps(Role::Request, b"EHLO x\r\n", &[]), ["lost"]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(input in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut with_start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        with_start.extend_from_slice(&input);
        steps(Role::Response, &with_start, &[]);
        steps(Role::Response, &input, &[]);
        steps(Role::Request, &input, &[]);
    }
}

#[test]
fn heads_that_were_cut_off_are_read_as_far_as_they_go() {
    let text = |bytes: &[u8]| cut_request(bytes).map(|line| line.text);
    let whole = text(b"GET /a?b=c HTTP/1.1\r\nHost: exam");
    assert_eq!(whole.as_deref(), Some("GET /a?b=c"));
    let cut = text(b"POST /long/way/to");
    assert_eq!(cut.as_deref(), Some("POST /long/way/to…"));
    for none in [
        &b"GET"[..],
        b"GET ",
        b"get /",
        b"GET /a\x01b",
        b"\x16\x03\x01",
        b"",
    ] {
        assert_eq!(text(none), None, "{none:?}");
    }
    assert_eq!(cut_status(b"HTTP/1.1 404 Not"), Some(404));
    assert_eq!(cut_status(b"HTTP/1.0 200"), Some(200));
    for none in [
        &b"HTTP/1.1 20"[..],
        b"HTTP/1.1 100 Con",
        b"HTTP/2 200",
        b"HTTP/1.1 +20",
        b"",
    ] {
        assert_eq!(cut_status(none), None, "{none:?}");
    }
}

#[test]
fn any_method_begins_a_request_whose_line_names_the_version() {
    let begins = |bytes: &[u8]| begins_message(Role::Request, bytes);
    for request in [
        &b"SUBSCRIBE /event HTTP/1.1\r\n"[..],
        b"M-SEARCH * HTTP/1.1\r\n",
        b"VERSION-CONTROL /a HTTP/1.0\r\n",
        b"PROPFIND /dav/ HTTP/1.1",
        b"GET /a",
        b"PO",
    ] {
        assert!(begins(request), "{request:?}");
    }
    for other in [
        &b"SUBSCRIBE /event HT"[..],
        b"SUBSCRIBE /event",
        b"DESCRIBE rtsp://a/b RTSP/1.0\r\n",
        b"INVITE sip:a@b SIP/2.0\r\n",
        b"REQMOD icap://a/b ICAP/1.0\r\n",
        b"PRI * HTTP/2.0\r\n",
        b"HELO  HTTP/1.1",
        b" /a HTTP/1.1",
        b"subscribe /a HTTP/1.1",
        b"SSH-2.0-OpenSSH HTTP/1.1",
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1",
        b"AMQP\x00\x00\x09\x01",
        b"NICK / b HTTP/1.1",
        b"SMB \x00 HTTP/1.1",
    ] {
        assert!(!begins(other), "{other:?}");
    }
}

#[test]
fn an_origin_is_the_same_however_its_name_is_written() {
    let read = |target: &str, host: &str| {
        let input = format!("GET {target} HTTP/1.1\r\nHost:{host}\r\n\r\n");
        let (head, ..) = head::read(Role::Request, input.as_bytes()).expect("a head");
        head.request.expect("a request").origin
    };
    let one = read("/", " a.example");
    assert_ne!(one, 0);
    for same in ["A.Example", " a.example:80", "a.example:443 ", "a.example."] {
        assert_eq!(read("/b", same), one, "{same}");
    }
    for other in [
        "b.example",
        "a.example:8080",
        "a.example80",
        "a.example:180",
    ] {
        assert_ne!(read("/", other), one, "{other}");
    }
    assert_eq!(read("/", " "), 0);
    assert_eq!(
        read("http://a.example/", "a.example"),
        0,
        "a proxy is asked"
    );
}

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::request::{Method, Request};
use crate::url::Url;

fn session(body: usize) -> Session {
    let request = Request {
        method: Method::POST,
        body: Some(vec![b'x'; body]),
        ..Request::default()
    };
    let url: Url = "http://127.0.0.1:1/".parse().expect("a URL");
    Session::new(Arc::from([Encoded::of(&request, &url)]))
}

fn frame(kind: u8, flags: u8, id: u32, body: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (body.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags], &id.to_be_bytes()[..], body].concat()
}

fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let body: Vec<u8> = values
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(SETTINGS, 0, 0, &body)
}

fn feed(session: &mut Session, bytes: &[u8]) -> Result<Vec<Event>, NotHttp2> {
    let mut events = Vec::new();
    session.feed(bytes, &mut events)?;
    events.retain(|event| !matches!(event, Event::Bytes(..)));
    Ok(events)
}

/// Returns the frames that wait to be sent, each as (type, flags, stream, length).
fn sent(session: &mut Session) -> Vec<(u8, u8, u32, usize)> {
    let mut out = Vec::new();
    session.take_output(&mut out);
    let mut rest = out.strip_prefix(PREFACE).unwrap_or(&out);
    let mut frames = Vec::new();
    while let [_, a, b, kind, flags, s, t, u, v, behind @ ..] = rest {
        let length = usize::from(*a) << 8 | usize::from(*b);
        let id = u32::from_be_bytes([*s, *t, *u, *v]);
        frames.push((*kind, *flags, id, length));
        rest = &behind[length..];
    }
    assert!(rest.is_empty());
    frames
}

#[test]
fn responses_end_in_any_order_however_the_bytes_are_split() {
    let bytes = [
        settings(&[]),
        frame(HEADERS, END_HEADERS, 1, b"\x08\x03103"),
        frame(HEADERS, END_HEADERS, 3, b"\x88"),
        frame(HEADERS, 0, 1, b"\x8d"),
        frame(CONTINUATION, END_HEADERS, 1, b"x"),
        frame(DATA, END_STREAM, 3, b"abc"),
        frame(DATA, 0, 1, b"abc"),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, b"trailers"),
    ]
    .concat();
    for split in 0..bytes.len() {
        let mut session = session(0);
        assert_eq!((session.ask(0), session.ask(0)), (1, 3));
        let (first, second) = bytes.split_at(split);
        let mut events = feed(&mut session, first).expect("frames");
        events.extend(feed(&mut session, second).expect("frames"));
        assert_eq!(
            events,
            [Event::Done(3, 200), Event::Done(1, 404)],
            "{split}"
        );
    }
}

#[test]
fn bodies_keep_to_the_windows_and_go_on_with_them() {
    let mut session = session(100_000);
    sent(&mut session);
    session.ask(0);
    let first = sent(&mut session);
    let data = |frames: &[(u8, u8, u32, usize)]| -> usize {
        frames.iter().filter(|f| f.0 == DATA).map(|f| f.3).sum()
    };
    assert_eq!(data(&first), 65_535);
    // A larger window of the stream does not help, because the connection's window is empty.
    let more = u32::to_be_bytes(100_000);
    feed(&mut session, &settings(&[])).expect("settings");
    feed(&mut session, &frame(WINDOW_UPDATE, 0, 1, &more)).expect("a window");
    assert_eq!(data(&sent(&mut session)), 0);
    feed(&mut session, &frame(WINDOW_UPDATE, 0, 0, &more)).expect("a window");
    let last = sent(&mut session);
    assert_eq!(data(&last), 100_000 - 65_535);
    assert_eq!(last.last().map(|f| (f.0, f.1)), Some((DATA, END_STREAM)));
}

#[test]
fn the_initial_window_also_changes_those_of_open_streams() {
    let mut session = session(100_000);
    let wider = u32::to_be_bytes(1_000_000);
    feed(&mut session, &settings(&[(INITIAL_WINDOW_SIZE, 100)])).expect("settings");
    feed(&mut session, &frame(WINDOW_UPDATE, 0, 0, &wider)).expect("a window");
    session.ask(0);
    let data = |session: &mut Session| -> usize {
        let frames = sent(session).into_iter();
        frames.filter(|f| f.0 == DATA).map(|f| f.3).sum()
    };
    assert_eq!(data(&mut session), 100);
    // Many changes in one frame count as the last one; a window may become negative.
    for (changes, room) in [
        (&[10, 1_000, 150][..], 50),
        (&[20], 0),
        (&[149], 0),
        (&[151], 1),
    ] {
        let changes: Vec<_> = changes
            .iter()
            .map(|&size| (INITIAL_WINDOW_SIZE, size))
            .collect();
        feed(&mut session, &settings(&changes)).expect("settings");
        assert_eq!(data(&mut session), room, "{changes:?}");
    }
}

#[test]
fn servers_limits_goodbyes_and_refusals_are_heard() {
    let mut session = session(0);
    for _ in 0..3 {
        session.ask(0);
    }
    feed(&mut session, &settings(&[(MAX_CONCURRENT_STREAMS, 2)])).expect("settings");
    assert_eq!(session.most_streams(), 2);
    let refused = frame(RST_STREAM, 0, 5, &REFUSED_STREAM.to_be_bytes());
    assert_eq!(feed(&mut session, &refused), Ok(vec![Event::Unseen(5)]));
    let goodbye = frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(feed(&mut session, &goodbye), Ok(vec![Event::Leaves(1)]));
    // Frames of closed streams are ignored.
    let late = frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x88");
    assert_eq!(feed(&mut session, &late), Ok(vec![]));
    let broken = frame(RST_STREAM, 0, 1, &2_u32.to_be_bytes());
    assert_eq!(feed(&mut session, &broken), Ok(vec![Event::Reset(1)]));
}

#[test]
fn questions_are_answered_and_floods_are_not() {
    let mut session = session(0);
    sent(&mut session);
    feed(&mut session, &settings(&[])).expect("settings");
    feed(&mut session, &frame(PING, 0, 0, b"12345678")).expect("a ping");
    feed(&mut session, &frame(PING, ACK, 0, b"12345678")).expect("an answer");
    assert_eq!(
        sent(&mut session),
        [(SETTINGS, ACK, 0, 0), (PING, ACK, 0, 8)]
    );
    let flood = frame(PING, 0, 0, b"12345678").repeat(10_000);
    assert_eq!(feed(&mut session, &flood), Err(NotHttp2));
}

#[test]
fn what_must_not_be_is_refused() {
    for bytes in [
        frame(PING, 0, 0, b"12345678"),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        [settings(&[]), frame(PUSH_PROMISE, 0, 1, b"xxxx")].concat(),
        [settings(&[]), frame(CONTINUATION, 0, 1, b"")].concat(),
        [settings(&[]), frame(HEADERS, 0, 1, b"\x88"), settings(&[])].concat(),
        [settings(&[]), frame(DATA, 0, 0, b"")].concat(),
        [settings(&[]), frame(PING, 0, 0, b"1")].concat(),
        [settings(&[]), frame(DATA, 0, 1, &[0; MAX_FRAME + 1])].concat(),
        [
            settings(&[]),
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]),
        ]
        .concat(),
        settings(&[(INITIAL_WINDOW_SIZE, 1 << 31)]),
        [settings(&[]), frame(HEADERS, END_HEADERS, 1, b"\xbe")].concat(),
    ] {
        let mut session = session(0);
        session.ask(0);
        assert_eq!(
            feed(&mut session, &bytes),
            Err(NotHttp2),
            "{}",
            bytes.escape_ascii()
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut session = session(10);
        session.ask(0);
        let _ = feed(&mut session, &[settings(&[]), bytes].concat());
    }
}

use super::*;
use crate::load::testing::{at, ms};

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n";

/// A connection that was opened at 5 and asked at 10.
fn asked() -> Connection {
    let mut connection = Connection::new(1, 7, false);
    connection.connect(at(2), None);
    assert_eq!(connection.opened(at(5), None), None);
    connection.send(at(10), at(8));
    connection
}

fn done(received: Received) -> (Record, bool) {
    match received {
        Received::Done {
            record,
            is_reusable,
        } => (record, is_reusable),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_response_split_anywhere_gives_the_same_record() {
    for split in 1..RESPONSE.len() {
        let mut connection = asked();
        let (head, tail) = RESPONSE.split_at(split);
        assert!(matches!(connection.received(at(12), head), Received::More));
        let (record, is_reusable) = done(connection.received(at(20), tail));
        assert!(is_reusable);
        let want = Record {
            lane: 1,
            group: 7,
            count: 1,
            flow: None,
            ordinal: 0,
            due: at(8),
            sent: Some(at(10)),
            first_byte: Some(at(12)),
            ended: at(20),
            longest_gap: ms(8),
            setup: Some(ms(3)),
            outcome: Ok(200),
            received_bytes: RESPONSE.len() as u64,
        };
        assert_eq!(record, want, "split at {split}");
    }
}

#[test]
fn the_setup_belongs_to_the_first_request_alone() {
    let mut connection = asked();
    done(connection.received(at(11), RESPONSE));
    connection.send(at(12), at(12));
    let (record, _) = done(connection.received(at(13), RESPONSE));
    assert_eq!((record.ordinal, record.setup), (1, None));
}

#[test]
fn leftover_bytes_end_the_connections_use_but_not_the_request() {
    let mut connection = asked();
    let two = [RESPONSE, RESPONSE].concat();
    let (record, is_reusable) = done(connection.received(at(11), &two));
    assert_eq!(record.received_bytes, RESPONSE.len() as u64);
    assert!(!is_reusable);
}

#[test]
fn bytes_that_nobody_asked_for_are_garbage() {
    let mut connection = asked();
    done(connection.received(at(11), RESPONSE));
    assert!(matches!(
        connection.received(at(12), RESPONSE),
        Received::Garbage
    ));
    let mut connection = asked();
    let answer = connection.received(at(11), b"SSH-2.0-x\r\n");
    assert!(matches!(answer, Received::Garbage));
    let record = connection
        .fail(at(11), RequestFailure::NotHttp)
        .expect("asked");
    assert_eq!(record.received_bytes, 11);
}

#[test]
fn a_body_may_end_with_the_connection_but_not_short_of_its_length() {
    let mut connection = asked();
    connection.received(at(11), b"HTTP/1.1 200 OK\r\n\r\nabc");
    let record = connection
        .peer_closed(at(15))
        .expect("whole")
        .expect("asked");
    assert_eq!((record.outcome, record.ended), (Ok(200), at(15)));

    let mut connection = asked();
    connection.received(at(11), b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
    assert_eq!(connection.peer_closed(at(15)), Err(RequestFailure::Closed));

    let mut connection = asked();
    done(connection.received(at(11), RESPONSE));
    assert_eq!(connection.peer_closed(at(15)), Ok(None));
}

#[test]
fn limits_run_from_connect_and_from_send() {
    let mut connection = Connection::new(0, 0, false);
    connection.connect(at(0), Some(at(0)));
    assert_eq!(connection.overdue(at(99), ms(100)), None);
    assert_eq!(
        connection.overdue(at(100), ms(100)),
        Some(RequestFailure::ConnectTimeout)
    );
    assert_eq!(connection.opened(at(100), None), Some(at(0)));
    assert_eq!(connection.overdue(at(900), ms(100)), None);
    connection.send(at(150), at(0));
    assert_eq!(connection.overdue(at(249), ms(100)), None);
    assert_eq!(
        connection.overdue(at(250), ms(100)),
        Some(RequestFailure::Timeout)
    );
}

#[test]
fn failures_in_a_row_are_tried_again_ever_later_until_a_response() {
    let mut connection = Connection::new(0, 0, false);
    let mut waits = Vec::new();
    for _ in 0..8 {
        connection.connect(at(0), Some(at(0)));
        let record = connection.fail(at(1), RequestFailure::Refused);
        assert!(record.is_some());
        waits.push(connection.backoff().as_millis());
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 500, 500]);
    connection.connect(at(2), None);
    connection.opened(at(3), None);
    connection.send(at(3), at(3));
    done(connection.received(at(4), RESPONSE));
    assert_eq!(connection.backoff(), Duration::ZERO);
}

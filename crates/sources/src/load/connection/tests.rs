use super::*;
use crate::load::record::Record;
use crate::load::tests::{at, ms};

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n";

const HTTP1: Dialect = Dialect::Http1 {
    is_head_request: false,
    jar: None,
};

/// Returns a request that is due `millis` ms after the epoch.
fn due(millis: u64) -> Start {
    Start {
        due: at(millis),
        part: 0,
    }
}

/// Returns a connection that was opened at 5 ms and sent a request at 10 ms.
fn asked() -> Connection {
    let mut connection = Connection::new(1, 7, HTTP1, 1);
    connection.connect(at(2), None);
    assert_eq!(connection.opened(at(5), None), None);
    connection.send(at(10), due(8));
    connection
}

/// Returns the records that bytes read at `millis` complete, and the effect of these bytes.
fn read(connection: &mut Connection, millis: u64, bytes: &[u8]) -> (Vec<Record>, Received) {
    let mut done = Vec::new();
    let received = connection.received(at(millis), bytes, &mut done);
    (done, received)
}

/// Returns the record of the only response that the bytes complete.
fn answer(connection: &mut Connection, millis: u64, bytes: &[u8]) -> Record {
    match read(connection, millis, bytes).0.as_slice() {
        [record] => *record,
        other => panic!("{other:?}"),
    }
}

/// Returns the records of the requests that end when the connection fails.
fn fail(connection: &mut Connection, millis: u64, failure: RequestFailure) -> Vec<Record> {
    let mut failed = Vec::new();
    connection.fail(at(millis), failure, &mut failed);
    failed
}

#[test]
fn a_response_split_anywhere_gives_the_same_record() {
    for split in 1..RESPONSE.len() {
        let mut connection = asked();
        let (head, tail) = RESPONSE.split_at(split);
        assert_eq!(read(&mut connection, 12, head), (vec![], Received::Open));
        let (records, received) = read(&mut connection, 20, tail);
        assert_eq!(received, Received::Open);
        let want = Record {
            lane: 1,
            group: 7,
            count: 1,
            flow: None,
            ordinal: 0,
            part: 0,
            due: at(8),
            sent: Some(at(10)),
            first_byte: Some(at(12)),
            ended: at(20),
            longest_gap: ms(8),
            setup: Some(ms(3)),
            outcome: Ok(200),
            received_bytes: RESPONSE.len() as u64,
        };
        assert_eq!(records, [want], "split at {split}");
    }
}

#[test]
fn the_setup_belongs_to_the_first_request_alone() {
    let mut connection = asked();
    answer(&mut connection, 11, RESPONSE);
    connection.send(at(12), due(12));
    let record = answer(&mut connection, 13, RESPONSE);
    assert_eq!((record.ordinal, record.setup), (1, None));
}

#[test]
fn leftover_bytes_end_the_connections_use_but_not_the_request() {
    let mut connection = asked();
    let two = [RESPONSE, RESPONSE].concat();
    let (records, received) = read(&mut connection, 11, &two);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].received_bytes, RESPONSE.len() as u64);
    assert_eq!(received, Received::Over);
}

#[test]
fn bytes_that_nobody_asked_for_are_garbage() {
    let mut connection = asked();
    answer(&mut connection, 11, RESPONSE);
    assert_eq!(
        read(&mut connection, 12, RESPONSE),
        (vec![], Received::Garbage)
    );
    let mut connection = asked();
    let (_, received) = read(&mut connection, 11, b"SSH-2.0-x\r\n");
    assert_eq!(received, Received::Garbage);
    let failed = fail(&mut connection, 11, RequestFailure::NotHttp);
    assert_eq!((failed.len(), failed[0].received_bytes), (1, 11));
}

#[test]
fn a_body_may_end_with_the_connection_but_not_short_of_its_length() {
    let mut connection = asked();
    read(&mut connection, 11, b"HTTP/1.1 200 OK\r\n\r\nabc");
    let record = connection
        .peer_closed(at(15))
        .expect("whole")
        .expect("asked");
    assert_eq!((record.outcome, record.ended), (Ok(200), at(15)));

    let mut connection = asked();
    read(
        &mut connection,
        11,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
    );
    assert_eq!(connection.peer_closed(at(15)), Err(RequestFailure::Closed));

    let mut connection = asked();
    answer(&mut connection, 11, RESPONSE);
    assert_eq!(connection.peer_closed(at(15)), Ok(None));
}

#[test]
fn limits_run_from_connect_and_from_send() {
    let mut connection = Connection::new(0, 0, HTTP1, 1);
    connection.connect(at(0), Some(due(0)));
    assert_eq!(connection.overdue(at(99), ms(100)), None);
    assert_eq!(
        connection.overdue(at(100), ms(100)),
        Some(RequestFailure::ConnectTimeout)
    );
    assert_eq!(connection.opened(at(100), None), Some(due(0)));
    assert_eq!(connection.overdue(at(900), ms(100)), None);
    connection.send(at(150), due(0));
    assert_eq!(connection.overdue(at(249), ms(100)), None);
    assert_eq!(
        connection.overdue(at(250), ms(100)),
        Some(RequestFailure::Timeout)
    );
}

#[test]
fn failures_in_a_row_are_tried_again_ever_later_until_a_response() {
    let mut connection = Connection::new(0, 0, HTTP1, 1);
    let mut waits = Vec::new();
    for _ in 0..8 {
        connection.connect(at(0), Some(due(0)));
        assert_eq!(fail(&mut connection, 1, RequestFailure::Refused).len(), 1);
        waits.push(connection.backoff().as_millis());
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 500, 500]);
    connection.connect(at(2), None);
    connection.opened(at(3), None);
    connection.send(at(3), due(3));
    answer(&mut connection, 4, RESPONSE);
    assert_eq!(connection.backoff(), Duration::ZERO);
}

/// Returns a connection with three requests in flight, sent at 10, 20 and 30 ms.
fn asked_thrice() -> Connection {
    let mut connection = Connection::new(0, 0, HTTP1, 3);
    connection.connect(at(0), None);
    connection.opened(at(0), None);
    for millis in [10, 20, 30] {
        assert!(connection.has_room());
        connection.send(at(millis), due(millis));
        connection.sent(at(millis), false);
    }
    assert!(!connection.has_room());
    connection
}

#[test]
fn pipelined_responses_are_told_apart_in_their_order() {
    let all = [RESPONSE, RESPONSE, RESPONSE].concat();
    for split in 1..all.len() {
        let mut connection = asked_thrice();
        let (first, second) = all.split_at(split);
        let (mut records, _) = read(&mut connection, 40, first);
        let (rest, received) = read(&mut connection, 50, second);
        records.extend(rest);
        assert_eq!(received, Received::Open);
        let sent: Vec<_> = records.iter().map(|record| record.sent).collect();
        assert_eq!(sent, [Some(at(10)), Some(at(20)), Some(at(30))]);
        let ordinals: Vec<_> = records.iter().map(|record| record.ordinal).collect();
        assert_eq!(ordinals, [0, 1, 2], "split at {split}");
        let bytes: u64 = records.iter().map(|record| record.received_bytes).sum();
        assert_eq!(bytes, all.len() as u64);
        assert!(connection.has_room() && connection.in_flight() == 0);
    }
}

#[test]
fn what_follows_a_last_response_is_taken_back() {
    let mut connection = asked_thrice();
    let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let (records, received) = read(&mut connection, 40, last);
    assert_eq!((records.len(), received), (1, Received::Over));
    assert_eq!(connection.take_back(), Some(due(20)));
    assert_eq!(connection.take_back(), Some(due(30)));
    assert_eq!(connection.take_back(), None);
}

#[test]
fn the_oldest_of_several_sets_the_limit_and_all_fail_with_it() {
    let mut connection = asked_thrice();
    assert_eq!(connection.overdue(at(109), ms(100)), None);
    let failure = connection.overdue(at(110), ms(100));
    assert_eq!(failure, Some(RequestFailure::Timeout));
    assert_eq!(connection.pending(), 3);
    assert_eq!(fail(&mut connection, 110, RequestFailure::Timeout).len(), 3);
    assert_eq!(connection.pending(), 0);
}

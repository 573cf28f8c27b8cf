//! Tests of waits that the server's kernel attributes differently from the packets.

use super::*;
use crate::exchange::wait::Owner;

/// The time in µs for which Nagle's algorithm holds a part, until the client's delayed ACK arrives.
const HELD: i64 = DELAYED + 2 * WAY;
/// The delay in µs with which a busy host sends data that an ACK released. By the packets alone, it
/// looks like a pause of the program.
const LATE: i64 = 9_000;

/// Sends a response in two small parts. The second part is sent `late` after the ACK that releases
/// it.
fn in_two(wire: &mut Wire, begin: i64, late: i64) {
    let first = begin + 2 * WAY + 700;
    wire.add(begin, true, ACK, 40);
    wire.add(first, false, ACK, 100);
    wire.add(first + DELAYED, true, ACK, 0);
    let last = first + HELD + late;
    wire.add(last, false, ACK, 200);
    wire.add(last + 900, true, ACK, 0);
}

/// Returns the report and the listed exchanges, for exchanges that `shape` makes. `turn` makes the
/// turn of each exchange from its number and arrival.
fn seen(
    shape: impl Fn(&mut Wire, i64),
    turn: impl Fn(i64, i64) -> Option<RequestSpan>,
) -> (Report, Vec<Exchange>) {
    let [_, server] = ends();
    seen_of(vec![(TargetId::Subject, server)], shape, turn)
}

/// Returns the report and the exchanges with these targets; without targets, as for `watch`.
fn seen_of(
    targets: Vec<(TargetId, Endpoint)>,
    shape: impl Fn(&mut Wire, i64),
    turn: impl Fn(i64, i64) -> Option<RequestSpan>,
) -> (Report, Vec<Exchange>) {
    let [_, server] = ends();
    let list = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&list);
    let options = Options {
        targets,
        ..Options::default()
    };
    let mut analyzer = Analyzer::new(options).with_sink(Box::new(move |exchange| {
        sink.lock().expect("one thread").push(exchange.clone());
    }));
    let mut wire = Wire::new();
    for n in 0..EXCHANGES {
        if let Some(turn) = turn(n, n * APART + WAY) {
            let body = EventBody::Turn(Box::new(turn.clone()));
            analyzer.observe(Event::here(turn.arrived, Phase::Baseline, body));
        }
        shape(&mut wire, n * APART);
        let segments: Vec<_> = wire.list.drain(..).collect();
        let client = FlowKey::new(Transport::Tcp, ends()[0], server).1;
        let (asked, answered) = segments
            .iter()
            .partition::<Vec<_>, _>(|s| s.direction == client);
        let length = |of: &[&Segment]| of.iter().map(|s| s.payload_len as usize).sum();
        let mut bytes = [request(length(&asked)), response(length(&answered))];
        for segment in &segments {
            let own = &mut bytes[usize::from(segment.direction != client)];
            let rest = own.split_off(segment.payload_len as usize);
            analyzer.segment(segment, own);
            *own = rest;
        }
    }
    let tally = EventBody::Watched(WatchTally::default());
    analyzer.observe(Event::here(at(0), Phase::Baseline, tally));
    let report = analyzer.finish();
    let list = list.lock().expect("one thread").clone();
    (report, list)
}

/// A request of `length` bytes.
fn request(length: usize) -> Vec<u8> {
    let head = "GET / HTTP/1.1\r\nHost: ";
    let end = "\r\n\r\n";
    let host = "a".repeat(length.saturating_sub(head.len() + end.len()));
    [head, &host, end].concat().into_bytes()
}

/// A response of `length` bytes.
fn response(length: usize) -> Vec<u8> {
    let head = |body: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {body:03}\r\n\r\n");
    let body = length.saturating_sub(head(0).len());
    (head(body) + &"b".repeat(body)).into_bytes()
}

/// Returns the total time of an exchange's waits of one kind and owner, in µs.
fn micros(exchange: &Exchange, kind: WaitKind, owner: Owner) -> i64 {
    let waits = exchange.waits.iter();
    let meant = waits.filter(|wait| (wait.kind, wait.owner) == (kind, owner));
    meant.map(|wait| wait.duration().as_micros() as i64).sum()
}

fn causes(report: &Report) -> Vec<Id> {
    report.findings.iter().map(|found| found.cause).collect()
}

fn assert_tiled(exchange: &Exchange) {
    let mut cursor = exchange.begin;
    for wait in &exchange.waits {
        assert_eq!(wait.start, cursor, "{:#?}", exchange.waits);
        assert!(wait.end >= wait.start);
        cursor = wait.end;
    }
    assert_eq!(cursor, exchange.end);
}

fn held(arrived: i64, held: i64) -> RequestSpan {
    turn(arrived, 50, 700, [700, 700 + HELD + LATE], held)
}

#[test]
fn a_pause_that_the_kernel_timed_as_held_is_a_hold() {
    let late = |wire: &mut Wire, begin| in_two(wire, begin, LATE);
    let (report, list) = seen(late, |_, _| None);
    assert_eq!(causes(&report), [Id::ServerPause], "by packets alone");
    assert!(micros(&list[0], WaitKind::ServerPause, Owner::Server) > HELD);
    let (report, list) = seen(late, |_, arrived| Some(held(arrived, HELD + LATE)));
    assert_eq!(
        causes(&report),
        [Id::NagleDelayedAck],
        "{:?} {:?}",
        causes(&report),
        report.notes
    );
    let shown = kernel_trace(only(&report));
    assert!(
        shown.iter().any(|(_, text)| text
            .contains("30 of them by its kernel alone) that the server was holding")),
        "{shown:#?}"
    );
    for exchange in &list {
        assert_tiled(exchange);
        assert_eq!(micros(exchange, WaitKind::ServerPause, Owner::Server), 0);
        assert!(micros(exchange, WaitKind::ResponseHeld, Owner::Server) >= HELD);
    }
}

/// A watched service is not a target, but its waits are joined and renamed like those of a target.
#[test]
fn what_is_watched_is_renamed_too() {
    let late = |wire: &mut Wire, begin| in_two(wire, begin, LATE);
    let turn = |_, arrived| Some(held(arrived, HELD + LATE));
    let (watched, list) = seen_of(Vec::new(), late, turn);
    assert_eq!(causes(&watched), [Id::NagleDelayedAck]);
    for (watched, diagnosed) in list.iter().zip(&seen(late, turn).1) {
        assert_eq!(watched.waits, diagnosed.waits);
    }
    let joined = joined(&watched).expect("there").exchanges.count;
    assert_eq!(joined, EXCHANGES as u64);
}

/// A near miss: each turn arrives after its exchange has closed.
#[test]
fn what_is_told_too_late_renames_nothing() {
    let late = |wire: &mut Wire, begin| in_two(wire, begin, LATE);
    let (watched, list) = seen_of(Vec::new(), late, |n, arrived| {
        (n > 0).then(|| held(arrived - APART, HELD + LATE))
    });
    assert!(joined(&watched).is_none());
    assert!(micros(&list[5], WaitKind::ServerPause, Owner::Server) > HELD);
}

/// An exchange seen by the kernel begins when its network stack takes the request up. If the stack
/// was late, the time since the driver received the request is not part of the exchange.
#[test]
fn a_request_that_was_taken_up_late_is_joined_by_then() {
    const WAITED: u64 = 5_000;
    let mut waiting = Waiting::default();
    let whole = exchange(40_000);
    let mut turn = thought(0, 44_000);
    (turn.arrived, turn.entered) = (at(0) - Duration::from_micros(WAITED), Some(at(0)));
    for entered in [None, turn.entered] {
        let turn = RequestSpan {
            entered,
            ..turn.clone()
        };
        waiting.put(turn);
        let taken = waiting.take_turn_within(&whole).map(|turn| turn.arrived);
        assert_eq!(taken, entered);
    }
}

/// Turns whose exchanges are never seen do not prevent later ones from being joined.
#[test]
fn turns_without_an_exchange_take_no_room_for_ever() {
    let mut waiting = Waiting::default();
    for n in 0..100_000 {
        let mut turn = thought(-10_000_000, 40);
        turn.remote.port = (n % 60_000) as u16 + 1;
        waiting.put_watched(turn);
    }
    waiting.put_watched(thought(WAY, 40_000));
    assert!(waiting.take_turn_within(&exchange(40_000)).is_some());
}

/// The program wrote late, and Nagle's algorithm then held its data for the remainder of the pause.
#[test]
fn a_pause_that_was_held_in_part_is_cut_in_two() {
    let late = |wire: &mut Wire, begin| in_two(wire, begin, LATE);
    let (report, list) = seen(late, |_, arrived| {
        let mut turn = held(arrived, 20_000);
        turn.written_last = Some(turn.sent_last - Duration::from_micros(20_000));
        Some(turn)
    });
    let evidence = report.findings.iter().flat_map(|found| &found.evidence);
    let mut texts = evidence.map(|piece| piece.text.as_str());
    assert!(texts.any(|text| text.contains("in 30 of them the second part was then held")));
    let exchange = &list[5];
    assert_tiled(exchange);
    assert_eq!(
        micros(exchange, WaitKind::ResponseHeld, Owner::Server),
        20_000
    );
    let paused = micros(exchange, WaitKind::ServerPause, Owner::Server);
    assert!((paused - (HELD + LATE - 20_000)).abs() < 1_000, "{paused}");
}

/// The program wrote the part late, and it follows the ACK by coincidence.
#[test]
fn a_hold_that_the_program_wrote_late_is_a_pause() {
    let at_once = |wire: &mut Wire, begin| in_two(wire, begin, 5);
    let (report, list) = seen(at_once, |_, _| None);
    assert_eq!(causes(&report), [Id::NagleDelayedAck], "by packets alone");
    assert!(micros(&list[0], WaitKind::ResponseHeld, Owner::Server) > DELAYED);
    let (report, list) = seen(at_once, |_, arrived| {
        Some(RequestSpan {
            written: Some(at(arrived + 700)),
            ..turn(arrived, 50, 700 + HELD, [700, 700 + HELD], 0)
        })
    });
    assert_eq!(
        causes(&report),
        [Id::ServerPause],
        "{:?} {:?}",
        causes(&report),
        report.notes
    );
    assert_eq!(micros(&list[0], WaitKind::ResponseHeld, Owner::Server), 0);
    list.iter().for_each(assert_tiled);
}

/// A near miss: the kernel saw the part written immediately, but not what held it.
#[test]
fn a_hold_that_the_kernel_does_not_explain_keeps_its_name() {
    let at_once = |wire: &mut Wire, begin| in_two(wire, begin, 5);
    let (_, list) = seen(at_once, |_, arrived| {
        Some(turn(arrived, 50, 700, [700, 700 + HELD], 0))
    });
    assert!(micros(&list[0], WaitKind::ResponseHeld, Owner::Server) > DELAYED);
}

/// A near miss: the kernel's hold is longer than the packets allow.
#[test]
fn a_turn_that_does_not_fit_renames_nothing() {
    let late = |wire: &mut Wire, begin| in_two(wire, begin, LATE);
    let (report, list) = seen(late, |_, arrived| {
        Some(held(arrived - WAY, HELD + LATE + 2 * WAY)).map(|mut turn| {
            turn.sent_last = turn.sent_last + Duration::from_micros(2 * WAY as u64);
            turn
        })
    });
    assert!(
        notes(&report).contains(&"host-took-longer"),
        "{:?} {:?}",
        causes(&report),
        report.notes
    );
    assert!(micros(&list[0], WaitKind::ServerPause, Owner::Server) > HELD);
    list.iter().for_each(assert_tiled);
}

/// A near miss: either of two turns may belong to the exchange.
#[test]
fn two_turns_rename_nothing() {
    let [client, server] = ends();
    let mut waiting = Waiting::default();
    for arrived in [WAY, WAY + 300] {
        waiting.put(held(arrived, HELD));
    }
    let mut exchange = exchange(60_000);
    let before = exchange.waits.clone();
    assert_eq!((exchange.id.client, exchange.id.server), (client, server));
    let turn = waiting.take_turn_within(&exchange);
    Served::default().add_exchange(&mut exchange, turn);
    assert_eq!(exchange.waits, before);
}

#[test]
fn what_only_some_were_joined_to_is_said_with_its_size() {
    let late = |wire: &mut Wire, begin| in_two(wire, begin, LATE);
    let (report, list) = seen(late, |n, arrived| {
        (n % 2 == 0).then(|| held(arrived, HELD + LATE))
    });
    assert!(micros(&list[0], WaitKind::ResponseHeld, Owner::Server) >= HELD);
    assert!(micros(&list[1], WaitKind::ServerPause, Owner::Server) > HELD);
    let told = report.findings.iter().flat_map(kernel_trace);
    let sizes = told.filter(|(_, text)| text.contains("15 of 30 could be joined to it"));
    assert!(
        sizes.count() > 0,
        "{:?} {:?}",
        causes(&report),
        report.notes
    );
    let causes = causes(&report);
    assert!(causes.contains(&Id::NagleDelayedAck), "{causes:?}");
    // The exchanges without a turn look like those with one, so no pause of the program is reported
    // for them.
    assert!(!causes.contains(&Id::ServerPause), "{causes:?}");
}

/// The request reached the host late, and the response was also delayed after it left the host.
#[test]
fn what_lies_beyond_the_host_is_the_paths() {
    let think = |wire: &mut Wire, begin| wire.exchange(begin, 40_000, false);
    let (report, list) = seen(think, |_, arrived| {
        let mut turn = thought(arrived + 15_000, 10_000);
        turn.departure = Some(crate::observed::kernel_span::Departure {
            at: turn.sent_last,
            ..Default::default()
        });
        Some(turn)
    });
    assert_eq!(notes(&report), ["host-answered-sooner"]);
    let exchange = &list[3];
    assert_tiled(exchange);
    assert_eq!(
        micros(exchange, WaitKind::ServerThink, Owner::Server),
        10_000
    );
    assert_eq!(micros(exchange, WaitKind::Unknown, Owner::Path), 30_000);
    assert_eq!(
        causes(&report)[..],
        [Id::TimeOnPath, Id::ServerThink],
        "the larger part first: {:?} {:?}",
        causes(&report),
        report.notes
    );
}

/// A near miss: the host had the request at another time than the packets show.
#[test]
fn what_the_host_took_at_another_time_stays() {
    let mut exchange = exchange(40_000);
    let before = exchange.waits.clone();
    let turn = turn(3 * WAY + 40_000, 10, 60, [80, 100], 0);
    Served::default().add_exchange(&mut exchange, Some(turn));
    assert_eq!(exchange.waits, before);
}

/// The waits add up to the exchange, whatever timestamps the kernel gives.
#[test]
fn no_turn_breaks_the_tiling() {
    let stamps = [-9_000, 0, 3_999, 4_700, 24_000, 44_001, 61_000];
    let (_, list) = seen(|wire, begin| in_two(wire, begin, LATE), |_, _| None);
    let whole = exchange(40_000);
    let mut renamed = 0;
    for of in [&whole, &list[0]] {
        for (read, written) in stamps.iter().flat_map(|&a| stamps.map(|b| (a, b))) {
            for (sent, last) in stamps.iter().flat_map(|&a| stamps.map(|b| (a, b))) {
                for held in [0, 700, 20_000, 57_000, 90_000] {
                    let mut changed = of.clone();
                    let mut turn = turn(WAY, read, written, [sent, last], held);
                    turn.written = Some(at(WAY + read.min(written)));
                    Served::default().add_exchange(&mut changed, Some(turn));
                    assert_tiled(&changed);
                    renamed += usize::from(changed.waits != of.waits);
                }
            }
        }
    }
    assert!(renamed > 100, "{renamed}");
}

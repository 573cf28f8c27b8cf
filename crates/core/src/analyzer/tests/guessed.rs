//! Tests of the choice of the client in a connection that was already open when the capture began.

use super::*;

/// Returns port and request of each exchange of a connection whose server has the higher port. Each
/// step of the script has its sender (true: the client), its payload, and the number of payload
/// bytes that the source passed on.
fn exchanges(script: &[(bool, &'static [u8], usize)], options: Options) -> Vec<(u16, String)> {
    exchanges_between([30_000, 40_000], script, options)
}

fn exchanges_between(
    ports: [u16; 2],
    script: &[(bool, &'static [u8], usize)],
    options: Options,
) -> Vec<(u16, String)> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let mut analyzer = Analyzer::new(options).with_sink(Box::new(move |exchange| {
        let request = exchange.request.as_deref().unwrap_or_default().to_owned();
        let mut told = sink.lock().expect("whole");
        told.push((exchange.id.server.port, request));
    }));
    let ends = ports.map(|port| Endpoint::new([10, 0, 0, 1].into(), port));
    let lengths = script
        .iter()
        .map(|&(by_client, payload, _)| (by_client, payload.len()));
    for (segment, &(_, payload, kept)) in conversation(ends, lengths).zip(script) {
        analyzer.segment(&segment, &payload[..kept]);
    }
    analyzer.finish();
    std::mem::take(&mut *told.lock().expect("whole"))
}

const UNREAD: (bool, &[u8], usize) = (false, RESPONSE, 0);
const ASKED: (bool, &[u8], usize) = (true, REQUEST, REQUEST.len());
const TOLD: (bool, &[u8], usize) = (false, RESPONSE, 16);

#[test]
fn a_request_that_is_read_later_corrects_the_ports_guess() {
    let told = exchanges(&[UNREAD, ASKED, TOLD, ASKED, TOLD], Options::default());
    let request = (40_000, "GET /".to_owned());
    assert_eq!(told, [request.clone(), request]);
}

#[test]
fn so_does_a_response_to_one_that_was_not_read() {
    let told = exchanges(
        &[UNREAD, (true, REQUEST, 0), TOLD, ASKED, TOLD],
        Options::default(),
    );
    assert_eq!(told.last(), Some(&(40_000, "GET /".to_owned())));
    assert!(told.iter().all(|(server, _)| *server == 40_000), "{told:?}");
}

#[test]
fn what_goes_on_with_a_turn_corrects_nothing() {
    // The body happens to contain a request. Its sender is the server by its port.
    let body: (bool, &[u8], usize) = (true, b"an upload of a log: line 1 is", 16);
    let line: (bool, &[u8], usize) = (true, REQUEST, REQUEST.len());
    let answer: (bool, &[u8], usize) = (false, b"thank you", 0);
    let told = exchanges(
        &[answer, body, line, answer, body, line],
        Options::default(),
    );
    assert!(told.iter().all(|(server, _)| *server == 30_000), "{told:?}");
}

#[test]
fn a_line_without_a_version_is_none() {
    let line: (bool, &[u8], usize) = (true, b"GET key\r\n", 9);
    let answer: (bool, &[u8], usize) = (false, b"a value that is asked", 0);
    let told = exchanges(&[answer, line, answer, line], Options::default());
    assert!(told.iter().all(|(server, _)| *server == 30_000), "{told:?}");
}

#[test]
fn a_common_services_port_is_the_servers_though_it_is_higher() {
    let call: (bool, &[u8], usize) = (true, b"\x80\0\0\x0ca call of NFS", 16);
    let reply: (bool, &[u8], usize) = (false, b"\x80\0\0\x0cwhat it told", 16);
    let script = [call, reply, call, reply];
    let told = exchanges_between([697, 2049], &script, Options::default());
    assert!(told.iter().all(|(server, _)| *server == 2049), "{told:?}");
    assert_eq!(told.len(), 2);
}

#[test]
fn http_shows_in_the_midst_of_a_connection_by_its_next_head() {
    let rest: (bool, &[u8], usize) = (true, b"the rest of an upload", 21);
    let script = [rest, TOLD, ASKED, TOLD];
    let told = exchanges_between([30_000, 80], &script, Options::default());
    assert_eq!(told.last(), Some(&(80, "GET /".to_owned())));
}

#[test]
fn a_port_that_is_known_to_serve_needs_no_guess() {
    let options = Options {
        service_ports: vec![40_000],
        ..Options::default()
    };
    let script = [
        UNREAD,
        (true, REQUEST, 0),
        UNREAD,
        (true, REQUEST, 0),
        UNREAD,
    ];
    let told = exchanges(&script, options);
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(server, _)| *server == 40_000), "{told:?}");
}

/// Returns the server's port of each exchange of connections between these ends, which take turns:
/// on each, the first end asks 20 times in an unknown protocol.
fn servers(connections: &[[Endpoint; 2]]) -> Vec<u16> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let mut analyzer = Analyzer::new(Options::default()).with_sink(Box::new(move |exchange| {
        let mut told = sink.lock().expect("whole");
        told.push(exchange.id.server.port);
    }));
    let script = || (0..40).map(|turn| (turn % 2 == 0, 100));
    let all = connections.iter().map(|&ends| conversation(ends, script()));
    let mut all: Vec<Segment> = all.flatten().collect();
    all.sort_by_key(|segment| segment.at);
    for segment in all {
        analyzer.segment(&segment, &[7; 100]);
    }
    analyzer.finish();
    std::mem::take(&mut *told.lock().expect("whole"))
}

fn end(host: u8, port: u16) -> Endpoint {
    Endpoint::new([10, 0, 0, host].into(), port)
}

#[test]
fn the_end_with_several_peers_serves_whatever_its_port_is() {
    for server in [33_000, 50_051, 60_900] {
        let pool: Vec<_> = (0..8)
            .map(|n| [end(1, 40_000 + n * 7), end(2, server)])
            .collect();
        let told = servers(&pool);
        let of_server = told.iter().filter(|&&port| port == server).count();
        // The first turns of the first two pass before the third is met.
        assert!(of_server >= 8 * 19 && told.len() <= 8 * 20, "{told:?}");
    }
}

#[test]
fn ports_show_the_server_where_peers_do_not() {
    let of = |connections: &[[Endpoint; 2]]| {
        let mut told = servers(connections);
        told.sort_unstable();
        told.dedup();
        told
    };
    let one = [end(1, 40_000), end(2, 50_051)];
    assert_eq!(of(&[one]), [40_000], "a single connection: the lower port");
    let two = [end(1, 40_007), end(2, 50_051)];
    assert_eq!(of(&[one, two]), [40_000, 40_007], "a port used again");
    // Both ends have several peers, as in a network of equals.
    let equals = [
        one,
        two,
        [end(1, 40_014), end(2, 50_051)],
        [end(1, 40_000), end(3, 50_052)],
    ];
    assert!(of(&equals).contains(&40_000), "{:?}", of(&equals));
    let low = (0..5).map(|n| [end(1, 40_000), end(2, 9_000 + n)]);
    let low: Vec<_> = low.collect();
    assert_eq!(
        of(&low).first(),
        Some(&9_000),
        "a client's port by its number"
    );
}

//! Tests of `lagtrace sockets` on sockets that the tests open.

use std::net::{TcpListener, TcpStream};

use rustix::net::sockopt;
use serde_json::{Value, json};

use super::program::lagtrace;
use super::streamed::Streamed;

/// Returns the sockets of the report with this local port.
fn of(report: &Value, port: u16) -> Vec<&Value> {
    let list = report["live"].as_array().into_iter().flatten();
    let end = format!(":{port}");
    let is_it = |socket: &&Value| socket["local"].as_str().unwrap().ends_with(&end);
    list.filter(is_it).collect()
}

#[test]
fn both_ends_of_a_connection_are_shown_with_their_options() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    sockopt::set_tcp_cork(&accepted, true).unwrap();
    let _waiting = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let arguments = ["sockets", "-p", &port.to_string()].map(str::to_owned);
    let report = lagtrace(
        arguments
            .iter()
            .map(String::as_str)
            .chain(["--format", "json"]),
    )
    .expect(0)
    .json();
    let own = std::process::id();
    let here = client.local_addr().unwrap().port();
    let mine = of(&report, here)[0];
    assert_eq!(
        (&mine["options"]["nodelay"], &mine["state"]),
        (&json!(true), &json!("ESTAB"))
    );
    assert_eq!(mine["holders"][0]["pid"], own);
    // The other connection is not accepted yet, so no process holds its far end.
    assert_eq!(mine["peer"][0]["pid"], own);
    let far: Vec<_> = of(&report, port)
        .into_iter()
        .filter(|s| s["state"] == "ESTAB")
        .collect();
    assert!(far.iter().any(|s| s["options"]["cork"] == true), "{far:#?}");
    assert!(far.iter().any(|s| s["holders"] == json!([])), "{far:#?}");
    let listening = of(&report, port)
        .into_iter()
        .find(|s| s["state"] == "LISTEN")
        .unwrap();
    assert_eq!(listening["receive_queue"], 1);
    assert!(listening["remarks"][0].as_str().unwrap().contains("accept"));
    let text = lagtrace(&arguments).expect(0).stdout;
    assert!(
        text.contains("nodelay 1") && text.contains("cork 1: data smaller"),
        "{text}"
    );
    let pid = own.to_string();
    let other = ["sockets", "--pid", &pid, "--name", "no such program"];
    assert!(
        lagtrace(other)
            .expect(0)
            .stdout
            .contains("No matching socket was found")
    );
}

/// With the shortest interval, the program neither runs on after the interrupt nor uses a whole
/// processor.
#[test]
fn following_ends_when_it_is_told_to() {
    let run = lagtrace(["sockets", "-l", "-f", "-i", "1ns", "-d", "200ms"]).expect(0);
    assert!(!run.stdout.is_empty());
}

#[test]
fn what_changes_is_told_as_it_does() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let asked = port.to_string();
    let follow = ["sockets", "-p", &asked, "-f", "-i", "20ms", "-d", "60s"];
    let mut following = Streamed::start(follow.iter().chain(&["--format", "ndjson"]));
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    following.provoke(connect, |line| line.contains(r#""what":"opened""#));
    client.set_nodelay(true).unwrap();
    following.until(|line| line.contains("TCP_NODELAY"));
    drop(client);
    following.until(|line| line.contains(r#""what":"closed""#) || line.contains(r#""state":["#));
    following.interrupt();
    let run = following.end().expect(0);
    let lines = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let changes: Vec<Value> = lines
        .filter(|line| line["type"] == "socket-change")
        .collect();
    let is = |what: &str| {
        changes
            .iter()
            .filter(|change| change["what"] == what)
            .count()
    };
    assert!(is("opened") > 0, "{run:#?}");
    let set = |change: &Value| change["changes"]["TCP_NODELAY"] == json!(["0", "1"]);
    assert_eq!(
        changes.iter().filter(|change| set(change)).count(),
        1,
        "{run:#?}"
    );
    let left =
        |change: &&Value| change["changes"]["state"].is_array() || change["what"] == "closed";
    assert!(changes.iter().any(|change| left(&change)), "{run:#?}");
}

#[test]
fn one_end_is_enough_to_name_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = TcpStream::connect(address).unwrap();
    let _elsewhere = TcpStream::connect(other.local_addr().unwrap()).unwrap();
    let here = client.local_addr().unwrap();
    let shown = |end: &str| {
        let run = lagtrace(["sockets", end, "--format", "json"]).expect(0);
        run.json()["live"].as_array().map_or(0, Vec::len)
    };
    // Both ends of the connection are on this host, and one of them also has a listener.
    assert_eq!(shown(&here.to_string()), 2);
    assert_eq!(shown(&address.to_string()), 3);
    assert!(shown(&format!("localhost:{}", address.port())) >= 3);
    assert!(shown("127.0.0.1") >= 6);
    assert_eq!(shown(&format!("127.0.0.2:{}", address.port())), 0);
    let told = lagtrace(["sockets", "127.0.0.1:x"]).expect(2).stderr;
    assert!(told.contains("is not a target"), "{told}");
}

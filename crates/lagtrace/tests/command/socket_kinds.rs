//! Tests of `lagtrace sockets` on UDP and Unix sockets that the tests open.

use std::io::{ErrorKind, Write as _};
use std::net::UdpSocket;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::net::sockopt;
use serde_json::{Value, json};

use super::program::lagtrace;
use super::streamed::Streamed;

/// Returns the report's sockets with these arguments.
fn shown(arguments: &[&str]) -> Vec<Value> {
    let all = ["sockets", "--format", "json"];
    let report = lagtrace(all.iter().chain(arguments)).expect(0).json();
    let list = report["live"].as_array().cloned();
    list.unwrap_or_default()
}

fn remarks(socket: &Value) -> String {
    socket["remarks"].to_string()
}

/// Returns a socket with a small receive buffer, and its port.
fn narrow() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, 8_192).unwrap();
    socket.set_nonblocking(true).unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

fn send(port: u16, count: usize) {
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..count {
        sender.send_to(&[7; 1000], ("127.0.0.1", port)).unwrap();
    }
}

/// Reads all datagrams that wait in the socket, and returns their number.
fn read_all(socket: &UdpSocket) -> u64 {
    let mut buffer = [0; 2000];
    let mut count = 0;
    while socket.recv(&mut buffer).is_ok() {
        count += 1;
    }
    count
}

#[test]
fn datagrams_that_found_no_room_are_counted() {
    let (reader, port) = narrow();
    let asked = port.to_string();
    let look = || shown(&["-u", "-p", &asked]).remove(0);
    let rested = look();
    assert_eq!(
        (&rested["protocol"], &rested["state"]),
        (&json!("udp"), &json!("UNCONN"))
    );
    assert_eq!(rested["remarks"], json!([]));
    assert_eq!(rested["holders"][0]["pid"], std::process::id());
    send(port, 100);
    let full = look();
    let drops = full["buffers"]["drops"].as_u64().unwrap();
    assert!(remarks(&full).contains("reads more slowly"), "{full:#}");
    assert!(full["receive_queue"].as_u64().unwrap() > 0);
    if full["options"]["is_receive_buffer_set"] == true {
        assert!(remarks(&full).contains("set by a program"), "{full:#}");
    }
    assert_eq!(read_all(&reader) + drops, 100);
    // The buffer has room again, so a single survey reports no problem.
    assert!(!remarks(&look()).contains("slowly"));
    assert!(shown(&["-t", "-p", &asked]).is_empty());
    let text = lagtrace(["sockets", "-ul", "-p", &asked]).expect(0).stdout;
    assert!(
        text.contains("udp UNCONN") && text.contains("dropped since"),
        "{text}"
    );
}

#[test]
fn drops_under_the_eyes_are_told_from_older_ones() {
    let (_reader, port) = narrow();
    let (_before, other) = narrow();
    send(other, 100);
    let asked = format!("{port},{other}");
    let follow = [
        "sockets", "-u", "-p", &asked, "-f", "-i", "20ms", "-d", "60s",
    ];
    let mut following = Streamed::start(follow.iter().chain(&["--format", "ndjson"]));
    // A new socket with one of these ports shows that `sockets` has begun.
    let connect = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", other)).unwrap();
        socket
    };
    following.provoke(connect, |line| line.contains(r#""what":"opened""#));
    send(port, 100);
    following.until(|line| line.contains(r#""drops":["#));
    following.interrupt();
    let run = following.end().expect(0);
    let lines: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str, port: u16| {
        let end = format!("127.0.0.1:{port}");
        let is_it = move |line: &&Value| line["type"] == kind && line["local"] == *end;
        lines.iter().filter(is_it).collect::<Vec<_>>()
    };
    let rose = |line: &&Value| line["changes"]["drops"].is_array();
    assert!(of("socket-change", port).iter().any(rose), "{run:#?}");
    assert!(!of("socket-change", other).iter().any(rose), "{run:#?}");
    let (now, before) = (of("socket", port)[0], of("socket", other)[0]);
    assert_eq!(now["dropped"], now["buffers"]["drops"]);
    assert!(remarks(now).contains("during the samples") && remarks(now).contains("slowly"));
    assert_eq!(before["dropped"], 0);
    assert!(remarks(before).contains("none of them"), "{before:#}");
}

#[test]
fn both_ends_of_a_unix_socket_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let path = path.to_str().unwrap();
    let listener = UnixListener::bind(path).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let client = UnixStream::connect(path).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    let mut sent = 0;
    let error = loop {
        match (&accepted).write(&[7; 1000]) {
            Ok(bytes) => sent += bytes,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let _waiting = [(); 2].map(|()| UnixStream::connect(path).unwrap());
    let list = shown(&[path]);
    let find = |is_it: &dyn Fn(&Value) -> bool| list.iter().find(|s| is_it(s)).unwrap();
    let listening = find(&|s| s["state"] == "LISTEN");
    assert_eq!(listening["receive_queue"], 2);
    assert!(remarks(listening).contains("queue is full"), "{list:#?}");
    let own = std::process::id();
    let writer = find(&|s| remarks(s).contains("has not read"));
    assert_eq!(
        (&writer["peer"][0]["pid"], &writer["protocol"]),
        (&json!(own), &json!("unix-stream"))
    );
    assert!(writer["local"].as_str().unwrap().starts_with(path));
    let reader = find(&|s| s["receive_queue"] == sent);
    assert!(remarks(reader).contains("wait to be read"), "{reader:#}");
    assert_eq!(
        writer["remote"].as_str().unwrap(),
        reader["local"].as_str().unwrap()
    );
    // With a path, both ends of the connection are found; with `-x`, they are among all Unix
    // sockets.
    let pid = own.to_string();
    assert!(shown(&["-x", "--pid", &pid]).len() >= list.len());
    assert!(
        shown(&["-t", "--pid", &pid])
            .iter()
            .all(|s| s["protocol"] == "tcp")
    );
    let text = lagtrace(["sockets", path]).expect(0).stdout;
    assert!(
        text.contains("unix LISTEN") && text.contains("unix ESTAB"),
        "{text}"
    );
    drop(client);
}

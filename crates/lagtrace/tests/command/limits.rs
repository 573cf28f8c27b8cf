//! Tests of the output of `lagtrace sockets` on the kernel's limits. They use their own network
//! namespace, where no other program changes the counters.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use super::program::{has_root, has_tool, lagtrace};
use super::streamed::Streamed;

/// A namespace that is removed on drop.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Self {
        let namespace = Self(format!("lagtrace-{name}-{}", std::process::id()));
        ip(&["netns", "add", &namespace.0]);
        ip(&["-n", &namespace.0, "link", "set", "lo", "up"]);
        namespace
    }

    /// Runs `work` in a thread inside the namespace. Programs that it starts are inside as well.
    fn visit(&self, work: impl FnOnce() + Send) {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        thread::scope(|scope| {
            let visitor = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work();
            });
            visitor.join().unwrap();
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // An error is ignored, because the failure of the test itself says more.
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn ip(arguments: &[&str]) {
    assert!(
        Command::new("ip")
            .args(arguments)
            .status()
            .unwrap()
            .success()
    );
}

/// Returns a listener with this backlog that accepts no connections.
fn listener(backlog: i32) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, backlog).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Attempts more connections at once than fit into the backlog.
fn crowd(address: SocketAddr) -> Vec<Option<TcpStream>> {
    let attempt = move || TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
    let attempts: Vec<_> = (0..12).map(|_| thread::spawn(attempt)).collect();
    let connected = attempts.into_iter().map(|attempt| attempt.join().unwrap());
    connected.collect()
}

/// Runs `sockets -f` during `work`, and returns the lines of its report. `mark` is repeated until
/// its new socket is reported, which shows that `sockets` has begun.
fn followed<T>(
    arguments: &[&str],
    mark: impl FnMut() -> T,
    work: impl FnOnce(&mut Streamed),
) -> Vec<Value> {
    let follow = ["sockets", "-f", "-i", "20ms", "-d", "60s"];
    let lines = ["--format", "ndjson"];
    let mut following = Streamed::start(follow.iter().chain(arguments).chain(&lines));
    let is_opened = |line: &str| line.contains(r#""what":"opened""#);
    following.provoke(mark, is_opened);
    work(&mut following);
    following.interrupt();
    let lines = following.end().expect(0).stdout;
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// Waits until drops at a socket in this namespace have been reported, by the address that its line
/// contains. Other tests may cause drops in their namespaces.
fn drops_are_seen(following: &mut Streamed, at: SocketAddr) {
    let parts = [r#""drops":["#, r#""namespace":null"#, &format!("\"{at}\"")];
    following.until(|line| parts.iter().all(|part| line.contains(part)));
}

fn of<'a>(lines: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["type"] == kind)
}

fn limit<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    of(lines, "limit")
        .find(|limit| limit["name"] == name)
        .unwrap()
}

fn remarks(lines: &[Value]) -> String {
    of(lines, "socket")
        .map(|socket| socket["remarks"].to_string())
        .collect()
}

fn a_listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn a_socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// Drops that the kernel counts at sockets although nothing was lost: resets of half-open
/// connections at a listener, and keep-alive probes at a connection.
#[test]
fn what_is_dropped_without_harm_is_no_loss() {
    let test = "what_is_dropped_without_harm_is_no_loss";
    if !has_root(test) || !has_tool(test, "ip") {
        return;
    }
    Namespace::new("harmless").visit(|| {
        let (listening, address) = listener(100);
        let client = TcpStream::connect(address).unwrap();
        let _served = listening.accept().unwrap();
        let lines = followed(&[], a_listener, |following| {
            lagtrace(["probe", &address.to_string(), "-c", "5", "-i", "10ms"]).expect(0);
            drops_are_seen(following, address);
            let second = Duration::from_secs(1);
            sockopt::set_socket_keepalive(&client, true).unwrap();
            sockopt::set_tcp_keepintvl(&client, second).unwrap();
            sockopt::set_tcp_keepidle(&client, second).unwrap();
            drops_are_seen(following, client.local_addr().unwrap());
        });
        // Other tests may lose attempts in their namespaces.
        let here: Vec<Value> = of(&lines, "socket")
            .filter(|socket| socket["namespace"].is_null())
            .cloned()
            .collect();
        let has_dropped = |socket: &&Value| socket["buffers"]["drops"].as_u64() > Some(0);
        assert_eq!(here.iter().filter(has_dropped).count(), 2, "{here:#?}");
        assert!(!remarks(&here).contains("drop"), "{here:#?}");
    });
}

#[test]
fn a_limit_is_accused_by_a_socket_that_is_as_large_as_it_allows() {
    let test = "a_limit_is_accused_by_a_socket_that_is_as_large_as_it_allows";
    if !has_root(test) || !has_tool(test, "ip") {
        return;
    }
    let namespace = Namespace::new("limits");
    namespace.visit(|| {
        fs::write("/proc/sys/net/core/somaxconn", "3").unwrap();
        let somaxconn = "net.core.somaxconn";
        let quiet = followed(&["-l"], a_listener, |_| ());
        assert_eq!(limit(&quiet, somaxconn)["bearing"], "cleared");
        assert_eq!(limit(&quiet, somaxconn)["value"], "3");

        let (_short, address) = listener(1);
        let own = followed(&["-l"], a_listener, |following| {
            drop(crowd(address));
            drops_are_seen(following, address);
        });
        assert_eq!(limit(&own, somaxconn)["bearing"], "cleared", "{own:#?}");
        assert!(remarks(&own).contains("Attempts to connect were dropped"));
        assert!(remarks(&own).contains("accepts more slowly"), "{own:#?}");

        let (_long, address) = listener(100);
        let all = followed(&["-l"], a_listener, |following| {
            drop(crowd(address));
            drops_are_seen(following, address);
        });
        assert_eq!(limit(&all, somaxconn)["bearing"], "evidence", "{all:#?}");
        let text = limit(&all, somaxconn)["text"].to_string();
        assert!(text.contains(&address.to_string()), "{text}");
        let overflows = |counter: &Value| {
            counter["name"] == "TcpExt:ListenOverflows" && counter["change"].as_u64() > Some(0)
        };
        assert!(of(&all, "counter").any(overflows), "{all:#?}");

        let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = reader.local_addr().unwrap();
        let lost = followed(&["-u"], a_socket, |following| {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..2000 {
                sender.send_to(&[7; 1000], target).unwrap();
            }
            drops_are_seen(following, target);
        });
        assert_eq!(
            limit(&lost, "net.core.rmem_default")["bearing"],
            "evidence",
            "{lost:#?}"
        );
        assert_eq!(limit(&lost, "net.core.rmem_max")["bearing"], "cleared");

        // A single survey shows the limits, but cannot judge whether one was reached.
        let once = lagtrace(["sockets", "--format", "json"]).expect(0).json();
        let list = once["limits"].as_array().unwrap();
        assert!(list.iter().all(|limit| limit["bearing"] == "shown"));
        assert!(once["counters"].as_array().unwrap().is_empty());
        let text = lagtrace(["sockets"]).expect(0).stdout;
        assert!(text.contains("net.core.somaxconn 3"), "{text}");
    });
}

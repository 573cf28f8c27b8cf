//! Name resolution: a host's own files, dnsmasq, a slow DNS server, and packet filters by rule.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lagtrace_lab::{Host, Lab, Scenario};

use crate::up_as;

const MS: Duration = Duration::from_millis(1);

/// Brings up a lab with a resolver on the server, which the client's C library uses.
fn up_with(extra: &str) -> Option<Lab> {
    let text = format!(
        r#"
name = "names"
title = "names"
target = "resolver"

[client.files]
"/etc/resolv.conf" = "nameserver {{server}}\noptions timeout:1\n"
"/etc/nsswitch.conf" = "hosts: files dns\n"
"/etc/hosts" = "{{server6}} only-here.lab.test\n"

[[service]]
name = "resolver"
port = 53
server = {{ kind = "dnsmasq", arguments = ["--host-record=www.lab.test,{{server}}", "--server=/slow.test/127.0.0.1#5300"] }}

[[service]]
name = "upstream"
port = 5300
server = {{ kind = "slow-dns", time = "300ms" }}
{extra}"#
    );
    up_as(&Scenario::parse("names", &text).expect("a scenario"))
}

/// Returns the output of `getent` for a name on a host, over IPv4, and the time that it took.
fn resolve(host: &Host, name: &str) -> (String, Duration) {
    let begun = Instant::now();
    let output = host
        .command("getent")
        .expect("a host")
        .args(["ahostsv4", name])
        .output()
        .expect("getent runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = text.split_whitespace().next().unwrap_or_default();
    (first.to_owned(), begun.elapsed())
}

fn log(lab: &Lab, service: &str) -> String {
    fs::read_to_string(lab.run().folder().join(format!("{service}.log"))).expect("a log")
}

#[test]
fn a_host_resolves_by_its_own_files_and_the_machine_keeps_its_own() {
    let before = fs::read("/etc/resolv.conf").ok();
    let Some(lab) = up_with("") else { return };
    assert_eq!(resolve(lab.client(), "www.lab.test").0, "10.77.0.2");
    assert!(log(&lab, "resolver").contains("query[A] www.lab.test from 10.77.0.1"));
    let shown = |host: &Host| {
        let mut command = host.command("cat").expect("a host");
        let output = command.arg("/etc/hosts").output().expect("cat runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(shown(lab.client()), "fd77::2 only-here.lab.test\n");
    assert_ne!(shown(lab.server()), "fd77::2 only-here.lab.test\n");
    assert_eq!(fs::read("/etc/resolv.conf").ok(), before);
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains("client-files"), "{mounts}");
    let run = lab.run().clone();
    lab.take_down().expect("it comes down");
    assert_eq!(crate::remains(&run), Vec::<String>::new());
}

#[test]
fn a_cold_name_waits_for_the_slow_server_and_a_warm_one_does_not() {
    let Some(lab) = up_with("") else { return };
    let (cold, took_cold) = resolve(lab.client(), "a.slow.test");
    let (warm, took_warm) = resolve(lab.client(), "a.slow.test");
    assert_eq!((&*cold, &*warm), ("10.77.0.2", "10.77.0.2"));
    assert!(took_cold >= 300 * MS, "{took_cold:?}");
    assert!(took_warm < took_cold, "{took_warm:?} after {took_cold:?}");
    let log = log(&lab, "resolver");
    assert!(log.contains("cached a.slow.test is 10.77.0.2"), "{log}");
}

#[test]
fn a_slow_server_answers_over_tcp_too() {
    let Some(lab) = up_with("") else { return };
    // A query for the A record of `x.`, preceded by its length.
    let query = b"\x00\x13\x07\x07\x01\x00\x00\x01\0\0\0\0\0\0\x01x\0\x00\x01\x00\x01";
    let answer = lab.server().within(|| {
        let mut connection = TcpStream::connect("127.0.0.1:5300")?;
        connection.write_all(query)?;
        let mut answer = vec![0; 2 + 35];
        connection.read_exact(&mut answer)?;
        Ok(answer)
    });
    let answer = answer.expect("an answer");
    assert_eq!(answer[..4], [0, 35, 7, 7]);
    assert!(answer.ends_with(&[0, 4, 10, 77, 0, 2]));
}

#[test]
fn rules_by_line_lose_what_they_name() {
    let Some(lab) = up_with(
        r#"
[server.firewall]
sets = ["asked { typeof udp sport . @th,64,16; flags dynamic,timeout; timeout 60s; size 4096; }"]
rules = ["udp dport 53 udp sport . @th,64,16 != @asked add @asked { udp sport . @th,64,16 } drop"]
"#,
    ) else {
        return;
    };
    let (address, took) = resolve(lab.client(), "www.lab.test");
    assert_eq!(address, "10.77.0.2");
    assert!(took >= 1000 * MS, "{took:?}");
}

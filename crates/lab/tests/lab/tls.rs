//! TLS of an nginx as a scenario configures it, seen by `openssl s_client`.

use std::process::Stdio;

use lagtrace_lab::{Family, Lab, Scenario};

use crate::up_as;

fn up_with(tls: &str) -> Option<Lab> {
    let text = format!(
        r#"
name = "tls"
title = "tls"
target = "tls"

[[service]]
name = "tls"
port = 443
server = {{ kind = "nginx", tls = {{ {tls} }} }}
"#
    );
    up_as(&Scenario::parse("tls", &text).expect("a scenario"))
}

/// Returns the output of `openssl s_client` for a handshake.
fn handshake(lab: &Lab, arguments: &[&str]) -> String {
    let mut command = lab.client().command("openssl").expect("a host");
    command.args(["s_client", "-connect", "10.77.0.2:443", "-showcerts"]);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.expect("openssl runs");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn a_chain_is_as_long_and_its_keys_are_as_said() {
    let Some(lab) = up_with("key = \"rsa2048\", chain = 3, names = 200") else {
        return;
    };
    let said = handshake(&lab, &[]);
    assert_eq!(said.matches("-----BEGIN CERTIFICATE-----").count(), 3);
    assert!(said.contains("2048 bit"), "{said}");
    assert!(said.contains("New, TLSv1.3"), "{said}");
    let service = lab.service("tls").expect("a service");
    assert_eq!(lab.url(service, Family::V4), "https://10.77.0.2:443/");
}

#[test]
fn the_version_is_bounded_and_sessions_resume_as_said() {
    let Some(lab) =
        up_with("protocols = [\"TLSv1.2\"], session_cache = false, session_tickets = false")
    else {
        return;
    };
    let said = handshake(&lab, &["-reconnect"]);
    assert!(said.contains("New, TLSv1.2"), "{said}");
    assert!(!said.contains("Reused"), "{said}");
    let Some(lab) = up_with("protocols = [\"TLSv1.2\"], session_cache = true") else {
        return;
    };
    let said = handshake(&lab, &["-reconnect"]);
    assert!(said.contains("Reused, TLSv1.2"), "{said}");
}

#[test]
fn a_group_that_the_client_did_not_guess_costs_a_retry() {
    let Some(lab) = up_with("groups = [\"secp384r1\"]") else {
        return;
    };
    let said = handshake(&lab, &["-msg"]);
    assert_eq!(said.matches(", ClientHello").count(), 2, "{said}");
}

#[test]
fn what_nginx_would_not_read_is_refused() {
    for tls in [
        "chain = 0",
        "chain = 9",
        "names = 2001",
        "protocols = [\"SSLv3\"]",
        "groups = [\"X25519; include /etc/passwd\"]",
    ] {
        let text = format!(
            "name = \"a\"\ntitle = \"a\"\ntarget = \"a\"\n[[service]]\nname = \"a\"\nport = 443\nserver = {{ kind = \"nginx\", tls = {{ {tls} }} }}"
        );
        assert!(Scenario::parse("a", &text).is_err(), "{tls}");
    }
}

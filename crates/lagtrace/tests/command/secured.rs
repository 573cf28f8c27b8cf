//! Tests of TLS: `load` and `diagnose` against a real nginx.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use lagtrace_trial::{free_port, live};

use super::lab::SHARE;
use super::nginx::Nginx;
use super::program::{Run, findings, has_root, has_tool, lagtrace, notes};
use super::server::{OK, Server};

/// The longest standstill that a load of some 70 requests tolerates. Requests of the part that is not
/// captured then take 200 µs longer on average, and the report says rightly that the packets do not
/// explain them.
const OF_A_LOAD: Duration = Duration::from_millis(14);

/// An nginx that speaks TLS on a free port of 127.0.0.1.
pub(super) struct Secured {
    nginx: Nginx,
    pub(super) port: u16,
}

impl Secured {
    /// Starts nginx with these directives in its `server` block, and with a key of this kind.
    pub(super) fn start(test: &str, lines: &str, key: &[&str]) -> Option<Self> {
        if !has_root(test) || !has_tool(test, "nginx") || !has_tool(test, "openssl") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("openssl")
            .current_dir(folder.path())
            .args(["req", "-x509", "-nodes", "-days", "2", "-newkey"])
            .args(key)
            .args([
                "-subj",
                "/CN=test",
                "-addext",
                "subjectAltName=DNS:localhost",
            ])
            .args(["-keyout", "key.pem", "-out", "certificate.pem"])
            .stderr(Stdio::null())
            .status();
        assert!(made.unwrap().success());
        fs::write(folder.path().join("page"), "x".repeat(20_000)).unwrap();
        let port = free_port();
        let home = folder.path().display();
        let http = format!(
            "  server {{ listen 127.0.0.1:{port} ssl; root {home}; ssl_certificate {home}/certificate.pem;
    ssl_certificate_key {home}/key.pem;
    {lines} }}"
        );
        let nginx = Nginx::start(folder, 1, &http);
        Some(Self { nginx, port })
    }

    fn run(&self, command: &str, options: &[&str]) -> Run {
        let url = format!("https://localhost:{}/page", self.port);
        let common = [
            command, &url, "-4", "-d", "2s", "-c", "5", "--format", "json",
        ];
        lagtrace(common.iter().chain(options))
    }

    fn certificate(&self) -> String {
        let path = self.nginx.folder().join("certificate.pem");
        path.to_str().unwrap().to_owned()
    }
}

pub(super) const ELLIPTIC: [&str; 3] = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"];

fn layer<'a>(report: &'a serde_json::Value, name: &str) -> &'a str {
    let layers = report["layers"].as_array().unwrap();
    let layer = layers.iter().find(|layer| layer["layer"] == name);
    layer.map_or("", |layer| layer["state"].as_str().unwrap())
}

#[test]
fn handshakes_and_requests_are_probed_by_their_phases() {
    let test = "handshakes_and_requests_are_probed_by_their_phases";
    let Some(server) = Secured::start(test, "ssl_protocols TLSv1.3;", &["rsa:2048"]) else {
        return;
    };
    let host = format!("localhost:{}", server.port);
    let url = format!("https://{host}/page");
    let certificate = server.certificate();
    let common = [
        "-4",
        "-c",
        "4",
        "-i",
        "5ms",
        "--cacert",
        &certificate,
        "--format",
    ];
    let tls = ["probe", &host, "-m", "tls"];
    let report = lagtrace(tls.iter().chain(&common).chain(&["json"]))
        .expect(0)
        .json();
    let methods: Vec<_> = report["probes"].as_array().unwrap().iter().collect();
    let named = |name: &str| {
        methods
            .iter()
            .find(|probe| probe["method"] == name)
            .unwrap()
    };
    for name in ["tls-full", "tls-resumed"] {
        let probe = named(name);
        assert_eq!(probe["received"], 2, "{report:#}");
        assert_eq!(probe["tls"]["version"], "TLS 1.3");
        assert!(probe["tls"]["certificate_ends_ns"].as_i64() > Some(0));
    }
    let http = ["probe", &url, "-m", "http"];
    let run = lagtrace(http.iter().chain(&common).chain(&["ndjson"])).expect(0);
    let first: serde_json::Value =
        serde_json::from_str(run.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first["answer"], "status 200");
    for part in [
        "resolve",
        "connect",
        "tls",
        "tls_first_byte",
        "first_byte",
        "transfer",
    ] {
        assert!(
            first[format!("{part}_ns")].as_u64() > Some(0),
            "{part}: {first}"
        );
    }
    let text = lagtrace(http.iter().chain(&common).chain(&["text"])).expect(0);
    for part in [
        "TLS handshake",
        "request to first byte",
        "first to last byte",
    ] {
        assert!(text.stdout.contains(part), "{part}: {text:#?}");
    }
    // A missing page, with the target as a host and as a URL, and with an untrusted certificate
    // that is accepted.
    let missing = [
        "probe", &host, "-m", "http", "--path", "/none", "-k", "-c", "1",
    ];
    lagtrace(missing).expect(1);
    let insecure = [
        "probe",
        &format!("https://{host}/none"),
        "-m",
        "http",
        "-k",
        "-c",
        "1",
    ];
    assert!(lagtrace(insecure).expect(1).stdout.contains("status 404"));
    let stranger = ["probe", &host, "-m", "tls", "-c", "1"];
    assert!(
        lagtrace(stranger)
            .expect(1)
            .stdout
            .contains("certificate not accepted")
    );
}

#[test]
fn load_says_what_tls_was_used_and_whom_it_trusted() {
    let test = "load_says_what_tls_was_used_and_whom_it_trusted";
    let Some(server) = Secured::start(test, "", &ELLIPTIC) else {
        return;
    };
    let report = server
        .run(
            "load",
            &["--cacert", &server.certificate(), "--rate", "100"],
        )
        .expect(0)
        .json();
    let transport = &report["load"]["transport"];
    assert_eq!(transport["protocol"], "HTTP/1.1");
    let tls = &transport["tls"];
    assert!(
        tls["version"].as_str().unwrap().starts_with("TLS 1."),
        "{transport:#}"
    );
    let count = |kind: &str| tls[kind]["count"].as_u64().unwrap();
    assert_eq!(count("full_ns") + count("resumed_ns"), 5);
    // No authority that this host trusts has signed the certificate.
    let report = server.run("load", &[]).expect(1).json();
    assert!(notes(&report).contains(&"tls-failed"), "{report:#}");
    let text = report["notes"].to_string();
    assert!(
        text.contains("--cacert") && text.contains("self-signed"),
        "{text}"
    );
}

#[test]
fn nagle_is_found_within_tls_and_not_where_it_is_off() {
    let test = "nagle_is_found_within_tls_and_not_where_it_is_off";
    // A single request that waits 25 ms for a processor outside the captured part of so short a load
    // makes the two parts differ, and then packets clear nothing.
    let live = live(test).alone().standstill(OF_A_LOAD).share(SHARE);
    live.run(|| nagle_within_tls(test));
}

fn nagle_within_tls(test: &str) {
    for (nodelay, is_faulty) in [("off", true), ("on", false)] {
        // A response of several TLS records, each of which is a separate write.
        let lines = format!("tcp_nodelay {nodelay}; ssl_buffer_size 4k;");
        let Some(server) = Secured::start(test, &lines, &ELLIPTIC) else {
            return;
        };
        let report = server.run("diagnose", &["-k", "--rate", "100"]).json();
        let found = findings(&report).contains(&"nagle-delayed-ack");
        assert_eq!(found, is_faulty, "{report:#}");
        // If a request of the other part of the load was late, packets clear nothing.
        let is_apart = report["layers"]
            .to_string()
            .contains("in the captured part of the load only");
        let handshakes = layer(&report, "tls");
        let is_cleared = handshakes == "cleared" || is_apart && handshakes == "not-measured";
        assert!(is_cleared, "{:#}", report["layers"]);
        assert_eq!(
            layer(&report, "resumption"),
            "cleared",
            "{:#}",
            report["layers"]
        );
        let methods: Vec<&str> = report["probes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|probe| probe["method"].as_str().unwrap())
            .collect();
        assert!(
            methods.contains(&"tls-full") && methods.contains(&"tls-resumed"),
            "{methods:?}"
        );
    }
}

#[test]
fn slow_handshakes_are_found_and_no_session_resumes() {
    let test = "slow_handshakes_are_found_and_no_session_resumes";
    // If signatures wait for a processor, so do the requests behind them, and the server is slow
    // altogether.
    let live = live(test).busy().share(SHARE);
    live.run(|| slow_handshakes(test));
}

fn slow_handshakes(test: &str) {
    let lines = "keepalive_timeout 0; ssl_session_cache off; ssl_session_tickets off;";
    let Some(server) = Secured::start(test, lines, &["rsa:6144"]) else {
        return;
    };
    let report = server.run("diagnose", &["-k"]).expect(1).json();
    assert!(
        findings(&report).contains(&"tls-slow-handshake"),
        "{report:#}"
    );
    assert_eq!(layer(&report, "tls"), "accused");
    let layers = report["layers"].to_string();
    assert!(layers.contains("no session was resumed"), "{layers}");
}

#[test]
fn the_limit_that_closes_connections_is_named_by_file_and_line() {
    let test = "the_limit_that_closes_connections_is_named_by_file_and_line";
    let live = live(test).alone().standstill(OF_A_LOAD).share(SHARE);
    live.run(|| {
        for (limit, is_limit) in [("10", true), ("1000000", false)] {
            // No session is resumed, so that each connection costs some milliseconds.
            let lines = format!(
                "keepalive_requests {limit}; ssl_session_tickets off; ssl_session_cache none;"
            );
            let Some(server) = Secured::start(test, &lines, &["rsa:4096"]) else {
                return;
            };
            let report = server.run("diagnose", &["-k"]).json();
            let found = report["findings"].as_array().unwrap();
            let churn = found
                .iter()
                .find(|finding| finding["cause"] == "connection-not-reused");
            assert_eq!(churn.is_some(), is_limit, "{report:#}");
            let Some(churn) = churn else {
                assert_eq!(layer(&report, "configuration"), "cleared");
                continue;
            };
            let line = format!("{}:6", server.nginx.folder().join("nginx.conf").display());
            let mut evidence = churn["evidence"].as_array().unwrap().iter();
            let is_setting = |piece: &&serde_json::Value| piece["kind"] == "configuration";
            let setting = evidence.find(is_setting).expect("the setting");
            assert_eq!(setting["location"], line, "{churn:#}");
            let mut fixes = churn["fix"].as_array().unwrap().iter();
            let is_raised = fixes.any(|fix| {
                fix["where"] == line && fix["change"].as_str().unwrap().contains("raise")
            });
            assert!(is_raised, "{churn:#}");
            assert_eq!(layer(&report, "configuration"), "accused");
        }
    });
}

#[test]
fn plain_http_where_tls_was_asked_for_is_asked_by_http() {
    let server = Server::start(OK);
    let url = server.url().replace("http://", "https://");
    let arguments = ["diagnose", &url, "-k", "-d", "1s", "--format", "json"];
    let report = lagtrace(arguments).expect(1).json();
    assert_eq!(findings(&report), ["tls-failed"], "{report:#}");
    let fixes = report["findings"][0]["fix"].to_string();
    assert!(fixes.contains("use http://"), "{fixes}");
    assert!(!fixes.contains("certificate"), "{fixes}");
}

#[test]
fn a_certificate_that_is_not_accepted_is_found() {
    let test = "a_certificate_that_is_not_accepted_is_found";
    let Some(server) = Secured::start(test, "", &ELLIPTIC) else {
        return;
    };
    let report = server.run("diagnose", &[]).expect(1).json();
    assert_eq!(findings(&report), ["tls-failed"], "{report:#}");
    assert_eq!(layer(&report, "tls"), "accused");
    assert!(report["notes"].to_string().contains("self-signed"));
    // There is no load on a target to which no connection is possible.
    assert_eq!(report["load"], serde_json::Value::Null);
}

//! Tests of `lagtrace watch` on connections with HTTP/2, on which requests overtake each other.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lagtrace_trial::free_port;
use serde_json::Value;

use super::lab::verdict;
use super::nginx::Nginx;
use super::program::{has_root, has_tool, lagtrace, run};
use super::streamed::Streamed;

/// nginx with HTTP/2 in clear text. `/up` is passed on once the whole upload has arrived.
struct Http2 {
    nginx: Nginx,
    port: u16,
}

impl Http2 {
    fn start(test: &str) -> Option<Self> {
        if !has_root(test) || !has_tool(test, "nginx") || !has_tool(test, "curl") {
            return None;
        }
        let (port, behind) = (free_port(), free_port());
        let http = format!(
            "client_max_body_size 10m;\n\
             server {{ listen 127.0.0.1:{port} http2; location / {{ return 200 hello; }}\n\
             location /up {{ proxy_pass http://127.0.0.1:{behind}; }} }}\n\
             server {{ listen 127.0.0.1:{behind}; location / {{ return 200 done; }} }}"
        );
        let nginx = Nginx::start(tempfile::tempdir().unwrap(), 2, &http);
        Some(Self { nginx, port })
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Requests a path with curl, over HTTP/2. Returns the number of seconds that it took.
    fn curl(&self, path: &str, options: &[&str]) -> f64 {
        let url = self.url(path);
        let common = ["-sS", "--http2-prior-knowledge", "-o", "/dev/null"];
        let told = ["-w", "%{time_total}", &url];
        let mut curl = Command::new("curl");
        let run = run(curl.args(common).args(options).args(told)).expect(0);
        run.stdout.parse().unwrap()
    }
}

/// A watch of nginx that has seen a request.
struct Watch(Streamed);

impl Watch {
    fn start(server: &Http2) -> Self {
        let port = server.port.to_string();
        let mut watch = Streamed::start(["watch", "-p", &port, "--format", "ndjson", "-q"]);
        watch.provoke(
            || server.curl("/first", &[]),
            |line| line.contains("/first"),
        );
        Self(watch)
    }

    /// Ends the watch. Returns the exchanges with this path, and the totals of the watch.
    fn end(self, path: &str) -> (Vec<Value>, Value) {
        // The last records are on their way.
        thread::sleep(Duration::from_millis(500));
        self.0.interrupt();
        let run = self.0.end();
        assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
        let lines = run
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let lines: Vec<Value> = lines.collect();
        let of_type = |name: &'static str| lines.iter().filter(move |line| line["type"] == name);
        let is_asked = |line: &&Value| line["request"].as_str().is_some_and(|r| r.ends_with(path));
        let exchanges = of_type("exchange").filter(is_asked).cloned().collect();
        let totals = of_type("watch").next().cloned().unwrap();
        (exchanges, totals)
    }
}

/// A server reads a slow upload in many parts, and updates its windows in between. It is one
/// request all the same, which lasts as long as its client says.
#[test]
fn an_upload_is_one_request() {
    const TEST: &str = "watch_http2::an_upload_is_one_request";
    let Some(server) = Http2::start(TEST) else {
        return;
    };
    verdict(TEST).run(|| {
        let watch = Watch::start(&server);
        let body = server.nginx.folder().join("body");
        fs::write(&body, vec![b'x'; 400_000]).unwrap();
        let upload = ["--limit-rate", "200k", "-T", body.to_str().unwrap()];
        let took = server.curl("/up", &upload);
        let (exchanges, totals) = watch.end("/up");
        assert_eq!(exchanges.len(), 1, "{exchanges:#?}");
        let latency = exchanges[0]["latency_ns"].as_f64().unwrap() / 1e9;
        assert!(
            took > 1.0 && (took - latency).abs() < 0.1,
            "{took} {latency}"
        );
        assert_eq!(exchanges[0]["status"], 200);
        let longest = totals["latency_ns"]["max"].as_f64().unwrap() / 1e9;
        assert!((took - longest).abs() < 0.1, "{totals:#}");
        // The reads of the upload are no requests of their own.
        let counted = totals["latency_ns"]["count"].as_u64().unwrap();
        let turns = totals["services"][0]["turns"].as_u64().unwrap();
        assert!(counted < 20 && turns < 20, "{totals:#}");
    });
}

/// As many requests are seen as the client sent, although many of them are under way at the same
/// time on each connection. Nearly all are joined with their times in the kernel: a batch of records
/// may end between a response's last segment and the return of the write.
#[test]
fn concurrent_requests_are_told_apart() {
    const TEST: &str = "watch_http2::concurrent_requests_are_told_apart";
    const SENT: &str = "600";
    let Some(server) = Http2::start(TEST) else {
        return;
    };
    verdict(TEST).run(|| {
        let watch = Watch::start(&server);
        let url = server.url("/each");
        let load = ["load", &url, "--http2", "--streams", "10", "-c", "4"];
        let limits = ["-n", SENT, "--rate", "300", "--format", "json"];
        lagtrace(load.iter().chain(&limits)).expect(0);
        let (exchanges, totals) = watch.end("/each");
        let sent: usize = SENT.parse().unwrap();
        assert_eq!(exchanges.len(), sent, "{totals:#}");
        assert!(exchanges.iter().all(|line| line["status"] == 200));
        let joined = &totals["services"][0]["joined"]["exchanges"];
        let [count, of] = ["count", "of"].map(|name| joined[name].as_u64().unwrap());
        assert!(of >= sent as u64 && count * 100 >= of * 95, "{joined}");
        let program = totals["services"][0]["programs"][0].as_str().unwrap();
        assert!(program.starts_with("nginx["), "{totals:#}");
    });
}

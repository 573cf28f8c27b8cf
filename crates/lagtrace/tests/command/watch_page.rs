//! The page of a running watch, which is served on the loopback.

use std::cell::RefCell;
use std::fs;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::lab::until;
use super::paged::{ask, document};
use super::program::has_root;
use super::server::{Manner, Server};
use super::streamed::Streamed;

const SLOW: Manner = Manner::AnswersAfter(
    Duration::from_millis(3),
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
);

/// A watch of a server under load, whose page is served.
struct Watched {
    watch: Streamed,
    load: Streamed,
    address: String,
    path: String,
    _server: Server,
}

impl Watched {
    fn start(options: &[&str]) -> Self {
        let server = Server::start(SLOW);
        let (url, port) = (server.url(), server.port().to_string());
        let load = ["load", &url, "-c", "2", "--rate", "100", "-d", "60s", "-q"];
        let load = Streamed::start(load);
        let watch = ["watch", "-p", &port, "--serve"];
        let mut watch = Streamed::start(watch.iter().chain(options));
        let told = RefCell::new(String::new());
        watch.until(|line| {
            let url = line.split_once("the page of this watch is http://");
            told.borrow_mut().push_str(url.map_or("", |(_, url)| url));
            url.is_some()
        });
        let told = told.into_inner();
        let (address, path) = told.split_once('/').unwrap();
        Self {
            watch,
            load,
            address: address.to_owned(),
            path: format!("/{path}"),
            _server: server,
        }
    }

    fn asked(&self, method: &str, path: &str, host: &str) -> (String, u16) {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        ask(&self.address, &request)
    }

    /// Returns what the server answers at a path below that of the page.
    fn body(&self, below: &str) -> String {
        let path = format!("{}{below}", self.path);
        let (answer, status) = self.asked("GET", &path, &self.address);
        assert_eq!(status, 200, "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("connect-src 'self'"), "{head}");
        body.to_owned()
    }

    fn news(&self) -> Value {
        serde_json::from_str(&self.body("version")).unwrap()
    }

    /// Waits for a version with more than `count` exchanges, and returns its page and how many it
    /// has.
    fn page_with_more_than(&self, count: u64) -> (Value, u64) {
        let mut page = Value::Null;
        let counted = |page: &Value| page["report"]["exchanges"]["count"].as_u64();
        until("more exchanges are on the page", || {
            page = document(&self.body(""));
            counted(&page) > Some(count)
        });
        let count = counted(&page).unwrap();
        (page, count)
    }
}

/// Checks that the picture is of the same exchanges as the report.
#[track_caller]
fn is_drawn(page: &Value) {
    let cells = page["picture"]["raster"]["cells"].as_array().unwrap();
    let drawn: u64 = cells.iter().map(|cell| cell[3].as_u64().unwrap()).sum();
    assert_eq!(page["report"]["exchanges"]["waits_of"], drawn, "{page:#}");
    assert!(!page["picture"]["exchanges"].as_array().unwrap().is_empty());
    assert_eq!(page["report"]["command"], "watch");
}

#[test]
fn the_page_of_a_watch_grows_with_it_and_ends_with_it() {
    if !has_root("the_page_of_a_watch_grows_with_it_and_ends_with_it") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.html");
    let options = ["--format", "json", "--html", kept.to_str().unwrap()];
    let watched = Watched::start(&options);
    let (page, count) = watched.page_with_more_than(0);
    is_drawn(&page);
    let before = watched.news();
    let (page, _) = watched.page_with_more_than(count);
    is_drawn(&page);
    let now = watched.news();
    assert!(
        now["version"].as_u64() > before["version"].as_u64(),
        "{now}"
    );
    assert_eq!(now["is_last"], false);
    let path = format!("/{}", "0".repeat(watched.path.len() - 2));
    for (method, path, host, status) in [
        ("GET", watched.path.as_str(), "evil.test", 421),
        ("GET", &path, &watched.address, 404),
        ("GET", "/version", &watched.address, 404),
        ("POST", &watched.path, &watched.address, 405),
    ] {
        let (answer, given) = watched.asked(method, path, host);
        assert_eq!(given, status, "{method} {path} {host}: {answer}");
    }
    watched.watch.interrupt();
    // A browser that follows the page gets its last version.
    until("the last version is served", || {
        watched.news()["is_last"] == true
    });
    let last = document(&watched.body(""));
    let Watched {
        watch,
        load,
        address,
        ..
    } = watched;
    let run = watch.end();
    assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
    assert_eq!(last["report"], run.json());
    assert_eq!(document(&fs::read_to_string(kept).unwrap()), last);
    assert!(TcpStream::connect(address).is_err(), "the server has ended");
    load.interrupt();
    load.end();
}

#[test]
fn the_page_of_a_watch_is_redacted_with_the_same_labels_in_all_versions() {
    if !has_root("the_page_of_a_watch_is_redacted_with_the_same_labels_in_all_versions") {
        return;
    }
    let watched = Watched::start(&["--redact"]);
    let labels = [0, 1].map(|count| {
        let (page, _) = watched.page_with_more_than(count);
        let text = page.to_string();
        assert!(!text.contains("127.0.0.1"), "{page:#}");
        page["picture"]["services"][0]["server"].clone()
    });
    assert!(
        labels[0].as_str().unwrap().starts_with("host-"),
        "{labels:?}"
    );
    assert_eq!(labels[0], labels[1]);
    let Watched { watch, load, .. } = watched;
    watch.interrupt();
    let run = watch.end();
    // Nobody has asked for a newer version, so the page does not stay for anybody.
    assert!(!run.stderr.contains("in a moment"), "{run:#?}");
    load.interrupt();
    load.end();
}

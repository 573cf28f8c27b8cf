//! Tests of the limits on reading and resolving, with cycles, large files, deep nesting and invalid
//! text.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::include::{self, MAX_BYTES};
use super::parse::MAX_DEPTH;
use super::server::Surroundings;
use super::tree::{Directive, Tree};
use super::{Configuration, Request};
use crate::config::files::{Contents, Files, Stamps};

const STAMPS: Stamps = Stamps {
    modified: UNIX_EPOCH,
    changed: UNIX_EPOCH,
};

/// Files in memory only.
#[derive(Default)]
struct Memory(HashMap<PathBuf, Vec<u8>>);

impl Memory {
    fn with(mut self, path: &str, text: impl Into<Vec<u8>>) -> Self {
        self.0.insert(path.into(), text.into());
        self
    }

    fn load(&self) -> Tree {
        include::read(self, Path::new("/etc/nginx.conf"), None).expect("the main file")
    }
}

impl Files for Memory {
    fn read(&self, path: &Path, limit: usize) -> io::Result<Contents> {
        let bytes = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Contents {
            bytes: bytes[..bytes.len().min(limit)].to_vec(),
            is_cut: bytes.len() > limit,
            stamps: STAMPS,
        })
    }

    fn list(&self, directory: &Path) -> io::Result<(Vec<Vec<u8>>, Stamps)> {
        let inside = self
            .0
            .keys()
            .filter_map(|path| path.strip_prefix(directory).ok());
        let first = inside.filter_map(|path| path.components().next());
        let names = first.map(|name| name.as_os_str().as_encoded_bytes().to_vec());
        Ok((names.collect(), STAMPS))
    }
}

/// Returns the values that apply to a request, if the main file can be read.
pub(in crate::config) fn values_of(files: &dyn Files) -> Vec<String> {
    let Ok(tree) = include::read(files, Path::new("/etc/nginx/nginx.conf"), None) else {
        return Vec::new();
    };
    let configuration = Configuration {
        tree,
        surroundings: Surroundings {
            implied_port: 80,
            ..Surroundings::default()
        },
        version: None,
        loaded: None,
        notes: Vec::new(),
    };
    let resolved = configuration.resolve(&Request {
        local_addr: None,
        port: 80,
        host: "a.org",
        uri: "/page",
    });
    resolved.settings.into_iter().map(|it| it.value).collect()
}

/// Returns the names of the directives, with the directives in their blocks.
fn outline(directives: &[Directive]) -> String {
    let shown = directives.iter().map(|directive| match &directive.block {
        Some(block) => format!("{}{{{}}}", directive.name.text(), outline(block)),
        None => directive.name.text(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn includes_stand_where_they_are_named() {
    let tree = Memory::default()
        .with(
            "/etc/nginx.conf",
            "a; http { include conf.d/*.conf; b; } c;",
        )
        .with("/etc/conf.d/2.conf", "y;")
        .with("/etc/conf.d/1.conf", "x { include /other; }")
        .with("/etc/conf.d/.0.conf", "hidden;")
        .with("/other", "z;")
        .load();
    assert_eq!(outline(&tree.main), "a http{x{z} y b} c");
    assert!(tree.issues.is_empty());
}

#[test]
fn tables_are_read_past_and_lua_too() {
    let tree = Memory::default()
        .with(
            "/etc/nginx.conf",
            "http { map $a $b { default 0; include m; } types { x y; } \
             content_by_lua_block { if x then return '}' end } after; }",
        )
        .with("/etc/m", "k v;")
        .load();
    assert_eq!(
        outline(&tree.main),
        "http{map{} types{} content_by_lua_block{} after}"
    );
}

#[test]
fn a_cycle_ends_and_is_told() {
    let tree = Memory::default()
        .with("/etc/nginx.conf", "a; include b.conf; d;")
        .with(
            "/etc/b.conf",
            "b; include nginx.conf; include ./../etc/b.conf; c;",
        )
        .load();
    assert!(outline(&tree.main).starts_with("a b"));
    assert!(outline(&tree.main).ends_with("c d"));
    assert!(
        tree.issues
            .iter()
            .any(|issue| issue.contains("includes itself"))
    );
}

#[test]
fn includes_that_double_at_each_level_end() {
    let mut files = Memory::default().with("/etc/nginx.conf", "include 0; include 0;");
    for level in 0..40 {
        let text = format!("include {0}; include {0};", level + 1);
        files = files.with(&format!("/etc/{level}"), text);
    }
    let tree = files.with("/etc/40", "").load();
    assert!(tree.issues.iter().any(|issue| issue.contains("inclusions")));
}

#[test]
fn deep_blocks_and_long_files_are_cut() {
    let deep = "a {".repeat(100_000);
    let tree = Memory::default().with("/etc/nginx.conf", deep).load();
    assert!(tree.issues[0].contains("deeper than"), "{:?}", tree.issues);
    assert_eq!(outline(&tree.main).matches('{').count(), MAX_DEPTH);

    let long = b"a;\n".repeat(MAX_BYTES);
    let tree = Memory::default().with("/etc/nginx.conf", long).load();
    assert!(
        tree.issues
            .iter()
            .any(|issue| issue.contains("not read to its end"))
    );
    assert!(
        tree.issues
            .iter()
            .any(|issue| issue.contains("too many directives"))
    );
}

/// Resolves a request with `text` as the configuration.
fn resolve(text: Vec<u8>, host: &str, uri: &str) {
    let configuration = Configuration {
        tree: Memory::default().with("/etc/nginx.conf", text).load(),
        surroundings: Surroundings::default(),
        version: None,
        loaded: Some(UNIX_EPOCH),
        notes: Vec::new(),
    };
    for local_addr in [None, Some([127, 0, 0, 1].into())] {
        configuration.resolve(&Request {
            local_addr,
            port: 80,
            host,
            uri,
        });
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_resolve(bytes: Vec<u8>, host: String, uri: String) {
        resolve(bytes, &host, &uri);
    }

    #[test]
    fn any_words_resolve(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "http {", "server {", "location", "listen 80;", "listen", "server_name", "a.org",
                "*.org", "~^a", "/", "= /a", "~", "^~", "{", "}", ";", "if ($a)", "rewrite", "return",
                "^ /b last;", "try_files", "index", "upstream x {", "proxy_pass http://x;", "limit_req",
                "zone=a;", "zone=a:1m;", "include", "nginx.conf;", "\"", "'", "\\", "#", "\n", "gzip on;",
                "[::]:80", "1-99;", "=", "@x", "merge_slashes off;", "events {", "ssl;", "$hostname;",
            ]),
            0..60,
        ),
        host in "[a.*]{0,4}",
        uri in "/[a/.%?]{0,6}",
    ) {
        resolve(words.join(" ").into_bytes(), &host, &uri);
    }
}

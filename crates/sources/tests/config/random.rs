//! Random configurations and requests, for which nginx and the resolver must find the same block.
//! `LAGTRACE_RANDOM_CONFIGS` sets the number of configurations, `LAGTRACE_SEED` the seed of the first.

use std::fmt::Write;

use lagtrace_sources::config::nginx::{Configuration, Master, Request};
use lagtrace_trial::{free_ports, seed};

use super::server;

/// Default number of configurations in a run.
const CONFIGURATIONS: u64 = 8;
/// Number of requests for each configuration.
const REQUESTS: usize = 120;

const NAMES: &[&str] = &[
    "a.org",
    "www.a.org",
    "*.a.org",
    ".a.org",
    "*.b.a.org",
    "www.a.*",
    "www.*",
    "a.*",
    "~^(www|api)\\.",
    "~org$",
    "~^x",
    "\"\"",
    "X.B.A.ORG",
];
const HOSTS: &[&str] = &[
    "a.org",
    "www.a.org",
    "b.a.org",
    "x.b.a.org",
    "c.b.a.org",
    "www.a.net",
    "a.net",
    "www.x",
    "api.b.net",
    "x.net",
    "",
    "A.ORG.",
    "www.a.org:99",
    "other",
    "127.0.0.1",
    "org",
];
const SEGMENTS: &[&str] = &["a", "b", "ab", "a.php", "c.PNG", "aa"];
const REGEXES: &[&str] = &[
    "~ \\.php$",
    "~* \\.png$",
    "~ ^/a",
    "~ b",
    "~* A",
    "~ ^/(a|b)/",
    "~ /$",
    "~ ^/ab?/a",
    "~ \"[^/]{2}$\"",
];

/// A random number generator that returns the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // Knuth's 64-bit multiplier. Only the high bits of the result are random enough.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// A writer of one configuration. Each block is marked with its line number.
struct Writer<'r> {
    random: &'r mut Random,
    text: String,
    line: u32,
}

impl Writer<'_> {
    /// Opens a block and marks it.
    fn open(&mut self, head: &str) {
        self.line += 1;
        let line = self.line;
        writeln!(self.text, "{head} {{ add_header X-Mark {line} always;").unwrap();
    }

    fn put(&mut self, line: &str) {
        self.line += 1;
        writeln!(self.text, "{line}").unwrap();
    }

    fn servers(&mut self, addresses: &[String]) {
        let mut with_default = Vec::new();
        for _ in 0..=self.random.below(5) {
            self.open("server");
            let mut own: Vec<&String> = Vec::new();
            for _ in 0..=self.random.below(3) {
                let address = &addresses[self.random.below(addresses.len())];
                if own.contains(&address) {
                    continue;
                }
                own.push(address);
                let is_default = self.random.one_in(4) && !with_default.contains(address);
                if is_default {
                    with_default.push(address.clone());
                }
                let flag = if is_default { " default_server" } else { "" };
                self.put(&format!("listen {address}{flag};"));
            }
            for _ in 0..self.random.below(3) {
                let name = self.random.pick(NAMES);
                self.put(&format!("server_name {name};"));
            }
            if self.random.one_in(6) {
                self.put("merge_slashes off;");
            }
            self.locations("", 0);
            self.put("}");
        }
    }

    /// Writes locations whose URIs begin with `outer`.
    fn locations(&mut self, outer: &str, depth: usize) {
        let mut known: Vec<String> = Vec::new();
        for _ in 0..self.random.below(6) {
            let is_regex = self.random.one_in(3);
            if is_regex {
                let regex = self.random.pick(REGEXES);
                if !known.iter().any(|other| other == regex) {
                    known.push(regex.into());
                    self.location(regex, None, depth);
                }
                continue;
            }
            let name = self.uri_below(outer);
            let modifier = self.random.pick(&["", "", "^~ ", "= "]);
            let key = format!("{}{name}", if modifier == "= " { "=" } else { "" });
            if known.contains(&key) {
                continue;
            }
            known.push(key);
            let inside = (modifier != "= ").then_some(name.as_str());
            self.location(&format!("{modifier}{name}"), inside, depth);
        }
    }

    fn location(&mut self, head: &str, inside: Option<&str>, depth: usize) {
        self.open(&format!("location {head}"));
        if self.random.one_in(8) {
            self.put("proxy_pass http://127.0.0.1:1;");
        }
        if let (Some(outer), true) = (inside, depth < 3) {
            self.locations(outer, depth + 1);
        } else if inside.is_none() && depth < 3 && !head.starts_with('=') {
            let regex = self.random.pick(REGEXES);
            self.open(&format!("location {regex}"));
            self.put("}");
        }
        self.put("}");
    }

    fn uri_below(&mut self, outer: &str) -> String {
        let mut uri = outer.to_string();
        if uri.is_empty() || (!uri.ends_with('/') && self.random.one_in(2)) {
            uri.push('/');
        }
        for _ in 0..self.random.below(3) {
            uri += self.random.pick(SEGMENTS);
            if !self.random.one_in(3) {
                uri.push('/');
            }
        }
        uri.replace("//", "/")
    }
}

fn uri(random: &mut Random) -> String {
    let mut uri = String::from("/");
    for _ in 0..random.below(4) {
        uri += random.pick(SEGMENTS);
        uri += random.pick(&["/", "/", "", "//", "/./", "/../", "%2f", "?/a.php"]);
    }
    uri
}

#[test]
fn random_configurations_agree_with_nginx() {
    if !server::is_available() {
        return;
    }
    let count = std::env::var("LAGTRACE_RANDOM_CONFIGS");
    let count = count.map_or(CONFIGURATIONS, |count| count.parse().unwrap());
    let compared: usize = (0..count).map(|n| compare(seed() + n)).sum();
    println!("{compared} answers compared over {count} configurations");
    // The other requests are uncertain or rejected, or no server listens on the address.
    assert!(compared >= usize::try_from(count).unwrap() * REQUESTS / 4);
}

/// Tests one configuration. Returns the number of answers that could be compared.
fn compare(seed: u64) -> usize {
    let mut compared = 0;
    let mut random = Random(seed);
    let ports = free_ports(2);
    let hosts: &[&str] = if server::has_ipv6() {
        &["", "127.0.0.1:", "127.0.0.2:", "*:", "[::]:", "[::1]:"]
    } else {
        &["", "127.0.0.1:", "127.0.0.2:", "*:"]
    };
    let addresses: Vec<String> = hosts
        .iter()
        .flat_map(|host| ports.iter().map(move |port| format!("{host}{port}")))
        // Both spellings of the same address would be a duplicate, so each configuration uses one
        // of them.
        .filter(|address| !address.starts_with('*') || seed.is_multiple_of(2))
        .filter(|address| address.contains(':') || seed % 2 == 1)
        .collect();
    let mut writer = Writer {
        random: &mut random,
        text: String::new(),
        line: 0,
    };
    writer.servers(&addresses);
    let text = writer.text;
    let directory = server::directory();
    server::write(directory.path(), "case.conf", &text);
    let main = server::main_file(directory.path(), "include case.conf;");
    let main = server::write(directory.path(), "nginx.conf", &main);
    let nginx = server::Nginx::on(directory.path(), &main);
    let configuration = Configuration::read(&Master::find(nginx.pid()).unwrap()).unwrap();
    for _ in 0..REQUESTS {
        let ip = random.pick(&["127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"]);
        let address = server::address(ip, ports[random.below(2)]);
        let (host, uri) = (random.pick(HOSTS), uri(&mut random));
        let resolved = configuration.resolve(&Request {
            local_addr: Some(address.ip()),
            port: address.port(),
            host,
            uri: &uri,
        });
        let context = || format!("seed {seed}: {address} {host:?} {uri}\n{text}\n{resolved:#?}");
        let Some(chosen) = &resolved.server else {
            assert!(
                std::net::TcpStream::connect(address).is_err(),
                "{}",
                context()
            );
            continue;
        };
        // If the result is uncertain, an index file may lead to another block.
        if resolved.certainty.doubt().is_some() {
            continue;
        }
        let answer = server::ask(address, host, &uri);
        if answer.status == 400 {
            let is_known = resolved.notes.iter().any(|note| note.id == "nginx-bad-uri");
            assert!(is_known, "{}\n{answer:?}", context());
            continue;
        }
        let line = resolved
            .location
            .as_ref()
            .map_or(chosen.at.line, |location| location.at.line);
        assert_eq!(
            answer.mark,
            Some(line.to_string()),
            "{}\n{answer:?}",
            context()
        );
        compared += 1;
    }
    compared
}

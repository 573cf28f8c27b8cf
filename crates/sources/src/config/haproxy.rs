//! haproxy: the settings of kept connections, for the proxy that listens on a port.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Error;
use super::by_line::{Line, Reader, Setting, options};

/// Path of the main file in packaged builds.
const USUAL: &str = "/etc/haproxy/haproxy.cfg";

/// Returns the settings for connections to `port` of a process with these arguments and this working
/// directory.
pub(super) fn settings(
    reader: &mut Reader<'_>,
    arguments: &[&[u8]],
    directory: &Path,
    port: u16,
) -> Result<Vec<Setting>, Error> {
    let mut lines = Vec::new();
    for file in files(reader, arguments, directory) {
        lines.extend(reader.lines(&file, |_| None)?);
    }
    let sections = sections(&lines);
    let own = sections.iter().position(|section| section.has_port(port));
    let Some(own) = own else {
        return Ok(Vec::new());
    };
    // A section inherits from the last `defaults` section before it.
    let before = sections.iter().take(own).rev();
    let defaults = before
        .into_iter()
        .find(|section| section.kind == "defaults");
    let chain: Vec<&Section<'_>> = sections.get(own).into_iter().chain(defaults).collect();
    let mut found = vec![switched(&chain, "httpclose")];
    found.extend(timeout(&chain));
    let behind = sections.iter().filter(|section| {
        section.kind == "backend" && chain.iter().any(|own| own.passes_to(&section.name))
    });
    found.extend(
        sections
            .get(own)
            .into_iter()
            .chain(behind)
            .filter_map(queue),
    );
    Ok(found)
}

/// Returns the configuration files in the order in which haproxy reads them, as one text. Of a
/// folder, it reads the `*.cfg` files that are not hidden, sorted by name (management guide, `-f`).
/// Names are relative to the working directory, which is already the one of `-C`.
fn files(reader: &Reader<'_>, arguments: &[&[u8]], directory: &Path) -> Vec<PathBuf> {
    let mut named = options(arguments, "-f");
    if named.is_empty() {
        named.push(Path::new(USUAL));
    }
    let read = |named: &Path| {
        // Without the `.` of `./haproxy.cfg`.
        let path: PathBuf = directory.join(named).components().collect();
        let Ok((mut names, _)) = reader.files.list(&path) else {
            return vec![path];
        };
        names.retain(|name| name.ends_with(b".cfg") && !name.starts_with(b"."));
        names.sort();
        let inside = names.iter().map(|name| path.join(OsStr::from_bytes(name)));
        inside.collect()
    };
    named.into_iter().flat_map(read).collect()
}

/// A section of the configuration.
struct Section<'l> {
    kind: String,
    name: String,
    lines: &'l [Line],
}

impl Section<'_> {
    /// Returns true if the section accepts connections on a port.
    fn has_port(&self, port: u16) -> bool {
        let addresses = self.lines.iter().filter(|line| line.word(0) == "bind");
        let mut addresses = addresses.map(|line| line.word(1));
        addresses.any(|list| {
            list.split(',').any(|address| {
                let last = address.rsplit(':').next();
                last.and_then(|last| last.parse().ok()) == Some(port)
            })
        })
    }

    /// Returns true if the section passes requests to a backend.
    fn passes_to(&self, backend: &str) -> bool {
        let is_rule = |word: &str| matches!(word, "default_backend" | "use_backend");
        let mut rules = self.lines.iter().filter(|line| is_rule(&line.word(0)));
        rules.any(|line| line.words.get(1).is_some_and(|name| name == backend))
    }

    fn scope(&self) -> String {
        format!("{} {}", self.kind, self.name).trim_end().to_owned()
    }
}

fn sections(lines: &[Line]) -> Vec<Section<'_>> {
    const KINDS: [&str; 5] = ["global", "defaults", "frontend", "listen", "backend"];
    let is_head = |line: &Line| KINDS.contains(&line.word(0).as_str());
    let mut starts = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| is_head(line))
        .peekable();
    let mut sections = Vec::new();
    while let Some((start, head)) = starts.next() {
        let end = starts.peek().map_or(lines.len(), |(next, _)| *next);
        sections.push(Section {
            kind: head.word(0),
            name: head.words.get(1).cloned().unwrap_or_default(),
            lines: lines.get(start + 1..end).unwrap_or_default(),
        });
    }
    sections
}

/// Returns the state of an option. The innermost section with `option` or `no option` decides.
fn switched(chain: &[&Section<'_>], name: &str) -> Setting {
    let directive = format!("option {name}");
    for section in chain {
        let is_own = |line: &&Line| {
            let at = usize::from(line.word(0) == "no");
            line.word(at) == "option" && line.word(at + 1) == name
        };
        if let Some(line) = section.lines.iter().rfind(is_own) {
            let value = if line.word(0) == "no" { "off" } else { "on" };
            return line.setting(&directive, value.to_owned(), &section.scope());
        }
    }
    Setting {
        directive,
        value: "off".to_owned(),
        ..Setting::default()
    }
}

/// Returns the time for which an idle connection is kept, if it is set.
fn timeout(chain: &[&Section<'_>]) -> Option<Setting> {
    const NAME: &str = "http-keep-alive";
    let is_own = |line: &&Line| line.word(0) == "timeout" && line.word(1) == NAME;
    let found = chain
        .iter()
        .find_map(|section| Some((section, section.lines.iter().rfind(is_own)?)));
    let (section, line) = found?;
    let value = line.words.get(2).cloned().unwrap_or_default();
    // A time without a unit is in milliseconds.
    let is_bare = value.chars().all(|letter| letter.is_ascii_digit());
    let value = if is_bare { value + "ms" } else { value };
    Some(line.setting("timeout http-keep-alive", value, &section.scope()))
}

/// Returns how many requests a section passes to its servers at a time, if each of them has a
/// limit; the others wait in haproxy's queue.
fn queue(section: &Section<'_>) -> Option<Setting> {
    let servers: Vec<&Line> = section
        .lines
        .iter()
        .filter(|line| line.word(0) == "server")
        .collect();
    let limit = |line: &&Line| {
        let at = line.words.iter().position(|word| word == "maxconn")?;
        line.words.get(at + 1)?.parse::<u64>().ok()
    };
    let limits: Option<Vec<u64>> = servers.iter().map(limit).collect();
    let sum: u64 = limits?
        .iter()
        .fold(0, |sum, &limit| sum.saturating_add(limit));
    let first = servers.first()?;
    Some(first.setting("server maxconn", sum.to_string(), &section.scope()))
}

#[cfg(test)]
mod tests {
    use super::super::by_line::tests::{Memory, reader};
    use super::*;

    const TEXT: &str = "global\n  daemon\ndefaults\n  option httpclose\n  timeout http-keep-alive 900\n\
        frontend a\n  bind *:80,:::81\n  no option httpclose\n\
        listen b\n  bind 127.0.0.1:90 ssl\n  timeout http-keep-alive 5s\n";

    fn resolved(port: u16) -> Vec<String> {
        resolved_of(&[(USUAL, TEXT)], &[b"haproxy"], port)
    }

    fn resolved_of(
        files: &[(&'static str, &'static str)],
        arguments: &[&[u8]],
        port: u16,
    ) -> Vec<String> {
        let files = Memory(files.iter().copied().collect());
        let here = Path::new("/srv");
        let settings = settings(&mut reader(&files), arguments, here, port).expect("a file");
        let shown = settings.iter().map(|setting| {
            let line = setting.at.as_ref().map_or(0, |at| at.line);
            format!(
                "{} {} {line} {}",
                setting.directive, setting.value, setting.scope
            )
        });
        shown.collect()
    }

    #[test]
    fn the_section_with_the_port_overrides_its_defaults() {
        assert_eq!(
            resolved(81),
            [
                "option httpclose off 8 frontend a",
                "timeout http-keep-alive 900ms 5 defaults"
            ]
        );
        assert_eq!(
            resolved(90),
            [
                "option httpclose on 4 defaults",
                "timeout http-keep-alive 5s 11 listen b"
            ]
        );
        assert!(resolved(70).is_empty());
    }

    #[test]
    fn a_queue_before_the_servers_of_a_backend_is_found() {
        let text = "frontend a\n bind :80\n default_backend b\n\
            backend b\n server s1 h:1 maxconn 3 check\n server s2 h:2 check maxconn 5\n\
            backend c\n server s3 h:3 maxconn 7\n\
            listen d\n bind :90\n server s4 h:4 maxconn 2\n\
            listen e\n bind :70\n server s5 h:5 maxconn 2\n server s6 h:6\n";
        let queue = |port| {
            let mut found = resolved_of(&[(USUAL, text)], &[b"haproxy"], port);
            found.retain(|setting| setting.contains("maxconn"));
            found.join(", ")
        };
        assert_eq!(queue(80), "server maxconn 8 5 backend b");
        assert_eq!(queue(90), "server maxconn 2 11 listen d");
        assert_eq!(queue(70), "", "a server without a limit");
    }

    #[test]
    fn several_files_and_folders_are_one_configuration() {
        let files = [
            ("/srv/a.cfg", "defaults\n timeout http-keep-alive 1s\n"),
            ("/etc/h/2.cfg", "frontend b\n bind :90\n option httpclose\n"),
            ("/etc/h/1.cfg", "frontend a\n bind :80\n"),
            ("/etc/h/.0.cfg", "defaults\n timeout http-keep-alive 9s\n"),
            ("/etc/h/3.txt", "frontend c\n bind :70\n"),
        ];
        for arguments in [
            &[&b"haproxy"[..], b"-D", b"-f", b"./a.cfg", b"-f", b"/etc/h"][..],
            &[b"haproxy", b"-C", b"srv", b"-fa.cfg", b"-f", b"/etc/h/"],
        ] {
            let resolved = |port| resolved_of(&files, arguments, port).join(", ");
            let kept = "timeout http-keep-alive 1s 2 defaults";
            assert_eq!(resolved(80), format!("option httpclose off 0 , {kept}"));
            assert_eq!(
                resolved(90),
                format!("option httpclose on 3 frontend b, {kept}")
            );
            assert_eq!(resolved(70), "");
        }
    }
}

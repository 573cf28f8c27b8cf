//! Apache httpd: the settings of kept connections.
//!
//! Only the main server is resolved. If a section also sets a directive, the value outside of the
//! section is uncertain (`core.html#keepalive`).

use std::path::{Path, PathBuf};

use super::Error;
use super::by_line::{Line, Reader, Setting, option};

/// The directives and their defaults.
const KNOWN: [(&str, &str); 3] = [
    ("KeepAlive", "On"),
    ("MaxKeepAliveRequests", "100"),
    ("KeepAliveTimeout", "5"),
];
/// The `ServerRoot` and the main file in it of packaged builds.
const USUAL: [(&str, &str); 3] = [
    ("/etc/apache2", "apache2.conf"),
    ("/etc/httpd", "conf/httpd.conf"),
    ("/usr/local/apache2", "conf/httpd.conf"),
];

/// Returns the settings of a process with these arguments.
pub(super) fn settings(
    reader: &mut Reader<'_>,
    arguments: &[&[u8]],
) -> Result<Vec<Setting>, Error> {
    let main = main_file(reader, arguments);
    let mut server_root = option(arguments, "-d").map(Path::to_owned);
    let lines = reader.lines(&main, |line| {
        if line.word(0) == "serverroot" {
            server_root = line.words.get(1).map(PathBuf::from);
        }
        included(line, server_root.as_deref())
    })?;
    Ok(KNOWN
        .iter()
        .map(|(name, default)| effective(&lines, name, default))
        .collect())
}

/// Returns the main file. Its name is relative to the `ServerRoot` of the command line or of the
/// build (`-d` and `-f` in httpd(8)).
fn main_file(reader: &Reader<'_>, arguments: &[&[u8]]) -> PathBuf {
    let (root, file) = (option(arguments, "-d"), option(arguments, "-f"));
    let paths = USUAL.map(|(usual_root, usual_file)| {
        let root = root.unwrap_or(Path::new(usual_root));
        root.join(file.unwrap_or(Path::new(usual_file)))
    });
    let is_there = |path: &&PathBuf| reader.files.read(path, 1).is_ok();
    paths.iter().find(is_there).unwrap_or(&paths[0]).clone()
}

/// Returns the pattern of an include directive. A relative pattern is resolved against the
/// `ServerRoot`; if that is unknown, against the directory of the file, which is the `ServerRoot` of
/// packaged builds for the main file.
fn included(line: &Line, server_root: Option<&Path>) -> Option<PathBuf> {
    let is_include = matches!(line.word(0).as_str(), "include" | "includeoptional");
    let pattern = line.words.get(1).filter(|_| is_include)?;
    let directory = Path::new(&line.at.file).parent()?;
    let of_file = match directory.file_name() {
        Some(name) if name == "conf" => directory.parent()?,
        _ => directory,
    };
    Some(server_root.unwrap_or(of_file).join(pattern))
}

/// Returns the value for the main server: the last value set outside of sections.
fn effective(lines: &[Line], name: &str, default: &str) -> Setting {
    let mut found = Setting {
        directive: name.to_owned(),
        value: default.to_owned(),
        ..Setting::default()
    };
    let (mut sections, mut doubt) = (Vec::new(), None);
    for line in lines {
        let first = line.word(0);
        if first.starts_with("</") {
            sections.pop();
        } else if first.starts_with('<') {
            sections.push(line.words.join(" "));
        } else if first == name.to_ascii_lowercase() {
            let value = line.words.get(1).cloned().unwrap_or_default();
            // A section that tests a module or version usually applies, so its directives count as
            // outside.
            let section = sections.iter().rev().find(|section| !is_condition(section));
            match section {
                None => found = line.setting(name, value, ""),
                Some(section) => {
                    let at = format!("{}:{}", line.at.file, line.at.line);
                    doubt = Some(format!("{section} sets it to {value} at {at}"));
                }
            }
        }
    }
    Setting { doubt, ..found }
}

fn is_condition(section: &str) -> bool {
    section.to_ascii_lowercase().starts_with("<if")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::by_line::tests::{Memory, reader};
    use super::*;

    fn resolved(files: HashMap<&'static str, &'static str>, arguments: &[&[u8]]) -> Vec<String> {
        let settings = settings(&mut reader(&Memory(files)), arguments).expect("a main file");
        let shown = settings.iter().map(|setting| {
            let at = setting.at.as_ref();
            let at = at.map_or(String::new(), |at| format!(" {}:{}", at.file, at.line));
            let doubt = setting.doubt.as_deref().unwrap_or_default();
            format!("{} {}{at} {doubt}", setting.directive, setting.value)
                .trim_end()
                .to_owned()
        });
        shown.collect()
    }

    #[test]
    fn the_last_value_outside_sections_counts_wherever_it_is_included_from() {
        let files = HashMap::from([
            (
                "/etc/apache2/apache2.conf",
                "ServerRoot /etc/apache2\nkeepalive Off\n<IfModule mpm>\nKeepAliveTimeout 2\n\
                 </IfModule>\nIncludeOptional conf-enabled/*.conf\n",
            ),
            (
                "/etc/apache2/conf-enabled/a.conf",
                "MaxKeepAliveRequests 7 # few",
            ),
        ]);
        assert_eq!(
            resolved(files, &[b"/usr/sbin/apache2", b"-k", b"start"]),
            [
                "KeepAlive Off /etc/apache2/apache2.conf:2",
                "MaxKeepAliveRequests 7 /etc/apache2/conf-enabled/a.conf:1",
                "KeepAliveTimeout 2 /etc/apache2/apache2.conf:4"
            ]
        );
    }

    #[test]
    fn all_files_of_an_included_folder_count_in_the_order_of_their_names() {
        let files = HashMap::from([
            ("/srv/a.conf", "Include x\nInclude nowhere\n"),
            ("/srv/x/2", "KeepAlive On\n"),
            ("/srv/x/1/b", "KeepAlive Off\nKeepAliveTimeout 9\n"),
            ("/srv/x/1/a.bak", "KeepAliveTimeout 8\n"),
        ]);
        assert_eq!(
            resolved(files, &[b"httpd", b"-f", b"/srv/a.conf"]),
            [
                "KeepAlive On /srv/x/2:1",
                "MaxKeepAliveRequests 100",
                "KeepAliveTimeout 9 /srv/x/1/b:2"
            ]
        );
    }

    #[test]
    fn a_value_of_a_section_is_a_doubt() {
        let text = "<VirtualHost *:80>\nKeepAlive Off\n</VirtualHost>\n";
        let files = HashMap::from([("/srv/a.conf", text)]);
        assert_eq!(
            resolved(files, &[b"httpd", b"-f", b"/srv/a.conf"]),
            [
                "KeepAlive On <VirtualHost *:80> sets it to Off at /srv/a.conf:2",
                "MaxKeepAliveRequests 100",
                "KeepAliveTimeout 5"
            ]
        );
    }

    #[test]
    fn relative_names_are_resolved_against_the_server_root() {
        let text = "ServerRoot \"/opt/www\"\nInclude extra/*.conf\n";
        let files = HashMap::from([
            ("/srv/a.conf", text),
            ("/opt/www/extra/b.conf", "KeepAlive Off\n"),
            ("/srv/extra/c.conf", "KeepAliveTimeout 1\n"),
            ("/etc/httpd/own.conf", "Include x/d.conf\n"),
            ("/etc/httpd/x/d.conf", "MaxKeepAliveRequests 2\n"),
            ("/home/web/own.conf", "Include x/d.conf\n"),
            ("/home/web/x/d.conf", "MaxKeepAliveRequests 3\n"),
        ]);
        let of = |arguments: &[&[u8]]| resolved(files.clone(), arguments).join(", ");
        assert_eq!(
            of(&[b"httpd", b"-f", b"/srv/a.conf"]),
            "KeepAlive Off /opt/www/extra/b.conf:1, MaxKeepAliveRequests 100, KeepAliveTimeout 5"
        );
        let own = of(&[b"httpd", b"-f", b"own.conf"]);
        assert!(
            own.contains("MaxKeepAliveRequests 2 /etc/httpd/x/d.conf:1"),
            "{own}"
        );
        let other = of(&[b"httpd", b"-d", b"/home/web", b"-f", b"own.conf"]);
        assert!(
            other.contains("MaxKeepAliveRequests 3 /home/web/x/d.conf:1"),
            "{other}"
        );
    }
}

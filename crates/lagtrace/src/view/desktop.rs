//! Opening of the page in the user's browser.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lagtrace_sources::keeper::Page;

use super::place::Reader;

/// Time in which a browser that cannot be started says so. One that runs longer has started.
const FAILS_WITHIN: Duration = Duration::from_secs(2);
/// Interval at which a started program is checked.
const CHECKED_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// The usual port of SSH.
const SSH_PORT: &str = "22";

/// The file or URL that a browser opens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// A file.
    File(&'a Path),
    /// The URL of a server on this host, and its port.
    Server(&'a str, u16),
}

impl<'a> Target<'a> {
    /// Returns the page that the worker asks to open. The port of a URL is within it.
    pub(super) fn of(page: Page<'a>) -> Self {
        match page {
            Page::File(path) => Self::File(path),
            Page::Url(url) => Self::Server(url, port_of(url).unwrap_or_default()),
        }
    }
}

/// Returns the port of a URL with an IP address.
fn port_of(url: &str) -> Option<u16> {
    let (address, _) = url.strip_prefix("http://")?.split_once('/')?;
    Some(address.parse::<SocketAddr>().ok()?.port())
}

impl AsRef<OsStr> for Target<'_> {
    fn as_ref(&self) -> &OsStr {
        match self {
            Self::File(path) => path.as_os_str(),
            Self::Server(url, _) => url.as_ref(),
        }
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(url, _) => url.fmt(f),
        }
    }
}

/// Opens the page, or returns the reason that it is not open and what to do instead.
pub(super) fn open(page: &Target<'_>, reader: &Reader) -> Result<(), String> {
    match reader {
        Reader::Own => {}
        Reader::Behind { .. } => {
            return Err("no browser is started as root: open the page as your own user".to_owned());
        }
        Reader::Root => {
            return Err("no browser is started as root".to_owned());
        }
    }
    if !has_desktop() {
        return Err(elsewhere(page));
    }
    let mut all = openers(page);
    if all.any(started) {
        Ok(())
    } else {
        Err("no browser could be started ($BROWSER, wslview, xdg-open)".to_owned())
    }
}

/// Returns the value of a variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn has_desktop() -> bool {
    let signs = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];
    signs.iter().any(|name| variable(name).is_some())
}

/// Returns the programs to try: those of $BROWSER, then the one for Windows below Linux, then the
/// desktop's.
fn openers(page: &Target<'_>) -> impl Iterator<Item = Command> {
    let browsers = variable("BROWSER").unwrap_or_default();
    let named: Vec<Command> = browsers
        .split(':')
        .filter_map(|words| named(words, page))
        .collect();
    let desktop = ["wslview", "xdg-open"].map(|program| {
        let mut command = Command::new(program);
        command.arg(page);
        command
    });
    named.into_iter().chain(desktop)
}

/// Returns an entry of $BROWSER as a command: words, in which `%s` stands for the page. No shell
/// reads it.
fn named(words: &str, page: &Target<'_>) -> Option<Command> {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next()?);
    let mut has_page = false;
    for word in words {
        if word == "%s" {
            command.arg(page);
            has_page = true;
        } else {
            command.arg(word);
        }
    }
    if !has_page {
        command.arg(page);
    }
    Some(command)
}

/// Starts a program in a group of its own, so that Ctrl-C does not end the browser; returns false
/// if it fails at once.
fn started(mut command: Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut child) = quiet.process_group(0).spawn() else {
        return false;
    };
    let end = Instant::now() + FAILS_WITHIN;
    while Instant::now() < end {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => thread::sleep(CHECKED_AGAIN_AFTER),
            Err(_) => return true,
        }
    }
    true
}

/// Returns how to read the page on another machine.
fn elsewhere(page: &Target<'_>) -> String {
    let remote = variable("SSH_CONNECTION").and_then(|connection| {
        let mut words = connection.split_whitespace().skip(2);
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    });
    let Some((host, port)) = remote else {
        return "there is no desktop here: open the page on another machine".to_owned();
    };
    let user = variable("USER").map_or(String::new(), |user| format!("{user}@"));
    let option = |name: &str| match port.as_str() {
        SSH_PORT => String::new(),
        other => format!(" {name} {other}"),
    };
    let told = "there is no desktop here:";
    match page {
        Target::File(path) => {
            let host = if host.contains(':') {
                format!("[{host}]")
            } else {
                host
            };
            let path = path.display();
            format!(
                "{told} copy the page with `scp{} {user}{host}:{path} .`",
                option("-P")
            )
        }
        Target::Server(_, local) => {
            let tunnel = format!("-L {local}:localhost:{local}");
            format!(
                "{told} open the URL behind `ssh{} {tunnel} {user}{host}`",
                option("-p")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_words_and_not_shell() {
        let words = |of: &str| {
            let command = named(of, &Target::File(Path::new("/p")))?;
            let all = command
                .get_args()
                .map(|word| word.to_string_lossy().into_owned());
            let program = command.get_program().to_string_lossy().into_owned();
            Some(
                std::iter::once(program)
                    .chain(all)
                    .collect::<Vec<_>>()
                    .join("|"),
            )
        };
        assert_eq!(words("firefox").as_deref(), Some("firefox|/p"));
        assert_eq!(words("open %s --new").as_deref(), Some("open|/p|--new"));
        assert_eq!(
            words("a; rm -rf $HOME").as_deref(),
            Some("a;|rm|-rf|$HOME|/p")
        );
        assert_eq!(words(" "), None);
    }
}

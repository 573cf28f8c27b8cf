//! The files of a server: the worker gets what everybody may read, and configurations.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::Mode;
use tempfile::TempDir;

use super::{Asked, end, holder, holder_by, listener, of_servers};
use crate::privilege::message::{Refusal, Reply, Request};

/// Returns a server, and a keeper that knows it.
fn served() -> (Child, Asked) {
    let (socket, port, find) = listener();
    let server = holder(socket.into(), &[]);
    let asked = of_servers(&[port]);
    asked.ask(&find);
    (server, asked)
}

/// Returns a server that is called `name`, whose command line names files. It follows them, as
/// `tail -f` does, and ends with this process.
fn served_with(programs: &Path, name: &str, files: &[&Path]) -> (Child, Asked) {
    let program = programs.join(name);
    fs::copy("/usr/bin/tail", &program).expect("a program");
    let (socket, port, find) = listener();
    let until = format!("--pid={}", std::process::id());
    let arguments: Vec<&OsStr> = ["-qf", &until]
        .into_iter()
        .map(OsStr::new)
        .chain(files.iter().map(|file| file.as_os_str()))
        .collect();
    let server = holder_by(&program, &arguments, socket.into(), &[]);
    let asked = of_servers(&[port]);
    asked.ask(&find);
    (server, asked)
}

/// Returns a folder that everybody may pass.
fn passable() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o755);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
}

/// Returns a request for a file below the root of the server, or for a folder.
fn at(server: &Child, path: impl AsRef<Path>, is_folder: bool) -> Request {
    Request::File {
        pid: server.id(),
        path: path.as_ref().to_owned(),
        is_folder,
    }
}

/// Checks that the file is shown, or that it is not.
#[track_caller]
fn is_shown(asked: &Asked, request: &Request, is_shown: bool) {
    let (reply, descriptors) = asked.ask(request);
    assert_eq!(reply == Reply::Done, is_shown, "{request:?}: {reply:?}");
    assert_eq!(descriptors.len(), usize::from(is_shown), "{request:?}");
}

fn write(path: &Path, mode: u32) {
    fs::write(path, "content").expect("written");
    set_mode(path, mode);
}

#[test]
fn keys_of_a_server_stay_with_it() {
    let folder = passable();
    let at_path = |name: &str| folder.path().join(name);
    for (name, mode) in [
        ("named.conf", 0o600),
        ("other.conf", 0o600),
        ("server.key", 0o600),
        ("server.crt", 0o644),
    ] {
        write(&at_path(name), mode);
    }
    let named = [at_path("named.conf"), at_path("server.key")];
    let (server, asked) = served_with(folder.path(), "server", &[&named[0], &named[1]]);
    for (name, shown) in [
        ("named.conf", true),
        ("other.conf", false),
        ("server.key", false),
        ("server.crt", true),
    ] {
        is_shown(&asked, &at(&server, at_path(name), false), shown);
    }
    end(server);
    asked.end();
}

/// A web server includes files below the folder of its configuration; other programs have such files
/// elsewhere.
#[test]
fn configurations_are_shown_below_the_folder_of_the_servers_own() {
    let folder = passable();
    let at_path = |name: &str| folder.path().join(name);
    for part in ["web/sites", "vpn"] {
        fs::create_dir_all(at_path(part)).expect("a folder");
    }
    for part in ["web", "web/sites", "vpn"] {
        set_mode(&at_path(part), 0o700);
    }
    let files = [
        "web/main.conf",
        "web/sites/a.conf",
        "vpn/b.conf",
        "web/a.key",
    ];
    for name in files {
        write(&at_path(name), 0o600);
    }
    symlink(at_path("vpn/b.conf"), at_path("web/sites/link.conf")).expect("a link");
    symlink(at_path("web/a.key"), at_path("web/sites/key.conf")).expect("a link");
    for (program, shown) in [("nginx", [true, true]), ("server", [true, false])] {
        let (server, asked) = served_with(folder.path(), program, &[&at_path("web/main.conf")]);
        for (name, shown) in [
            ("web/main.conf", shown[0]),
            ("web/sites/a.conf", shown[1]),
            ("web/a.key", false),
            ("web/sites/key.conf", false),
            ("web/sites/link.conf", false),
            ("vpn/b.conf", false),
        ] {
            is_shown(&asked, &at(&server, at_path(name), false), shown);
        }
        for (name, shown) in [("web", shown[1]), ("web/sites", shown[1]), ("vpn", false)] {
            is_shown(&asked, &at(&server, at_path(name), true), shown);
        }
        end(server);
        asked.end();
    }
}

/// A file that everybody may read by its own mode is still private below a folder that not everybody
/// may pass, whichever way leads there.
#[test]
fn a_private_folder_keeps_what_is_below_it() {
    let (folder, other) = (passable(), passable());
    let inner = folder.path().join("private/public");
    fs::create_dir_all(&inner).expect("folders");
    let (file, link) = (inner.join("notes.txt"), other.path().join("link"));
    write(&file, 0o644);
    symlink(&file, &link).expect("a link");
    let up = inner.join("../public/notes.txt");
    let (server, asked) = served();
    for (mode, shown) in [(0o755, true), (0o711, true), (0o700, false), (0o750, false)] {
        set_mode(&folder.path().join("private"), mode);
        for path in [&file, &link, &up] {
            is_shown(&asked, &at(&server, path, false), shown);
        }
        is_shown(&asked, &at(&server, &inner, true), shown);
    }
    // The reader of a configuration names folders that it may not list.
    for (path, is_folder) in [(&file, false), (&inner, true)] {
        let (reply, _) = asked.ask(&at(&server, path, is_folder));
        let Reply::Refused(Refusal::Failed(_, errno)) = reply else {
            panic!("{path:?}: {reply:?}");
        };
        assert_eq!(errno, libc::EACCES);
    }
    end(server);
    asked.end();
}

#[test]
fn folders_are_listed_if_everybody_may_list_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, asked) = served();
    for (mode, shown) in [(0o755, true), (0o700, false), (0o711, false)] {
        set_mode(folder.path(), mode);
        is_shown(&asked, &at(&server, folder.path(), true), shown);
        is_shown(&asked, &at(&server, folder.path(), false), false);
    }
    end(server);
    asked.end();
}

/// Everybody may open these files, and the kernel decides by the one who opens them what they show.
#[test]
fn files_that_the_kernel_makes_up_are_not_opened() {
    let (server, asked) = served();
    for path in ["/proc/1/maps", "/proc/self/smaps", "/sys/kernel/notes"] {
        is_shown(&asked, &at(&server, path, false), false);
    }
    for path in ["/proc/1/fdinfo", "/proc", "/sys/kernel"] {
        is_shown(&asked, &at(&server, path, true), false);
    }
    is_shown(&asked, &at(&server, "/etc/passwd", false), true);
    end(server);
    asked.end();
}

#[test]
fn a_pipe_is_not_opened_to_find_out_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, asked) = served();
    let pipe = folder.path().join("pipe.conf");
    let mode = Mode::from_raw_mode(0o644);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("a pipe");
    let (opened, has_opened) = mpsc::channel();
    let path = pipe.clone();
    let writer = thread::spawn(move || {
        // This waits for a reader.
        let _ = fs::OpenOptions::new().write(true).open(path);
        opened.send(()).expect("the test waits");
    });
    let patience = Duration::from_millis(100);
    assert!(has_opened.recv_timeout(patience).is_err());
    is_shown(&asked, &at(&server, &pipe, false), false);
    assert!(has_opened.recv_timeout(patience).is_err());
    fs::File::open(&pipe).expect("a pipe");
    writer.join().expect("no panic");
    end(server);
    asked.end();
}

#[test]
fn a_program_that_only_its_owner_may_read_stays_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("server");
    fs::copy("/bin/sleep", &program).expect("a program");
    for (mode, shown) in [(0o755, true), (0o711, false)] {
        set_mode(&program, mode);
        let (socket, port, find) = listener();
        let server = holder_by(&program, &["60".as_ref()], socket.into(), &[]);
        let asked = of_servers(&[port]);
        asked.ask(&find);
        is_shown(&asked, &Request::Program(server.id()), shown);
        end(server);
        asked.end();
    }
}

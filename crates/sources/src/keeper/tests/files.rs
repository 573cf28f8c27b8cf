//! The files of a server: the worker gets what everybody may read, and configurations.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::Mode;

use super::{Asked, end, holder, holder_by, listener, of_servers};
use crate::privilege::message::{Reply, Request};

/// Returns a server, and a keeper that knows it.
fn served() -> (Child, Asked) {
    let (socket, port, find) = listener();
    let server = holder(socket.into(), &[]);
    let asked = of_servers(&[port]);
    asked.ask(&find);
    (server, asked)
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
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
}

#[test]
fn keys_of_a_server_stay_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, asked) = served();
    for (name, mode, shown) in [
        ("nginx.conf", 0o600, true),
        ("server.key", 0o600, false),
        ("server.crt", 0o644, true),
        ("conf", 0o640, false),
    ] {
        let path = folder.path().join(name);
        write(&path, mode);
        is_shown(&asked, &at(&server, path, false), shown);
    }
    end(server);
    asked.end();
}

#[test]
fn a_link_shows_no_more_than_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, asked) = served();
    let (secret, real) = (folder.path().join("shadow"), folder.path().join("v2.conf"));
    write(&secret, 0o600);
    write(&real, 0o600);
    for (name, target, shown) in [("a.conf", &secret, false), ("current", &real, true)] {
        let link = folder.path().join(name);
        symlink(target, &link).expect("a link");
        is_shown(&asked, &at(&server, link, false), shown);
    }
    end(server);
    asked.end();
}

#[test]
fn folders_are_listed_if_everybody_may_list_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, asked) = served();
    for (mode, shown) in [(0o755, true), (0o700, false), (0o711, false)] {
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).expect("ours");
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
        fs::set_permissions(&program, Permissions::from_mode(mode)).expect("ours");
        let (socket, port, find) = listener();
        let server = holder_by(&program, socket.into(), &[]);
        let asked = of_servers(&[port]);
        asked.ask(&find);
        is_shown(&asked, &Request::Program(server.id()), shown);
        end(server);
        asked.end();
    }
}

//! The Unix socket that the command line names, connected by the keeper.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use super::*;
use crate::privilege::message::Refusal;

#[test]
fn the_keeper_connects_the_named_unix_socket_each_time_it_is_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("named");
    let listener = UnixListener::bind(&path).expect("a socket");
    let asked = Asked::new(Scope {
        unix_socket: Some(path.clone()),
        ..Scope::default()
    });
    for sent in [b"1", b"2"] {
        let (reply, mut descriptors) = asked.ask(&Request::ConnectUnix);
        assert_eq!(reply, Reply::Done);
        let mut ours = UnixStream::from(descriptors.pop().expect("a descriptor"));
        ours.write_all(sent).expect("connected");
        // The load polls its sockets.
        let nothing_yet = ours.read(&mut [0]).expect_err("nothing to read");
        assert_eq!(nothing_yet.kind(), std::io::ErrorKind::WouldBlock);
        let mut got = [0];
        let (mut theirs, _) = listener.accept().expect("a connection");
        theirs.read_exact(&mut got).expect("a byte");
        assert_eq!(&got, sent);
    }
    drop(listener);
    let (reply, _) = asked.ask(&Request::ConnectUnix);
    let Reply::Refused(Refusal::Failed(_, errno)) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(errno, libc::ECONNREFUSED);
    asked.end();
}

#[test]
fn no_other_unix_socket_is_connected() {
    let asked = Asked::of_files(&[Path::new("/run/dbus/system_bus_socket")]);
    asked.is_refused(&Request::ConnectUnix);
    asked.end();
}

//! A keeper in a thread, asked as a worker would, and as a worker that an attacker controls.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use proptest::prelude::*;
use rustix::process::getpid;

use super::scope::Scope;
use super::service::Service;
use crate::privilege::channel::Channel;
use crate::privilege::message::{ProcFile, Purpose, Refusal, Reply, Request};

/// A keeper, and the worker's end of its channel.
struct Asked {
    channel: Channel,
    keeper: JoinHandle<()>,
}

impl Asked {
    fn new(scope: Scope) -> Self {
        let (channel, theirs) = Channel::pair().expect("a pair");
        let keeper = thread::spawn(move || Service::new(scope, theirs, getpid()).run());
        Self { channel, keeper }
    }

    fn of_files(files: &[&Path]) -> Self {
        Self::new(Scope {
            files: files.iter().map(PathBuf::from).collect(),
            ..Scope::default()
        })
    }

    fn ask(&self, request: &Request) -> (Reply, Vec<OwnedFd>) {
        self.channel.send(request, &[]).expect("the keeper lives");
        self.channel
            .receive()
            .expect("well-formed")
            .expect("an answer")
    }

    #[track_caller]
    fn is_refused(&self, request: &Request) {
        let (reply, descriptors) = self.ask(request);
        assert!(matches!(reply, Reply::Refused(_)), "{request:?}: {reply:?}");
        assert!(descriptors.is_empty(), "{request:?}");
    }

    /// Ends the worker, as any death of it does.
    fn end(self) {
        drop(self.channel);
        self.keeper.join().expect("the keeper ends without a panic");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    entries
        .map(|entry| name(entry).into_string().expect("text"))
        .collect()
}

#[test]
fn only_named_files_are_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let (named, other) = (folder.path().join("named"), folder.path().join("other"));
    fs::write(&named, "content").expect("written");
    fs::write(&other, "secret").expect("written");
    let asked = Asked::of_files(&[&named]);
    let (_, mut descriptors) = asked.ask(&Request::Input(named.clone()));
    let mut text = String::new();
    let mut file = File::from(descriptors.pop().expect("a descriptor"));
    file.read_to_string(&mut text).expect("readable");
    assert_eq!(text, "content");
    let dots = folder.path().join("named/../other");
    for path in [other, dots, "/etc/hostname".into(), "".into()] {
        asked.is_refused(&Request::Input(path.clone()));
        asked.is_refused(&Request::Kind(path.clone()));
        asked.is_refused(&Request::AreSame(named.clone(), path.clone()));
        asked.is_refused(&Request::Output(path.clone(), Purpose::Result));
        asked.is_refused(&Request::CheckOutput(path, Purpose::Stream));
    }
    asked.end();
}

#[test]
fn outputs_of_a_worker_that_dies_leave_the_old_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    fs::write(&old, "the old report").expect("written");
    let asked = Asked::of_files(&[&old, &new]);
    for path in [&old, &new] {
        let (reply, mut descriptors) = asked.ask(&Request::Output(path.clone(), Purpose::Result));
        assert!(matches!(reply, Reply::Output(..)), "{reply:?}");
        let mut file = File::from(descriptors.pop().expect("a descriptor"));
        file.write_all(b"half a rep").expect("writable");
    }
    asked.end();
    assert_eq!(names(folder.path()), ["old"]);
    assert_eq!(
        fs::read_to_string(&old).expect("readable"),
        "the old report"
    );
}

#[test]
fn what_was_recorded_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("capture");
    let asked = Asked::of_files(&[&path]);
    let (reply, mut descriptors) = asked.ask(&Request::Output(path.clone(), Purpose::Stream));
    let Reply::Output(number, true) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(asked.ask(&Request::BeginOutput(number)).0, Reply::Done);
    let mut file = File::from(descriptors.pop().expect("a descriptor"));
    file.write_all(b"packets").expect("writable");
    asked.end();
    assert_eq!(fs::read(&path).expect("readable"), b"packets");
}

#[test]
fn keys_of_a_server_stay_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let asked = Asked::new(Scope {
        processes: true,
        ..Scope::default()
    });
    for (name, mode, is_shown) in [
        ("nginx.conf", 0o600, true),
        ("server.key", 0o600, false),
        ("server.crt", 0o644, true),
        ("conf", 0o640, false),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, "content").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
        let request = Request::File {
            pid: std::process::id(),
            path,
            is_folder: false,
        };
        let (reply, descriptors) = asked.ask(&request);
        assert_eq!(reply == Reply::Done, is_shown, "{name}: {reply:?}");
        assert_eq!(descriptors.len(), usize::from(is_shown), "{name}");
    }
    asked.end();
}

#[test]
fn secrets_in_an_environment_stay_with_it() {
    let mut sleeper = std::process::Command::new("sleep")
        .arg("60")
        .env_clear()
        .env("PASSWORD", "hunter2")
        .env("GOGC", "50")
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .spawn()
        .expect("a process");
    let asked = Asked::new(Scope {
        processes: true,
        ..Scope::default()
    });
    // The environment is empty until the program has started.
    let mut shown = Vec::new();
    for _ in 0..200 {
        let answer = asked
            .ask(&Request::ProcFile(sleeper.id(), ProcFile::Environ))
            .0;
        if let Reply::Bytes(bytes) = answer {
            shown = bytes;
        }
        if shown.starts_with(b"GOGC") {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
    sleeper.kill().expect("ours");
    sleeper.wait().expect("ended");
    assert_eq!(shown, b"GOGC=50\0");
    asked.end();
}

#[test]
fn a_malformed_message_ends_the_keeper() {
    let asked = Asked::new(Scope::default());
    asked.channel.send(&u64::MAX, &[]).expect("sent");
    asked.keeper.join().expect("no panic");
    assert!(asked.channel.receive::<Reply>().expect("the end").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A worker that may ask for nothing gets nothing, whatever its requests look like.
    #[test]
    fn no_bytes_open_anything(messages in prop::collection::vec(any::<Vec<u8>>(), 1..20)) {
        let scope = Scope::default();
        for message in messages {
            let Ok(request) = postcard::from_bytes::<Request>(&message) else { continue };
            // These concern only what an allowed request has made before.
            let is_of_earlier = matches!(
                request,
                Request::IsOn(_)
                    | Request::Restore(_)
                    | Request::BeginOutput(_)
                    | Request::CommitOutput(_)
                    | Request::DropOutput(_)
                    | Request::KeepPage
            );
            prop_assert_eq!(scope.allows(&request), is_of_earlier);
            if is_of_earlier {
                let asked = Asked::new(scope.clone());
                let (reply, descriptors) = asked.ask(&request);
                prop_assert!(descriptors.is_empty());
                let is_harmless = matches!(reply, Reply::Refused(Refusal::Gone(_)) | Reply::Done)
                    || reply == Reply::Notes(Vec::new());
                prop_assert!(is_harmless, "{reply:?}");
                asked.end();
            }
        }
    }
}

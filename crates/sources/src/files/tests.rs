use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::output::open_old;
use super::place::Place;
use super::{Kind, Output, Purpose, Refusal, kind, read, temporary};

fn folder(mode: u32) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(mode)).expect("its mode");
    folder
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o7777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn refusal(path: &Path, purpose: Purpose) -> Option<Refusal> {
    let error = Output::create(path, purpose).expect_err("refused");
    error.get_ref()?.downcast_ref().copied()
}

#[test]
fn a_result_appears_when_it_is_committed() {
    let folder = folder(0o755);
    let path = folder.path().join("result");
    let mut output = Output::create(&path, Purpose::Result).expect("an output");
    output.write_all(b"new").expect("written");
    assert_eq!(names(folder.path()), [""; 0], "nothing has a name yet");
    output.commit().expect("committed");
    assert_eq!(fs::read(&path).expect("there"), b"new");
    assert_eq!(mode(&path), 0o600);
    // Without commit, the old file stays.
    let mut failed = Output::create(&path, Purpose::Result).expect("an output");
    failed.write_all(b"half").expect("written");
    drop(failed);
    assert_eq!(fs::read(&path).expect("there"), b"new");
    assert_eq!(names(folder.path()), ["result"]);
    // With it, the old file is replaced, and its mode stays.
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("its mode");
    let mut second = Output::create(&path, Purpose::Result).expect("an output");
    second.write_all(b"newer").expect("written");
    second.commit().expect("committed");
    assert_eq!(fs::read(&path).expect("there"), b"newer");
    assert_eq!(mode(&path), 0o644);
    assert_eq!(names(folder.path()), ["result"]);
}

#[test]
fn a_stream_can_be_read_while_it_grows() {
    let folder = folder(0o755);
    let path = folder.path().join("capture");
    let mut stream = Output::create(&path, Purpose::Stream).expect("an output");
    stream.write_all(b"packet").expect("written");
    assert_eq!(fs::read(&path).expect("there"), b"packet");
    assert_eq!(mode(&path), 0o600);
    drop(stream);
    assert_eq!(fs::read(&path).expect("it stays"), b"packet");
    // A run that fails before the first byte leaves the old file, and no new one.
    Output::check(&path, Purpose::Stream).expect("may be written");
    drop(Output::create(&path, Purpose::Stream).expect("an output"));
    Output::check(&folder.path().join("other"), Purpose::Stream).expect("may be created");
    assert_eq!(fs::read(&path).expect("there"), b"packet");
    assert_eq!(names(folder.path()), ["capture"]);
    // One without a byte that succeeds empties it.
    let empty = Output::create(&path, Purpose::Stream).expect("an output");
    empty.commit().expect("committed");
    assert_eq!(fs::read(&path).expect("there"), b"");
}

#[test]
fn a_result_becomes_a_stream() {
    let folder = folder(0o755);
    let path = folder.path().join("lines");
    let output = Output::create(&path, Purpose::Result).expect("an output");
    let mut stream = output.into_stream().expect("a stream");
    stream.write_all(b"line").expect("written");
    assert_eq!(fs::read(&path).expect("there"), b"line");
}

#[test]
fn links_lead_on_except_in_shared_folders() {
    let (own, shared, target) = (folder(0o755), folder(0o1777), folder(0o755));
    let aim = target.path().join("aim");
    fs::write(&aim, "old").expect("a file");
    for place in [&own, &shared] {
        symlink(&aim, place.path().join("link")).expect("a link");
        symlink(target.path(), place.path().join("folder")).expect("a link");
    }
    let to_shared = own.path().join("twice");
    symlink(shared.path().join("link"), &to_shared).expect("a link");
    for purpose in [Purpose::Result, Purpose::Stream] {
        for path in ["link", "folder/aim", "folder/new"] {
            assert_eq!(
                refusal(&shared.path().join(path), purpose),
                Some(Refusal::Link),
                "{path}"
            );
        }
        assert_eq!(refusal(&to_shared, purpose), Some(Refusal::Link));
        assert_eq!(fs::read(&aim).expect("there"), b"old");
    }
    for (path, text) in [("link", "one"), ("folder/aim", "two")] {
        let mut output =
            Output::create(&own.path().join(path), Purpose::Result).expect("links are followed");
        output.write_all(text.as_bytes()).expect("written");
        output.commit().expect("committed");
        assert_eq!(fs::read(&aim).expect("there"), text.as_bytes());
    }
    assert!(own.path().join("link").is_symlink(), "the link stays");
    let circle = own.path().join("circle");
    symlink("circle", &circle).expect("a link");
    let error = Output::create(&circle, Purpose::Result).expect_err("refused");
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
}

#[test]
fn files_of_others_in_shared_folders_are_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (own, shared) = (folder(0o755), folder(0o1777));
    for place in [&own, &shared] {
        let path = place.path().join("file");
        fs::write(&path, "theirs").expect("a file");
        std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).expect("root may");
    }
    let in_shared = shared.path().join("file");
    for purpose in [Purpose::Result, Purpose::Stream] {
        assert_eq!(refusal(&in_shared, purpose), Some(Refusal::Foreign));
    }
    let mut output = Output::create(&own.path().join("file"), Purpose::Result).expect("root may");
    output.write_all(b"x").expect("written");
    output.commit().expect("committed");
    let about = fs::metadata(own.path().join("file")).expect("there");
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!((about.uid(), about.gid()), (65_534, 65_534));
}

#[test]
fn in_the_folder_of_a_group_only_own_links_and_files_are_used() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (shared, target) = (folder(0o2775), folder(0o755));
    let aim = target.path().join("aim");
    fs::write(&aim, "old").expect("a file");
    for name in ["own", "theirs"] {
        symlink(&aim, shared.path().join(name)).expect("a link");
        symlink(target.path(), shared.path().join(format!("{name}-folder"))).expect("a link");
        fs::write(shared.path().join(format!("{name}-file")), "old").expect("a file");
    }
    for name in ["theirs", "theirs-folder", "theirs-file"] {
        lchown(shared.path().join(name), Some(65_534), Some(65_534)).expect("root may");
    }
    for (path, wanted) in [
        ("theirs", Refusal::Link),
        ("theirs-folder/aim", Refusal::Link),
        ("theirs-file", Refusal::Foreign),
    ] {
        for purpose in [Purpose::Result, Purpose::Stream] {
            assert_eq!(
                refusal(&shared.path().join(path), purpose),
                Some(wanted),
                "{path}"
            );
        }
    }
    assert_eq!(fs::read(&aim).expect("there"), b"old");
    for path in ["own", "own-folder/aim", "own-file"] {
        let path = shared.path().join(path);
        let mut output = Output::create(&path, Purpose::Result).expect("it is ours");
        output.write_all(b"new").expect("written");
        output.commit().expect("committed");
        assert_eq!(fs::read(&path).expect("there"), b"new");
    }
}

#[test]
fn an_output_is_named_once() {
    let folder = folder(0o755);
    let path = folder.path().join("file");
    let first = Output::create(&path, Purpose::Result).expect("an output");
    let again = folder.path().join("./file");
    for purpose in [Purpose::Result, Purpose::Stream] {
        assert_eq!(refusal(&again, purpose), Some(Refusal::NamedTwice));
    }
    drop(first);
    drop(Output::create(&again, Purpose::Result).expect("free again"));
    // Devices can be named more than once.
    let null = Path::new("/dev/null");
    let _first = Output::create(null, Purpose::Result).expect("an output");
    Output::create(null, Purpose::Result).expect("another one");
}

#[test]
fn devices_pipes_and_open_files_are_written_directly() {
    let folder = folder(0o755);
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).expect("read")
    });
    let mut output = Output::create(&pipe, Purpose::Result).expect("an output");
    output.write_all(b"through").expect("written");
    output.commit().expect("committed");
    assert_eq!(reader.join().expect("the reader"), b"through");
    Output::check(&pipe, Purpose::Stream).expect("a pipe is not opened");
    assert_eq!(kind(&pipe), Kind::Other);
    // A descriptor of this process keeps its position.
    use std::os::fd::AsRawFd as _;
    let path = folder.path().join("open");
    let mut open = fs::File::create(&path).expect("a file");
    open.write_all(b"before ").expect("written");
    let number = open.as_raw_fd();
    for place in ["/dev/fd", "/proc/self/fd"] {
        let path = Path::new(place).join(number.to_string());
        let mut output = Output::create(&path, Purpose::Result).expect("an output");
        output.write_all(b"after ").expect("written");
        output.commit().expect("committed");
    }
    assert_eq!(fs::read(&path).expect("there"), b"before after after ");
}

#[test]
fn folders_and_missing_folders_are_refused_at_once() {
    let folder = folder(0o755);
    fs::write(folder.path().join("file"), "").expect("a file");
    fs::create_dir(folder.path().join("below")).expect("a folder");
    let errors = [
        (".", libc::EISDIR),
        ("below/", libc::EISDIR),
        ("new/", libc::ENOENT),
        ("..", libc::EISDIR),
        ("absent/new", libc::ENOENT),
        ("file/new", libc::ENOTDIR),
    ];
    for (path, wanted) in errors {
        let path = folder.path().join(path);
        let error = Output::create(&path, Purpose::Result).expect_err("refused");
        assert_eq!(error.raw_os_error(), Some(wanted), "{path:?}: {error}");
    }
    assert!(Output::create(Path::new(""), Purpose::Result).is_err());
}

#[test]
fn without_nameless_files_temporary_names_are_used() {
    let folder = folder(0o755);
    let path = folder.path().join("result");
    for text in ["one", "two"] {
        let place = Place::of(&path).expect("a place");
        let (file, mut temporary) = temporary::named(&place, Mode::RUSR).expect("a file");
        assert!(
            names(folder.path())[0].starts_with(".lagtrace-"),
            "it is hidden"
        );
        rustix::io::write(&file, text.as_bytes()).expect("written");
        temporary
            .publish(file.as_fd(), &place, true)
            .expect("published");
        temporary.remove(&place);
        assert_eq!(names(folder.path()), ["result"]);
        assert_eq!(fs::read(&path).expect("there"), text.as_bytes());
        let (_, mut other) = temporary::named(&place, Mode::RUSR).expect("a file");
        other.remove(&place);
        assert_eq!(names(folder.path()), ["result"]);
    }
}

#[test]
fn inputs_are_read_up_to_a_limit() {
    let folder = folder(0o755);
    let path = folder.path().join("file");
    fs::write(&path, "four").expect("a file");
    assert_eq!(read(&path, 4).expect("read"), Some(b"four".to_vec()));
    assert_eq!(read(&path, 3).expect("read"), None);
    assert_eq!(read(Path::new("/dev/zero"), 1000).expect("read"), None);
    assert_eq!(kind(&folder.path().join("absent")), Kind::Unknown);
}

#[test]
fn a_file_that_is_exchanged_meanwhile_is_not_written() {
    let folder = folder(0o777);
    let (named, other) = (folder.path().join("named"), folder.path().join("other"));
    fs::write(&named, "ours").expect("written");
    let place = Place::of(&named).expect("a place");
    let about = place.about().expect("ours").expect("there");
    open_old(&place, &about).expect("the same file");
    fs::write(&other, "ours too").expect("written");
    fs::rename(&other, &named).expect("renamed");
    open_old(&place, &about).expect("examined again");
    fs::write(&other, "of another user").expect("written");
    if chown(&other, Some(65_534), None).is_err() {
        return; // Only root can give a file away.
    }
    fs::rename(&other, &named).expect("renamed");
    let error = open_old(&place, &about).expect_err("another user's file");
    let refusal = error.get_ref().and_then(|it| it.downcast_ref());
    assert_eq!(refusal, Some(&Refusal::Foreign));
}

#[test]
fn a_new_output_takes_no_other_place() {
    let folder = folder(0o755);
    let path = folder.path().join("new");
    let target = folder.path().join("target");
    let mut output = Output::create_new(&path).expect("an output");
    output.write_all(b"new").expect("written");
    symlink(&target, &path).expect("a link");
    let error = output.commit().expect_err("the name is taken");
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    Output::create_new(&path).expect_err("the name is taken");
    assert!(!target.exists());
    fs::remove_file(&path).expect("ours");
    Output::create_new(&path)
        .and_then(Output::commit)
        .expect("committed");
    assert_eq!(
        (names(folder.path()), mode(&path)),
        (vec!["new".to_owned()], 0o600)
    );
    // The same where every file has a name.
    let place = Place::of_new(&path).expect("a place");
    let (file, mut temporary) = temporary::named(&place, Mode::RUSR).expect("a file");
    let taken = temporary.publish(file.as_fd(), &place, false);
    assert_eq!(
        taken.expect_err("taken").kind(),
        io::ErrorKind::AlreadyExists
    );
    fs::remove_file(&path).expect("ours");
    let published = temporary.publish(file.as_fd(), &place, false);
    published.expect("published");
    assert_eq!(names(folder.path()), ["new"]);
}

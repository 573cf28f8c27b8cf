//! The files that the command writes: for whom, where, and what remains of a run that fails.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use super::corpus::recording;
use super::page::analyze;
use crate::command::program::{Run, has_root, lagtrace, program, run};

const NOBODY: u32 = 65_534;

fn capture() -> PathBuf {
    recording("nagle-delayed-ack-8ms", "client")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// By default, a write beyond the limit ends a program by a signal.
#[test]
fn a_limit_for_the_size_of_files_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    fs::write(&path, "old").unwrap();
    let script = r#"ulimit -f 1; exec "$0" analyze "$1" --format json -o "$2" -q"#;
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(program());
    let said = run(command.args([&capture(), &path])).expect(2).stderr;
    assert!(said.contains("File too large"), "{said}");
    assert!(said.contains("report"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

/// Returns where the descriptors from 3 on of a process lead.
fn open_files(pid: u32) -> Vec<PathBuf> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let inherited = links.filter(|link| {
        let name = link.as_ref().unwrap().file_name();
        name.to_str().unwrap().parse::<u32>().unwrap() > 2
    });
    inherited
        .filter_map(|link| fs::read_link(link.unwrap().path()).ok())
        .collect()
}

/// Files that a shell left open are closed in both processes, unless they are named.
#[test]
fn open_files_of_others_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (secret, fifo) = (path("secret"), path("fifo"));
    fs::write(&secret, "not for lagtrace").unwrap();
    pipe(&fifo);
    let script = r#"exec 7<"$1" 11<>"$1" 12<"$1"; exec "$0" analyze "$2" -o "$3" -q"#;
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(program());
    command.args([&secret, &fifo, &path("report")]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    // Opening the pipe waits until the program reads it.
    let mut writer = fs::File::options().write(true).open(&fifo).unwrap();
    let mut seen = open_files(child.id());
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let keepers = fs::read_to_string(children).unwrap();
    let keepers: Vec<u32> = keepers
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(!keepers.is_empty(), "the keeper runs");
    seen.extend(keepers.into_iter().flat_map(open_files));
    assert!(!seen.contains(&secret), "{seen:?}");
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(fs::File::open(capture()).unwrap())
        .read_to_end(&mut bytes)
        .unwrap();
    writer.write_all(&bytes).unwrap();
    drop(writer);
    assert_eq!(child.wait().unwrap().code(), Some(1), "a cause was found");
    // One that is named stays open, for reading and for writing.
    let script = r#"exec 7<"$1" 9>"$2"; exec "$0" analyze /dev/fd/7 -o /dev/fd/9 -q"#;
    let mut command = Command::new("bash");
    command.args(["-c", script]).arg(program());
    let named = command.args([capture(), path("named")]).status().unwrap();
    assert_eq!(named.code(), Some(1));
    assert!(!fs::read(path("named")).unwrap().is_empty());
}

#[test]
fn results_are_for_the_user_alone_unless_their_file_exists() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let runs = [
        vec!["-o", "text"],
        vec!["--format", "json", "-o", "json"],
        vec!["--format", "ndjson", "-o", "ndjson"],
        vec!["--format", "har", "-o", "har"],
        vec!["--format", "perfetto", "-o", "perfetto"],
        vec!["-q", "-o", "beside", "--html", "page.html"],
        vec!["-q", "-o", "besides", "--annotate", "annotated.pcapng"],
    ];
    let mut made = Vec::new();
    for arguments in runs {
        let mut whole: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        for at in 1..arguments.len() {
            if ["-o", "--html", "--annotate"].contains(&arguments[at - 1]) {
                whole[at] = file(arguments[at]);
                made.push(arguments[at]);
            }
        }
        let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
        analyze(&[&capture()], &whole).expect(1);
    }
    made.sort_unstable();
    assert_eq!(names(folder.path()), made);
    for name in &made {
        assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}");
    }
    let shared = folder.path().join("text");
    fs::set_permissions(&shared, Permissions::from_mode(0o640)).unwrap();
    analyze(&[&capture()], &["-o", &file("text")]).expect(1);
    assert_eq!(mode(&shared), 0o640);
    let pages = folder.path().join("man/man1");
    lagtrace(["man", pages.to_str().unwrap()]).expect(0);
    assert_eq!(mode(&pages.join("lagtrace-analyze.1")) & 0o400, 0o400);
    assert!(fs::metadata(pages.join("lagtrace.1")).unwrap().len() > 0);
}

#[test]
fn links_in_folders_for_everyone_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    let aim = folder.path().join("aim");
    fs::write(&aim, "").unwrap();
    let trap = shared.join("trap");
    symlink(&aim, &trap).unwrap();
    let trap = trap.to_str().unwrap();
    for option in ["-o", "--html", "--annotate"] {
        let refused = analyze(&[&capture()], &[option, trap]).expect(2);
        assert!(
            refused.stderr.contains("cannot write") && refused.stderr.contains("symbolic link"),
            "{refused:#?}"
        );
        assert_eq!(refused.stdout, "");
    }
    assert_eq!(fs::read(&aim).unwrap(), b"");
    assert_eq!(names(&shared), ["trap"]);
}

/// Starts an analysis of a pipe and returns it once it reads, with the pipe's other end.
fn reading(input: &Path, arguments: &[&str]) -> (std::process::Child, fs::File) {
    pipe(input);
    let child = Command::new(program())
        .arg("analyze")
        .arg(input)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut end = fs::File::options().write(true).open(input).unwrap();
    end.write_all(&[0xd4, 0xc3, 0xb2, 0xa1]).unwrap();
    (child, end)
}

#[test]
fn nothing_remains_of_a_run_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let outputs = folder.path().join("outputs");
    fs::create_dir(&outputs).unwrap();
    let path = |name: &str| outputs.join(name).display().to_string();
    fs::write(outputs.join("old"), "old").unwrap();
    let (old, new) = (path("old"), path("new.html"));
    let input = folder.path().join("input");
    let (mut child, end) = reading(&input, &["-o", &old, "--html", &new]);
    // The pipe was opened, so the outputs are open as well: they come first.
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    drop(end);
    assert_eq!(names(&outputs), ["old"]);
    assert_eq!(fs::read(outputs.join("old")).unwrap(), b"old");
}

#[test]
fn a_run_that_fails_leaves_the_old_files() {
    let folder = tempfile::tempdir().unwrap();
    let no_capture = folder.path().join("input");
    fs::write(&no_capture, "no capture").unwrap();
    let file = folder.path().join("old");
    fs::write(&file, "old").unwrap();
    for format in ["text", "json", "ndjson", "har"] {
        let arguments = ["--format", format, "-o", file.to_str().unwrap()];
        analyze(&[&no_capture], &arguments).expect(2);
        assert_eq!(fs::read(&file).unwrap(), b"old", "{format}");
    }
    assert_eq!(names(folder.path()), ["input", "old"]);
}

#[test]
fn pipes_and_standard_output_are_written_directly() {
    let folder = tempfile::tempdir().unwrap();
    let plain = analyze(&[&capture()], &["--format", "json"]).expect(1);
    let path = folder.path().join("pipe");
    pipe(&path);
    let reader = thread::spawn({
        let path = path.clone();
        move || fs::read_to_string(path).unwrap()
    });
    let arguments = ["--format", "json", "-o", path.to_str().unwrap()];
    analyze(&[&capture()], &arguments).expect(1);
    assert_eq!(reader.join().unwrap(), plain.stdout);
    for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let run = analyze(&[&capture()], &["--format", "json", "-o", path]).expect(1);
        assert_eq!(run.stdout, plain.stdout, "{path}");
    }
    // A file behind standard output is continued, not emptied.
    let path = folder.path().join("log");
    let mut log = fs::File::create(&path).unwrap();
    log.write_all(b"before\n").unwrap();
    let mut command = Command::new(program());
    command.args(["explain", "packet-loss", "-o", "/dev/stdout"]);
    let status = command.stdout(log).status().unwrap();
    assert!(status.success());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("before\n") && text.len() > 200, "{text}");
    let null = ["-q", "-o", "/dev/null", "--html", "/dev/null"];
    analyze(&[&capture()], &null).expect(1);
}

/// A container's single file is a mount point, which cannot be replaced.
#[test]
fn a_file_that_is_mounted_is_written_in_place() {
    if !has_root("a_file_that_is_mounted_is_written_in_place") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [outside, inside] = ["outside", "inside"].map(|name| folder.path().join(name));
    fs::write(&outside, "old and longer than the new text ".repeat(1000)).unwrap();
    fs::write(&inside, "").unwrap();
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$1\" \"$2\" && exec \"$0\" explain packet-loss -o \"$2\"";
    command.args(["--mount", "sh", "-c", script]);
    command.arg(program()).args([&outside, &inside]);
    run(&mut command).expect(0);
    let plain = lagtrace(["explain", "packet-loss"]).expect(0);
    assert_eq!(fs::read_to_string(&outside).unwrap(), plain.stdout);
    assert_eq!(names(folder.path()), ["inside", "outside"]);
}

/// With sudo, a file belongs to the user who called it, if the folder does.
#[test]
fn with_sudo_files_in_folders_of_the_user_belong_to_the_user() {
    if !has_root("with_sudo_files_in_folders_of_the_user_belong_to_the_user") {
        return;
    }
    for owner in [NOBODY, 0] {
        let folder = tempfile::tempdir().unwrap();
        chown(folder.path(), Some(owner), Some(owner)).unwrap();
        let file = folder.path().join("page");
        let mut command = Command::new(program());
        command.arg("analyze").arg(capture()).arg("-q");
        command.arg("-o").arg(&file);
        command.envs([("SUDO_UID", "65534"), ("SUDO_GID", "65534")]);
        run(&mut command).expect(1);
        let about = fs::metadata(&file).unwrap();
        assert_eq!((about.uid(), about.gid()), (owner, owner));
        assert_eq!(mode(&file), 0o600);
    }
}

/// Runs the command without root, for a short time: its input would block for ever.
fn without_root(input: &Path, arguments: &[&str]) -> Run {
    let mut command = Command::new("timeout");
    command.arg("20").arg(program());
    command.arg("analyze").arg(input).args(arguments);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    run(&mut command)
}

#[test]
fn what_cannot_be_written_is_said_before_anything_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, Permissions::from_mode(0o555)).unwrap();
    let protected = folder.path().join("protected");
    fs::write(&protected, "old").unwrap();
    fs::set_permissions(&protected, Permissions::from_mode(0o444)).unwrap();
    let input = folder.path().join("input");
    pipe(&input);
    fs::set_permissions(&input, Permissions::from_mode(0o644)).unwrap();
    for output in [locked.join("new"), protected.clone()] {
        let output = output.to_str().unwrap();
        for format in ["text", "ndjson"] {
            let run = without_root(&input, &["--format", format, "-o", output]).expect(2);
            let told = format!("error: cannot write {output}: Permission denied (os error 13)\n");
            assert_eq!(run.stderr, told);
        }
    }
    assert_eq!(fs::read(&protected).unwrap(), b"old");
}

#[test]
fn an_output_is_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("same");
    let other = folder.path().join("./same");
    let (file, other) = (file.to_str().unwrap(), other.to_str().unwrap());
    let capture = capture();
    let capture = capture.to_str().unwrap();
    let twice: [&[&str]; 5] = [
        &["analyze", capture, "-o", file, "--annotate", other],
        &["analyze", capture, "-o", file, "--html", other],
        &["load", "http://127.0.0.1:1/", "-o", file, "--hdr", other],
        &[
            "diagnose",
            "http://127.0.0.1:1/",
            "-w",
            file,
            "--observations",
            other,
        ],
        &["diagnose", "http://127.0.0.1:1/", "-o", file, "-w", other],
    ];
    for arguments in twice {
        let refused = lagtrace(arguments).expect(2);
        assert!(refused.stderr.contains("are the same file"), "{refused:#?}");
        assert_eq!(refused.stdout, "");
    }
    assert_eq!(names(folder.path()), [""; 0]);
}

/// A capture stays as it is, whichever way an output or a shell leads to it.
#[test]
fn no_capture_is_overwritten_by_its_own_diagnosis() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("slow.pcap");
    fs::copy(capture(), &kept).unwrap();
    let link = folder.path().join("link.pcap");
    symlink(&kept, &link).unwrap();
    let before = fs::read(&kept).unwrap();
    let name = kept.to_str().unwrap();
    for output in ["-o", "--html", "--annotate"] {
        let run = lagtrace(["analyze", name, output, link.to_str().unwrap()]);
        assert_eq!(run.code, Some(2), "{output}");
        let told = format!("would overwrite {name}, which this command reads");
        assert!(run.stderr.contains(&told), "{}", run.stderr);
    }
    for redirected in [
        "analyze - -o slow.pcap < slow.pcap",
        "analyze slow.pcap >> slow.pcap",
    ] {
        let line = format!("{} {redirected}", program().display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(folder.path());
        let ended = shell.output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{redirected}");
    }
    assert!(fs::read(&kept).unwrap() == before);
}

//! `lagtrace sockets` on the sockets of control groups and containers.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::program::{Run, has_root, lagtrace, may_run};

const ID: &str = "4fa6e0f0c6786287e131c3852c58a2e01cc697a68231826813597e4994f1d6e2";

/// Returns the mount point of cgroup v2.
fn mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let is_unified = |line: &&str| line.contains(" cgroup2 ");
    let line = mounts.lines().find(is_unified)?;
    line.split(' ').nth(1).map(PathBuf::from)
}

/// A control group with a container's control group in it; both are removed on drop.
struct Group {
    mount: PathBuf,
    path: String,
}

impl Group {
    fn new(mount: PathBuf, name: &str) -> Self {
        let path = format!("/lagtrace-{name}-{}", std::process::id());
        let group = Self { mount, path };
        fs::create_dir(group.folder(&group.path)).unwrap();
        fs::create_dir(group.folder(&group.container())).unwrap();
        group
    }

    fn container(&self) -> String {
        format!("{}/docker-{ID}.scope", self.path)
    }

    fn folder(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for path in [self.container(), self.path.clone()] {
            // An error is ignored, because the failure of the test itself says more.
            let _ = fs::remove_dir(self.folder(&path));
        }
    }
}

/// A process in a control group, with a connection to the test's listener.
struct Member(Child);

impl Member {
    /// Starts the process, which moves to the control group `then` after it has connected.
    fn new(group: &Group, path: &str, then: &str, port: u16) -> Self {
        let enter = |path: &str| {
            let folder = group.folder(path);
            format!("echo $$ > {}/cgroup.procs", folder.display())
        };
        let (first, last) = (enter(path), enter(then));
        let script =
            format!("{first} && exec 3<>/dev/tcp/127.0.0.1/{port} && {last} && echo in; read");
        let child = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut member = Self(child.unwrap());
        let mut line = String::new();
        let told = member.0.stdout.take().unwrap();
        BufReader::new(told).read_line(&mut line).unwrap();
        assert_eq!(line, "in\n");
        member
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        drop(self.0.stdin.take()); // ends its `read`
        self.0.wait().unwrap();
    }
}

/// Returns the sockets of the test that the program shows with these arguments.
fn shown(arguments: &[&str], port: u16) -> Vec<Value> {
    let port = port.to_string();
    let all = ["sockets", "-p", &port, "--format", "json"];
    let report = lagtrace(all.iter().chain(arguments)).expect(0).json();
    let list = report["live"].as_array().cloned();
    list.unwrap_or_default()
}

fn refused(arguments: &[&str]) -> Run {
    lagtrace(["sockets"].iter().chain(arguments)).expect(2)
}

#[test]
fn sockets_of_a_control_group_are_told_from_others() {
    let test = "sockets_of_a_control_group_are_told_from_others";
    let mount = mount();
    if !has_root(test) || !may_run(test, "a mounted cgroup2", mount.is_some()) {
        return;
    }
    let group = Group::new(mount.unwrap(), "sockets");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let inside = Member::new(&group, &group.container(), &group.container(), port);
    let others = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let folder = group.folder(&group.container()).display().to_string();
    for asked in [
        ["--cgroup", &group.path],
        ["--cgroup", &group.container()],
        ["--cgroup", &folder],
        ["--container", &ID[..5]],
        ["--container", ID],
    ] {
        let list = shown(&asked, port);
        assert_eq!(list.len(), 1, "{asked:?} {list:#?}");
        assert_eq!(list[0]["holders"][0]["pid"], inside.0.id());
        assert_eq!(list[0]["container"], ID[..12]);
        assert_eq!(list[0]["cgroup"], *group.container());
    }
    // A socket belongs to the cgroup in which it was made, even if its process has moved to another
    // one.
    let _left = Member::new(&group, &group.path, "/", port);
    assert_eq!(shown(&["--cgroup", &group.path], port).len(), 2);
    assert_eq!(shown(&["--cgroup", &group.container()], port).len(), 1);
    assert!(shown(&["--cgroup", "/"], port).len() > 2);
    drop(others);
}

#[test]
fn a_group_that_is_not_there_is_refused_with_a_hint() {
    let told = refused(&["--cgroup", "/no-such.slice"]).stderr;
    assert!(told.contains("no control group /no-such.slice") && told.contains("hint:"));
    let told = refused(&["--container", "f00"]).stderr;
    assert!(told.contains("container f00") && told.contains("docker ps"));
}

//! Network namespaces, tools and unprivileged processes for tests.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Prints that a test cannot run here; fails if no test may be skipped.
pub(crate) fn skip(needs: &str) {
    writeln!(io::stderr(), "skipped: needs {needs}").expect("stderr takes a line");
    assert!(
        std::env::var_os("LAGTRACE_REQUIRE_ALL").is_none_or(|v| v != "1"),
        "nothing may be skipped, and this needs {needs}"
    );
}

/// Returns true if root and these tools are available. Otherwise prints what is missing.
pub(crate) fn can_run(needs_root: bool, tools: &[&str]) -> bool {
    if needs_root && !rustix::process::geteuid().is_root() {
        skip("root");
        return false;
    }
    for tool in tools {
        if Command::new(tool).arg("-V").output().is_err() {
            skip(tool);
            return false;
        }
    }
    true
}

/// Runs a command and returns its output. The command must succeed.
pub(crate) fn run(line: &str) -> String {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a command");
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("the tool runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a number that no other test uses at the same time, in any run.
fn unique() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    std::process::id() * 16 + COUNT.fetch_add(1, Ordering::Relaxed)
}

/// A network namespace. Dropping this value removes it.
pub(crate) struct Namespace {
    pub(crate) name: String,
}

impl Namespace {
    /// Creates a namespace with its loopback interface up.
    pub(crate) fn new() -> Self {
        let name = format!("lthost-{}", unique());
        run(&format!("ip netns add {name}"));
        let namespace = Self { name };
        namespace.run("ip link set lo up");
        namespace
    }

    /// Runs a command in the namespace.
    pub(crate) fn run(&self, line: &str) -> String {
        run(&format!("ip netns exec {} {line}", self.name))
    }

    /// Runs `work` in a thread that is inside the namespace.
    pub(crate) fn visit<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).expect("it exists");
        thread::scope(|scope| {
            let visitor = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter");
                work()
            });
            visitor.join().expect("the work succeeds")
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        Command::new("ip")
            .args(["netns", "del", &self.name])
            .status()
            .map(drop)
            .unwrap_or_default();
    }
}

/// Two namespaces that are connected by a veth pair. No other test uses their addresses.
pub(crate) struct Pair {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    /// First three numbers of both IPv4 addresses. The client is host 1, the server host 2.
    pub(crate) net: String,
    /// Prefix of both IPv6 addresses. The client is host 1, the server host 2.
    pub(crate) net6: String,
}

impl Pair {
    pub(crate) fn new() -> Self {
        let n = unique();
        let net = format!("10.{}.{}", 64 + (n >> 8) % 128, n % 256);
        let net6 = format!("fd77:{:x}:{:x}:", n >> 16, n & 0xffff);
        Self::at(net, net6)
    }

    /// Creates another pair with the same addresses.
    pub(crate) fn twin(&self) -> Self {
        Self::at(self.net.clone(), self.net6.clone())
    }

    fn at(net: String, net6: String) -> Self {
        let (client, server) = (Namespace::new(), Namespace::new());
        let far = &server.name;
        client.run(&format!(
            "ip link add v0 type veth peer name v0 netns {far}"
        ));
        for (namespace, end) in [(&client, 1), (&server, 2)] {
            namespace.run(&format!("ip addr add {net}.{end}/24 dev v0"));
            namespace.run(&format!("ip addr add {net6}:{end}/64 dev v0 nodad"));
            namespace.run("ip link set v0 up");
        }
        Self {
            client,
            server,
            net,
            net6,
        }
    }
}

/// Runs one test of this program as an unprivileged user and returns its output. The test must
/// succeed.
pub(crate) fn run_without_rights(test: &str, variable: &str, value: &str) -> String {
    let binary = std::env::current_exe().expect("we run");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"])
        .arg(binary)
        .args(["--exact", test, "--nocapture"])
        .env(variable, value)
        .current_dir("/")
        .output()
        .expect("setpriv runs");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("1 passed"), "{out}{err}");
    out.into_owned()
}

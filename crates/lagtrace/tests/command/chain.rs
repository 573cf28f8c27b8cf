//! Network namespaces in a row: a client, routers that forward, a target.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::program::{Run, program, run};

/// The namespaces: the client first, the target last. Link N, counted from the client, has the
/// networks 10.97.N.0/24 and fd97:N::/64. Its far end has the host number 2.
pub(crate) struct Chain {
    names: Vec<String>,
}

impl Chain {
    /// Makes a chain whose target is `hops` hops away.
    pub(crate) fn new(hops: usize) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (run, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = |at| format!("ltchain-{run}-{count}-{at}");
        let chain = Self {
            names: (0..=hops).map(name).collect(),
        };
        for name in &chain.names {
            ip(&format!("netns add {name}"));
        }
        for at in 0..=hops {
            chain.lay(at);
        }
        chain
    }

    /// Makes the devices, addresses and routes of a namespace.
    fn lay(&self, at: usize) {
        let (own, next) = (&self.names[at], at + 1);
        ip(&format!("-n {own} link set lo up"));
        self.within(
            at,
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
        );
        if let Some(far) = self.names.get(next) {
            ip(&format!(
                "-n {own} link add f{next} type veth peer name n{next} netns {far}"
            ));
            for (namespace, device, end) in [(own, 'f', 1), (far, 'n', 2)] {
                let device = format!("dev {device}{next}");
                ip(&format!(
                    "-n {namespace} addr add 10.97.{next}.{end}/24 {device}"
                ));
                ip(&format!(
                    "-n {namespace} addr add fd97:{next}::{end}/64 {device} nodad"
                ));
                ip(&format!("-n {namespace} link set {device} up"));
            }
            ip(&format!("-n {own} route add default via 10.97.{next}.2"));
            ip(&format!("-n {own} -6 route add default via fd97:{next}::2"));
        }
        for net in 1..at {
            ip(&format!(
                "-n {own} route add 10.97.{net}.0/24 via 10.97.{at}.1"
            ));
            ip(&format!(
                "-n {own} -6 route add fd97:{net}::/64 via fd97:{at}::1"
            ));
        }
    }

    /// Returns the name of the target's namespace.
    pub(crate) fn target(&self) -> &str {
        self.names.last().unwrap()
    }

    /// Runs a command in namespace `at`.
    pub(crate) fn within(&self, at: usize, line: &str) {
        ip(&format!("netns exec {} {line}", self.names[at]));
    }

    /// Adds a rule for packets at `hook` in namespace `at`.
    pub(crate) fn filter(&self, at: usize, hook: &str, rule: &str) {
        self.within(at, "nft add table inet t");
        let chain =
            format!("nft add chain inet t {hook} {{ type filter hook {hook} priority 0 ; }}");
        self.within(at, &chain);
        self.within(at, &format!("nft add rule inet t {hook} {rule}"));
    }

    /// Runs the program at the client.
    pub(crate) fn lagtrace(&self, arguments: &[&str]) -> Run {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[0]]);
        run(command.arg(program()).args(arguments))
    }

    /// Answers HTTP requests at this port of the target until the test ends.
    pub(crate) fn serve(&self, port: u16) {
        let target = self.target();
        let file = File::open(format!("/run/netns/{target}")).unwrap();
        let listener = thread::spawn(move || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), network).unwrap();
            TcpListener::bind(("::", port)).unwrap()
        });
        let listener = listener.join().unwrap();
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                thread::spawn(move || {
                    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
                    let mut request = [0; 4_096];
                    while connection.read(&mut request).is_ok_and(|len| len > 0) {
                        if connection.write_all(response).is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for name in &self.names {
            Command::new("ip")
                .args(["netns", "del", name])
                .status()
                .ok();
        }
    }
}

fn ip(line: &str) {
    let run = run(Command::new("ip").args(line.split_whitespace()));
    assert_eq!(run.code, Some(0), "ip {line}: {run:#?}");
}

//! Diagnoses of targets behind NAT of this host, such as a published port of a container.

use std::process::{Child, Command, Stdio};

use lagtrace_trial::{free_port, live};

use super::chain::Chain;
use super::lab::until;
use super::program::{findings, has_root, has_tool, notes};

/// A server that ends when it is dropped.
struct Server(Child);

impl Server {
    /// Starts Python's own server at the target of the chain.
    fn start(chain: &Chain, port: u16) -> Self {
        let server = ["-m", "http.server", "--protocol", "HTTP/1.1"];
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", chain.target(), "python3"])
            .args(server)
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The captured packets have the translated address. They must still count as the target's.
#[test]
fn packets_behind_nat_belong_to_the_target() {
    const TEST: &str = "packets_behind_nat_belong_to_the_target";
    if !has_root(TEST) || !has_tool(TEST, "nft") || !has_tool(TEST, "python3") {
        return;
    }
    live(TEST).busy().run(behind_nat);
}

fn behind_nat() {
    // Behind NAT, the port is another one.
    let port = free_port();
    let chain = Chain::new(1);
    let _server = Server::start(&chain, port);
    chain.within(0, "nft add table ip t");
    let hook = "{ type nat hook output priority -100 ; }";
    chain.within(0, &format!("nft add chain ip t out {hook}"));
    let rule = format!("ip daddr 10.97.9.9 tcp dport 80 dnat to 10.97.1.2:{port}");
    chain.within(0, &format!("nft add rule ip t out {rule}"));
    let load = ["-d", "2s", "-c", "4", "--rate", "100", "--format", "json"];
    let address = format!("10.97.1.2:{port}");
    until("the server listens", || {
        let probe = ["probe", &address, "-c", "1", "-m", "connect"];
        chain.lagtrace(&probe).code == Some(0)
    });
    let arguments = [&["diagnose", "http://10.97.9.9/"][..], &load].concat();
    let report = chain.lagtrace(&arguments).json();
    assert!(notes(&report).contains(&"translated-address"), "{report:#}");
    // This server writes head and body apart.
    assert_eq!(findings(&report).first(), Some(&"nagle-delayed-ack"));
    let evidence = report["findings"][0]["evidence"].to_string();
    assert!(
        evidence.contains("acknowledged it only after"),
        "{evidence}"
    );
    // Without NAT nothing is translated.
    let direct = format!("http://{address}/");
    let report = chain.lagtrace(&[&["diagnose", &direct][..], &load].concat());
    assert!(!notes(&report.json()).contains(&"translated-address"));
}

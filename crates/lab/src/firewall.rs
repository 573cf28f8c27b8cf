//! What the server's packet filter does to a service's port: nftables inside the server's
//! namespace, which has a rule set of its own that goes away with it.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::namespace::Namespace;
use crate::scenario::Service;
use crate::tool;

/// A packet filter's way with one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Firewall {
    /// Every SYN to the port is dropped without a word.
    DropSyn,
    /// The first SYN of each connection is dropped, its repetition passes.
    DropFirstSyn,
    /// A connection without a packet for a second is forgotten: what comes on it later is
    /// dropped without a word, as an address translator does whose table has lost the entry.
    ForgetIdle,
}

/// Loads the rules that these services ask for, if any does.
pub(crate) fn load(namespace: &Namespace, services: &[Service]) -> Result<(), Error> {
    let Some(rules) = rules(services) else {
        return Ok(());
    };
    let mut nft = tool::command("nft");
    nft.args(["-f", "-"]);
    namespace.enter(&mut nft)?;
    tool::run_with_input(nft, &rules)
}

/// The rule set, or `None` if no service has one.
fn rules(services: &[Service]) -> Option<String> {
    let lines: String = services.iter().filter_map(rule).collect();
    if lines.is_empty() {
        return None;
    }
    // There is one client, so its port tells connections apart. A minute outlasts every
    // repetition of a SYN that follows a single loss.
    Some(format!(
        "table inet lagtrace {{\n\
         set seen {{ type inet_service . inet_service; flags dynamic,timeout; timeout 60s; size 65536; }}\n\
         set live {{ type inet_service . inet_service; flags dynamic,timeout; timeout 1s; size 65536; }}\n\
         chain input {{\n\
         type filter hook input priority 0; policy accept;\n\
         {lines}}}\n}}\n"
    ))
}

fn rule(service: &Service) -> Option<String> {
    let port = service.port;
    let syn = format!("tcp dport {port} tcp flags & (syn|ack) == syn");
    Some(match service.firewall? {
        Firewall::DropSyn => format!("{syn} drop\n"),
        Firewall::DropFirstSyn => {
            let connection = "tcp sport . tcp dport";
            format!("{syn} {connection} != @seen add @seen {{ {connection} }} drop\n")
        }
        Firewall::ForgetIdle => {
            let connection = "tcp sport . tcp dport";
            format!(
                "{syn} update @live {{ {connection} timeout 1s }} accept\n\
                 tcp dport {port} {connection} != @live drop\n\
                 tcp dport {port} update @live {{ {connection} timeout 1s }}\n"
            )
        }
    })
}

//! The settings of one host, as a scenario gives them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::files;
use super::firewall::FirewallRules;
use crate::quantity::{Rate, Size, optional_duration};

/// The settings of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// The congestion control of every connection over the path: `cubic` by default. It is set at
    /// the route (`congctl`), because the sysctl of a namespace rejects algorithms that are not in
    /// the machine's `tcp_allowed_congestion_control`.
    pub congestion_control: String,
    /// The route's `rto_min`. It limits delayed ACKs too: the kernel delays an ACK by at most this
    /// time less one tick (`net/ipv4/tcp_output.c: tcp_delack_max()`), so a value below 44 ms
    /// shortens the usual 40 ms.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub rto_min: Option<Duration>,
    /// The route's `quickack`: every segment is acknowledged immediately.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quickack: bool,
    /// Further words of the route to the other host, in the syntax of `ip route`: `initcwnd 2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// A token bucket on the host's device towards the other host (`tc-tbf`), which is a queue in
    /// the host's own kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaper: Option<Shaper>,
    /// Kernel settings of this host only, as `net.…` names with dots.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// Files that programs on this host see in place of the machine's, by path below `/etc`:
    /// `/etc/resolv.conf`, `/etc/hosts`, `/etc/nsswitch.conf`, `/etc/gai.conf`. `{server}`,
    /// `{server6}`, `{client}` and `{client6}` are replaced by addresses.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The rules of this host's packet filter that apply to all services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firewall: Option<FirewallRules>,
}

/// A token bucket before a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shaper {
    /// The rate.
    pub rate: Rate,
    /// The number of bytes that are sent immediately after a pause.
    pub burst: Size,
    /// Maximum number of bytes that are queued; packets beyond are dropped.
    pub queue: Size,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            congestion_control: "cubic".to_owned(),
            rto_min: None,
            quickack: false,
            route: None,
            shaper: None,
            sysctl: BTreeMap::new(),
            files: BTreeMap::new(),
            firewall: None,
        }
    }
}

impl HostSpec {
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_word = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        if !is_word(&self.congestion_control) {
            return Err(format!(
                "`{}` names no congestion control",
                self.congestion_control
            ));
        }
        let is_route_word = |text: &str| text.split(' ').all(is_word);
        if let Some(words) = self.route.as_deref().filter(|words| !is_route_word(words)) {
            return Err(format!("`{words}` are no words of a route"));
        }
        match self
            .sysctl
            .keys()
            .find(|key| !key.starts_with("net.") || key.contains(['/', ' ']))
        {
            Some(key) => Err(format!("`{key}` is no `net.` setting of a host")),
            None => files::check(&self.files)
                .and_then(|()| self.firewall.as_ref().map_or(Ok(()), FirewallRules::check)),
        }
    }
}

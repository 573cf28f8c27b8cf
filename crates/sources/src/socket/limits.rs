//! Kernel settings that limit sockets.

use lagtrace_core::observed::sockets::{KernelLimits, KernelSetting};

use crate::privilege::NetworkNamespace;

/// Settings that are read, as paths below `/proc/sys/`.
const SETTINGS: [&str; 20] = [
    "net/core/somaxconn",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_mem",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/udp_mem",
    "net/core/rmem_default",
    "net/core/rmem_max",
    "net/core/wmem_default",
    "net/core/wmem_max",
    "net/core/netdev_max_backlog",
    "net/core/netdev_budget",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_count",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_notsent_lowat",
    "net/ipv4/tcp_congestion_control",
    "net/core/default_qdisc",
    "net/unix/max_dgram_qlen",
];

/// Reads the settings in `namespace`. A setting that does not exist there applies to the whole
/// host, and is read in lagtrace's own namespace. A setting that cannot be read there either is
/// left out.
pub fn read(namespace: &NetworkNamespace) -> KernelLimits {
    let own = NetworkNamespace::own().ok();
    let settings = SETTINGS.into_iter().filter_map(|name| {
        let there = namespace.sysctl_text(name);
        let value = there.or_else(|refusal| match &own {
            Some(own) if !namespace.is_own() => own.sysctl_text(name),
            _ => Err(refusal),
        });
        Some(KernelSetting {
            name: name.replace('/', "."),
            value: value.ok()?,
        })
    });
    KernelLimits {
        namespace: (!namespace.is_own()).then(|| namespace.id()),
        settings: settings.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_this_kernel_are_read() {
        let own = NetworkNamespace::own().expect("/proc is mounted");
        let limits = read(&own);
        let value = |name: &str| {
            let found = limits.settings.iter().find(|setting| setting.name == name);
            found.map(|setting| setting.value.clone())
        };
        let somaxconn = value("net.core.somaxconn").expect("every namespace has it");
        assert_eq!(
            somaxconn.parse().ok(),
            own.sysctl("net/core/somaxconn").ok()
        );
        let rmem = value("net.ipv4.tcp_rmem").expect("every namespace has it");
        assert_eq!(rmem.split(' ').count(), 3);
        assert_eq!(limits.namespace, None);
    }
}

//! Conditions on the arguments of system calls. A filter sees only numbers, not what a pointer
//! leads to.

use std::collections::BTreeMap;

use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::Rules;

/// The bits of a socket's type without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`
/// (`include/linux/net.h`).
const KINDS: u64 = 0xf;

/// `fcntl` operations: duplicates and flags of descriptors. Owners and locks are not used.
const OF_DESCRIPTORS: &[libc::c_int] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
];

/// `ioctl` requests on terminals, files and sockets.
const REQUESTS: &[libc::Ioctl] = &[
    libc::TCGETS,
    libc::TCSETS,
    libc::TCSETSW,
    libc::TCSETSF,
    libc::TIOCGPGRP,
    libc::TIOCGWINSZ,
    libc::TIOCINQ,
    libc::TIOCOUTQ,
    libc::FIONBIO,
    libc::FIOCLEX,
];
/// `TCGETS2`, `TCSETS2`, `TCSETSW2` and `TCSETSF2` (`include/uapi/asm-generic/ioctls.h`).
const REQUESTS_2: [u64; 4] = [0x802c_542a, 0x402c_542b, 0x402c_542c, 0x402c_542d];
/// `ioctl` requests with which libpcap and the C library read the properties of interfaces. To
/// change one by `SIOCETHTOOL` needs a capability.
const OF_INTERFACES: &[libc::c_ulong] = &[
    libc::SIOCGIFNAME,
    libc::SIOCGIFFLAGS,
    libc::SIOCGIFMTU,
    libc::SIOCGIFHWADDR,
    libc::SIOCGIFINDEX,
    libc::SIOCETHTOOL,
];

/// `prctl` operations: the names of threads, of memory, and the slack of timers.
const OPERATIONS: &[libc::c_int] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_VMA,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
];

/// Options of TCP that connect without a check of Landlock, replace the protocol, or are not used.
const OF_OTHER_TCP: &[libc::c_int] = &[
    libc::TCP_REPAIR,
    libc::TCP_FASTOPEN,
    libc::TCP_ULP,
    libc::TCP_FASTOPEN_CONNECT,
    libc::TCP_FASTOPEN_KEY,
    libc::TCP_FASTOPEN_NO_COOKIE,
];

/// The netlink protocols of sockets that need no privilege: routes, and the state of sockets.
const NETLINK: &[libc::c_int] = &[libc::NETLINK_ROUTE, libc::NETLINK_SOCK_DIAG];

type Condition = Result<SeccompCondition, BackendError>;
/// The rules of a call: it is allowed if one of them holds.
type Alternatives = Result<Vec<SeccompRule>, BackendError>;

/// Returns the calls that are allowed with some arguments only.
pub(super) fn conditional(
    rules: &Rules,
) -> Result<BTreeMap<libc::c_long, Vec<SeccompRule>>, BackendError> {
    // Threads, but no processes.
    let thread = number(libc::CLONE_THREAD);
    let is_thread = condition(0, SeccompCmpOp::MaskedEq(thread), thread);
    // Signals for the threads of this process, and limits of this process. It cannot fork, so that
    // its number stays.
    let own = std::process::id().into();
    let mut calls = BTreeMap::from([
        (libc::SYS_clone, vec![rule([is_thread])?]),
        (libc::SYS_tgkill, one_of(0, [own])?),
        (libc::SYS_prlimit64, one_of(0, [0])?),
        (libc::SYS_prctl, one_of(0, numbers(OPERATIONS))?),
        (libc::SYS_fcntl, on_descriptors()?),
        (libc::SYS_ioctl, requests(rules.network)?),
        // For the socket pair of the keeper, too.
        (libc::SYS_sendmsg, without_fast_open(2)?),
    ]);
    if rules.network {
        calls.extend([
            (libc::SYS_sendto, without_fast_open(3)?),
            (libc::SYS_sendmmsg, without_fast_open(3)?),
            (libc::SYS_setsockopt, socket_options()?),
            (libc::SYS_socketpair, pairs()?),
            (libc::SYS_socket, opened(rules)?),
        ]);
    }
    Ok(calls)
}

/// Returns the rule for sockets of families that no worker uses.
pub(super) fn other_families(rules: &Rules) -> Result<SeccompRule, BackendError> {
    let mut families: Vec<libc::c_int> = sockets(rules).iter().map(|&(of, ..)| of).collect();
    families.dedup();
    let is_other = |family| condition(0, SeccompCmpOp::Ne, number(family));
    rule(families.into_iter().map(is_other))
}

/// The family, the type and the protocols of sockets.
type Sockets = (libc::c_int, libc::c_int, &'static [libc::c_int]);

/// Returns the sockets that the worker opens itself. Unix sockets are not among them: behind those
/// are programs that act for whoever may connect. Landlock knows only TCP proper, so that other
/// protocols that connect, such as MPTCP and SCTP, must not be had at all.
fn sockets(rules: &Rules) -> Vec<Sockets> {
    use libc::{IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP};
    const STREAM: &[libc::c_int] = &[IPPROTO_IP, IPPROTO_TCP];
    let mut sockets: Vec<Sockets> = vec![
        (libc::AF_INET, libc::SOCK_STREAM, STREAM),
        (
            libc::AF_INET,
            libc::SOCK_DGRAM,
            &[IPPROTO_IP, IPPROTO_UDP, IPPROTO_ICMP],
        ),
        (libc::AF_INET6, libc::SOCK_STREAM, STREAM),
        (
            libc::AF_INET6,
            libc::SOCK_DGRAM,
            &[IPPROTO_IP, IPPROTO_UDP, IPPROTO_ICMPV6],
        ),
        (libc::AF_NETLINK, libc::SOCK_RAW, NETLINK),
        (libc::AF_NETLINK, libc::SOCK_DGRAM, NETLINK),
    ];
    if rules.raw {
        sockets.push((
            libc::AF_INET,
            libc::SOCK_RAW,
            &[IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP],
        ));
        sockets.push((
            libc::AF_INET6,
            libc::SOCK_RAW,
            &[IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6],
        ));
    }
    if rules.packets {
        // The protocol is chosen by bind. libpcap asks for wireless devices.
        sockets.push((libc::AF_PACKET, libc::SOCK_RAW, &[0]));
        sockets.push((libc::AF_PACKET, libc::SOCK_DGRAM, &[0]));
        sockets.push((libc::AF_NETLINK, libc::SOCK_RAW, &[libc::NETLINK_GENERIC]));
    }
    sockets
}

/// Returns the rules for sockets.
fn opened(rules: &Rules) -> Alternatives {
    let mut allowed = Vec::new();
    for (family, kind, protocols) in sockets(rules) {
        for &protocol in protocols {
            allowed.push(rule([
                condition(0, SeccompCmpOp::Eq, number(family)),
                condition(1, SeccompCmpOp::MaskedEq(KINDS), number(kind)),
                condition(2, SeccompCmpOp::Eq, number(protocol)),
            ])?);
        }
    }
    // A filter of its own tells the C library that these do not exist.
    allowed.push(other_families(rules)?);
    Ok(allowed)
}

/// Returns the rules for pairs of Unix sockets. Those of datagrams can send to other sockets.
fn pairs() -> Alternatives {
    let pair = |kind| {
        rule([
            condition(0, SeccompCmpOp::Eq, number(libc::AF_UNIX)),
            condition(1, SeccompCmpOp::MaskedEq(KINDS), number(kind)),
        ])
    };
    [libc::SOCK_STREAM, libc::SOCK_SEQPACKET]
        .map(pair)
        .into_iter()
        .collect()
}

/// Returns the rule for sending, by the place of the flags: TCP Fast Open connects without a check
/// of Landlock.
fn without_fast_open(flags: u8) -> Alternatives {
    let fast_open = number(libc::MSG_FASTOPEN);
    let is_without = condition(flags, SeccompCmpOp::MaskedEq(fast_open), 0);
    Ok(vec![rule([is_without])?])
}

/// Returns the rules for options of sockets: those of other levels than TCP, and most of TCP.
fn socket_options() -> Alternatives {
    let level = condition(1, SeccompCmpOp::Ne, number(libc::IPPROTO_TCP));
    let used = |&option: &libc::c_int| condition(2, SeccompCmpOp::Ne, number(option));
    Ok(vec![rule([level])?, rule(OF_OTHER_TCP.iter().map(used))?])
}

/// Returns the rules for `fcntl`. A descriptor sends no signals (`O_ASYNC`).
fn on_descriptors() -> Alternatives {
    let signals = number(libc::O_ASYNC);
    let mut rules = one_of(1, numbers(OF_DESCRIPTORS))?;
    rules.push(rule([
        condition(1, SeccompCmpOp::Eq, number(libc::F_SETFL)),
        condition(2, SeccompCmpOp::MaskedEq(signals), 0),
    ])?);
    Ok(rules)
}

/// Returns the rules for `ioctl`.
fn requests(network: bool) -> Alternatives {
    let of_interfaces = if network { OF_INTERFACES } else { &[] };
    // The types of these numbers differ, and with the C library.
    let named = REQUESTS.iter().map(|&it| u32::try_from(it).unwrap_or(0));
    let of_interfaces = of_interfaces
        .iter()
        .map(|&it| u32::try_from(it).unwrap_or(0));
    let named = named.chain(of_interfaces).map(u64::from);
    one_of(1, named.chain(REQUESTS_2))
}

/// Returns a rule for each value that the argument may have.
fn one_of(argument: u8, values: impl IntoIterator<Item = u64>) -> Alternatives {
    let rules = values
        .into_iter()
        .map(|value| rule([condition(argument, SeccompCmpOp::Eq, value)]));
    rules.collect()
}

/// Returns a rule that holds if all its conditions do.
fn rule(conditions: impl IntoIterator<Item = Condition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

/// Compares the lower half of an argument, which is all that the kernel uses of these.
fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Condition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn numbers(values: &[libc::c_int]) -> impl Iterator<Item = u64> {
    values.iter().map(|&value| number(value))
}

fn number(value: libc::c_int) -> u64 {
    value.unsigned_abs().into()
}

//! The socket settings that programs made with system calls, for the report.

use std::collections::BTreeMap;

use crate::facts::{CalledHistory, Calls, GroupHistory, GroupKey, Setting};
use crate::report::{
    CalledSocket, Remark, ServiceSetting, SocketCaller, SocketCalls, SocketSetting, Tally, counted,
};

/// Maximum number of single sockets in the report.
const MAX_LISTED: usize = 256;
/// Maximum number of services' settings in the report.
const MAX_SERVICES: usize = 256;

/// Returns the traced calls for the report; `None` if nothing was traced.
pub(super) fn calls(calls: &Calls) -> Option<SocketCalls> {
    let tally = calls.tally?;
    let mut histories: Vec<&CalledHistory> = calls.sockets.values().collect();
    histories.sort_by_key(|history| std::cmp::Reverse(history.calls));
    let left_out = histories.len().saturating_sub(MAX_LISTED) as u64;
    histories.truncate(MAX_LISTED);
    Some(SocketCalls {
        calls: calls.calls,
        failed: calls.failed,
        lost: tally.lost,
        services: services(calls.groups()),
        sockets: histories.into_iter().map(socket).collect(),
        left_out: left_out + calls.forgotten,
    })
}

fn services(groups: BTreeMap<GroupKey, GroupHistory>) -> Vec<ServiceSetting> {
    let mut list: Vec<ServiceSetting> = groups
        .into_iter()
        .map(|((program, service, what), group)| ServiceSetting {
            remarks: remarks(&what, &group),
            program,
            service,
            sockets: group.sockets,
            most_calls: group.most_calls,
            setting: setting(&what, &group.setting),
        })
        .collect();
    list.sort_by_key(|service| std::cmp::Reverse(service.setting.calls));
    list.truncate(MAX_SERVICES);
    list
}

fn socket(history: &CalledHistory) -> CalledSocket {
    let of = history.socket.as_ref();
    let settings = history.settings.iter();
    CalledSocket {
        protocol: of.map(|socket| socket.kind),
        namespace: of.and_then(|socket| socket.namespace),
        inode: of.map(|socket| socket.inode),
        cookie: of.and_then(|socket| socket.cookie),
        state: of.map(|socket| socket.state.to_owned()),
        local: of.and_then(|socket| Some(socket.local?.to_string())),
        remote: of.and_then(|socket| Some(socket.remote?.to_string())),
        settings: settings.map(|(what, of)| setting(what, of)).collect(),
    }
}

fn setting(what: &str, of: &Setting) -> SocketSetting {
    let callers = of.callers.iter();
    SocketSetting {
        name: what.to_owned(),
        calls: of.calls,
        failed: of.failed,
        errors: of.errors.iter().map(|&name| name.to_owned()).collect(),
        on: of.on,
        off: of.off,
        unchanged: of.unchanged,
        first_at_ns: of.first_at.as_nanos(),
        last_at_ns: of.last_at.as_nanos(),
        before: of.before.iter().cloned().collect(),
        now: of.now.iter().cloned().collect(),
        longest_on_ns: of
            .longest_on
            .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        callers: callers
            .map(|((name, pid), calls)| SocketCaller {
                pid: *pid,
                name: name.clone(),
                calls: *calls,
            })
            .collect(),
    }
}

/// Returns the remarks on a setting of one service's sockets.
fn remarks(what: &str, group: &GroupHistory) -> Vec<String> {
    [
        flapping(what, group),
        idle(&group.setting),
        cut(what, &group.setting),
        failed(&group.setting),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the remark on an option that a program switches on and off repeatedly on the same
/// connection.
fn flapping(what: &str, group: &GroupHistory) -> Option<String> {
    let of = &group.setting;
    // Once on and once off is normal.
    let is_again = group.most_calls > 2;
    match what {
        "TCP_CORK" if is_again && of.on > 0 && of.off > 0 => Some(format!(
            "set {} and cleared {}, up to {} on one connection: data smaller than a segment waits \
             in between",
            of.on,
            counted(of.off, "time", "times"),
            counted(group.most_calls, "call", "calls"),
        )),
        "TCP_NODELAY" if is_again && of.on > 0 && of.off > 0 => Some(format!(
            "switched on {} and off {}: Nagle's algorithm is switched on and off on the same \
             connection",
            of.on,
            counted(of.off, "time", "times"),
        )),
        "TCP_QUICKACK" if of.on > 0 && group.most_calls > 1 => Some(format!(
            "set again and again, {} on one connection, because the kernel clears it by itself",
            counted(group.most_calls, "time", "times"),
        )),
        _ => None,
    }
}

/// Returns the remark on calls that set the value which was in effect already, if at least half of
/// the calls did so.
fn idle(of: &Setting) -> Option<String> {
    let Tally { count, of } = of.unchanged;
    (count > 1 && count * 2 >= of).then(|| {
        format!(
            "already had this value in {count} of {}",
            counted(of, "call", "calls"),
        )
    })
}

fn cut(what: &str, of: &Setting) -> Option<String> {
    let (asked, got) = of.cut?;
    let (limit, unit) = match what {
        "listen" => ("net.core.somaxconn", "waiting connections"),
        "SO_SNDBUF" | "SO_SNDBUFFORCE" => ("net.core.wmem_max", "bytes, as the kernel counts"),
        _ => ("net.core.rmem_max", "bytes, as the kernel counts"),
    };
    Some(format!(
        "requested {asked}, got {got} {unit}: {limit} allows no more"
    ))
}

fn failed(of: &Setting) -> Option<String> {
    let names: Vec<&str> = of.errors.iter().copied().collect();
    (of.failed > 0).then(|| {
        if names.is_empty() {
            format!(
                "{} of {} failed",
                of.failed,
                counted(of.calls, "call", "calls"),
            )
        } else {
            format!(
                "{} of {} failed: {}",
                of.failed,
                counted(of.calls, "call", "calls"),
                names.join(", "),
            )
        }
    })
}

/// Returns the remark on calls that were lost because there were too many.
pub(super) fn lost(calls: &Calls) -> Option<Remark> {
    let lost = calls.tally?.lost;
    (lost > 0).then(|| Remark {
        id: "calls-lost".to_owned(),
        text: format!(
            "The kernel reported more calls than lagtrace could process: {} missing. Select fewer \
             with --pid, -p or --cgroup.",
            counted(lost, "call is", "calls are"),
        ),
    })
}

//! Socket calls: the options set, by program, service and socket.

use lagtrace_core::report::{CalledSocket, Report, ServiceSetting, SocketCalls, SocketSetting};

use super::page::{Page, Tone};
use super::quantity::{count, counted, duration};
use super::table::{Align, Table, dim, plain};
use super::words;
use crate::clock;

/// Maximum number of rows of the table, unless verbose.
const SHOWN: usize = 40;
/// Maximum number of values or processes named in a cell.
const NAMED: usize = 3;

/// Writes the summary of the calls.
pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(calls) = &report.calls else { return };
    if calls.calls == 0 {
        return page.paragraph(0, Tone::Plain, "No such call was seen.");
    }
    page.heading("Programs and the options that they set");
    page.paragraph(2, Tone::Plain, &all(calls));
    page.blank();
    services(page, calls);
    remarks(page, calls);
    if page.is_verbose() {
        sockets(page, calls);
    }
}

fn all(calls: &SocketCalls) -> String {
    let failed = match calls.failed {
        0 => String::new(),
        failed => format!(", {} failed", count(failed)),
    };
    let sockets = calls.sockets.iter().filter(|socket| socket.inode.is_some());
    let sockets = sockets.count() as u64 + calls.left_out;
    format!(
        "{} on {}{failed}.",
        counted(calls.calls, "call", "calls"),
        counted(sockets, "socket", "sockets")
    )
}

/// Writes the table of the settings made on each service's sockets.
fn services(page: &mut Page, calls: &SocketCalls) {
    let mut table = Table::new(&[
        (Align::Left, "program"),
        (Align::Name, "sockets of"),
        (Align::Name, "what"),
        (Align::Left, "before → now"),
        (Align::Right, "calls"),
        (Align::Right, "sockets"),
        (Align::Name, "last (UTC)"),
    ]);
    let is_shown = |service: &&ServiceSetting| page.is_verbose() || is_setting(service);
    let shown: Vec<&ServiceSetting> = calls.services.iter().filter(is_shown).collect();
    let most = if page.is_verbose() { usize::MAX } else { SHOWN };
    for service in shown.iter().take(most) {
        let of = &service.setting;
        table.row(vec![
            plain(program(service)),
            plain(&service.service),
            plain(&of.name),
            plain(values(of)),
            plain(count(of.calls)),
            plain(count(service.sockets)),
            dim(time(of.last_at_ns)),
        ]);
    }
    page.table(2, &table);
    let more = shown.len().saturating_sub(most);
    if more > 0 {
        let text = format!("And {more} more; -v shows all.");
        page.paragraph(2, Tone::Dim, &text);
    }
}

/// Returns true if the call sets an option, or failed. `bind` and `connect` set no option and are
/// shown only if they failed.
fn is_setting(service: &ServiceSetting) -> bool {
    let of = &service.setting;
    !is_address(of) || of.failed > 0
}

fn is_address(of: &SocketSetting) -> bool {
    matches!(of.name.as_str(), "bind" | "connect")
}

/// Returns the program with its process ids: `nginx[4711, 4712]`.
fn program(service: &ServiceSetting) -> String {
    let callers = &service.setting.callers;
    let pids = callers
        .iter()
        .take(NAMED)
        .map(|caller| caller.pid.to_string());
    let more = if callers.len() > NAMED { ", …" } else { "" };
    let pids = pids.collect::<Vec<_>>().join(", ");
    format!("{}[{pids}{more}]", service.program)
}

/// Returns the values before and after the calls, such as `0 → 1`. An unknown value is `?`. There
/// are several values if sockets differ.
fn values(of: &SocketSetting) -> String {
    let list = |values: &[String]| match values.len() {
        0 => "?".to_owned(),
        _ => {
            let more = if values.len() > NAMED { ", …" } else { "" };
            let shown = values.get(..values.len().min(NAMED)).unwrap_or_default();
            format!("{}{more}", shown.join(", "))
        }
    };
    match (of.before.is_empty(), of.now.is_empty()) {
        // Each socket has its own address, which is shown with the socket.
        (_, false) if is_address(of) => String::new(),
        (true, true) => "failed".to_owned(),
        (true, false) => list(&of.now),
        (false, true) => format!("{}, unchanged", list(&of.before)),
        (false, false) => format!("{} → {}", list(&of.before), list(&of.now)),
    }
}

/// Returns the time of the first call, and of the last if there are several:
/// `02:03:04.123–02:03:05.000`.
fn span(of: &SocketSetting) -> String {
    match of.calls {
        1 => time(of.first_at_ns),
        _ => format!("{}–{}", time(of.first_at_ns), time(of.last_at_ns)),
    }
}

/// Returns the time of day, in milliseconds.
fn time(nanos: i64) -> String {
    let text = clock::moment(nanos);
    text.get(11..23).unwrap_or(&text).to_owned()
}

fn remarks(page: &mut Page, calls: &SocketCalls) {
    for service in &calls.services {
        let of = &service.setting;
        let mut remarks = service.remarks.clone();
        // The duration matters only for TCP_CORK, because the program itself removes the cork.
        if let Some(longest) = of.longest_on_ns.filter(|_| of.name == "TCP_CORK") {
            remarks.push(format!("corked for at most {}", duration(longest)));
        }
        if remarks.is_empty() {
            continue;
        }
        let head = format!("{} on {}:", of.name, service.service);
        let text = words::sentence(&remarks.join("; "));
        let spans = [(Tone::Strong, head.as_str()), (Tone::Plain, text.as_str())];
        page.item(2, "•", Tone::Dim, &spans);
    }
}

/// Writes the sockets one by one.
fn sockets(page: &mut Page, calls: &SocketCalls) {
    page.heading("By socket");
    for socket in &calls.sockets {
        page.paragraph(2, Tone::Strong, &ends(socket));
        let mut table = Table::new(&[
            (Align::Name, ""),
            (Align::Left, ""),
            (Align::Right, ""),
            (Align::Left, ""),
            (Align::Name, ""),
        ]);
        for of in &socket.settings {
            let callers = of.callers.iter().take(NAMED);
            let callers = callers.map(|caller| format!("{}[{}]", caller.name, caller.pid));
            table.row(vec![
                plain(&of.name),
                plain(values(of)),
                plain(counted(of.calls, "call", "calls")),
                plain(callers.collect::<Vec<_>>().join(", ")),
                dim(span(of)),
            ]);
        }
        page.table(4, &table);
    }
    if calls.left_out > 0 {
        let text = format!("{} more are not listed.", count(calls.left_out));
        page.paragraph(2, Tone::Dim, &text);
    }
}

fn ends(socket: &CalledSocket) -> String {
    let state = socket.state.as_deref().unwrap_or_default();
    let inode = socket.inode.unwrap_or_default();
    let place = match (&socket.local, &socket.remote) {
        (Some(local), Some(remote)) => format!("{local} ⇄ {remote}"),
        (Some(local), None) => local.clone(),
        (None, _) if inode == 0 => return "no socket".to_owned(),
        (None, _) => "without an address".to_owned(),
    };
    let space = socket
        .namespace
        .map_or_else(String::new, |id| format!(" netns {id}"));
    format!("{state} {place} inode {inode}{space}")
}

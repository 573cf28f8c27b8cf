//! The results of watching requests in the kernel.

use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::report::{AskedService, Report, Watch, WatchedService};

use crate::render::page::{Page, Tone};
use crate::render::{quantity, stages};

/// The meanings of the stages, by name.
const MEANINGS: [(&str, &str); 10] = [
    ("backlog", "arrived, waits for the network stack"),
    ("stack", "on its way to TCP: filters, routing"),
    ("unread", "in the socket's queue, not yet read"),
    ("wake-up", "its thread runnable, an idle processor waking"),
    ("run-queue", "its thread runnable, but without a processor"),
    ("program", "from its first read to its last write"),
    ("waiting", "within the program, with its thread asleep"),
    ("held", "written, but held by Nagle's algorithm"),
    ("sending", "written, but waiting for a window or pacing"),
    ("qdisc", "sent by TCP, queued before the device"),
];

/// Returns the meaning of a stage; an empty string for an unknown one.
pub(super) fn meaning(stage: &str) -> &'static str {
    let known = MEANINGS.iter().find(|(name, _)| *name == stage);
    known.map_or("", |(_, meaning)| meaning)
}

/// Returns the number of lost observations, and the number of connections that were not followed
/// for lack of room; `None` if there were none.
pub(super) fn lost(tally: &WatchTally) -> Option<String> {
    let mut parts = Vec::new();
    if tally.lost_records > 0 {
        let lost = quantity::counted(tally.lost_records, "observation", "observations");
        parts.push(format!("{lost} lost"));
    }
    if tally.lost_connections > 0 {
        let lost = quantity::counted(tally.lost_connections, "connection", "connections");
        parts.push(format!("{lost} not followed"));
    }
    (!parts.is_empty()).then(|| format!("{} for lack of memory", parts.join(", ")))
}

/// Writes the results of watching; nothing if nothing was watched.
pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(watch) = &report.watch else { return };
    page.heading("In the kernel");
    page.paragraph(2, Tone::Plain, &all(watch));
    if !watch.drops.is_empty() {
        page.paragraph(2, Tone::Plain, &dropped(watch));
    }
    for service in watch.services.iter().filter(|service| service.turns > 0) {
        page.blank();
        page.paragraph(2, Tone::Plain, &one(service));
        page.table(2, &stages::table(&service.stages, &MEANINGS));
        for asked in &service.asked {
            page.paragraph(2, Tone::Plain, &whom(asked));
        }
    }
}

/// Returns sentences on packets that the kernel dropped and on processor time that the program was
/// denied. For `lagtrace watch`, there are also sentences on the stages of each service; in other
/// reports, the stages are part of the findings' evidence.
pub(super) fn in_lines(report: &Report) -> Vec<String> {
    let Some(watch) = &report.watch else {
        return Vec::new();
    };
    let dropped = (!watch.drops.is_empty()).then(|| dropped(watch));
    let services = watch.services.iter();
    let services = services.filter(|service| service.turns > 0 && report.command == "watch");
    let lines = dropped.into_iter().chain(hindered(watch));
    lines.chain(services.map(stages_of)).collect()
}

/// Returns a sentence on the stages of a service that took time, the longest first.
fn stages_of(service: &WatchedService) -> String {
    let mut stages: Vec<_> = service.stages.iter().collect();
    stages.sort_by_key(|stage| std::cmp::Reverse(stage.time_ns.mean));
    let stages = stages.iter().filter(|stage| stage.time_ns.mean > 0);
    let each = stages.map(|stage| {
        let mean = quantity::duration(stage.time_ns.mean);
        format!("{} {mean}", stage.name)
    });
    let each = each.collect::<Vec<_>>().join(", ");
    format!("In the kernel, {} (means): {each}.", service.service)
}

fn all(watch: &Watch) -> String {
    let latency = &watch.latency_ns;
    if latency.count == 0 {
        return match watch.connections {
            0 => "No connection was used.".to_owned(),
            many => format!(
                "{} were used; the kernel timed no whole request on them.",
                quantity::counted(many, "connection", "connections")
            ),
        };
    }
    let mut text = format!(
        "{} on {}: p50 {}, p99 {}, at most {}, from the first byte in to the last byte out.",
        quantity::counted(latency.count, "request", "requests"),
        quantity::counted(watch.connections, "connection", "connections"),
        quantity::duration(latency.p50),
        quantity::duration(latency.p99),
        quantity::duration(latency.max),
    );
    if let Some(cost) = watch.cost_ns {
        text += &format!(
            " Watching took {} of processor time.",
            quantity::duration(cost)
        );
    }
    for sentence in hindered(watch) {
        text += &format!(" {sentence}");
    }
    text
}

/// Returns a sentence for each cause that kept the program from the processor: CPU quota, steal
/// time.
fn hindered(watch: &Watch) -> impl Iterator<Item = String> {
    let throttled = watch.throttling.filter(|throttled| throttled.periods > 0);
    let throttled = throttled.map(|throttled| {
        format!(
            "The program's control group had used up its processor time in {}, for {} in all.",
            quantity::counted(throttled.periods, "period", "periods"),
            quantity::duration(throttled.time_ns)
        )
    });
    let stolen = watch.stolen_ns.filter(|&stolen| stolen > 0);
    let stolen = stolen.map(|stolen| {
        format!(
            "The hypervisor gave {} of processor time to others.",
            quantity::duration(stolen)
        )
    });
    throttled.into_iter().chain(stolen)
}

fn dropped(watch: &Watch) -> String {
    let each = watch.drops.iter();
    let list: Vec<String> = each
        .map(|drop| format!("{} ({})", quantity::count(drop.packets), drop.reason))
        .collect();
    // A healthy host drops some: NOT_SPECIFIED has the last ACKs of handshakes under
    // TCP_DEFER_ACCEPT, QUEUE_PURGE what a closed socket had not read.
    format!(
        "Packets of these ports that this host dropped, by the kernel's reason: {}. Not each is a \
         loss: duplicates and what a closed socket leaves unread count too.",
        list.join(", ")
    )
}

fn whom(asked: &AskedService) -> String {
    let whom = asked.service.as_deref().unwrap_or("another socket");
    let each = asked.calls as f64 / asked.time_ns.count.max(1) as f64;
    let times = if each >= 1.5 {
        format!(" {each:.1} times each (mean), one call after another")
    } else {
        String::new()
    };
    format!(
        "For {} of them it called {whom}{times}: p50 {}, p99 {} until it had read the answer.",
        quantity::count(asked.time_ns.count),
        quantity::duration(asked.time_ns.p50),
        quantity::duration(asked.time_ns.p99),
    )
}

fn one(service: &WatchedService) -> String {
    let programs = if service.programs.is_empty() {
        String::new()
    } else {
        format!(", read by {}", service.programs.join(", "))
    };
    format!(
        "{}{programs}: {} examined in detail.",
        service.service,
        quantity::counted(service.turns, "request", "requests"),
    )
}

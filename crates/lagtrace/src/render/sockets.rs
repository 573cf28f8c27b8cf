//! Live sockets and their options.

use lagtrace_core::report::{CountOf, Report, SocketGroup};

use super::page::Page;
use super::quantity;
use super::table::{Align, Table, plain};

/// A column of the table: the name of an option and its tally in a group.
type Column = (&'static str, fn(&SocketGroup) -> Option<CountOf>);

const OPTIONS: [Column; 4] = [
    ("TCP_NODELAY", |group| group.nodelay),
    ("TCP_CORK", |group| group.cork),
    ("TCP_QUICKACK", |group| group.quickack),
    ("holding", |group| group.holding),
];

/// Writes the socket groups, with columns for the options that were read.
pub(super) fn write(page: &mut Page, report: &Report) {
    if report.sockets.is_empty() {
        return;
    }
    page.heading("Sockets (samples with the option set, of all samples read)");
    let read: Vec<Column> = OPTIONS
        .into_iter()
        .filter(|(_, option)| report.sockets.iter().any(|group| option(group).is_some()))
        .collect();
    let mut columns = vec![(Align::Left, "owner"), (Align::Right, "sockets")];
    columns.extend(read.iter().map(|(name, _)| (Align::Right, *name)));
    let mut table = Table::new(&columns);
    for group in &report.sockets {
        let mut cells = vec![plain(owner(group)), plain(quantity::count(group.sockets))];
        cells.extend(read.iter().map(|(_, option)| plain(tally(option(group)))));
        table.row(cells);
    }
    page.table(2, &table);
}

fn owner(group: &SocketGroup) -> String {
    let twin = if group.target == "twin" {
        " (twin)"
    } else {
        ""
    };
    format!("{}{twin}", group.owner)
}

fn tally(tally: Option<CountOf>) -> String {
    tally.map_or_else(
        || "not read".to_owned(),
        |tally| {
            format!(
                "{} of {}",
                quantity::count(tally.count),
                quantity::count(tally.of)
            )
        },
    )
}

//! The option `--connections` of `lagtrace analyze`: connections one by one.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use lagtrace_core::analyzer::{self, Analyzer};
use lagtrace_core::report::{Picture, Report};
use lagtrace_core::views::connections::{Key, Wanted};

use crate::console::Console;
use crate::delivery::deliver;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::output::Format;
use crate::render::{self, html};
use crate::{conclusion, page};

use super::listing::Listing;
use super::room;

/// Options that choose the connections to list.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct ConnectionOptions {
    /// List the COUNT connections that lost the most time, with their figures. As text, the list
    /// replaces the report; in JSON, it is part of the report. -v prints all figures
    #[arg(
        long,
        value_name = "COUNT",
        num_args = 0..=1,
        default_missing_value = "20",
        conflicts_with_all = ["exchanges", "stream"],
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    connections: Option<u32>,
    /// Sort by this column instead, largest first
    #[arg(long, value_enum, value_name = "COLUMN", requires = "connections")]
    connections_by: Option<Column>,
}

/// The column that connections are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column(Key);

impl ValueEnum for Column {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Column; 10] = {
            let mut all = [Column(Key::Lost); 10];
            let mut at = 0;
            while at < all.len() {
                all[at] = Column(Key::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()))
    }
}

impl ConnectionOptions {
    /// Returns an analyzer for this number of files that collects connections. If the output is
    /// lines, each connection is written when it ends.
    pub(super) fn analyzer(
        self,
        files: usize,
        max_connections: Option<usize>,
        listing: Option<&Listing>,
        is_drawn: bool,
    ) -> Analyzer {
        let lines = self.connections.and(listing).filter(|l| l.writes_lines());
        let options = analyzer::Options {
            connections: self.wanted(room(files), lines.is_some()),
            max_connections,
            ..conclusion::options(Vec::new())
        };
        let analyzer = conclusion::analyzer(options, is_drawn);
        match lines {
            Some(listing) => analyzer.with_connection_sink(listing.connection_sink()),
            None => analyzer,
        }
    }

    fn wanted(self, room: usize, as_lines: bool) -> Wanted {
        let limit = self.connections.filter(|_| !as_lines);
        Wanted {
            limit: limit.unwrap_or_default() as usize,
            by: self
                .connections_by
                .map_or(Key::default(), |column| column.0),
            points_per_file: u16::try_from(room).unwrap_or(u16::MAX),
        }
    }

    /// Prints the report with the requested connections; in text output the connections replace the
    /// report.
    pub(super) fn show(
        &self,
        report: &Report,
        picture: Option<Picture>,
        console: &Console,
    ) -> Result<Outcome> {
        let listed = report.connections.as_ref();
        match (listed, console.output().format) {
            (Some(listed), Format::Text) => {
                let shown = || html::Document::of_report(report, picture);
                let text = render::connections(listed, &console.style());
                page::beside(console, shown, || deliver(console, &text))?;
                Ok(Outcome::of(report))
            }
            _ => conclusion::conclude(report, picture, console),
        }
    }
}

/// Sets the file name of each connection; each file has `room` observation points.
pub(super) fn name_files(report: &mut Report, names: &[String], room: usize) {
    let list = report.connections.iter_mut().flat_map(|c| &mut c.list);
    for record in list.filter(|_| names.len() > 1) {
        let file = usize::from(record.point) / room.max(1);
        record.capture = names.get(file).cloned().unwrap_or_default();
    }
}

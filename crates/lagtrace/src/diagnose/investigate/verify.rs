//! Verification of a fix by comparing this run with an earlier one.

use lagtrace_core::ramp::Load;
use lagtrace_core::report::Report;
use lagtrace_core::views::compare::compare;
use serde_json::{Value, json};

use crate::compare;
use crate::console::Console;
use crate::delivery::deliver;
use crate::diagnose::Options;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::output::Format;
use crate::page;
use crate::render::{self, html};
use crate::saved;

/// Returns the earlier run, if one was specified. It is read before anything is measured, so that a
/// wrong file name costs no time.
pub(super) fn baseline(options: &Options) -> Result<Option<Report>> {
    let path = options.verify.as_deref();
    path.map(saved::report).transpose()
}

/// Returns the load that was asked for in a run, and the one at which delay was judged; `None` if no
/// levels of load were measured.
pub(super) fn judged(report: &Report) -> Option<(Load, Load)> {
    let capacity = report.capacity.as_ref()?;
    let asked = Load {
        connections: capacity.asked_connections,
        rate: capacity.asked.offered_rate,
    };
    let judged = Load {
        connections: capacity.judged_connections,
        rate: capacity.judged_rate,
    };
    Some((asked, judged))
}

/// Prints the comparison, which answers whether the fix helped, and this run's report.
pub(super) fn conclude(before: &Report, after: &Report, console: &Console) -> Result<Outcome> {
    let comparison = compare(before, after);
    let document = match console.output().format {
        Format::Json => {
            let both: Value = json!({"report": after, "comparison": comparison});
            format!("{both:#}\n")
        }
        Format::Ndjson => {
            let compared = compare::document(&comparison, console);
            format!("{}{compared}", render::ndjson(after))
        }
        Format::Text => {
            let compared = compare::document(&comparison, console);
            format!("{compared}\n{}", render::text(after, &console.style()))
        }
    };
    let shown = || html::Document::of_comparison(&comparison, Some(before), Some(after));
    page::beside(console, shown, || deliver(console, &document))?;
    Ok(compare::outcome(&comparison))
}

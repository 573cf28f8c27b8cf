//! The diagnoses before and after each change, and their statistics.

use std::fs;
use std::path::Path;

use crate::change::{CHANGES, Change, Changed};
use crate::corpus::{First, Said, Subject};
use crate::draw::Draw;
use crate::exceptions;

/// Maximum change of a cost, as a fraction.
const CLOSE: f64 = 0.1;

/// A capture's diagnosis before and after a change.
pub(crate) struct Outcome {
    pub(crate) change: &'static str,
    pub(crate) subject: String,
    pub(crate) before: Said,
    pub(crate) after: Said,
    /// The ratio of the cost after the change to the cost before; `None` if the two cannot be
    /// compared.
    cost: Option<f64>,
    adds_time: bool,
}

/// Returns the outcomes of these changes; changes that are impossible for this capture are left
/// out.
pub(crate) fn outcomes(
    subject: &Subject,
    all: &[Subject],
    seed: u64,
    changes: &[&Change],
) -> Vec<Outcome> {
    let it = subject.load(all);
    let outcome = |change: &&Change| {
        let mut draw = Draw::new(seed, &format!("{} {}", change.name, subject.name));
        let changed = (change.make)(&it, &mut draw)?;
        let (before, after) = changed.said(&it);
        let outcome = Outcome {
            change: change.name,
            subject: subject.name.clone(),
            cost: cost(change, &before, &after).filter(|_| !change.adds_time),
            adds_time: change.adds_time,
            before,
            after,
        };
        if let (Changed::File(bytes), false) = (&changed, outcome.is_same() && outcome.is_close()) {
            keep(&outcome, bytes);
        }
        Some(outcome)
    };
    changes.iter().filter_map(outcome).collect()
}

/// Writes the changed capture into the folder `METAMORPHIC_KEEP`, for inspection.
fn keep(outcome: &Outcome, bytes: &[u8]) {
    if let Ok(folder) = std::env::var("METAMORPHIC_KEEP") {
        let name = format!("{}, {}.pcap", outcome.subject, outcome.change).replace('/', " ");
        fs::write(Path::new(&folder).join(name), bytes).expect("it is kept");
    }
}

fn cost(change: &Change, before: &Said, after: &Said) -> Option<f64> {
    let (one, two) = (before.first?, after.first?);
    // A change that removes requests also removes their cost. The cost per affected request stays
    // the same.
    let cost = |first: First| {
        if change.leaves_out {
            first.cost_ns as f64 / first.affected.max(1) as f64
        } else {
            first.cost_ns as f64
        }
    };
    (before.is_like(after) && one.cost_ns > 0).then(|| cost(two) / cost(one))
}

impl Outcome {
    /// Returns true if the first finding and its owner are the same. If the change removes the
    /// evidence of the first finding, an acceptable remainder is enough; if it adds time, there
    /// must be no new accusation.
    fn is_same(&self) -> bool {
        if self.adds_time {
            let mut accused = self.after.accused.iter();
            return accused.all(|one| self.before.accused.contains(one));
        }
        self.before.is_like(&self.after)
            || exceptions::takes_evidence(self) && self.after.is_rest_of(&self.before)
    }

    fn is_close(&self) -> bool {
        self.cost.is_none_or(|cost| (cost - 1.0).abs() <= CLOSE)
    }

    /// Returns the reason why the outcome may differ.
    fn reason(&self) -> Option<&'static str> {
        exceptions::reason(self)
    }

    /// Describes the fault; `None` if the diagnosis is the same, or if an exception applies.
    pub(crate) fn fault(&self) -> Option<String> {
        (!self.is_same() && self.reason().is_none()).then(|| self.line())
    }

    fn line(&self) -> String {
        let Self {
            change,
            subject,
            before,
            after,
            ..
        } = self;
        format!("{change}: {subject}: was {before}, became {after}")
    }
}

/// Prints the statistics of each change and the outcomes that differ; returns true if all
/// differences have a reason.
pub(crate) fn tell(outcomes: &[Outcome]) -> bool {
    println!(
        "{:<40} captures   first and owner      cost within 10 %",
        ""
    );
    for change in &CHANGES {
        row(
            change.name,
            &|outcome| outcome.change == change.name,
            outcomes,
        );
    }
    row("all", &|_| true, outcomes);
    let mut is_explained = true;
    for outcome in outcomes
        .iter()
        .filter(|outcome| !outcome.is_same() || !outcome.is_close())
    {
        let reason = outcome.reason();
        is_explained &= outcome.is_same() || reason.is_some();
        println!("{}: {}", outcome.line(), reason.unwrap_or("UNEXPLAINED"));
    }
    is_explained
}

fn row(name: &str, is_meant: &dyn Fn(&Outcome) -> bool, outcomes: &[Outcome]) {
    let all: Vec<_> = outcomes
        .iter()
        .filter(|outcome| is_meant(outcome))
        .collect();
    let same = all.iter().filter(|outcome| outcome.is_same()).count();
    let costs: Vec<_> = all
        .iter()
        .filter(|outcome| outcome.cost.is_some())
        .collect();
    let close = costs.iter().filter(|outcome| outcome.is_close()).count();
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64 * 100.0;
    println!(
        "{name:<40} {:>8}   {same:>6} ({:>6.2} %)   {close:>6} of {} ({:.2} %)",
        all.len(),
        share(same, all.len()),
        costs.len(),
        share(close, costs.len()),
    );
}

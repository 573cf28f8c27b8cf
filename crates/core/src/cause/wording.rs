//! The texts of claims. They are constants of each rule, separate from its detection.

use core::fmt::Display;

use super::Id;
use super::evidence::{percent, ruled_out};
use super::settings::tunable;
use crate::claim::{Advice, Claim};

/// All texts of a claim except its evidence. `{name}` in a text is replaced by a value of the
/// rule. `{share}`, `{part}` (the affected share of the exchanges, or "all") and `{service}` are
/// replaced by values of the claim.
pub(super) struct Wording {
    pub(super) summary: &'static str,
    /// The look-alikes, each with the evidence that excludes it.
    pub(super) ruled_out: &'static [(Id, &'static str)],
    pub(super) overturned_by: &'static str,
    /// The changes to make, each with its place. The name of a socket option or of a directive in
    /// braces stays as it is, and says what the change turns.
    pub(super) fix: &'static [(&'static str, &'static str)],
}

/// Names with the values that replace them.
pub(super) type Values<'a> = [(&'a str, &'a dyn Display)];

impl Wording {
    /// The wording without any text.
    pub(super) const NONE: Self = Self {
        summary: "",
        ruled_out: &[],
        overturned_by: "",
        fix: &[],
    };

    /// Adds the texts to the claim, after the texts that it already has.
    pub(super) fn tell(&self, claim: &mut Claim, values: &Values<'_>) {
        claim.text.summary += &filled(self.summary, claim, values);
        for &(cause, because) in self.ruled_out {
            let because = filled(because, claim, values);
            claim.ruled_out.push(ruled_out(cause, because));
        }
        claim.text.overturned_by += &filled(self.overturned_by, claim, values);
        for &(place, change) in self.fix {
            let turned = names(change).filter_map(tunable);
            let place = filled(place, claim, values);
            let advice = Advice::new(place, filled(change, claim, values));
            claim.advice.push(advice.turning(turned));
        }
    }
}

/// Returns the names in braces in `text`.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split('{').skip(1);
    pieces.filter_map(|piece| Some(piece.split_once('}')?.0))
}

/// Returns `text` with all names replaced by their values.
pub(super) fn filled(text: &str, claim: &Claim, values: &Values<'_>) -> String {
    let mut pieces = text.split('{');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once('}').unwrap_or((piece, ""));
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => filled += &value.to_string(),
            None => {
                let begins_sentence = filled.is_empty() || filled.ends_with(". ");
                filled += &own(claim, name, begins_sentence);
            }
        }
        filled += rest;
    }
    filled
}

/// Returns the value of a name that stands for a value of the claim; the name itself, in braces, if
/// it stands for none. A word at the beginning of a sentence has a capital.
fn own(claim: &Claim, name: &str, begins_sentence: bool) -> String {
    let affected = claim.affected;
    match name {
        "share" => percent(claim.time.share()),
        "part" => match part(affected.exchanges, affected.of).as_str() {
            "all" if begins_sentence => "All".to_owned(),
            part => part.to_owned(),
        },
        "service" => claim.service(),
        _ if tunable(name).is_some() => name.to_owned(),
        // Tests look for such names in all texts.
        _ => format!("{{{name}}}"),
    }
}

/// Returns "all", or the share of `all` in percent.
pub(super) fn part(count: u64, all: u64) -> String {
    if all > 0 && count >= all {
        "all".to_owned()
    } else {
        percent(count as f64 / all.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::wait::Owner;
    use crate::observed::flow::Endpoint;
    use crate::report::Affected;

    #[test]
    fn a_value_is_filled_in_wherever_its_name_stands() {
        let values: &Values<'_> = &[("took", &"3 ms"), ("count", &7)];
        let text = "{took} each: {count} of them in {took}";
        assert_eq!(
            filled(text, &claim(), values),
            "3 ms each: 7 of them in 3 ms"
        );
        let braces: &Values<'_> = &[("took", &"{count}")];
        assert_eq!(filled("in {took}", &claim(), braces), "in {count}");
    }

    #[test]
    fn the_findings_own_values_need_not_be_given_but_may_be() {
        let claim = claim();
        let text = "{service}: {share} of the time, {part} of the exchanges";
        assert_eq!(
            filled(text, &claim, &[]),
            "10.0.0.2:80: 25 % of the time, 75 % of the exchanges"
        );
        assert_eq!(filled("{part}", &claim, &[("part", &"half")]), "half");
    }

    #[test]
    fn a_sentence_begins_with_a_capital() {
        let mut claim = claim();
        claim.affected.exchanges = claim.affected.of;
        let text = "{part} of them wait. {part} of them, that is {part}, wait long.";
        let told = "All of them wait. All of them, that is all, wait long.";
        assert_eq!(filled(text, &claim, &[]), told);
    }

    #[test]
    fn a_finding_without_exchanges_has_no_part_of_them() {
        let mut claim = claim();
        claim.affected = Affected::default();
        assert_eq!(filled("{part}", &claim, &[]), "0 %");
    }

    #[test]
    fn a_text_without_names_stays_as_it_is() {
        for text in ["", "nothing to fill in", "50 % of `ss -tn`"] {
            assert_eq!(filled(text, &claim(), &[("took", &"3 ms")]), text);
        }
    }

    #[test]
    fn a_missing_value_and_a_name_that_does_not_end_are_seen() {
        for (text, wanted) in [
            ("{bytes} bytes", "{bytes} bytes"),
            ("{took bytes", "{took bytes}"),
        ] {
            assert_eq!(filled(text, &claim(), &[("took", &"3 ms")]), wanted);
        }
    }

    #[test]
    fn a_wording_is_told_behind_what_is_told_already() {
        const FIRST: Wording = Wording {
            summary: "It takes {took}",
            ruled_out: &[(Id::PacketLoss, "nothing was lost")],
            fix: &[("{place}", "less than {took}")],
            ..Wording::NONE
        };
        const NEXT: Wording = Wording {
            summary: " at {service}.",
            ruled_out: &[(Id::ServerThink, "sent {took} before")],
            overturned_by: "less than {took}",
            fix: &[("path", "nothing")],
        };
        let mut claim = claim();
        let values: &Values<'_> = &[("took", &"3 ms"), ("place", &"server")];
        FIRST.tell(&mut claim, values);
        NEXT.tell(&mut claim, values);
        assert_eq!(claim.text.summary, "It takes 3 ms at 10.0.0.2:80.");
        assert_eq!(
            claim.ruled_out,
            [
                ruled_out(Id::PacketLoss, "nothing was lost"),
                ruled_out(Id::ServerThink, "sent 3 ms before"),
            ]
        );
        assert_eq!(claim.text.overturned_by, "less than 3 ms");
        assert_eq!(
            claim.advice,
            [
                Advice::new("server", "less than 3 ms"),
                Advice::new("path", "nothing")
            ]
        );
    }

    /// Returns a claim without texts.
    fn claim() -> Claim {
        let at = Endpoint::new([10, 0, 0, 2].into(), 80);
        let mut claim = Claim::blank(Id::ServerThink, Owner::Server, at);
        claim.time.cost_exactly(1);
        claim.time.whole_ns = 4;
        claim.affected = Affected {
            exchanges: 3,
            of: 4,
        };
        claim
    }
}

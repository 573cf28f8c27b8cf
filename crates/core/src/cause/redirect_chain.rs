//! The rule of the cause `redirect-chain`.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::evidence::{self, human, median};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, Prediction, counted};
use crate::service::tally::Tally;
use crate::service::timeline::Moment;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "A redirect leads to another redirect: the page comes after {whole} (median) instead \
        of {direct}. The redirects are {share} of that time, a round trip and more for each.",
    ruled_out: &[(
        Id::ServerThink,
        "the cause is the number of exchanges, not the length of one",
    )],
    overturned_by: "redirects in between that clients must not skip: a login, a consent",
    fix: &[
        (
            "server",
            "redirect once, to the final location: `{return} 301 https://…/final/` (nginx)",
        ),
        (
            "server and clients",
            "link to the final location, so that nothing redirects",
        ),
        ("server", "HSTS with preload, if http redirects to https"),
    ],
};

/// Maximum time in which a client follows a redirect by itself. Later requests come from a person.
const FOLLOWED: Duration = Duration::from_secs(1);
/// Minimum number of redirects in a chain. A single redirect is normal, for example from a form to
/// its result.
const CHAIN: usize = 2;

/// Watches redirects whose target is another redirect.
///
/// The sign is that each request asks for the target of the previous response. Many redirects of
/// many clients are no chain.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

/// The chains that a client followed to their end.
#[derive(Default)]
struct Chains {
    /// Times from the first request of a chain to the last response.
    whole: Distribution,
    /// Times of the last exchange of each chain.
    direct: Distribution,
    /// Times from each redirected request to the request that followed it.
    turns: Distribution,
    redirects: Tally,
    count: u64,
}

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let chains = chains(case);
        let is_repeated = chains.count >= evidence::REPEATS
            || chains.redirects.affected * 2 >= case.ledger.counts.count;
        let is_material = evidence::betters(&chains.whole, &chains.direct);
        if chains.count == 0 || !is_repeated || !is_material {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(claim(case, &chains)))
    }
}

fn chains(case: &Case<'_>) -> Chains {
    let moments = &case.rhythm.moments;
    if moments
        .iter()
        .all(|moment| moment.fingerprints.redirect.is_none())
    {
        return Chains::default();
    }
    let mut asked: BTreeMap<(IpAddr, u64), Vec<usize>> = BTreeMap::new();
    for (index, moment) in moments.iter().enumerate() {
        asked
            .entry((moment.client.addr, moment.fingerprints.target))
            .or_default()
            .push(index);
    }
    let mut followed: BTreeSet<usize> = BTreeSet::new();
    let mut chains = Chains::default();
    for (index, first) in moments.iter().enumerate() {
        if first.fingerprints.redirect.is_none() || followed.contains(&index) {
            continue;
        }
        let mut chain = vec![*first];
        while let Some(next) = chain
            .last()
            .and_then(|last| follower(moments, &asked, &followed, last))
        {
            followed.insert(next);
            chain.extend(moments.get(next));
        }
        chains.add(&chain, case.rhythm.weight);
    }
    chains
}

/// Returns the index of the exchange in which the client followed `redirect`.
fn follower(
    moments: &[Moment],
    asked: &BTreeMap<(IpAddr, u64), Vec<usize>>,
    followed: &BTreeSet<usize>,
    redirect: &Moment,
) -> Option<usize> {
    let candidates = asked.get(&(redirect.client.addr, redirect.fingerprints.redirect?))?;
    let begin = |index: &usize| moments.get(*index).map(|moment| moment.begin);
    let from = candidates.partition_point(|index| begin(index) < Some(redirect.end));
    candidates
        .iter()
        .skip(from)
        .take_while(|index| begin(index).is_some_and(|at| at.since(redirect.end) <= FOLLOWED))
        .find(|index| !followed.contains(index))
        .copied()
}

impl Chains {
    fn add(&mut self, chain: &[Moment], weight: f64) {
        let (Some(first), Some(last)) = (chain.first(), chain.last()) else {
            return;
        };
        if last.fingerprints.redirect.is_some() || chain.len() <= CHAIN {
            return;
        }
        self.count += 1;
        self.whole.record(last.end.since(first.begin));
        self.direct.record(last.latency());
        for pair in chain.windows(2) {
            let (Some(redirect), Some(next)) = (pair.first(), pair.get(1)) else {
                continue;
            };
            self.turns.record(next.begin.since(redirect.begin));
            self.redirects
                .add_moment(redirect, redirect.latency(), weight);
        }
    }

    /// Returns the expected time of a page without redirects. The rates are in pages instead of
    /// requests.
    fn prediction(&self, case: &Case<'_>) -> Option<Prediction> {
        let mut prediction =
            evidence::prediction(case, Id::RedirectChain, (&self.whole, &self.direct), None)?;
        let each = self.count as f64 * case.rhythm.weight / case.ledger.counts.count.max(1) as f64;
        prediction.at_rate *= each;
        let scaled = |(low, high)| (low * each, high * each);
        prediction.closed_loop_rate = prediction.closed_loop_rate.map(scaled);
        Some(prediction)
    }
}

fn claim(case: &Case<'_>, chains: &Chains) -> Claim {
    let mut claim = evidence::claim(Id::RedirectChain, Owner::Server, case, &chains.redirects);
    let sum = u64::try_from(chains.turns.sum_ns()).unwrap_or(u64::MAX);
    let cost = (sum as f64 * case.rhythm.weight).round() as u64;
    claim.time.cost_exactly(cost);
    let whole = u64::try_from(chains.whole.sum_ns()).unwrap_or(u64::MAX);
    claim.time.whole_ns = (whole as f64 * case.rhythm.weight).round() as u64;
    claim.time.wall_ns = nanos(Duration::from_nanos(sum));
    claim.time.predicted = chains.prediction(case);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let each = chains.turns.count() / chains.count.max(1);
    let text = format!(
        "{} a client followed {} (mean) one after the other, {} (median) each",
        counted(chains.count, "time", "times"),
        counted(each, "redirect", "redirects"),
        median(&chains.turns),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(chains.turns.count())
            .median(&chains.turns)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    claim.basis = Basis::new(chains.count, false);
    WORDING.tell(
        &mut claim,
        &[
            ("whole", &median(&chains.whole)),
            (
                "direct",
                &human(chains.direct.quantile(0.5).unwrap_or_default()),
            ),
        ],
    );
    claim
}

//! The rule of the cause `server-think`.

use core::time::Duration;

use super::evidence::{self, ORDINARY_WORK, human, median};
use super::greetings::Greetings;
use super::silence::LoadSilences;
use super::thinking::{ThinkTime, idle_think, with_the_server};
use super::wording::Wording;
use super::{
    Case, Conclusion, Id, candidates, downstream_wait, one_thread, rate_limit, worker_saturation,
};
use super::{kernel_place, served};
use crate::claim::{Basis, Claim, Statement};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, Remark};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The server has the whole request and takes {saved} (median) before it begins to \
        answer, {share} of all request time.{others} Packets do not show what the \
        server does in that time.",
    ruled_out: &[(
        Id::NagleDelayedAck,
        "no part of the response had been sent yet, so there was nothing whose acknowledgement \
         could have released the rest",
    )],
    overturned_by: "the server's own log showing that it answered sooner",
    fix: &[("server", "{handler}"), ("server", "{change}")],
};

/// The sentence on the network and the client, if no look-alike remains.
const NOBODY_ELSE: &str = " The network and the client do not contribute to this time.";

/// The advice to find out what a handler does.
const PROFILE: &str = "profile the handler: its own CPU, locks, database and upstream calls";

/// The change at a server that can handle several requests in parallel.
const SIDE_BY_SIDE: &str = "if requests queue (compare single requests with many concurrent ones): \
                            serve more of them in parallel";

/// Watches servers that answer late, wherever the time passes. If the kernel shows the place,
/// another claim reports it ([`served`]).
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    greetings: Greetings,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        self.greetings.observe(setup);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let greets = self.greetings.claim(case);
        match (self.thinks(case), greets) {
            (Conclusion::Claim(mut thinks), Some(mut greets)) => {
                // The same program is late in two ways. Only the claim with the higher cost is
                // reported.
                if greets.time.cost.likely > thinks.time.cost.likely {
                    core::mem::swap(&mut *thinks, &mut greets);
                }
                thinks.evidence.append(&mut greets.evidence);
                Conclusion::Claim(thinks)
            }
            (_, Some(greets)) => Conclusion::Claim(Box::new(greets)),
            (thinks, None) => thinks,
        }
    }
}

impl Rule {
    /// Returns the conclusion from exchanges, without greetings.
    fn thinks(&self, case: &Case<'_>) -> Conclusion {
        let has_reason = || worker_saturation::has_limit(case) || rate_limit::is_shown(case);
        match case.gathered.thinking.claim(case) {
            Some(_) if has_reason() => Conclusion::Nothing,
            // Packets do not show that the server owed a response. The account reports the time
            // instead.
            Some(ThinkTime::Thinks(_)) if case.ledger.is_unowed() => Conclusion::Nothing,
            Some(ThinkTime::Thinks(_))
                if kernel_place::passed(case).is_some_and(|passed| passed.is_told(case)) =>
            {
                Conclusion::Nothing
            }
            Some(ThinkTime::Thinks(tally)) if served::is_for_processor(case, &tally) => {
                Conclusion::Nothing
            }
            Some(ThinkTime::Thinks(_)) if case.rhythm.blocked(case).is_some() => {
                Conclusion::Nothing
            }
            Some(ThinkTime::Thinks(tally)) if stands(case, &tally) => Conclusion::Nothing,
            Some(ThinkTime::Thinks(tally)) if is_behind_relay(case, &tally) => Conclusion::Nothing,
            Some(ThinkTime::Thinks(_)) if downstream_wait::passes_on(case).is_some() => {
                Conclusion::Nothing
            }
            Some(ThinkTime::Thinks(tally)) => match served::computes(case) {
                Some(worked) => Conclusion::Note(computing(worked)),
                None => Conclusion::Claim(Box::new(claim(case, &tally))),
            },
            Some(ThinkTime::Saturated(remark)) => Conclusion::Note(remark),
            None => Conclusion::Nothing,
        }
    }
}

/// Returns the remark on a service that works on its requests for most of their time.
fn computing(worked: Duration) -> Remark {
    Remark {
        id: Remark::COMPUTES.to_owned(),
        text: format!(
            "Each request takes {} of the service's processor time, most of its time there: work, and \
             no wait. A profile of the CPU shows what for (`sudo perf top -p PID`).",
            human(worked)
        ),
    }
}

/// Returns true if, without packets, most of the time in `tally` passed while the whole server
/// stood still.
fn stands(case: &Case<'_>, tally: &Tally) -> bool {
    let silences = LoadSilences::of(case).filter(|_| !case.has_packets);
    silences.is_some_and(|silences| nanos(silences.waited) * 2 > tally.cost.likely)
}

/// Returns true if most of the waits in `tally` may have passed on the path, behind a host that
/// acknowledges in the server's name.
fn is_behind_relay(case: &Case<'_>, tally: &Tally) -> bool {
    let wait = tally.saved.quantile(0.5).unwrap_or_default();
    case.ledger.is_behind_relay(wait, 1)
}

fn claim(case: &Case<'_>, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::ServerThink, Owner::Server, case, tally);
    claim.exemplars = case.gathered.thinking.tally().exemplars();
    claim.evidence.push(with_the_server(case, tally));
    if let Some(idle) = idle_think(case).filter(|&idle| idle >= ORDINARY_WORK) {
        let text = format!(
            "a single request to the idle server waited {} too",
            human(idle)
        );
        claim
            .evidence
            .push(Statement::fits(EvidenceKind::OwnSocket, text));
    }
    claim.evidence.extend(kernel_place::shown(case));
    let handler = if served::is_asleep(case) {
        served::SLEEPERS
    } else {
        PROFILE
    };
    let has_look_alike = !case.gathered.thinking.has_floor() || case.ledger.is_relayed();
    claim.basis = Basis::new(tally.affected, has_look_alike);
    if case.has_packets {
        claim.candidates = candidates::of_server(case);
    }
    WORDING.tell(
        &mut claim,
        &[
            ("saved", &median(&tally.saved)),
            ("others", &if has_look_alike { "" } else { NOBODY_ELSE }),
            ("handler", &handler),
            ("change", &one_thread::change_for(case, SIDE_BY_SIDE)),
        ],
    );
    claim
}

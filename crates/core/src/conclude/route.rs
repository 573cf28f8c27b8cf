//! The layer of the traced route.

use core::time::Duration;

use crate::cause::evidence::human;
use crate::claim::{Claim, Statement};
use crate::facts::Facts;
use crate::observed::event::{ProbeAnswer, ProbeMethod, TargetId};
use crate::registry::RouteProperty;
use crate::report::{EvidenceKind, Hop, HopState, Layer, LayerState, Route, counted};
use crate::route::alike;

/// Minimum share of the path's delay that must arise between two hops for these hops to be
/// reported.
const MOST: f64 = 0.5;
/// Minimum delay between two hops that are reported.
const FAR: Duration = Duration::from_millis(1);
/// Minimum number and minimum share of lost probes to the target. An investigation sends few
/// probes, and a single lost one shows nothing.
const LOSSES: u64 = 3;
const LOST: f64 = 0.1;

/// Returns the layer of the traced route; `None` if no route was traced.
pub(super) fn traced(facts: &Facts) -> Option<Layer> {
    let route = facts.route.route()?;
    let hops = facts.route.hops();
    let (state, line) = match verdict(&route) {
        Some(line) => (LayerState::Accused, line),
        None => match loss(&route, &hops) {
            Some(line) => (LayerState::Accused, line),
            None => (LayerState::Cleared, reached(&route, &hops)),
        },
    };
    Some(Layer {
        layer: "route".to_owned(),
        state,
        line,
        because: format!("probes by {}, {} timestamps", means(&route), route.stamp),
    })
}

/// Returns a phrase on the method of the trace.
fn means(route: &Route) -> String {
    let rights = if route.is_raw {
        "raw sockets"
    } else {
        "no privilege"
    };
    format!("{}, {rights}", route.method)
}

/// Returns a sentence on the obstacle that keeps probes from the target; `None` if there is none.
fn verdict(route: &Route) -> Option<String> {
    let target = &route.target;
    let port = route
        .port
        .map_or_else(String::new, |port| format!(" port {port}"));
    let by = route.answered_by.as_ref();
    let by = by.map_or_else(String::new, |by| format!(", says {by}"));
    Some(match route.outcome.as_str() {
        "closed" => format!("{target}{port} is closed: RST{by}"),
        "prohibited" => format!("a filter prohibits {target}{port}{by}"),
        "unreachable" => format!("{target}{port} is unreachable{by}"),
        "silent" => format!("nothing answers for {target}{port}: filtered or lost"),
        "loop" => format!("packets to {target} loop: routers answer at several distances"),
        "too-far" => format!("{target} is farther away than the maximum number of hops"),
        _ => return None,
    })
}

/// Returns a sentence on the number of lost probes, and on the hop from which on they are lost.
fn loss(route: &Route, hops: &[Hop]) -> Option<String> {
    let from = route.loss_from?;
    let last = hops.last().filter(|hop| hop.state == HopState::Lossy)?;
    let lost = last.sent.saturating_sub(last.received);
    let first = hops.iter().find(|hop| hop.ttl == from).map(named)?;
    let mut before = hops.iter().rev().filter(|hop| hop.ttl < from);
    let near = before.find(|hop| hop.state == HopState::Answers);
    let near = near.map_or_else(String::new, |hop| format!("; {} loses none", named(hop)));
    Some(format!(
        "{lost} of {} to the target are lost, from {first} on{near}",
        counted(last.sent, "probe", "probes"),
    ))
}

fn named(hop: &Hop) -> String {
    let address = hop.address.as_deref().unwrap_or("?");
    format!("hop {} ({address})", hop.ttl)
}

fn reached(route: &Route, hops: &[Hop]) -> String {
    let distance = route.distance.unwrap_or_default();
    let rtt = hops.last().map_or(0, |hop| hop.rtt_ns.p50);
    let count = if distance == 1 {
        "1 hop"
    } else {
        &counted(u64::from(distance), "hop", "hops")
    };
    format!(
        "{} is {count} and {} away",
        route.target,
        human(Duration::from_nanos(rtt))
    )
}

/// Returns the layer of the path for an investigation that traced it: the place of its delay, and
/// its losses. The layer is not accused of delay, because delay cannot be removed.
pub(super) fn path(facts: &Facts) -> Option<Layer> {
    let route = facts.route.route()?;
    let hops = facts.route.hops();
    let lost = heavy_loss(&route, &hops).map(|_| whose(&route, &hops, echoes(facts)));
    let (state, line) = lost.unwrap_or_else(|| (LayerState::Cleared, way(&route, &hops)));
    Some(Layer {
        layer: "path".to_owned(),
        state,
        line,
        because: format!("a trace by {}, before the load", means(&route)),
    })
}

/// Returns the number of the investigation's echo requests that were lost, and the number sent.
fn echoes(facts: &Facts) -> Option<(u64, u64)> {
    let group = facts.probes_of(TargetId::Subject, ProbeMethod::Icmp, false)?;
    let silent = group.answers.get(&ProbeAnswer::Silence);
    Some((silent.copied().unwrap_or_default(), group.counts.sent))
}

/// Returns the state and the line of the path if probes to the target are lost. The target causes
/// the loss if it drops SYNs (a full backlog, a rate limit). The path causes it if echo requests
/// are lost as often: the target's kernel answers echo requests whatever port is open. Routers are
/// no evidence: one that limits its answers looks like one that drops packets.
fn whose(route: &Route, hops: &[Hop], echoes: Option<(u64, u64)>) -> (LayerState, String) {
    let last = hops.last();
    let last = last.map_or((0, 0), |hop| {
        (hop.sent.saturating_sub(hop.received), hop.sent)
    });
    let line = format!(
        "{} of {} to the target are lost",
        last.0,
        counted(last.1, "probe", "probes"),
    );
    match echoes {
        Some((lost, sent)) if lost < sent && is_heavy(lost, sent) && alike((lost, sent), last) => {
            let line = loss(route, hops).unwrap_or(line);
            let line = format!("{line}; {lost} of {sent} echo requests are lost too");
            (LayerState::Accused, line)
        }
        Some((lost, sent)) if lost * last.1 < last.0 * sent && !alike((lost, sent), last) => (
            LayerState::Cleared,
            format!(
                "{line}, but {lost} of {sent} echo requests: the target or a filter drops SYNs"
            ),
        ),
        _ => (
            LayerState::NotMeasured,
            format!("{line}: on the path, or at the target itself"),
        ),
    }
}

/// Adds evidence from the trace to claims on loss or delay on the path. It shows where, and not the
/// cause, so no claim is judged on it.
pub(super) fn support(claims: &mut [Claim], facts: &Facts) {
    let Some(route) = facts.route.route() else {
        return;
    };
    let hops = facts.route.hops();
    let loss = heavy_loss(&route, &hops);
    let is_lossy = whose(&route, &hops, echoes(facts)).0 == LayerState::Accused;
    let (delay, loss) = (step(&hops), loss.filter(|_| is_lossy));
    for claim in claims {
        let text = claim
            .cause
            .cause()
            .route
            .and_then(|property| match property {
                RouteProperty::Loss => loss.clone(),
                RouteProperty::Delay => delay.clone(),
            });
        let text = text.map(|text| format!("a trace of the route before the load: {text}"));
        let evidence = text.map(|text| Statement::fits(EvidenceKind::Wire, text));
        claim.evidence.extend(evidence.map(Statement::inherited));
    }
}

fn heavy_loss(route: &Route, hops: &[Hop]) -> Option<String> {
    let last = hops.last()?;
    let lost = last.sent.saturating_sub(last.received);
    loss(route, hops).filter(|_| is_heavy(lost, last.sent))
}

fn is_heavy(lost: u64, sent: u64) -> bool {
    lost >= LOSSES && lost as f64 >= sent as f64 * LOST
}

fn way(route: &Route, hops: &[Hop]) -> String {
    let from = step(hops).map_or_else(String::new, |step| format!("; {step}"));
    match route.distance {
        Some(1) => "the target is the next hop".to_owned(),
        Some(distance) => format!("{}{from}", counted(u64::from(distance), "hop", "hops")),
        None => {
            let known = hops.iter().filter(|hop| hop.received > 0).count();
            format!(
                "{} answer, but the target does not{from}",
                counted(known as u64, "hop", "hops"),
            )
        }
    }
}

/// Returns a sentence on the two hops between which most of the path's delay arises; `None` if
/// there are none.
fn step(hops: &[Hop]) -> Option<String> {
    let answering: Vec<&Hop> = hops.iter().filter(|hop| hop.received > 0).collect();
    let whole = answering.last()?.kept_ns;
    let before = core::iter::once(None).chain(answering.iter().map(|hop| Some(*hop)));
    let steps = before.zip(&answering).map(|(near, far)| {
        let begin = near.map_or(0, |near| near.kept_ns);
        (far.kept_ns.saturating_sub(begin), near, *far)
    });
    let (longest, near, far) = steps.max_by_key(|(longest, ..)| *longest)?;
    let is_notable = Duration::from_nanos(longest) >= FAR && longest as f64 >= whole as f64 * MOST;
    let time = |ns| human(Duration::from_nanos(ns));
    is_notable.then(|| {
        let near = near.map_or_else(|| "this host".to_owned(), named);
        let (longest, whole) = (time(longest), time(whole));
        format!(
            "{longest} of its {whole} are between {near} and {}",
            named(far)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(ttl: u8, ms: u64, sent: u64, received: u64) -> Hop {
        Hop {
            ttl,
            address: (received > 0).then(|| format!("10.0.0.{ttl}")),
            sent,
            received,
            state: match (received, received == sent) {
                (0, _) => HopState::Silent,
                (_, true) => HopState::Answers,
                _ => HopState::Lossy,
            },
            kept_ns: ms * 1_000_000,
            ..Hop::default()
        }
    }

    #[test]
    fn where_most_of_the_way_lies_is_named_and_an_even_way_has_no_place() {
        let far = [
            hop(1, 1, 8, 8),
            hop(2, 0, 8, 0),
            hop(3, 90, 8, 8),
            hop(4, 92, 8, 8),
        ];
        let text = step(&far).expect("one step is most of it");
        assert_eq!(
            text,
            "89.0 ms of its 92.0 ms are between hop 1 (10.0.0.1) and hop 3 (10.0.0.3)"
        );
        let even = [hop(1, 10, 8, 8), hop(2, 20, 8, 8), hop(3, 30, 8, 8)];
        assert_eq!(step(&even), None);
        // If the delay is microseconds, its place does not matter.
        let near = [hop(1, 0, 8, 8), hop(2, 0, 8, 8)];
        assert_eq!(step(&near), None);
    }

    #[test]
    fn only_a_heavy_loss_that_persists_is_one_of_the_way() {
        let route = |loss_from| Route {
            distance: Some(2),
            loss_from,
            ..Route::default()
        };
        let lossy = [hop(1, 1, 8, 8), hop(2, 2, 8, 5)];
        assert_eq!(
            heavy_loss(&route(Some(2)), &lossy).as_deref(),
            Some(
                "3 of 8 probes to the target are lost, from hop 2 (10.0.0.2) on; \
                 hop 1 (10.0.0.1) loses none"
            )
        );
        let once = [hop(1, 1, 8, 8), hop(2, 2, 8, 7)];
        assert_eq!(heavy_loss(&route(Some(2)), &once), None);
        // The target causes the loss: its kernel answers echo requests. A router with as many
        // losses is no evidence, because it may limit its answers.
        let lossy = [hop(1, 1, 24, 16), hop(2, 2, 24, 16)];
        for (echoes, state) in [
            (Some((7, 24)), LayerState::Accused),
            (Some((0, 24)), LayerState::Cleared),
            (Some((0, 3)), LayerState::NotMeasured),
            (Some((24, 24)), LayerState::NotMeasured),
            (Some((20, 24)), LayerState::NotMeasured),
            (Some((4, 4)), LayerState::NotMeasured),
            (None, LayerState::NotMeasured),
        ] {
            let whose = whose(&route(Some(1)), &lossy, echoes);
            assert_eq!(whose.0, state, "{echoes:?}");
        }
        // A router that limits its answers, and a target without losses.
        let limited = [hop(1, 1, 8, 3), hop(2, 2, 8, 8)];
        assert_eq!(heavy_loss(&route(None), &limited), None);
    }
}

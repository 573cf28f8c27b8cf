//! The layer of a traced route.

use core::time::Duration;

use crate::cause::evidence::human;
use crate::facts::Facts;
use crate::report::{Hop, HopState, Layer, LayerState, Route};

/// The traced route's layer; `None` where none was traced.
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
    let rights = if route.is_raw {
        "raw sockets"
    } else {
        "no privilege"
    };
    Some(Layer {
        layer: "route".to_owned(),
        state,
        line,
        because: format!(
            "probes by {}, {rights}, {} stamps",
            route.method, route.stamp
        ),
    })
}

/// What keeps probes from the target.
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
        "loop" => format!("packets to {target} go in circles: routers answer at several distances"),
        "too-far" => format!("{target} is farther away than the hops that were asked for"),
        _ => return None,
    })
}

fn loss(route: &Route, hops: &[Hop]) -> Option<String> {
    let from = route.loss_from?;
    let last = hops.last().filter(|hop| hop.state == HopState::Lossy)?;
    let lost = last.sent.saturating_sub(last.received);
    Some(format!(
        "{lost} of {} probes to the target are lost, from hop {from} on",
        last.sent
    ))
}

fn reached(route: &Route, hops: &[Hop]) -> String {
    let distance = route.distance.unwrap_or_default();
    let rtt = hops.last().map_or(0, |hop| hop.rtt_ns.p50);
    let count = if distance == 1 {
        "1 hop"
    } else {
        &format!("{distance} hops")
    };
    format!(
        "{} is {count} and {} away",
        route.target,
        human(Duration::from_nanos(rtt))
    )
}

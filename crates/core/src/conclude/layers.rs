//! The state of each layer: cleared, accused, suspected or not measured.

mod part;

use core::time::Duration;

use super::Observations;
use super::layer::layer;
use super::lookups::LONG_LOOKUP;
use crate::cause::evidence::{ORDINARY_WORK, human, median, percent};
use crate::cause::settings;
use crate::connection::SetupOutcome;
use crate::connection::table::Tallied;
use crate::exchange::wait::{Owner, WaitKind};
use crate::facts::Facts;
use crate::observed::event::{ConfigurationLine, ListenerSample, ProbeMethod, TargetId};
use crate::observed::time::Timestamp;
use crate::preconnect::SeenLookups;
use crate::registry::{Id, LayerId};
use crate::report::{Account, Finding, Layer, LayerState, Remark, counted, part_of};
use crate::service::Ledger;
use part::LayerPart;

/// Counters whose rise accuses no layer. If they do not rise, they clear their layer.
const QUEUE_COUNTERS: [&str; 4] = [
    "TcpExt:ListenOverflows",
    "TcpExt:ListenDrops",
    "TcpExt:TCPReqQFullDrop",
    "TcpExt:TCPReqQFullDoCookies",
];

/// The basis of most layers' states in a capture.
const SEEN: &str = "from the packets";
/// The connection layer becomes suspect if more than one in this many connection attempts failed.
const MOST_FAILED: u64 = 200;
/// A layer becomes suspect if more than one in this many of its data segments or connections is
/// irregular.
const MOST_ODD: u64 = 200;
/// Retransmissions are at most this part of the data segments, as a divisor, if they delay nothing, and
/// at least so many whole exchanges show that.
const MOST_UNFELT: u64 = 50;
const LEAST_SHOWING: u64 = 1_000;
/// Minimum duration of a handshake that distance alone cannot explain: the longest cables have a
/// round trip of about 300 ms.
const FAR: Duration = Duration::from_millis(400);
/// Minimum age of a SYN whose answer is overdue.
const OVERDUE: Duration = Duration::from_millis(20);
/// Minimum ratio of this age to the 99th percentile of the durations of handshakes.
const OVERDUE_RATIO: u32 = 10;
/// The server's own waits.
const SERVERS: [WaitKind; 2] = [WaitKind::ServerThink, WaitKind::ServerPause];
/// The waits of the transport: for windows, acknowledgements and retransmissions.
const TRANSPORTS: [WaitKind; 7] = [
    WaitKind::RequestHeld,
    WaitKind::ResponseHeld,
    WaitKind::WindowFull,
    WaitKind::CongestionWindow,
    WaitKind::SendBuffer,
    WaitKind::Paced,
    WaitKind::Recovery,
];

/// Returns one line for each layer on which the run has evidence. `ledger` contains the subject's
/// figures.
pub(super) fn layers(
    evidence: &Observations,
    ledger: &Ledger,
    findings: &[Finding],
    accused: &[(&ConfigurationLine, Id)],
    account: &[Account],
    notes: &[Remark],
) -> Vec<Layer> {
    let facts = &evidence.facts;
    let traced = super::route::traced(facts);
    if evidence.targets.is_empty() && evidence.capture.is_none() && traced.is_some() {
        return traced.into_iter().collect();
    }
    let mut layers = Vec::new();
    if !evidence.targets.is_empty() {
        layers.extend(name(facts));
        layers.extend(route(facts));
        layers.push(round_trip(facts));
        layers.extend(super::route::path(facts));
        layers.push(firewall(facts, ledger));
        layers.push(backlog(facts));
    }
    if evidence.targets.is_empty() {
        layers.extend(lookups(&evidence.asked));
    }
    layers.push(connection(evidence, ledger));
    layers.extend(super::secured::layers(facts, findings));
    let part = |layer, kinds: &[_]| LayerPart::of(of_subject(evidence, account), layer, kinds);
    let transports = part(LayerId::Transport, &TRANSPORTS);
    layers.push(transport(evidence, ledger, &transports));
    let is_work = notes.iter().any(|note| note.id == Remark::COMPUTES);
    let is_known = super::capacity::is_starved(facts) || is_work;
    layers.push(server(ledger, &part(LayerId::Server, &SERVERS), is_known));
    if !evidence.targets.is_empty() {
        layers.push(configuration(facts, accused));
    }
    suspect(&mut layers, findings);
    for layer in &mut layers {
        accuse(layer, findings);
    }
    layers
}

/// Returns the accounts of the subject or, for a capture, of all services.
fn of_subject<'a>(
    evidence: &Observations,
    account: &'a [Account],
) -> impl Iterator<Item = &'a Account> {
    let mut targets = evidence.targets.iter();
    let subject = targets.find(|(id, _)| *id == TargetId::Subject);
    let subject = subject.map(|(_, endpoint)| endpoint.to_string());
    let is_subjects = move |account: &&Account| match &subject {
        Some(subject) => account.service == *subject,
        None => true,
    };
    account.iter().filter(is_subjects)
}

fn accuse(layer: &mut Layer, findings: &[Finding]) {
    let accusers: Vec<&Finding> = findings
        .iter()
        .filter(|finding| !finding.locates && is_accused_by(layer, finding))
        .collect();
    // The server's layer is not accused of what may be the requests' fault.
    let is_unowned =
        |of: &Finding| of.culprit == Owner::Unknown && layer.layer == LayerId::Server.as_str();
    let is_accused = accusers
        .iter()
        .any(|finding| !finding.cause.cause().says_only_where && !is_unowned(finding));
    if let Some(worst) = accusers.first() {
        layer.state = if is_accused {
            LayerState::Accused
        } else {
            LayerState::Suspected
        };
        let mut ids: Vec<&str> = Vec::new();
        for finding in &accusers {
            if !ids.contains(&finding.cause.as_str()) {
                ids.push(finding.cause.as_str());
            }
        }
        layer.line = worst.title.clone();
        layer.because = format!("findings: {}", ids.join(", "));
    }
}

/// Returns true if the finding's cause is in this layer. A packet filter that blocks connections is
/// also why the connection layer fails, and a full queue of the listener is also the backlog's.
fn is_accused_by(layer: &Layer, finding: &Finding) -> bool {
    let of = finding.cause.cause().layer;
    let is_blocked = of == LayerId::Firewall && layer.layer == LayerId::Connection.as_str();
    let is_full = matches!(finding.cause, Id::AcceptQueueOverflow | Id::SynQueueFull);
    of.as_str() == layer.layer || is_blocked || (is_full && layer.layer == "backlog")
}

fn name(facts: &Facts) -> Option<Layer> {
    let resolution = facts.resolutions.first()?;
    let (state, line) = match &resolution.failure {
        None if resolution.took.is_zero() => (
            LayerState::Cleared,
            format!(
                "{} is an address, so there is nothing to resolve",
                resolution.name
            ),
        ),
        None if resolution.took >= LONG_LOOKUP => (
            LayerState::Suspected,
            format!(
                "{} took {} to resolve: clients that do not have it in a cache wait for as long",
                resolution.name,
                human(resolution.took)
            ),
        ),
        None => (
            LayerState::Cleared,
            format!("{} resolved in {}", resolution.name, human(resolution.took)),
        ),
        Some(failure) => (
            LayerState::Accused,
            format!("{} did not resolve: {failure}", resolution.name),
        ),
    };
    Some(layer(
        "name",
        state,
        line,
        "timing of the system's own resolver",
    ))
}

fn route(facts: &Facts) -> Option<Layer> {
    let route = facts.kernel.routes.first()?;
    let via = route
        .gateway
        .map(|gateway| format!(" via {gateway}"))
        .unwrap_or_default();
    let source = route
        .source
        .map(|source| format!(" from {source}"))
        .unwrap_or_default();
    let line = if route.is_local {
        format!(
            "{} is this host itself: its traffic uses {}",
            route.target, route.interface
        )
    } else {
        format!("{}{via} through {}{source}", route.target, route.interface)
    };
    Some(layer(
        "route",
        LayerState::Cleared,
        line,
        "the kernel's own choice",
    ))
}

fn round_trip(facts: &Facts) -> Layer {
    let target = TargetId::Subject;
    let group = [ProbeMethod::TcpSyn, ProbeMethod::TcpConnect]
        .into_iter()
        .find_map(|method| Some((method, facts.probes_of(target, method, false)?)))
        .filter(|(_, group)| !group.rtt.is_empty());
    let Some((method, group)) = group else {
        let line = "no handshake was answered".to_owned();
        return layer("round-trip", LayerState::NotMeasured, line, "TCP probes");
    };
    let loaded = facts
        .probes_of(target, method, true)
        .filter(|loaded| !loaded.rtt.is_empty())
        .map(|loaded| format!(", {} under load", median(&loaded.rtt)))
        .unwrap_or_default();
    let line = format!(
        "{} (median of {}){loaded}",
        median(&group.rtt),
        group.rtt.count()
    );
    let because = match method {
        ProbeMethod::TcpSyn => "SYN to SYN/ACK by the kernel's timestamps",
        _ => "connect() and TCP_INFO",
    };
    layer("round-trip", LayerState::Cleared, line, because)
}

/// Returns the layer of packet filters. If connections are established, a filter rule that could
/// match them is not responsible.
fn firewall(facts: &Facts, ledger: &Ledger) -> Layer {
    let load = facts.loads.all(TargetId::Subject);
    let is_connected =
        load.connects > 0 || ledger.setups.outcomes.of(SetupOutcome::Established) > 0;
    let Some(state) = &facts.kernel.firewall else {
        let line = "packet filter rules were not read".to_owned();
        return layer("firewall", LayerState::NotMeasured, line, "not asked for");
    };
    let (verdict, line) = match state.blocking_rules {
        Some(0) => (
            LayerState::Cleared,
            "no rule drops or rejects this traffic".to_owned(),
        ),
        Some(count) if is_connected => (
            LayerState::Cleared,
            format!(
                "{} could match, but connections succeed",
                counted(u64::from(count), "rule", "rules")
            ),
        ),
        Some(count) => (
            LayerState::Suspected,
            format!(
                "{} could match, and no connection succeeded",
                counted(u64::from(count), "rule", "rules")
            ),
        ),
        None => (
            LayerState::NotMeasured,
            "the rules could not be read".to_owned(),
        ),
    };
    layer("firewall", verdict, line, state.because.clone())
}

fn backlog(facts: &Facts) -> Layer {
    let fullest = facts
        .kernel
        .listeners
        .iter()
        .max_by_key(|listener| listener.queued);
    let overflows: u64 = QUEUE_COUNTERS
        .iter()
        .flat_map(|name| {
            facts
                .kernel
                .counters
                .iter()
                .filter(move |change| change.name == *name)
        })
        .map(|change| change.after.saturating_sub(change.before))
        // The kernel counts an overflow as a drop too.
        .max()
        .unwrap_or_default();
    let Some(listener) = fullest else {
        let line = "the server's listen queues cannot be seen from here".to_owned();
        return layer(
            "backlog",
            LayerState::NotMeasured,
            line,
            "no listener of the target on this host",
        );
    };
    // The counter does not tell whose queue it was.
    let of_another = match overflows {
        1.. if listener.queued < listener.limit => ", probably of another listener of this host",
        _ => "",
    };
    let line = format!(
        "at most {} of {} in the accept queue of {} were used, {} half-open; \
         {overflows} overflows{of_another}",
        listener.queued,
        counted(u64::from(listener.limit), "place", "places"),
        listener.local,
        listener.embryonic,
    );
    layer(
        "backlog",
        of_queue(listener, overflows),
        line,
        "sock_diag and kernel counters during the load",
    )
}

/// Returns the state of an accept queue. The overflow counter is the sum over all listeners of the
/// host, so it concerns this queue only if the queue was full. An overflow delays a connection by a
/// second or more, and the capture often ends before. So only a finding can accuse the queue.
fn of_queue(listener: &ListenerSample, overflows: u64) -> LayerState {
    if overflows > 0 && listener.queued >= listener.limit {
        LayerState::Suspected
    } else if overflows > 0 || listener.queued > listener.limit {
        LayerState::NotMeasured
    } else {
        LayerState::Cleared
    }
}

fn connection(evidence: &Observations, ledger: &Ledger) -> Layer {
    let setups = &ledger.setups;
    let load = evidence.facts.loads.all(TargetId::Subject);
    if setups.count == 0 && load.connects == 0 {
        let line = "no connection setup was seen".to_owned();
        return layer(
            "connection",
            LayerState::NotMeasured,
            line,
            "neither in packets nor in lagtrace's own sockets",
        );
    }
    let refused = setups.outcomes.of(SetupOutcome::Refused);
    let unanswered = setups.outcomes.of(SetupOutcome::Unanswered);
    let has_none = load.connects == 0 && setups.outcomes.of(SetupOutcome::Established) == 0;
    let tallied = evidence.tallied;
    if has_none && tallied.one_sided * 2 >= tallied.connections && tallied.one_sided > 0 {
        let line = "most connections were seen in one direction only".to_owned();
        return layer("connection", LayerState::NotMeasured, line, SEEN);
    }
    // A SYN that was sent just before the end may still be answered. If no SYN at all was answered,
    // this is not the reason.
    let failed = setups.unheard + overdue(evidence, ledger) + refused;
    if failed * MOST_FAILED > setups.count || (has_none && unanswered > 0) {
        let line = format!(
            "of {}, {unanswered} got no answer and {refused} were refused",
            counted(setups.count, "connection attempt", "connection attempts")
        );
        return layer("connection", LayerState::Suspected, line, SEEN);
    }
    if has_none {
        let line = "no complete handshake was seen".to_owned();
        return layer("connection", LayerState::NotMeasured, line, SEEN);
    }
    let typical = setups.latency.quantile(0.5).unwrap_or_default();
    if typical >= FAR {
        let line = format!("long handshakes: {} (median)", human(typical));
        return layer("connection", LayerState::Suspected, line, SEEN);
    }
    if let Some(longest) = setups.repeated.max() {
        let line = format!(
            "the SYN or its answer was repeated on {}, for {} at most",
            part_of(
                setups.repeated.count(),
                setups.count,
                "connection",
                "connections"
            ),
            human(longest)
        );
        return layer("connection", LayerState::Suspected, line, SEEN);
    }
    if evidence.is_only_watched() && !super::watch::sees_handshakes(&evidence.facts) {
        let line = format!(
            "{} made; SYNs that clients had to repeat before are not seen",
            counted(setups.count, "connection was", "connections were")
        );
        return layer("connection", LayerState::NotMeasured, line, "from sockets");
    }
    let line = match setups.count {
        0 => format!(
            "{} made",
            counted(load.connects, "connection", "connections")
        ),
        1 => format!("1 connection seen, handshake {}", median(&setups.latency)),
        count => format!(
            "{} seen, handshake {} (median)",
            counted(count, "connection", "connections"),
            median(&setups.latency),
        ),
    };
    layer("connection", LayerState::Cleared, line, "from handshakes")
}

/// Returns the number of SYNs that were sent only once, long before the capture's end, and never
/// answered.
fn overdue(evidence: &Observations, ledger: &Ledger) -> u64 {
    let setups = &ledger.setups;
    let usual = setups.latency.quantile(0.99).unwrap_or_default();
    let end = evidence.capture.as_ref().and_then(|capture| capture.end_ns);
    end.map_or(0, |end| {
        let longest = OVERDUE.max(usual * OVERDUE_RATIO);
        let end = Timestamp::from_nanos(end);
        setups.handshakes.waiting(end, longest)
    })
}

/// Returns the layer of name resolution from the capture's DNS messages; `None` if each lookup was
/// answered.
fn lookups(asked: &SeenLookups) -> Option<Layer> {
    let worst = asked
        .unanswered
        .iter()
        .rev()
        .max_by_key(|lost| lost.sends)?;
    let line = format!(
        "{} got no answer: {} was queried for {} {} within {}",
        part_of(
            asked.unanswered.len() as u64,
            asked.count,
            "lookup",
            "lookups"
        ),
        worst.resolver,
        worst.name,
        counted(u64::from(worst.sends), "time", "times"),
        human(worst.took),
    );
    let because = "DNS messages in the capture";
    Some(layer("name", LayerState::Suspected, line, because))
}

/// Returns true if a layer has too many irregular items to be cleared. A single retransmission in a
/// long download is not too many.
fn is_more_than(odd: u64, all: u64) -> bool {
    odd.saturating_mul(MOST_ODD) > all
}

/// Returns true if requests may wait for retransmissions. A few segments that were sent again
/// needlessly, or that the capture put in another order, delay nothing: many whole exchanges show it.
fn is_felt([whole, cut, with_losses]: [u64; 3], [repeated, segments]: [u64; 2]) -> bool {
    with_losses > 0
        || whole < LEAST_SHOWING
        || is_more_than(cut, whole)
        || repeated.saturating_mul(MOST_UNFELT) > segments
}

fn transport(evidence: &Observations, ledger: &Ledger, part: &LayerPart) -> Layer {
    let repaired: u64 = ledger.losses.repaired.sum();
    if evidence.capture.is_none() {
        let line = "packets were not captured".to_owned();
        let outcomes = evidence.facts.loads.outcomes(TargetId::Subject);
        let is_tried = outcomes.iter().any(|outcome| !outcome.is_blind);
        let state = if is_tried {
            LayerState::Cleared
        } else {
            LayerState::NotMeasured
        };
        let because = if is_tried {
            "experiments on our own sockets"
        } else {
            "no packets"
        };
        let line = if is_tried {
            "nothing waits for our ACKs".to_owned()
        } else {
            line
        };
        return layer("transport", state, line, because);
    }
    let tallied = evidence.tallied;
    if tallied.data_segments == 0 {
        let line = "no data was seen".to_owned();
        return layer("transport", LayerState::NotMeasured, line, SEEN);
    }
    let outside = super::outside::doubt(evidence, ledger);
    if let Some((LayerState::Suspected, line)) = outside {
        return layer("transport", LayerState::Suspected, line, SEEN);
    }
    let counts = [ledger.counts.count, ledger.counts.cut, repaired];
    let is_felt = is_felt(counts, [tallied.repaired, tallied.data_segments]);
    let is_lossy = is_felt && is_more_than(tallied.repaired, tallied.data_segments);
    if is_lossy || is_more_than(tallied.stopped, tallied.connections) {
        let irregular = [
            (tallied.repaired, repeated(tallied)),
            (
                repaired,
                format!(
                    "{} repaired within exchanges",
                    counted(repaired, "loss was", "losses were")
                ),
            ),
            (
                tallied.stopped,
                format!(
                    "{} a closed window",
                    counted(tallied.stopped, "connection had", "connections had")
                ),
            ),
        ];
        let seen = irregular.into_iter().filter(|(count, _)| *count > 0);
        let line = seen.map(|(_, text)| text).collect::<Vec<_>>().join(", ");
        return layer("transport", LayerState::Suspected, line, SEEN);
    }
    // The kernel of a watched server passes only a sample of the segments.
    let is_whole = tallied.unseen_bytes.saturating_mul(MOST_ODD) <= tallied.bytes;
    if !is_whole && !evidence.is_only_watched() {
        let dropped = evidence
            .capture
            .as_ref()
            .and_then(|capture| capture.dropped);
        let lost = match dropped {
            Some(lost @ 1..) => format!("lost {}", counted(lost, "packet", "packets")),
            _ => format!(
                "lacks {} of acknowledged data",
                counted(tallied.unseen_bytes, "byte", "bytes")
            ),
        };
        let line = format!("the capture {lost}: losses and windows could not be judged");
        return layer("transport", LayerState::NotMeasured, line, SEEN);
    }
    if let Some((state, line)) = outside {
        return layer("transport", state, line, SEEN);
    }
    if ledger.counts.count == 0 {
        return transport_of_data(evidence, part);
    }
    let (losses, waits) = match repaired {
        0 => (
            "no loss had to be repaired".to_owned(),
            "waits for windows and ACKs",
        ),
        _ => (
            format!("{} repaired", counted(repaired, "loss was", "losses were")),
            "waits for windows, ACKs and retransmissions",
        ),
    };
    let state = cleared(part);
    let but = if state == LayerState::Suspected {
        ", but"
    } else {
        ";"
    };
    let line = format!(
        "{losses} in {}{but} {waits} took {}",
        counted(ledger.counts.count, "exchange", "exchanges"),
        part.words()
    );
    layer("transport", state, line, SEEN)
}

/// Returns the state of a layer that no evidence accuses: suspect only if it has most of the
/// avoidable time.
fn cleared(part: &LayerPart) -> LayerState {
    if part.is_most() {
        LayerState::Suspected
    } else {
        LayerState::Cleared
    }
}

/// Returns the transport layer of a capture without a complete exchange. It is judged by the data
/// outside exchanges.
fn transport_of_data(evidence: &Observations, part: &LayerPart) -> Layer {
    let mut services = evidence.services.values();
    let has_transfers = services.any(|service| {
        let outside = service.outside.as_ref();
        outside.is_some_and(|outside| outside.ledger.total() > 0)
    });
    if !part.is_empty() || !has_transfers {
        let line = format!(
            "no complete response was seen; waits for windows, ACKs and retransmissions took {}",
            part.words()
        );
        return layer("transport", LayerState::NotMeasured, line, SEEN);
    }
    let line = repeated(evidence.tallied);
    layer("transport", LayerState::Cleared, line, SEEN)
}

fn repeated(tallied: Tallied) -> String {
    let of = tallied.data_segments;
    match tallied.repaired {
        0 => format!(
            "none of {} retransmitted",
            counted(of, "data segment was", "data segments were")
        ),
        repaired => format!(
            "{} retransmitted or filled a gap",
            part_of(repaired, of, "data segment was", "data segments were")
        ),
    }
}

/// Returns the server's layer. `is_known` is true if it mostly waited for processors that others used,
/// or worked on its requests.
fn server(ledger: &Ledger, part: &LayerPart, is_known: bool) -> Layer {
    if ledger.counts.count == 0
        && ledger
            .broken_off
            .max()
            .is_some_and(|most| most >= ORDINARY_WORK)
    {
        let line = format!(
            "the server took up to {} before a response whose end is not in the capture",
            human(ledger.broken_off.max().unwrap_or_default())
        );
        return layer("server", LayerState::Suspected, line, SEEN);
    }
    if ledger.counts.count == 0 {
        let line = "no complete response was seen".to_owned();
        return layer(
            "server",
            LayerState::NotMeasured,
            line,
            "from the waits within its exchanges",
        );
    }
    if ledger.doubtful.unread * 2 > ledger.counts.count {
        let line = "its protocol is not decoded, so it is not known which end waits for the other"
            .to_owned();
        return layer("server", LayerState::NotMeasured, line, SEEN);
    }
    let line = format!("its own waits took {}", part.words());
    layer(
        "server",
        if part.is_long() && !is_known {
            cleared(part)
        } else {
            LayerState::Cleared
        },
        line,
        "from the waits within its exchanges",
    )
}

/// Changes layer states that contradict a finding on unexplained time. The layer of the finding's
/// place becomes suspect. If the place is not known, the server and transport layers do not stay
/// cleared.
fn suspect(layers: &mut Vec<Layer>, findings: &[Finding]) {
    for place in findings.iter().filter(|finding| finding.locates) {
        let because = format!("{} at {}", place.cause, place.service);
        let Some(name) = layer_of_place(place) else {
            // The unexplained time may be in any wait within exchanges.
            let open = layers.iter_mut().filter(|layer| {
                layer.state == LayerState::Cleared
                    && matches!(layer.layer.as_str(), "server" | "transport")
            });
            for layer in open {
                layer.state = LayerState::NotMeasured;
                layer.line = format!("{} of the time could not be located", percent(place.share));
                layer.because.clone_from(&because);
            }
            continue;
        };
        let line = words(place);
        match layers.iter_mut().find(|layer| layer.layer == name) {
            Some(layer) => {
                if matches!(layer.state, LayerState::Cleared | LayerState::NotMeasured) {
                    (layer.state, layer.line, layer.because) =
                        (LayerState::Suspected, line, because);
                }
            }
            None => layers.push(layer(name, LayerState::Suspected, line, because)),
        }
    }
}

/// Returns the layer in which a finding locates unexplained time; `None` if the place is not known.
fn layer_of_place(place: &Finding) -> Option<&'static str> {
    let layer = place.cause.cause().layer;
    (place.cause != Id::TimeUnknown).then(|| layer.as_str())
}

fn words(place: &Finding) -> String {
    let mean = place.cost_ns / place.affected.of.max(1);
    let each = match place.cause {
        Id::TimeInResolver | Id::TimeInSetup => "connection",
        _ => "request",
    };
    format!(
        "no cause explains {} per {each} on average ({} of all time)",
        human(Duration::from_nanos(mean)),
        percent(place.share)
    )
}

fn configuration(facts: &Facts, accused: &[(&ConfigurationLine, Id)]) -> Layer {
    let mut lines = facts.configuration.iter();
    let Some(line) = lines.find(|line| line.target == TargetId::Subject) else {
        let line = "no configuration of the server was read".to_owned();
        return layer(
            "configuration",
            LayerState::NotMeasured,
            line,
            "needs an nginx, Apache or haproxy on this host whose configuration is readable",
        );
    };
    let told = |(line, _): &(&ConfigurationLine, Id)| {
        format!(
            "{} {} ({})",
            line.directive,
            line.value,
            settings::place(line)
        )
    };
    let Some((_, cause)) = accused.first() else {
        let text = "none of the settings that were read explains a finding".to_owned();
        return layer(
            "configuration",
            LayerState::Cleared,
            text,
            line.program.clone(),
        );
    };
    let because = format!("explains {cause}");
    let told: Vec<String> = accused.iter().map(told).collect();
    layer(
        "configuration",
        LayerState::Accused,
        told.join(", "),
        because,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Claim;
    use crate::conclude::word;
    use crate::observed::flow::Endpoint;

    #[test]
    fn a_full_queue_is_the_backlogs_and_the_connections() {
        let at = Endpoint::new([10, 0, 0, 2].into(), 80);
        let case = word::finding(Claim::blank(Id::AcceptQueueOverflow, Owner::Server, at));
        let accused = |name| {
            let line = String::new();
            let mut layer = layer(name, LayerState::NotMeasured, line, "");
            accuse(&mut layer, std::slice::from_ref(&case));
            layer.state == LayerState::Accused
        };
        assert!(accused("backlog") && accused("connection"));
        assert!(!accused("transport") && !accused("server"));
    }

    #[test]
    fn retransmissions_that_delay_no_request_are_not_felt() {
        assert!(!is_felt([50_000, 0, 0], [1_400, 150_000]));
        for (counts, repeated) in [
            ([50_000, 0, 1], 1_400),
            ([900, 0, 0], 1_400),
            ([50_000, 300, 0], 1_400),
            ([50_000, 0, 0], 4_000),
        ] {
            assert!(is_felt(counts, [repeated, 150_000]), "{counts:?}");
        }
    }

    #[test]
    fn a_queue_that_was_full_while_one_overflowed_is_not_cleared() {
        let state = |queued, overflows| {
            let listener = ListenerSample {
                local: Endpoint::new([127, 0, 0, 1].into(), 80),
                queued,
                limit: 5,
                embryonic: 0,
                syn_backlog: None,
                somaxconn: None,
            };
            of_queue(&listener, overflows)
        };
        assert_eq!(state(5, 190), LayerState::Suspected);
        assert_eq!(
            state(1, 190),
            LayerState::NotMeasured,
            "another's overflows"
        );
        assert_eq!(state(6, 0), LayerState::NotMeasured);
        assert_eq!(state(5, 0), LayerState::Cleared);
        assert_eq!(state(0, 0), LayerState::Cleared);
    }
}

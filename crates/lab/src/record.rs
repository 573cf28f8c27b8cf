//! Recording of a scenario at both ends, together with the truth.
//!
//! A recording is useful only if the fault was really present. So the scenario runs twice, with the
//! fault and with the fault switched off, and a measurement independent of lagtrace must
//! distinguish the two runs ([`crate::scenario::Proof`]). Otherwise no recording is made.

mod drawn;
mod files;
pub(crate) mod label;
mod load;
mod request;
mod side;
mod vary;
mod vlan;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::label::{Compared, Label, SCHEMA, Shown};
use crate::error::Error;
use crate::lab::Lab;
use crate::load::requests::Requests;
use crate::machine::helper::Helper;
use crate::quantity;
use crate::scenario::{Proof, Scenario, Service, Witness};
use crate::side::Family;
pub use drawn::Drawn;
pub use request::Request;
use side::Side;

/// Records a scenario into a new folder within `corpus`; returns the folder and its label.
///
/// # Errors
/// [`Error::NotShown`] if the witness of the fault does not confirm it, and every error of bringing
/// a lab up, running its load and recording. After an error, nothing is left in `corpus`.
pub fn record(
    scenario: &Scenario,
    request: &Request,
    helper: &Helper,
    corpus: &Path,
) -> Result<(PathBuf, Label), Error> {
    let scenario = request.apply(scenario.clone());
    let service = target(&scenario, request)?;
    check(&scenario, service, request)?;
    let family = if request.ipv6 { Family::V6 } else { Family::V4 };
    let scratch = files::Scratch::new(corpus)?;
    let with = Side::run(
        &scenario,
        &service.name,
        family,
        helper,
        &scratch.folder("with")?,
    )?;
    let without = if scenario.has_off_switch() {
        let off = scenario.clone().switched_off();
        let folder = scratch.folder("without")?;
        Some(Side::run(&off, &service.name, family, helper, &folder)?)
    } else {
        None
    };
    let proof = shown(service, &with, without.as_ref())?;
    let label = label(&scenario, service, request, &with, without.as_ref(), proof);
    let drawn = request.drawn.clone().unwrap_or_default();
    let redo = |file: &PathBuf| files::redo(file, &scenario.recording, &drawn);
    let captures: Vec<_> = with.files.iter().map(redo).collect::<Result<_, _>>()?;
    let name = folder_name(&scenario, &label);
    let folder = files::publish(&scratch, &captures, &label, &corpus.join(name))?;
    Ok((folder, label))
}

/// Returns the label that is stored with the recording.
fn label(
    scenario: &Scenario,
    service: &Service,
    request: &Request,
    with: &Side,
    without: Option<&Side>,
    proof: Vec<Shown>,
) -> Label {
    let mut truth = service.truth.clone();
    let begins_later = |drawn: &Drawn| drawn.begin_percent.is_some();
    if request.drawn.as_ref().is_some_and(begins_later) {
        let why = "the recording lacks the requests at the beginning";
        truth.no_cost.get_or_insert_with(|| why.to_owned());
    }
    Label {
        schema: SCHEMA,
        scenario: scenario.name.clone(),
        service: service.name.clone(),
        title: scenario.title.clone(),
        variant: variant(scenario, request),
        round_trip_ns: u64::try_from(scenario.path.round_trip.as_nanos()).unwrap_or(u64::MAX),
        offload: request.offload,
        seed: scenario.path.seed,
        ipv6: request.ipv6,
        port: service.port,
        loopback: scenario.path.loopback,
        mtu: scenario.path.mtu,
        drawn: request.drawn.clone(),
        truth,
        requests: Compared {
            with: with.requests.clone(),
            without: without.map(|side| side.requests.clone()),
        },
        proof,
    }
}

/// Returns the part of a folder's name that distinguishes the recordings of one scenario.
fn variant(scenario: &Scenario, request: &Request) -> String {
    let round_trip = scenario.path.round_trip;
    let mut text = if round_trip.is_zero() {
        "0ms".to_owned()
    } else {
        quantity::format_duration(round_trip)
    };
    if request.drawn.as_ref().is_some_and(|drawn| drawn.loopback) {
        text = "loopback".to_owned();
    }
    match request.offload {
        Some(true) => text.push_str("-offload"),
        Some(false) => text.push_str("-segments"),
        None => {}
    }
    if request.ipv6 {
        text.push_str("-ipv6");
    }
    if request.drawn.is_some() {
        text.push_str(&format!("-seed-{}", scenario.path.seed));
    }
    text
}

/// Runs a service's own load in a running lab and records it at both ends. Returns the requests as
/// measured by the clients, and the captures, of which the client's (or a loopback's) is the first.
/// The captures are removed with the lab.
///
/// # Errors
/// A client or tcpdump is missing or fails.
pub fn watch(
    lab: &Lab,
    service: &Service,
    family: Family,
    helper: &Helper,
) -> Result<(Requests, Vec<PathBuf>), Error> {
    side::load_and_record(lab, service, family, helper, &lab.run().folder())
}

fn target<'a>(scenario: &'a Scenario, request: &Request) -> Result<&'a Service, Error> {
    let name = request.service.as_ref().unwrap_or(&scenario.target);
    scenario.service(name).ok_or_else(|| Error::UnknownService {
        scenario: scenario.name.clone(),
        service: name.clone(),
    })
}

/// Returns a name made of the scenario, the variant, and the service if it is not the scenario's
/// case.
fn folder_name(scenario: &Scenario, label: &Label) -> String {
    let mut name = scenario.name.clone();
    if label.service != scenario.target {
        name = format!("{name}-{}", label.service);
    }
    format!("{name}-{}", label.variant)
}

/// Rejects a fault that no witness confirms or that cannot be switched off, because a recording of
/// it would prove nothing. Also rejects IPv6 if the MTU is too small for it.
fn check(scenario: &Scenario, service: &Service, request: &Request) -> Result<(), Error> {
    let lacks = if request.ipv6 && !scenario.path.has_ipv6() {
        "its devices' MTU is too small for IPv6"
    } else if service.proof.is_empty() && !service.truth.expected.is_empty() {
        "it does not say what shows its fault"
    } else if !scenario.has_off_switch() && !service.truth.expected.is_empty() {
        "it does not say how its fault is switched off"
    } else {
        return Ok(());
    };
    Err(Error::NotShown {
        scenario: scenario.name.clone(),
        service: service.name.clone(),
        reason: lacks.to_owned(),
    })
}

/// Returns the counts of each witness; an error if one of them does not confirm the fault.
fn shown(service: &Service, with: &Side, without: Option<&Side>) -> Result<Vec<Shown>, Error> {
    let mut all = Vec::new();
    for (proof, &counted) in service.proof.iter().zip(&with.counted) {
        let index = all.len();
        let counted_off = without.and_then(|side| side.counted.get(index).copied());
        let shown = Shown {
            shown_by: proof.describe(),
            with: counted,
            without: counted_off,
        };
        if let Some(reason) = objection(proof, &shown) {
            return Err(Error::NotShown {
                scenario: with.scenario.clone(),
                service: service.name.clone(),
                reason,
            });
        }
        all.push(shown);
    }
    Ok(all)
}

/// Returns the reason why the counts do not confirm the fault; `None` if they do.
fn objection(proof: &Proof, shown: &Shown) -> Option<String> {
    let words = &shown.shown_by;
    if let Some(Witness::Slower(least)) = proof.witness() {
        let without = shown.without?;
        let slower = Duration::from_nanos(shown.with.saturating_sub(without));
        return (slower < least).then(|| format!("{words}: it is slower by {slower:?} only"));
    }
    if shown.with < proof.at_least {
        return Some(format!("{words}: there are {} with it", shown.with));
    }
    let without = shown.without.filter(|&count| count > proof.at_most)?;
    Some(format!("{words}: there are {without} without it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(with: u64, without: Option<u64>) -> Shown {
        Shown {
            shown_by: "it".to_owned(),
            with,
            without,
        }
    }

    #[test]
    fn a_proof_holds_between_its_bounds_only() {
        let proof = Proof {
            at_least: 5,
            at_most: 1,
            errors: true,
            ..Proof::default()
        };
        assert_eq!(objection(&proof, &shown(5, Some(1))), None);
        assert_eq!(objection(&proof, &shown(5, None)), None);
        assert!(objection(&proof, &shown(4, Some(0))).is_some());
        assert!(objection(&proof, &shown(9, Some(2))).is_some());
        let slower = Proof {
            slower_by: Some(Duration::from_nanos(30)),
            ..Proof::default()
        };
        assert_eq!(objection(&slower, &shown(40, Some(10))), None);
        assert!(objection(&slower, &shown(39, Some(10))).is_some());
        assert!(objection(&slower, &shown(5, Some(10))).is_some());
    }
}

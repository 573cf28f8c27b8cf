//! A case of a service without any figures, for findings that other evidence supports.

use std::collections::BTreeMap;

use crate::cause::calls::HostCalls;
use crate::cause::evidence::Measures;
use crate::cause::rhythm::Rhythm;
use crate::cause::{Case, Gathered};
use crate::facts::Facts;
use crate::observed::flow::Endpoint;
use crate::service::{Ledger, Stretches, Uploads};

/// The empty figures that a blank case refers to.
#[derive(Debug, Default)]
pub(super) struct Blank {
    ledger: Ledger,
    gathered: Gathered,
    fetches: Stretches,
    rhythm: Rhythm,
    rhythms: BTreeMap<Endpoint, Rhythm>,
    uploads: Uploads,
    calls: HostCalls,
}

impl Blank {
    /// Returns the case of the service at `endpoint`.
    pub(super) fn case<'a>(&'a self, endpoint: Endpoint, facts: &'a Facts) -> Case<'a> {
        Case {
            endpoint,
            target: None,
            ledger: &self.ledger,
            latency: Measures::of(&self.ledger.latency.all),
            gathered: &self.gathered,
            fetches: &self.fetches,
            uploads: &self.uploads,
            facts,
            rhythm: &self.rhythm,
            rhythms: &self.rhythms,
            upstream: None,
            behind: None,
            calls: &self.calls,
            has_packets: true,
            weight: 1.0,
        }
    }
}

//! Late greetings of servers that must send first. The client cannot send a request before the
//! greeting.

use core::time::Duration;

use super::delays::Delays;
use super::evidence::{human, ruled_out};
use super::{Case, Id};
use crate::claim::{Advice, Basis, Claim};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::protocol::greeting::Greeting;
use crate::report::{Unit, counted};
use crate::service::Counts;
use crate::stats::Merge;

/// Minimum time after which a greeting is late. A program that is started for each connection has
/// greeted by then. A server that looks up the client's name, or waits on purpose, takes longer.
const LATE: Duration = Duration::from_millis(100);

/// The greetings of one service.
#[derive(Clone, Debug, Default, Merge)]
pub(super) struct Greetings {
    late: Delays,
    kinds: Counts<Greeting>,
}

impl Greetings {
    /// Records a connection setup with the server's greeting, if there was one.
    pub(super) fn observe(&mut self, setup: &Setup) {
        let Some((greeting, waited, packet)) = setup.greeted() else {
            return;
        };
        self.kinds.add(greeting, 1);
        if waited >= LATE {
            self.late.add(waited, &[setup.syns.packets.last, packet]);
        }
    }

    /// Returns the claim on late greetings, if they matter.
    pub(super) fn claim(&self, case: &Case<'_>) -> Option<Claim> {
        if !self.late.is_material(case) {
            return None;
        }
        let name = self.kinds.iter().next().map(|(kind, _)| kind.name());
        let name = name.unwrap_or_default();
        let mut claim = self.late.claim(Id::ServerThink, Owner::Server, case);
        (claim.unit, claim.affected.of) = (Unit::Connections, self.kinds.sum());
        let text = format!(
            "{} of {} established and then waited {} (median; at most {}) for the server's \
             greeting ({name}), which must come first",
            self.late.count(),
            counted(self.kinds.sum(), "connection was", "connections were"),
            self.late.median(),
            human(self.late.lost.max().unwrap_or_default()),
        );
        claim.evidence.push(self.late.evidence(text));
        claim.basis = Basis::new(self.late.count(), false);
        claim.text.summary = format!(
            "The server speaks first in {name}, and takes {} (median) before it does: its kernel \
             accepted the connection immediately, and its program greets late.",
            self.late.median(),
        );
        claim.ruled_out.push(ruled_out(
            Id::SynLoss,
            "the handshake was complete, without a retransmission",
        ));
        claim.text.overturned_by = "the server's own log showing that it greeted sooner".to_owned();
        claim.advice = vec![
            Advice::new(
                "server",
                "do not look the client's name up before greeting (UseDNS no in sshd_config, \
                 UseReverseDNS off in ProFTPD, skip_name_resolve in MariaDB), or give it a \
                 resolver that answers",
            ),
            Advice::new(
                "server",
                "look for a pause against spam (postscreen_greet_wait), an ident query, a full \
                 accept queue, or a process that is started for each connection",
            ),
        ];
        Some(claim)
    }
}

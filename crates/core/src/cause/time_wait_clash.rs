//! The rule of the cause `time-wait-clash`.

use super::delays::Delays;
use super::evidence::human;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim};
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::wait::Owner;
use crate::report::{count, counted};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "The client reuses a port whose last connection is still in TIME-WAIT at {service}. \
              The server answers the SYN with an ACK of the old connection.",
    ruled_out: &[(Id::SynLoss, "every SYN was answered with an ACK")],
    overturned_by: "`ss -tan state time-wait` on the server without such connections",
    fix: &[
        (
            "client",
            "keep connections alive; let the kernel choose the local port, from a wide net.ipv4.ip_local_port_range",
        ),
        (
            "client",
            "leave net.ipv4.tcp_timestamps on: they show the server that the SYN is new",
        ),
        (
            "server",
            "let the client close first, so that TIME-WAIT is at the client",
        ),
    ],
};

/// Watches SYNs that were answered with an ACK of an older connection. The server still had the
/// previous connection between the same ports in TIME_WAIT. The client had to reset that connection
/// before it could start again (RFC 9293 §3.10.7.4).
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    delays: Delays,
    /// The delays of the attempts whose SYN came again.
    again: Distribution,
    given_up: u64,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        if !setup.opening.is_challenge_reset {
            return;
        }
        let lost = setup.repeated_for();
        self.delays.add_setup(lost, setup);
        if !lost.is_zero() {
            self.again.record(lost);
        }
        self.given_up += u64::from(setup.outcome != Some(SetupOutcome::Established));
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let matters = self.given_up > 0 || self.delays.is_material(case);
        if self.delays.count() == 0 || !matters {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case)))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self.delays.claim(Id::TimeWaitClash, Owner::Client, case);
        let never = match self.given_up {
            0 => String::new(),
            given_up => format!("; {} never succeeded", count(given_up)),
        };
        let again = match self.again.quantile(0.5) {
            None => String::new(),
            Some(later) => format!(" and tried again {} (median) later", human(later)),
        };
        let text = format!(
            "{} of {} answered with an ACK of an earlier connection between the same ports; the \
             client reset it{again}{never}",
            self.delays.count(),
            counted(case.ledger.setups.count, "SYN was", "SYNs were"),
        );
        claim.evidence.push(self.delays.evidence(text));
        claim.basis = Basis::new(self.delays.count(), false);
        WORDING.tell(&mut claim, &[]);
        claim
    }
}

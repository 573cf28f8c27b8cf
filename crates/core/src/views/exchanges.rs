//! Records of exchanges, one by one.

use crate::exchange::{Exchange, Outcome, Recovery, RecoveryMechanism};
use crate::observed::time::nanos;
use crate::report::{ExchangeRecord, RecoveryRecord};
use crate::service::example::Example;

impl ExchangeRecord {
    /// Returns the record of an exchange seen in the file called `capture`.
    pub fn new(exchange: &Exchange, capture: &str, stream: Option<u64>) -> Self {
        let recoveries = exchange.loss.recoveries.iter();
        let recoveries = recoveries.map(RecoveryRecord::from);
        Self {
            r#type: "exchange".to_owned(),
            capture: capture.to_owned(),
            stream,
            ordinal: exchange.id.ordinal,
            status: match exchange.outcome {
                Outcome::Complete(status) => status,
                _ => None,
            },
            cost_ns: exchange.cost_nanos(),
            setup_ns: exchange.connecting.setup.map(nanos),
            response_bytes: exchange.response.count,
            recoveries: recoveries.collect(),
            exchange: Example::of(exchange).exemplar(),
        }
    }
}

impl From<&Recovery> for RecoveryRecord {
    fn from(recovery: &Recovery) -> Self {
        Self {
            sender: recovery.sender.owner(),
            mechanism: match recovery.mechanism {
                RecoveryMechanism::Timeout => "timeout",
                RecoveryMechanism::Probe => "probe",
                RecoveryMechanism::Fast => "fast",
            }
            .to_owned(),
            took_ns: nanos(recovery.took),
            packet: Some(recovery.packet),
        }
    }
}

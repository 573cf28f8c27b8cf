//! What the service carries, and who uses the processors.

use lagtrace_core::report::{Capacity, CapacityLimit, ProcessorShares, Report};

use super::quantity;

/// Minimum share of the processors that is mentioned.
const MENTIONED: f64 = 0.05;

/// Returns the sentences on capacity, processors and requests sent.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let capacity = report.capacity.as_ref().and_then(carries);
    let sent = report.sent.map(|sent| {
        let experiments = match sent.in_experiments {
            0 => String::new(),
            many => format!(", {} of them in experiments", quantity::count(many)),
        };
        format!(
            "lagtrace sent {}{experiments}.",
            quantity::counted(sent.all, "request", "requests")
        )
    });
    capacity.into_iter().chain(sent).collect()
}

/// Returns the sentence on what a saturated service carries; `None` if it carries what was asked.
pub(super) fn carries(capacity: &Capacity) -> Option<String> {
    let limit = capacity.limit.filter(|_| capacity.is_saturated)?;
    let why = match limit {
        CapacityLimit::Processors => "the processors are busy".to_owned(),
        CapacityLimit::SharedProcessors => {
            "the processors are busy, also with other processes".to_owned()
        }
        CapacityLimit::OneProcessor => "its process uses one processor fully".to_owned(),
        CapacityLimit::Generator => "the load generator uses its processor fully".to_owned(),
        CapacityLimit::Workers => format!(
            "it serves about {} at a time",
            quantity::count((capacity.served_at_once.round() as u64).max(1))
        ),
        CapacityLimit::Unknown => "the limit is not known".to_owned(),
    };
    let users = capacity
        .processors
        .as_ref()
        .filter(|_| limit != CapacityLimit::Workers && limit != CapacityLimit::Unknown)
        .map_or_else(String::new, |shares| format!(" ({})", users(shares)));
    let asked = load(capacity.asked.connections, capacity.asked.offered_rate);
    let judged = load(capacity.judged_connections, capacity.judged_rate);
    let judged = if judged == asked {
        String::new()
    } else {
        format!(" Delay is judged at {judged}.")
    };
    Some(format!(
        "It carries {}/s: sent one at a time, requests take {} each; at {asked} {why}{users}, and requests queue \
         for {}.{judged}",
        quantity::count(capacity.rate.round() as u64),
        quantity::duration(capacity.idle_ns),
        quantity::duration(capacity.queue_ns),
    ))
}

fn load(connections: u32, rate: Option<f64>) -> String {
    match rate {
        Some(rate) => format!("{}/s", quantity::count(rate.round() as u64)),
        None => quantity::counted(connections.into(), "connection", "connections"),
    }
}

/// Returns who used the processors: `nginx 61 %, lagtrace 30 %`.
fn users(shares: &ProcessorShares) -> String {
    let service = shares
        .service
        .map(|share| ("the service".to_owned(), share));
    let others = shares.most.iter().map(|user| {
        let name = format!("{}[{}]", user.name, user.pid);
        (name, user.share)
    });
    let own = [("lagtrace".to_owned(), shares.lagtrace)];
    let all = service.into_iter().chain(own).chain(others);
    let told = all.filter(|(_, share)| *share >= MENTIONED);
    let told = told.map(|(name, share)| format!("{name} {}", quantity::share(share)));
    told.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use lagtrace_core::report::{LoadLevel, ProcessorShare};

    use super::*;

    /// Returns a service that is asked for more than it carries, limited by `limit`.
    fn saturated(limit: CapacityLimit) -> Capacity {
        Capacity {
            is_saturated: true,
            rate: 30.4,
            limit: Some(limit),
            asked: LoadLevel {
                connections: 100,
                ..LoadLevel::default()
            },
            asked_connections: 100,
            carried: LoadLevel::default(),
            judged_connections: 1,
            judged_rate: None,
            idle_ns: 33_000_000,
            queue_ns: 3_256_000_000,
            served_at_once: 1.0,
            processors: Some(ProcessorShares {
                processors: 2,
                busy: 1.0,
                service: Some(0.52),
                lagtrace: 0.03,
                others: 0.45,
                most: vec![ProcessorShare {
                    pid: 71,
                    name: "backup".to_owned(),
                    share: 0.45,
                }],
                waited: None,
            }),
            levels: Vec::new(),
        }
    }

    #[test]
    fn what_limits_a_service_is_told_with_who_uses_the_processors() {
        assert_eq!(
            carries(&saturated(CapacityLimit::SharedProcessors)).expect("a sentence"),
            "It carries 30/s: sent one at a time, requests take 33.0 ms each; at 100 connections the processors are \
             busy, also with other processes (the service 52 %, backup[71] 45 %), and requests queue \
             for 3.26 s. Delay is judged at 1 connection."
        );
        let workers = carries(&saturated(CapacityLimit::Workers)).expect("a sentence");
        assert!(
            workers.contains("it serves about 1 at a time, and"),
            "{workers}"
        );
    }

    #[test]
    fn a_load_that_is_judged_as_asked_is_not_told_twice() {
        let mut capacity = saturated(CapacityLimit::Workers);
        capacity.judged_connections = 100;
        let text = carries(&capacity).expect("a sentence");
        assert!(text.ends_with("queue for 3.26 s."), "{text}");
        capacity.asked.offered_rate = Some(200.0);
        capacity.judged_rate = Some(25.0);
        let text = carries(&capacity).expect("a sentence");
        assert!(text.contains("at 200/s it serves"), "{text}");
        assert!(text.ends_with("Delay is judged at 25/s."), "{text}");
    }

    #[test]
    fn a_service_that_carries_the_load_has_no_sentence() {
        let mut capacity = saturated(CapacityLimit::Unknown);
        (capacity.is_saturated, capacity.limit) = (false, None);
        assert_eq!(carries(&capacity), None);
    }
}

//! Probes through a queue on this host.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lagtrace_core::observed::event::{EventBody, ProbeAnswer, ProbeSample, TargetId};
use lagtrace_sources::probe::{
    PacketPlan, Sizes, SourcePorts, SteadyMethod, SteadyPlan, Turn, steady,
};
use lagtrace_trial::live;

use crate::world::{Namespace, can_run};

/// The round trip behind a queue of 40 ms may take a quarter of that.
const LATE: Duration = Duration::from_millis(10);

/// Returns a plan of 20 echo requests at intervals of 4 ms. Each has 1,000 bytes, which take 8 ms
/// at 1 Mbit/s.
fn plan(address: SocketAddr) -> SteadyPlan {
    SteadyPlan {
        target: TargetId::Subject,
        address,
        method: SteadyMethod::Icmp,
        count: Some(20),
        turn: Turn::ByTheClock,
        interval: Duration::from_millis(4),
        timeout: Duration::from_secs(5),
        ports: SourcePorts::Fresh,
        packet: PacketPlan {
            sizes: Sizes::one(958),
            ..PacketPlan::default()
        },
    }
}

fn samples(plan: &SteadyPlan) -> Vec<ProbeSample> {
    let mut samples = Vec::new();
    steady(plan, &AtomicBool::new(false), |event| {
        if let EventBody::Probe(sample) = event.body {
            samples.push(sample);
        }
    })
    .expect("root may");
    samples
}

#[test]
fn what_lay_in_the_own_queue_is_no_part_of_the_round_trip() {
    if can_run(true, &["ip", "tc"]) {
        let name = "what_lay_in_the_own_queue_is_no_part_of_the_round_trip";
        live(name).standstill(LATE).run(probe_through_a_queue);
    }
}

fn probe_through_a_queue() {
    let (near, far) = (Namespace::new(), Namespace::new());
    near.run(&format!(
        "ip link add n1 type veth peer name f1 netns {}",
        far.name
    ));
    for (namespace, device, end) in [(&near, "n1", 1), (&far, "f1", 2)] {
        namespace.run(&format!("ip addr add 10.99.1.{end}/24 dev {device}"));
        namespace.run(&format!("ip link set {device} up"));
    }
    let address: SocketAddr = ([10, 99, 1, 2], 0).into();
    let free = near.visit(|| samples(&plan(address)));
    near.run("tc qdisc add dev n1 root tbf rate 1mbit burst 2000 limit 100000");
    let shaped = near.visit(|| samples(&plan(address)));
    let longest = |samples: &[ProbeSample], of: fn(&ProbeSample) -> Option<Duration>| {
        samples
            .iter()
            .filter_map(of)
            .max()
            .expect("one was stamped")
    };
    assert_eq!((free.len(), shaped.len()), (20, 20));
    // Each probe adds 4 ms to the queue, so the last of 20 waits for up to 19 · 4 ms.
    let queued = longest(&shaped, |sample| sample.queued);
    assert!(queued > Duration::from_millis(40), "{queued:?}");
    assert!(longest(&free, |sample| sample.queued) < queued / 4);
    assert!(longest(&shaped, |sample| sample.rtt) < queued / 4);
    let noticed = longest(&shaped, |sample| sample.noticed);
    assert!(noticed >= queued, "{noticed:?}");
}

#[test]
fn an_icmp_error_about_one_port_is_no_answer_to_probes_of_another() {
    if !can_run(true, &["ip", "iptables"]) {
        return;
    }
    let host = Namespace::new();
    let input = "iptables -A INPUT -p tcp --dport";
    host.run(&format!(
        "{input} 81 -j REJECT --reject-with icmp-host-prohibited"
    ));
    host.run(&format!("{input} 82 -j DROP"));
    let to = |port| SteadyPlan {
        method: SteadyMethod::Syn,
        timeout: Duration::from_millis(300),
        packet: PacketPlan::default(),
        ..plan(([127, 0, 0, 1], port).into())
    };
    let (rejected, dropped) = std::thread::scope(|scope| {
        let rejected = scope.spawn(|| host.visit(|| samples(&to(81))));
        let dropped = scope.spawn(|| host.visit(|| samples(&to(82))));
        (rejected.join(), dropped.join())
    });
    let answers = |samples: Vec<ProbeSample>| {
        let mut answers: Vec<ProbeAnswer> = samples.iter().map(|s| s.answer).collect();
        answers.dedup();
        (samples.len(), answers)
    };
    let prohibited = ProbeAnswer::Unreachable(3, 10);
    let (rejected, dropped) = (rejected.expect("it runs"), dropped.expect("it runs"));
    assert_eq!(answers(rejected), (20, vec![prohibited]));
    assert_eq!(answers(dropped), (20, vec![ProbeAnswer::Silence]));
}

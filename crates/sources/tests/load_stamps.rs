//! The stages of requests, from the kernel's timestamps.

#[path = "servers/fake.rs"]
mod fake;
#[path = "servers/nginx.rs"]
mod nginx;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "host/world.rs"]
mod world;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fake::{Server, answer_after};
use lagtrace_core::observed::event::{EventBody, LoadStages, Phase, TargetId};
use lagtrace_sources::load::{Lane, LoadError, Pace, Plan, Summary, Target, run};
use lagtrace_sources::request::Request;
use lagtrace_sources::url::Url;
use lagtrace_trial::live;
use nginx::Nginx;
use world::{Namespace, can_run};

/// Maximum share of a test's time in which the machine may stall. With more, the medians would mean
/// nothing.
const SHARE: f64 = 0.2;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a plan with a rate that is low enough for every request to be stamped.
fn plan(address: SocketAddr, rate: f64) -> Plan {
    let lane = Lane {
        target: Target {
            id: TargetId::Subject,
            address,
            url: Url::at(address.ip(), address.port(), "/"),
            request: Request::default(),
        },
        phase: Phase::Baseline,
        experiment: None,
        connections: 4,
    };
    let mut plan = Plan {
        duration: ms(600),
        warm_up: ms(0),
        pace: Pace::Rate(rate),
        threads: 1,
        ..Plan::new(vec![lane])
    };
    plan.reporting.stamps = true;
    plan
}

fn measure(plan: &Plan) -> (Summary, LoadStages) {
    let mut stages = None;
    let stop = AtomicBool::new(false);
    let summary = run(plan, &|_| {}, &stop, |event| {
        if let EventBody::Stages(told) = event.body {
            stages = Some(told);
        }
    });
    (summary.expect("the plan is valid"), stages.expect("stages"))
}

/// Returns the median of a stage.
fn median(stages: &LoadStages, name: &str) -> Duration {
    let stage = stages.stages.iter().find(|(stage, _)| stage == name);
    let median = stage.and_then(|(_, times)| times.quantile(0.5));
    median.expect("it has times")
}

#[test]
fn stages_add_up_to_what_requests_took() {
    let Some(nginx) = Nginx::start("") else {
        return;
    };
    let (summary, stages) = measure(&plan(([127, 0, 0, 1], nginx.port).into(), 200.0));
    let lane = &summary.lanes[0];
    assert_eq!((lane.responses(), lane.failed()), (120, 0), "{lane:?}");
    // If this process gets no processor for a while, it sends several requests within a
    // millisecond, and not all of them are stamped.
    let told = stages.requests + stages.without;
    assert!(stages.requests > 0 && told <= 120, "{stages:?}");
    assert!(stages.without <= told / 4, "{stages:?}");
    if stages.requests == 120 {
        let sums = stages.stages.iter().map(|(_, times)| times.sum_ns());
        let (sum, whole) = (sums.sum::<u128>() as f64, lane.latency.sum_ns() as f64);
        assert!((sum / whole - 1.0).abs() < 0.02, "{sum} {whole}");
    }
}

#[test]
fn a_server_that_takes_its_time_is_where_it_went() {
    live("a_server_that_takes_its_time_is_where_it_went")
        .share(SHARE)
        .run(|| {
            // One pause is shorter than a delayed ACK, the other one longer.
            for pause in [10, 120] {
                let server = Server::start(answer_after(ms(pause)));
                let (summary, stages) = measure(&plan(server.address, 20.0));
                assert_eq!(summary.lanes[0].failed(), 0);
                assert!(stages.requests >= 3, "{stages:?}");
                let server = median(&stages, "server") + median(&stages, "unacknowledged");
                assert!(server >= ms(pause - 1), "{stages:?}");
                assert!(median(&stages, "server") >= ms(pause / 2), "{stages:?}");
                for other in ["own queue", "path", "response"] {
                    assert!(
                        median(&stages, other) < ms(pause / 2),
                        "{other}: {stages:?}"
                    );
                }
            }
        });
}

#[test]
fn a_queue_of_our_own_is_where_it_went() {
    live("a_queue_of_our_own_is_where_it_went")
        .share(SHARE)
        .run(|| {
            if !can_run(true, &["ip", "tc"]) {
                return;
            }
            let (near, far) = (Namespace::new(), Namespace::new());
            near.run(&format!(
                "ip link add n1 type veth peer name f1 netns {}",
                far.name
            ));
            for (namespace, device, end) in [(&near, "n1", 1), (&far, "f1", 2)] {
                namespace.run(&format!("ip addr add 10.99.3.{end}/24 dev {device}"));
                namespace.run(&format!("ip link set {device} up"));
            }
            let server = far.visit(|| Server::start_at("10.99.3.2:0", answer_after(ms(0))));
            let mut plan = plan(server.address, 10.0);
            plan.lanes[0].target.request.fields = vec![format!("X-Long: {}", "x".repeat(8_000))];
            let (_, free) = near.visit(|| measure(&plan));
            near.run("tc qdisc add dev n1 root tbf rate 1mbit burst 2000 limit 100000");
            let (summary, shaped) = near.visit(|| measure(&plan));
            assert!(summary.lanes[0].responses() > 0, "{summary:?}");
            assert!(median(&free, "own queue") < ms(10), "{free:?}");
            // 8,000 bytes take 64 ms, minus the burst that the queue allows.
            assert!(median(&shaped, "own queue") >= ms(40), "{shaped:?}");
            assert!(median(&shaped, "server") < ms(30), "{shaped:?}");
        });
}

#[test]
fn stamps_are_of_plain_http1_only() {
    let address = ([127, 0, 0, 1], 9).into();
    let mut plans = [plan(address, 1.0), plan(address, 1.0)];
    plans[0].protocol.at_once = 2;
    plans[1].protocol.http2 = true;
    for plan in plans {
        let error = run(&plan, &|_| {}, &AtomicBool::new(false), |_| {});
        assert!(matches!(error, Err(LoadError::Stamps)));
    }
}

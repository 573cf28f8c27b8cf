//! The case that the lab was made for: under load from wrk, one server is slow and its twin is not.

use lagtrace_lab::{Family, Lab};
use lagtrace_trial::live;

use crate::up;

/// Returns wrk's median latency in milliseconds and its requests per second.
fn wrk(lab: &Lab, service: &str) -> Option<(f64, f64)> {
    let url = lab.url(lab.service(service).expect("a service"), Family::V4);
    let words = ["--latency", "-c100", "-t2", "-d1s", &url];
    let output = lab
        .client()
        .command("wrk")
        .expect("a host")
        .args(words)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.trim().strip_prefix(name).map(str::trim))
    };
    let median = value("50%").expect("wrk's median");
    let (number, unit) = median.split_at(
        median
            .find(|c: char| c.is_ascii_alphabetic())
            .expect("a unit"),
    );
    let in_ms = match unit {
        "us" => 0.001,
        "ms" => 1.0,
        _ => 1000.0,
    };
    let rate = value("Requests/sec:").expect("wrk's rate");
    Some((
        number.parse::<f64>().expect("a number") * in_ms,
        rate.parse().expect("a number"),
    ))
}

#[test]
fn the_case_reproduces_under_concurrency() {
    // Each median is over hundreds of requests. wrk and nginx use both processors fully.
    let name = "the_case_reproduces_under_concurrency";
    live(name).alone().share(0.5).run(|| {
        let Some(lab) = up("nagle-delayed-ack", 0) else {
            return;
        };
        let (Some((good_ms, good_rate)), Some((slow_ms, slow_rate))) =
            (wrk(&lab, "good"), wrk(&lab, "latency"))
        else {
            return crate::skip("wrk");
        };
        assert!(slow_ms > 35.0 && slow_ms < 100.0, "{slow_ms} ms");
        assert!(good_ms < slow_ms / 2.0, "{good_ms} ms beside {slow_ms} ms");
        assert!(
            good_rate > 2.0 * slow_rate,
            "{good_rate} beside {slow_rate} requests/s"
        );
    });
}

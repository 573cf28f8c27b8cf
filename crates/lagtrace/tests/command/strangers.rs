//! Two runs of drawn traffic, of which one is healthy: they are recorded and judged, and no cause is
//! accused that is not there. `./figures strangers` does this for many, and judges all figures.

use lagtrace_trial::live;

use super::lab::STANDSTILL;
use super::program::{has_root, has_tool, lagtrace_lab};

#[test]
fn drawn_traffic_is_recorded_and_nobody_is_accused() {
    let test = "strangers::drawn_traffic_is_recorded_and_nobody_is_accused";
    if !has_root(test) || !["ip", "tcpdump"].iter().all(|tool| has_tool(test, tool)) {
        return;
    }
    live(test).busy().standstill(STANDSTILL).run(|| {
        let words = ["strangers", "--seed", "1", "--count", "2"];
        let run = lagtrace_lab(words.iter().chain(&["--format", "json", "-q"]));
        assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
        let score = run.json();
        assert_eq!(score["refused"], serde_json::json!([]), "{score:#}");
        let cases = score["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 2, "{score:#}");
        for case in cases {
            assert_eq!(case["accused"], serde_json::json!([]), "{case:#}");
            assert!(case["sentences"].as_array().unwrap().len() > 3, "{case:#}");
        }
        let is_healthy = |case: &&serde_json::Value| case["is_healthy"] == true;
        assert_eq!(cases.iter().filter(is_healthy).count(), 1, "{score:#}");
    });
}

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::report::{ExchangeRecord, Exemplar, WaitSpan};

use super::Condition;

fn record() -> ExchangeRecord {
    let wait = |kind, owner, ms: u64| WaitSpan {
        kind,
        owner,
        duration_ns: ms * 1_000_000,
        error_ns: None,
        released_by_packet: None,
    };
    ExchangeRecord {
        r#type: "exchange".to_owned(),
        capture: "slow.pcap".to_owned(),
        stream: Some(3),
        ordinal: 1,
        status: Some(200),
        cost_ns: 41_000_000,
        setup_ns: None,
        response_bytes: 5_000,
        exchange: Exemplar {
            client: "10.0.0.1:40000".to_owned(),
            server: "10.0.0.2:80".to_owned(),
            request: "GET /api/items".to_owned(),
            outcome: "200".to_owned(),
            start_ns: 0,
            latency_ns: 60_000_000,
            first_packet: Some(10),
            last_packet: Some(17),
            waits: vec![
                wait(WaitKind::RoundTrip, Owner::Path, 19),
                wait(WaitKind::ResponseHeld, Owner::Server, 41),
            ],
            at_host: Vec::new(),
        },
        recoveries: Vec::new(),
    }
}

fn holds(text: &str) -> bool {
    let condition: Condition = text.parse().unwrap_or_else(|fault| panic!("{fault}"));
    condition.holds(&record())
}

fn fault(text: &str) -> String {
    text.parse::<Condition>().expect_err(text).to_string()
}

#[test]
fn exchanges_are_told_apart() {
    for text in [
        "latency>50ms and status=200 and server=10.0.0.2:80 and request~\"/api\"",
        "latency >= 60ms && latency <= 60000us",
        "server=10.0.0.2 and server = :80 and client!=:80",
        "response-held > 40ms",
        "server-time = 41ms",
        "packet=12 and packet<18 and packet>9",
        "not (status=404 or status=500)",
        "setup < 1s or stream==3",
        "!status=404",
        "status!=404 and outcome=200",
        "request !~ \"DELETE\"",
        "request = \"GET /api/items\"",
        "losses=0 and bytes>4999 and ordinal=1 and cost>0",
    ] {
        assert!(holds(text), "{text}");
        assert!(!holds(&format!("not ({text})")), "not {text}");
    }
}

#[test]
fn what_is_not_there_is_neither_more_nor_less() {
    assert!(!holds("setup > 0s") && !holds("setup <= 1h") && holds("setup != 0s"));
}

#[test]
fn and_binds_closer_than_or() {
    assert!(holds("status=200 or status=404 and latency>1h"));
    assert!(!holds("(status=200 or status=404) and latency>1h"));
}

#[test]
fn faults_name_the_place() {
    for (text, wanted) in [
        (
            "latencyy>50ms",
            "there is no field `latencyy`; did you mean `latency`? at character 1\n",
        ),
        ("status=200 and zzz=1", "at character 16\n"),
        (
            "latency>50",
            "`50` is not a duration: write it like 50ms, 1.5s or 200us at character 9\n",
        ),
        (
            "latency 50ms",
            "expected one of = != < <= > >= ~ !~ at character 9\n",
        ),
        (
            "(status=200",
            "expected `)` for the `(` at character 1 at character 12\n",
        ),
        (
            "status=200 status=404",
            "expected `and`, `or` or the end at character 12\n",
        ),
        (
            "request>\"a\"",
            "`>` cannot be used with `request` at character 8\n",
        ),
        (
            "request~\"/api",
            "the closing quotation mark is missing at character 9\n",
        ),
        ("server=nowhere", "`nowhere` is not an address"),
        ("status=abc", "`abc` is not a whole number at character 8\n"),
        ("", "expected a field at character 1\n"),
        ("status=", "expected a value at character 8\n"),
    ] {
        assert!(fault(text).contains(wanted), "{text}: {}", fault(text));
    }
    assert!(fault("status=200 and é=1").ends_with("\n  status=200 and é=1\n                 ^"));
}

#[test]
fn nesting_is_bounded() {
    assert!(fault(&"(".repeat(100_000)).contains("nested too deep"));
    assert!(fault(&"!".repeat(100_000)).contains("nested too deep"));
}

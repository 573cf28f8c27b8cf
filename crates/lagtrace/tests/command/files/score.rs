//! The score, over recordings whose truth is known. The committed corpus is scored by
//! `tests/score.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::command::program::{lab_program, lagtrace_lab, run};

/// Returns this folder of the repository.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

/// Copies a recording of the core's own tests into a corpus, with this truth.
fn lay(corpus: &Path, recording: &str, expected: &Value, must_not: &[&str]) {
    let own = corpus.join(recording);
    fs::create_dir(&own).unwrap();
    for end in ["client", "server"] {
        let from = format!("crates/core/tests/corpus/recordings/{recording}-{end}.pcap");
        fs::copy(folder(&from), own.join(format!("{end}.pcap"))).unwrap();
    }
    let requests = |mean: u64| json!({"count": 100, "errors": 0, "mean_ns": mean, "p50_ns": mean, "p99_ns": mean});
    let label = json!({
        "schema": 1, "scenario": recording, "service": "it", "title": "", "variant": "8ms",
        "round_trip_ns": 8_000_000, "offload": null, "seed": 1, "ipv6": false, "port": 80,
        "truth": {"expected": expected, "allowed": [], "must_not": must_not},
        "requests": {"with": requests(60_000_000), "without": requests(10_000_000)},
        "proof": [],
    });
    fs::write(own.join("truth.json"), label.to_string()).unwrap();
}

fn expected(cause: &str, culprit: &str) -> Value {
    json!([{"cause": [cause], "culprit": [culprit]}])
}

#[test]
fn right_and_wrong_are_told_apart() {
    let corpus = tempfile::tempdir().unwrap();
    let lay = |recording, expected: &Value, must_not: &[&str]| {
        lay(corpus.path(), recording, expected, must_not);
    };
    lay("good-8ms", &json!([]), &["nagle-delayed-ack"]);
    lay("latency-8ms", &expected("nagle-delayed-ack", "server"), &[]);
    let right = lagtrace_lab(["score", corpus.path().to_str().unwrap(), "--format", "json"]);
    let score = right.expect(0).json();
    assert_eq!(score["cases"].as_array().unwrap().len(), 4);
    assert!(
        score["cases"][2]["cost"]["true_ns"] == 50_000_000,
        "{score:#}"
    );
    // Recordings with an untrue label: no cause, a wrong culprit, and a wrong cause.
    lay("latency-50ms", &json!([]), &[]);
    lay("think-44-8ms", &expected("server-think", "client"), &[]);
    lay("pause-44-8ms", &expected("stop-the-world", "server"), &[]);
    let wrong = lagtrace_lab(["score", corpus.path().to_str().unwrap(), "--format", "json"]);
    let score = wrong.expect(1).json();
    for (n, verdict) in [
        "left-alone",
        "left-alone",
        "accused",
        "accused",
        "right",
        "right",
        "other-first",
        "other-first",
        "wrong-culprit",
        "wrong-culprit",
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(
            score["cases"][n]["verdict"], verdict,
            "{:#}",
            score["cases"][n]
        );
    }
    let totals = &score["totals"][0];
    for (name, count) in [
        ("known", 3),
        ("first_right", 2),
        ("culprit_right", 1),
        ("healthy", 2),
        ("healthy_accused", 1),
    ] {
        assert_eq!(totals[name], count, "{name}: {totals:#}");
    }
    let told = lagtrace_lab(["score", corpus.path().to_str().unwrap(), "-v"]);
    check_letter("score", &told.expect(1).stdout);
}

/// Compares the output with its golden file, or rewrites the file if `UPDATE_LETTERS` is 1.
fn check_letter(name: &str, said: &str) {
    let path = folder(&format!("crates/lagtrace/tests/letters/{name}.txt"));
    if std::env::var("UPDATE_LETTERS").is_ok_and(|value| value == "1") {
        fs::write(&path, said).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap();
    assert_eq!(wanted, said, "UPDATE_LETTERS=1 writes it anew");
}

#[test]
fn a_part_of_the_recordings_can_be_scored() {
    let corpus = tempfile::tempdir().unwrap();
    lay(corpus.path(), "good-8ms", &json!([]), &[]);
    lay(corpus.path(), "latency-8ms", &json!([]), &[]);
    fs::create_dir(corpus.path().join(".recording-1")).unwrap();
    let whole = corpus.path().to_str().unwrap();
    let one = corpus.path().join("good-8ms");
    for arguments in [
        &[whole, "--only", "good", "--vantage", "server"][..],
        &[one.to_str().unwrap(), "--vantage", "server"],
    ] {
        let all = ["score", "--format", "ndjson"];
        let run = lagtrace_lab(all.iter().chain(arguments)).expect(0);
        let cases = run
            .stdout
            .lines()
            .filter(|line| line.contains(r#""type":"case""#));
        assert_eq!(cases.count(), 1, "{run:#?}");
    }
    let none = lagtrace_lab(["score", whole, "--only", "no-such"]).expect(2);
    assert!(
        none.stderr.contains("has `no-such` in its name"),
        "{none:#?}"
    );
    fs::write(one.join("truth.json"), "{}").unwrap();
    let broken = lagtrace_lab(["score", whole]).expect(2);
    assert!(
        broken.stderr.contains("is not a label of a recording"),
        "{broken:#?}"
    );
}

#[test]
fn a_folder_for_recordings_may_exist() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let refused = lagtrace_lab(["record", "no-such", "--output", path]).expect(2);
    let said = "no scenario is called `no-such`";
    assert!(refused.stderr.contains(said), "{refused:#?}");
}

#[test]
fn a_lab_without_the_program_beside_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("lagtrace-lab");
    fs::copy(lab_program(), &alone).unwrap();
    let refused = run(Command::new(&alone).args(["run", "nagle-delayed-ack"])).expect(2);
    let program = folder.path().join("lagtrace");
    let told = format!("there is no {}", program.display());
    assert!(refused.stderr.contains(&told), "{refused:#?}");
    assert!(refused.stderr.contains("hint: "), "{refused:#?}");
}

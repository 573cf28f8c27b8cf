//! `lagtrace watch` beside real servers.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::lab::{Lab, measured};
use super::privileges::{NOBODY, copy_for_all};
use super::program::{findings, has_root, has_tool, lagtrace, run};

/// Under load of both services the one that holds its answers back is proven
/// to, from the server's kernel alone; its healthy twin is not accused.
#[test]
fn the_case_is_proven_by_watching_the_server() {
    const TEST: &str = "the_case_is_proven_by_watching_the_server";
    let Some(lab) = Lab::up(TEST, "nagle-delayed-ack") else {
        return;
    };
    measured(|| {
        let loads = ["8080", "80"].map(|port| {
            let url = format!("http://10.77.0.2:{port}/");
            let mut load = lab.command(&["load", &url, "-c", "20", "-d", "5s", "-q"]);
            load.args(["--rate", "300"])
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        });
        std::thread::sleep(Duration::from_secs(1));
        let report = lagtrace(["watch", "-p", "80,8080", "-d", "3s", "--format", "json"]);
        for mut load in loads {
            load.wait().unwrap();
        }
        let report = report.expect(1).json();
        assert_eq!(findings(&report), ["nagle-delayed-ack"], "{report:#}");
        let finding = &report["findings"][0];
        assert_eq!(finding["verdict"], "proven");
        assert_eq!(finding["service"], "10.77.0.2:8080");
        let kinds: Vec<&Value> = finding["evidence"].as_array().unwrap().iter().collect();
        let has = |kind: &str| kinds.iter().any(|piece| piece["kind"] == kind);
        assert!(has("wire") && has("kernel-trace"), "{finding:#}");
        let held = |service: &str| {
            let services = report["watch"]["services"].as_array().unwrap();
            let it = services.iter().find(|s| s["service"] == service).unwrap();
            assert!(it["turns"].as_u64().unwrap() > 500, "{it:#}");
            assert!(
                it["programs"][0].as_str().unwrap().starts_with("nginx["),
                "{it:#}"
            );
            let stage = it["stages"]
                .as_array()
                .unwrap()
                .iter()
                .find(|s| s["name"] == "held");
            stage.unwrap()["time_ns"]["p50"].as_u64().unwrap()
        };
        assert!(held("10.77.0.2:8080") > 20_000_000, "{report:#}");
        assert_eq!(held("10.77.0.2:80"), 0);
    });
}

#[test]
fn without_rights_it_says_what_it_takes() {
    const TEST: &str = "without_rights_it_says_what_it_takes";
    if !has_root(TEST) || !has_tool(TEST, "setpriv") {
        return;
    }
    let folder = copy_for_all();
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg(folder.path().join("lagtrace"));
    let run = run(command.args(["watch", "-p", "80", "-d", "1s"])).expect(2);
    assert!(run.stderr.contains("not permitted"), "{run:#?}");
    assert!(run.stderr.contains("CAP_BPF"), "{run:#?}");
}

//! Real servers with their own process, and the control of a service's processes.

use std::process::Command;
use std::time::{Duration, Instant};

use lagtrace_lab::{Family, Lab, Scenario};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::fetch;
use crate::{remains, up_as, wait_until_gone};

/// Returns a scenario with this server as its only service, and with additional lines.
fn only(server: &str, lines: &str) -> Scenario {
    let text = format!(
        "name = \"only\"\ntitle = \"t\"\ntarget = \"only\"\n[[service]]\nname = \"only\"\nport = 7000\n\
         server = {server}\n{lines}\n"
    );
    Scenario::parse("test", &text).expect("a scenario")
}

/// Returns the output of a program on the client. `ADDRESS` in its arguments is replaced.
fn ask(lab: &Lab, program: &str, arguments: &[&str]) -> String {
    let address = lab.server().address(Family::V4).to_string();
    let mut command = lab.client().command(program).expect("the lab is up");
    command.args(
        arguments
            .iter()
            .map(|word| word.replace("ADDRESS", &address)),
    );
    let output = command.output().expect("the program runs");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Waits until the server's log contains this text, and returns the log. After 5 s, returns its
/// current content.
fn log_once(lab: &Lab, text: &str) -> String {
    let file = lab.server_log("only").expect("a service");
    let begun = Instant::now();
    loop {
        let log = std::fs::read_to_string(&file).unwrap_or_default();
        if log.contains(text) || begun.elapsed() > Duration::from_secs(5) {
            return log;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn take_down(lab: Lab) {
    let run = lab.run().clone();
    lab.take_down().expect("comes down");
    assert_eq!(remains(&run), Vec::<String>::new());
}

#[test]
fn haproxy_answers_and_logs() {
    let server = "{ kind = \"haproxy\", frontend = [\"http-request return status 200 content-type text/plain string yes\"] }";
    let Some(lab) = up_as(&only(server, "")) else {
        return;
    };
    assert_eq!(fetch(&lab, "only", 2)[1].length, 3);
    let told = log_once(&lab, "GET / HTTP/1.1");
    assert!(told.contains("GET / HTTP/1.1"), "{told}");
    take_down(lab);
}

#[test]
fn redis_answers_with_what_was_prepared() {
    let server = "{ kind = \"redis\", prepare = [\"SET greeting hello\"] }";
    let Some(lab) = up_as(&only(server, "")) else {
        return;
    };
    let said = ask(
        &lab,
        "redis-cli",
        &["-h", "ADDRESS", "-p", "7000", "GET", "greeting"],
    );
    assert_eq!(said.trim(), "hello");
    take_down(lab);
}

#[test]
fn postgres_has_a_cluster_of_its_own_and_logs_slow_statements() {
    let prepare = "[\"create table t as select 42 as answer\"]";
    let Some(lab) = up_as(&only(
        &format!("{{ kind = \"postgres\", prepare = {prepare} }}"),
        "",
    )) else {
        return;
    };
    let query = "select answer from t, pg_sleep(0.05)";
    let arguments = [
        "-X", "-At", "-h", "ADDRESS", "-p", "7000", "-U", "postgres", "-c", query,
    ];
    assert_eq!(ask(&lab, "psql", &arguments).trim(), "42");
    let told = log_once(&lab, "pg_sleep");
    assert!(told.contains("pg_sleep"), "{told}");
    take_down(lab);
}

#[test]
fn what_a_killed_keeper_left_of_servers_and_groups_the_next_run_removes() {
    let quota = "cpu_quota = { quota = \"50ms\", period = \"100ms\" }\n\
                 stop = { every = \"1s\", for = \"500ms\" }";
    let Some(lab) = up_as(&only("{ kind = \"postgres\" }", quota)) else {
        return;
    };
    let run = lab.run().clone();
    let keeper = Pid::from_raw(run.keeper.pid).expect("a pid");
    kill_process(keeper, Signal::KILL).expect("a signal to a process of this test");
    let Some(next) = up_as(&only("{ kind = \"redis\" }", "")) else {
        return;
    };
    // The run of another test may be the one that cleans up, so this waits.
    assert_eq!(wait_until_gone(&run), Vec::<String>::new());
    assert_eq!(groups(&run.id), Vec::<String>::new());
    take_down(next);
}

/// Returns the control groups of a run, by name.
fn groups(id: &str) -> Vec<String> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];
    let entries = roots.iter().filter_map(|root| std::fs::read_dir(root).ok());
    let names = entries.flatten().flatten().map(|entry| entry.file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.contains(id))
        .collect()
}

#[test]
fn a_quota_throttles_and_its_group_goes_with_the_run() {
    let server = "{ kind = \"nginx\", answer = { bytes = \"1MB\" }, directives = [\"gzip on\", \"gzip_types *\", \"gzip_comp_level 9\"] }";
    let quota = "cpu_quota = { quota = \"2ms\", period = \"50ms\" }";
    let Some(lab) = up_as(&only(server, quota)) else {
        return;
    };
    let url = lab.url(lab.scenario().target(), Family::V4);
    let begun = Instant::now();
    ask(
        &lab,
        "curl",
        &["-s", "--compressed", "-o", "/dev/null", &url],
    );
    assert!(begun.elapsed() > Duration::from_millis(50));
    let told = log_once(&lab, "throttled");
    assert!(told.contains("throttled"), "{told}");
    let id = lab.run().id.clone();
    assert_eq!(groups(&id).len(), 1);
    take_down(lab);
    assert_eq!(groups(&id), Vec::<String>::new());
}

#[test]
fn a_stopped_service_goes_on_by_itself() {
    let stop = "stop = { every = \"300ms\", for = \"150ms\" }";
    let Some(lab) = up_as(&only("{ kind = \"nginx\" }", stop)) else {
        return;
    };
    let slowest = (0..40)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            fetch(&lab, "only", 1)[0].total()
        })
        .max();
    assert!(slowest > Some(Duration::from_millis(60)), "{slowest:?}");
    let told = log_once(&lab, "processes stopped for");
    assert!(told.contains("processes stopped for"), "{told}");
    take_down(lab);
}

#[test]
fn a_shaper_holds_what_the_host_sends() {
    let text = "name = \"shaped\"\ntitle = \"t\"\ntarget = \"only\"\n[server]\n\
                shaper = { rate = \"4Mbit\", burst = \"5kB\", queue = \"200kB\" }\n[[service]]\nname = \"only\"\nport = 80\n\
                server = { kind = \"nginx\", answer = { bytes = \"100kB\" } }\n";
    let Some(lab) = up_as(&Scenario::parse("test", text).expect("a scenario")) else {
        return;
    };
    assert!(fetch(&lab, "only", 1)[0].total() > Duration::from_millis(150));
    let statistics = Command::new("tc")
        .args(["-netns", lab.server().namespace(), "-s", "qdisc", "show"])
        .output()
        .expect("tc runs");
    assert!(String::from_utf8_lossy(&statistics.stdout).contains("qdisc tbf"));
}

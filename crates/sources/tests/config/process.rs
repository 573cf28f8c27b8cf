//! Finding a running nginx and its files, and detecting changes of the files since its start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use lagtrace_core::observed::event::{EventBody, Phase, TargetId};
use lagtrace_core::observed::time::Timestamp;
use lagtrace_sources::config::nginx::{Change, Configuration, Master, Request, Resolved, resolve};
use lagtrace_sources::config::{Certainty, Error};
use lagtrace_trial::free_port;

use super::server::{self, Nginx};

/// Returns the contents of `http` that most tests use.
fn one_server(port: u16) -> String {
    format!("server {{ listen {port}; location / {{ tcp_nodelay off; }} }}")
}

fn request(port: u16) -> Request<'static> {
    Request {
        local_addr: Some([127, 0, 0, 1].into()),
        port,
        host: "localhost",
        uri: "/",
    }
}

fn value<'r>(resolved: &'r Resolved, directive: &str) -> &'r str {
    &resolved.setting(directive).unwrap().value
}

/// Waits until `holds` returns true for the master.
fn wait_for(pid: u32, holds: impl Fn(&Master) -> bool) -> Master {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let master = Master::find(pid).unwrap();
        if holds(&master) {
            return master;
        }
        assert!(Instant::now() < deadline, "{master:#?}");
        sleep(Duration::from_millis(20));
    }
}

/// Waits until nginx has a worker.
fn find_master(nginx: &Nginx) -> Master {
    let pid = nginx.pid();
    // nginx sets its title after it has started its workers.
    let has_title = || {
        let title = fs::read(format!("/proc/{pid}/cmdline"));
        title.is_ok_and(|title| title.starts_with(b"nginx: master"))
    };
    wait_for(pid, |master| {
        has_title() && master.workers.iter().any(|worker| worker.pid != pid)
    });
    wait_for(pid, |_| true)
}

#[test]
fn a_worker_leads_to_its_master_and_its_files() {
    if !server::is_available() {
        return;
    }
    let port = free_port();
    let directory = server::directory();
    let main = server::main_file(directory.path(), "include conf.d/*.conf;");
    fs::create_dir_all(directory.path().join("etc/conf.d")).unwrap();
    server::write(directory.path(), "etc/main.conf", &main);
    let included = server::write(directory.path(), "etc/conf.d/a.conf", &one_server(port));
    server::write(directory.path(), "etc/conf.d/.ignored.conf", "garbage {");
    // The file is relative to the prefix, and the prefix to the working directory.
    let mut command = server::command(Path::new("."), Path::new("etc/main.conf"));
    command.current_dir(directory.path());
    let nginx = Nginx::start(command, directory.path());
    let worker = find_master(&nginx).workers[0].pid;
    let master = Master::find(worker).unwrap();
    assert_eq!(master.pid, nginx.pid());
    assert_eq!(master.invocation.globals.as_deref(), Some("daemon off;"));
    assert!(master.build.version.is_some(), "{master:#?}");
    let resolved = resolve(&master, &request(port)).unwrap();
    assert_eq!(resolved.certainty, Certainty::Exact, "{resolved:#?}");
    let nodelay = resolved.setting("tcp_nodelay").unwrap();
    assert_eq!(nodelay.value, "off");
    assert_eq!(nodelay.scope, format!("http > server :{port} > location /"));
    assert_eq!(nodelay.is_newer_than_workers, Some(false));
    let at = nodelay.set_at.as_ref().unwrap();
    assert!(Path::new(&at.file).ends_with("etc/conf.d/a.conf"), "{at:?}");
    assert_eq!(
        fs::canonicalize(&at.file).unwrap(),
        fs::canonicalize(included).unwrap()
    );
    assert_eq!(at.line, 1);
}

#[test]
fn directives_of_the_command_line_come_first() {
    if !server::is_available() {
        return;
    }
    let port = free_port();
    let directory = server::directory();
    let main = server::main_file(directory.path(), &one_server(port));
    let main = main.replace("worker_processes 1;", "");
    let main = server::write(directory.path(), "nginx.conf", &main);
    let mut command = Command::new(server::program().unwrap());
    command
        .arg("-c")
        .arg(main)
        .args(["-g", "daemon off; worker_processes 2;"]);
    command.arg("-e").arg(directory.path().join("error.log"));
    let nginx = Nginx::start(command, directory.path());
    let master = find_master(&nginx);
    let resolved = resolve(&master, &request(port)).unwrap();
    let processes = resolved.setting("worker_processes").unwrap();
    assert_eq!(processes.value, "2");
    assert_eq!(processes.set_at.as_ref().unwrap().file, "-g");
}

#[test]
fn a_process_without_master_is_its_own() {
    if !server::is_available() {
        return;
    }
    let port = free_port();
    let directory = server::directory();
    let main = server::main_file(directory.path(), &one_server(port));
    let main = server::write(
        directory.path(),
        "nginx.conf",
        &format!("master_process off;\n{main}"),
    );
    let nginx = Nginx::on(directory.path(), &main);
    let master = Master::find(nginx.pid()).unwrap();
    assert_eq!(master.conf, main);
    let resolved = resolve(&master, &request(port)).unwrap();
    assert_eq!(value(&resolved, "tcp_nodelay"), "off");
}

#[test]
fn a_file_written_after_the_start_is_told_and_a_reload_clears_it() {
    if !server::is_available() {
        return;
    }
    let port = free_port();
    let directory = server::directory();
    let text = server::main_file(directory.path(), &one_server(port));
    let main = server::write(directory.path(), "nginx.conf", &text);
    let nginx = Nginx::on(directory.path(), &main);
    let first = find_master(&nginx);
    sleep(Duration::from_millis(100));
    fs::write(&main, text.replace("tcp_nodelay off", "tcp_nodelay on")).unwrap();
    let resolved = resolve(&first, &request(port)).unwrap();
    assert_eq!(value(&resolved, "tcp_nodelay"), "on");
    assert_eq!(resolved.newer_files[0].change, Change::Written);
    assert_eq!(resolved.newer_files[0].path, main);
    assert!(
        resolved
            .certainty
            .doubt()
            .unwrap()
            .contains("older configuration")
    );
    let nodelay = resolved.setting("tcp_nodelay").unwrap();
    assert_eq!(nodelay.is_newer_than_workers, Some(true));

    sleep(Duration::from_millis(100));
    nginx.signal(rustix::process::Signal::HUP);
    let old = first.workers[0].pid;
    let second = wait_for(nginx.pid(), |master| {
        !master.workers.is_empty() && master.workers.iter().all(|worker| worker.pid != old)
    });
    let resolved = resolve(&second, &request(port)).unwrap();
    assert!(resolved.newer_files.is_empty(), "{resolved:#?}");
    assert_eq!(resolved.certainty, Certainty::Exact);
}

#[test]
fn a_file_moved_into_place_is_told_though_its_content_is_old() {
    if !server::is_available() {
        return;
    }
    let port = free_port();
    let directory = server::directory();
    let text = server::main_file(directory.path(), &one_server(port));
    let main = server::write(directory.path(), "nginx.conf", &text);
    let other = server::write(directory.path(), "other.conf", &text);
    let old = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options()
        .write(true)
        .open(&other)
        .unwrap()
        .set_modified(old)
        .unwrap();
    let nginx = Nginx::on(directory.path(), &main);
    let master = find_master(&nginx);
    sleep(Duration::from_millis(100));
    fs::rename(&other, &main).unwrap();
    let resolved = resolve(&master, &request(port)).unwrap();
    assert_eq!(resolved.newer_files[0].change, Change::PerhapsReplaced);
}

#[test]
fn a_title_without_room_is_told() {
    if !server::is_available() {
        return;
    }
    let port = free_port();
    let directory = server::directory();
    let main = server::main_file(directory.path(), &one_server(port));
    let main = server::write(directory.path(), "nginx.conf", &main);
    let mut command = server::command(directory.path(), &main);
    // The title is longer than the arguments by "nginx: master process ", for which it uses the
    // space of the environment. Without an environment, it does not fit.
    command.env_clear();
    let nginx = Nginx::start(command, directory.path());
    let master = find_master(&nginx);
    let is_told = master.notes.iter().any(|note| note.id == "nginx-title-cut");
    assert!(is_told, "{master:#?}");
    let master = master.with_conf(main);
    let resolved = resolve(&master, &request(port)).unwrap();
    assert_eq!(value(&resolved, "tcp_nodelay"), "off");
}

#[test]
fn files_are_read_in_the_mounts_of_nginx() {
    if !server::is_available() {
        return;
    }
    let can_unshare = Command::new("unshare").args(["-m", "true"]).status();
    if !can_unshare.is_ok_and(|status| status.success()) {
        server::skip("unshare -m");
        return;
    }
    let port = free_port();
    let directory = server::directory();
    let path = directory.path();
    for name in ["outside", "inside"] {
        fs::create_dir(path.join(name)).unwrap();
    }
    let outside = server::main_file(path, "tcp_nodelay on;");
    let inside = server::main_file(path, &one_server(port));
    server::write(path, "outside/nginx.conf", &outside);
    server::write(path, "inside/nginx.conf", &inside);
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0/inside\" \"$0/outside\" && \
                  exec \"$1\" -e \"$0/error.log\" -c \"$0/outside/nginx.conf\" -g 'daemon off;'";
    command.args(["-m", "sh", "-c", script]).arg(path);
    command.arg(server::program().unwrap());
    let nginx = Nginx::start(command, path);
    let master = find_master(&nginx);
    assert_eq!(master.conf, path.join("outside/nginx.conf"));
    let resolved = resolve(&master, &request(port)).unwrap();
    assert_eq!(value(&resolved, "tcp_nodelay"), "off");
}

#[test]
fn another_user_reads_what_the_permissions_allow() {
    if !server::is_available() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        server::skip("root, to become another user");
        return;
    }
    let port = free_port();
    let directory = server::directory();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let main = server::main_file(directory.path(), &one_server(port));
    let main = server::write(directory.path(), "nginx.conf", &main);
    let nginx = Nginx::on(directory.path(), &main);
    let worker = find_master(&nginx).workers[0].pid;
    let program = directory.path().join("test");
    // Another process makes the copy. Otherwise, a child of a parallel test could inherit the
    // descriptor that is open for writing, and the copy could not be executed.
    let own = std::env::current_exe().unwrap();
    let copied = Command::new("cp").arg(own).arg(&program).status();
    assert!(copied.unwrap().success());
    let status = Command::new(&program)
        .args(["--exact", "process::as_another_user"])
        .env("LAGTRACE_TEST_WORKER", format!("{worker} {port}"))
        .uid(65534)
        .gid(65534)
        .status()
        .unwrap();
    assert!(status.success());
}

/// The part of the test above that runs as another user; does nothing by itself.
#[test]
fn as_another_user() {
    let Ok(words) = std::env::var("LAGTRACE_TEST_WORKER") else {
        return;
    };
    let (worker, port) = words.split_once(' ').unwrap();
    let master = Master::find(worker.parse().unwrap()).unwrap();
    let port = port.parse().unwrap();
    let resolved = resolve(&master, &request(port)).unwrap();
    assert_eq!(value(&resolved, "tcp_nodelay"), "off");
    assert_eq!(resolved.certainty, Certainty::Exact, "{resolved:#?}");
}

#[test]
fn the_answer_becomes_events() {
    let directory = server::directory();
    let text = server::main_file(directory.path(), &one_server(8080));
    let main = server::write(directory.path(), "nginx.conf", &text);
    let configuration = Configuration::from_file(&main).unwrap();
    let resolved = configuration.resolve(&request(8080));
    let events = resolved.events(Timestamp::from_nanos(7), Phase::Baseline, TargetId::Twin);
    let lines: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Configuration(line) => Some(format!(
                "{} {}: {} ({})",
                line.program, line.directive, line.value, line.scope
            )),
            _ => None,
        })
        .collect();
    assert_eq!(lines[0], "nginx server: listen 8080 (http)");
    assert_eq!(lines[1], "nginx location: / (http > server :8080)");
    assert!(lines.contains(&"nginx tcp_nodelay: off (http > server :8080 > location /)".into()));
    assert!(
        events
            .iter()
            .all(|event| event.at == Timestamp::from_nanos(7))
    );
    let nowhere = configuration.resolve(&request(81));
    let events = nowhere.events(Timestamp::default(), Phase::Baseline, TargetId::Subject);
    assert!(events.iter().any(|event| matches!(
        &event.body,
        EventBody::Note(note) if note.id == "nginx-no-server"
    )));
}

#[test]
fn a_broken_configuration_is_used_as_far_as_it_goes() {
    let directory = server::directory();
    let path = directory.path();
    server::write(path, "loop.conf", "include nginx.conf;\nsendfile on;");
    let text = "http {\n  include loop.conf;\n  include missing.conf;\n  server {\n    \
                listen 8080;\n    tcp_nodelay off;\n    location / { gzip on; }\n    gzip \"on;\n";
    let main = server::write(path, "nginx.conf", text);
    let resolved = Configuration::from_file(&main)
        .unwrap()
        .resolve(&request(8080));
    assert_eq!(value(&resolved, "tcp_nodelay"), "off");
    assert_eq!(value(&resolved, "gzip"), "on");
    assert_eq!(value(&resolved, "sendfile"), "on");
    let texts: Vec<&str> = resolved
        .notes
        .iter()
        .map(|note| note.text.as_str())
        .collect();
    assert!(
        texts.iter().any(|text| text.contains("includes itself")),
        "{texts:#?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("cannot read")),
        "{texts:#?}"
    );
    let syntax = format!("{}:8:10: a quote that is never closed", main.display());
    assert!(
        texts.iter().any(|text| text.starts_with(&syntax)),
        "{texts:#?}"
    );
    assert!(resolved.certainty.doubt().is_some());
}

#[test]
fn what_is_not_there_is_an_error() {
    assert!(matches!(
        Configuration::from_file(Path::new("/nowhere/nginx.conf")),
        Err(Error::Unreadable { .. })
    ));
    // A directory and a device are not configuration files. Reading them must fail and not hang.
    for path in ["/", "/dev/zero"] {
        assert!(Configuration::from_file(Path::new(path)).is_err(), "{path}");
    }
    let gone = Command::new("true").spawn().and_then(|mut child| {
        child.wait()?;
        Ok(child.id())
    });
    assert!(matches!(
        Master::find(gone.unwrap()),
        Err(Error::Process { .. } | Error::NotNginx { .. })
    ));
}

use std::collections::BTreeMap;

use super::*;
use crate::config::launch::assigned::assignments;

fn launch(command: &str) -> Launch {
    Launch {
        pid: 123,
        arguments: options::split(command),
        ..Launch::default()
    }
}

fn with(command: &str, variable: &'static str, value: &str) -> Launch {
    Launch {
        environment: BTreeMap::from([(variable, value.to_owned())]),
        ..launch(command)
    }
}

/// Returns a setting's value and place; the place is empty for a default.
fn of(launch: &Launch, directive: &str) -> Option<(String, String)> {
    let server = Server::of(&launch.arguments).expect("a known program");
    let all = server.settings(launch);
    let found = all.into_iter().find(|one| one.directive == directive)?;
    let at = found.at.map(|at| at.to_string());
    Some((found.value, at.unwrap_or_default()))
}

#[test]
fn programs_are_recognized_by_their_command_line() {
    for (command, expected) in [
        (
            "/usr/bin/python3 /usr/bin/gunicorn -w 2 app:app",
            Some(Server::Gunicorn),
        ),
        ("python3.11 -u -m gunicorn app:app", Some(Server::Gunicorn)),
        (
            "/venv/bin/python -X dev -m uvicorn app:app",
            Some(Server::Uvicorn),
        ),
        (
            "/usr/bin/python3 /usr/bin/waitress-serve app:app",
            Some(Server::Waitress),
        ),
        ("uwsgi --http :8080", Some(Server::Uwsgi)),
        ("node server.js", Some(Server::Node)),
        ("/usr/lib/jvm/bin/java -jar app.jar", Some(Server::Java)),
        ("python3 -m http.server", None),
        ("python3 -c gunicorn", None),
        ("python3 node", None),
        ("nginx: master process nginx", None),
        ("", None),
    ] {
        assert_eq!(Server::of(&options::split(command)), expected, "{command}");
    }
    let title = ["gunicorn: worker [app:app]".to_owned()];
    assert_eq!(Server::titled(&title), Some(Server::Gunicorn));
}

#[test]
fn a_setting_has_its_value_and_its_place() {
    let gunicorn = "/usr/bin/python3 /usr/bin/gunicorn app:app";
    let told = |launch: &Launch, directive: &str| {
        let (value, at) = of(launch, directive).expect("a value");
        format!("{value} @ {at}")
    };
    assert_eq!(told(&launch(gunicorn), "--workers"), "1 @ ");
    let given = launch(&format!("{gunicorn} -w 2 -k gthread"));
    assert_eq!(told(&given, "--workers"), "2 @ command line of pid 123");
    assert_eq!(
        told(&given, "--worker-class"),
        "gthread @ command line of pid 123"
    );
    let variable = with(gunicorn, "WEB_CONCURRENCY", "3");
    assert_eq!(
        told(&variable, "--workers"),
        "3 @ WEB_CONCURRENCY in the environment of pid 123"
    );
    let arguments = with(gunicorn, "GUNICORN_CMD_ARGS", "--backlog=64 --workers=5");
    assert_eq!(
        told(&arguments, "--backlog"),
        "64 @ GUNICORN_CMD_ARGS in the environment of pid 123"
    );
    let node = with("node server.js", "UV_THREADPOOL_SIZE", "8");
    assert_eq!(
        told(&node, "UV_THREADPOOL_SIZE"),
        "8 @ UV_THREADPOOL_SIZE in the environment of pid 123"
    );
    assert_eq!(
        told(&launch("node server.js"), "UV_THREADPOOL_SIZE"),
        "4 @ "
    );
    let java = with(
        "java -jar a.jar",
        "JAVA_TOOL_OPTIONS",
        "-Xmx1g -XX:+UseSerialGC",
    );
    assert_eq!(
        told(&java, "-XX:+UseSerialGC"),
        "on @ JAVA_TOOL_OPTIONS in the environment of pid 123"
    );
    let java = launch("java -XX:ActiveProcessorCount=2 -jar a.jar");
    assert_eq!(
        told(&java, "-XX:ActiveProcessorCount"),
        "2 @ command line of pid 123"
    );
    assert_eq!(of(&java, "-XX:+UseSerialGC"), None);
}

#[test]
fn the_file_is_below_the_command_line_and_above_the_default() {
    let gunicorn = launch("gunicorn -w 2 app:app");
    let path = gunicorn_file("gunicorn -c file:/srv/conf.py app:app");
    assert_eq!(path, Path::new("/srv/conf.py"));
    assert_eq!(gunicorn_file("gunicorn app:app"), Path::new(USUAL_FILE));
    let text = "workers = 8\nkeepalive = 9\nthreads = count()\n";
    let with_file = Launch {
        assignments: assignments(text, Path::new("/srv/gunicorn.conf.py"), false),
        ..gunicorn
    };
    let value = |directive| of(&with_file, directive);
    assert_eq!(value("--workers").expect("given").0, "2");
    assert_eq!(
        value("--keep-alive").expect("in the file"),
        ("9".to_owned(), "/srv/gunicorn.conf.py:2".to_owned())
    );
    assert_eq!(value("--threads"), None, "it would have to be computed");
}

fn gunicorn_file(command: &str) -> PathBuf {
    let path = Server::Gunicorn.file(&options::split(command));
    path.expect("gunicorn always has one")
}

#[test]
fn options_in_files_that_are_not_read_are_unknown() {
    let uwsgi = launch("uwsgi --ini app.ini --processes 4");
    assert_eq!(of(&uwsgi, "--processes"), None);
    let titled = Launch {
        doubt: Some("a title".to_owned()),
        ..launch("gunicorn app:app")
    };
    let all = Server::Gunicorn.settings(&titled);
    assert!(all.iter().all(|one| one.doubt.is_some()), "{all:?}");
}

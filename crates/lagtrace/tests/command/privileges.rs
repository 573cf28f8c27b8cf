//! Without any privilege everything runs that can, and the rest is named.

use std::process::Command;

use super::program::{findings, has_root, has_tool, notes, program, run};
use super::server::{OK, Server};

#[test]
fn without_rights_the_diagnosis_goes_on() {
    const TEST: &str = "without_rights_the_diagnosis_goes_on";
    if !has_root(TEST) || !has_tool(TEST, "setpriv") {
        return;
    }
    // The build's folder may be closed to others.
    let folder = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let copy = folder.path().join("lagtrace");
    // By another process: a child of a parallel test could inherit the copy
    // while it is open for writing, and then it could not be started.
    let copied = Command::new("cp").arg(program()).arg(&copy).status();
    assert!(copied.unwrap().success());
    open_to_all(folder.path());
    let server = Server::start(OK);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.args(["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]);
    command
        .arg(&copy)
        .args(["diagnose", &server.url(), "--format", "json"]);
    command.args(["-c", "2", "-d", "1s"]);
    let run = run(&mut command).expect(0);
    let report = run.json();
    assert_eq!(findings(&report), Vec::<&str>::new());
    assert!(report["exchanges"]["count"].as_u64().unwrap() > 0);
    let notes = notes(&report);
    for id in ["not-measured-capture", "not-measured-probe"] {
        assert!(notes.contains(&id), "{id}: {notes:?}");
    }
    assert!(run.stdout.contains("setcap"), "{run:#?}");
}

fn open_to_all(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

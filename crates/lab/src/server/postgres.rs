//! A PostgreSQL for a service: its own cluster in the run's folder, independent of other clusters
//! on the machine. Its log is its standard error.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::program::Program;
use super::service_port::ServicePort;
use crate::error::Error;
use crate::machine::file::open_up;
use crate::machine::namespace::before_exec;
use crate::machine::tool;
use crate::machine::user::User;

/// A PostgreSQL. Clients connect as the user `postgres` to the database `postgres`, without a
/// password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Postgres {
    /// Settings, `name=value`.
    pub settings: Vec<String>,
    /// The SQL that is run before any client connects.
    pub prepare: Vec<String>,
}

/// The user that owns clusters. A separate user is needed because the server refuses to run as
/// root.
const OWNER: &str = "postgres";

/// Maximum time until the server accepts clients.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// The settings of a cluster that runs for seconds: no data survives the run, and all data is inside
/// its folder. Statements and lock waits that a person would notice are logged.
const SETTINGS: [&str; 10] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "shared_buffers=16MB",
    "dynamic_shared_memory_type=mmap",
    "listen_addresses=*",
    "autovacuum=off",
    "log_min_duration_statement=20ms",
    "log_lock_waits=on",
    "deadlock_timeout=20ms",
];

/// Creates the cluster and returns the program.
pub(super) fn lay(
    folder: &Path,
    service: ServicePort<'_>,
    postgres: &Postgres,
) -> Result<Program, Error> {
    let missing = || Error::MissingTool {
        tool: "postgres",
        package: "postgresql",
    };
    let user = User::named(OWNER).ok_or_else(missing)?;
    let home = home(folder, service);
    fs::create_dir(&home).map_err(Error::file("create", &home))?;
    open_up(&home)?;
    chown(&home, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
        .map_err(Error::file("give away", &home))?;
    make_cluster(&home, user)?;
    let own = [
        format!("port={}", service.port),
        format!("unix_socket_directories={}", home.display()),
    ];
    let settings = SETTINGS.map(str::to_owned).into_iter().chain(own);
    let settings = settings.chain(postgres.settings.clone());
    let mut arguments = vec!["-D".to_owned(), data(&home).display().to_string()];
    arguments.extend(settings.flat_map(|setting| ["-c".to_owned(), setting]));
    Ok(Program {
        tool: "postgres",
        arguments,
        user: Some(user),
        // SIGQUIT is an immediate shutdown: the data is not needed any more.
        ends_by: Signal::QUIT,
    })
}

fn make_cluster(home: &Path, user: User) -> Result<(), Error> {
    let mut initdb = tool::command("initdb");
    initdb.args(["--no-sync", "--auth=trust", "--username", OWNER]);
    initdb.args(["--locale=C", "--encoding=UTF8", "--wal-segsize=1"]);
    initdb.arg("-D").arg(data(home)).current_dir(home);
    before_exec::own_shared_memory(&mut initdb);
    before_exec::become_user(&mut initdb, user);
    tool::run_with_input(initdb, "")?;
    let access = data(home).join("pg_hba.conf");
    let everybody = "host all all 0.0.0.0/0 trust\nhost all all ::/0 trust\n";
    let append = |mut file: fs::File| file.write_all(everybody.as_bytes());
    let file = OpenOptions::new().append(true).open(&access);
    file.and_then(append).map_err(Error::file("write", &access))
}

/// Waits until the server accepts clients, and runs the first SQL over its own socket.
pub(super) fn prepare(
    folder: &Path,
    service: ServicePort<'_>,
    postgres: &Postgres,
) -> Result<(), Error> {
    let home = home(folder, service);
    let begun = Instant::now();
    // The server listens before it accepts clients. The last line of this file says when it does.
    let state = data(&home).join("postmaster.pid");
    while !fs::read_to_string(&state).is_ok_and(|text| text.trim_end().ends_with("ready")) {
        if begun.elapsed() > READY_LIMIT {
            return Err(Error::Command {
                command: "postgres".to_owned(),
                message: format!("lets nobody in after {} s", READY_LIMIT.as_secs()),
            });
        }
        sleep(Duration::from_millis(5));
    }
    if postgres.prepare.is_empty() {
        return Ok(());
    }
    let mut psql: Command = tool::command("psql");
    psql.args([
        "-X",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-U",
        OWNER,
        "-d",
        OWNER,
    ]);
    psql.arg("-h")
        .arg(&home)
        .arg("-p")
        .arg(service.port.to_string());
    tool::run_with_input(psql, &(postgres.prepare.join(";\n") + ";\n"))
}

fn home(folder: &Path, service: ServicePort<'_>) -> PathBuf {
    folder.join(service.name)
}

fn data(home: &Path) -> PathBuf {
    home.join("data")
}

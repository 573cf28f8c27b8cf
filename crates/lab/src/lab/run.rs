//! The records of running labs, stored in `/run/lagtrace-lab`: one for each run, so that another
//! command can find the run, end it, or clean up after it crashed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::host::files;
use crate::machine::file::{open_up, replace_file};
use crate::machine::namespace::Namespace;
use crate::machine::process::Process;
use crate::scenario::Scenario;
use crate::server::control::group;
use crate::side::Side;

const BASE: &str = "/run/lagtrace-lab";

/// Maximum time for a lab to be taken down before it counts as stuck.
const TAKE_DOWN_LIMIT: Duration = Duration::from_secs(15);

/// A lab that is running, or that ended without being cleaned up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The run's id, unique on this machine: six letters or digits.
    pub id: String,
    /// The scenario that was started, including the requested round trip.
    pub scenario: Scenario,
    /// The start time, in seconds since 1970.
    pub started_s: u64,
    /// The process that keeps the lab and takes it down when the process ends.
    pub keeper: Process,
    /// True if the lab was left running and is not taken down when its owner ends.
    pub is_detached: bool,
    /// The processes that run in the lab.
    pub processes: Vec<Member>,
}

/// A process that belongs to a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The process's role: `path`, `nginx`, or the service that it serves.
    pub role: String,
    /// The process.
    pub process: Process,
}

impl Run {
    /// Begins a run: allocates an id and writes its record before anything else is created.
    pub(crate) fn begin(scenario: Scenario) -> Result<Self, Error> {
        fs::create_dir_all(BASE).map_err(Error::file("create", BASE))?;
        open_up(Path::new(BASE))?;
        // The lock prevents a sweep. Until the record is written, a sweep would remove the folder
        // like that of a crashed run.
        let _lock = lock()?;
        let started_s = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let mut run = Self {
            id: String::new(),
            scenario,
            started_s,
            keeper: Process::current(),
            is_detached: false,
            processes: Vec::new(),
        };
        loop {
            run.id = new_id()?;
            match fs::create_dir(run.folder()) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file("create", run.folder())(error)),
            }
        }
        open_up(&run.folder())?;
        run.save()?;
        Ok(run)
    }

    /// Writes the current record.
    pub(crate) fn save(&self) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(self).expect("a run is text and numbers");
        replace_file(&self.record(), &text)
    }

    fn record(&self) -> PathBuf {
        Path::new(BASE).join(format!("{}.json", self.id))
    }

    /// Returns the folder of the run's files: configurations and logs.
    pub fn folder(&self) -> PathBuf {
        Path::new(BASE).join(&self.id)
    }

    /// Returns the name of the client's network namespace, for `ip netns exec`.
    pub fn client_namespace(&self) -> String {
        format!("lagtrace-{}-client", self.id)
    }

    /// Returns the name of the server's network namespace.
    pub fn server_namespace(&self) -> String {
        format!("lagtrace-{}-server", self.id)
    }

    /// Returns the namespace of a host, with the host's own files.
    pub(crate) fn namespace(&self, side: Side) -> Namespace {
        let (name, host) = match side {
            Side::Client => (self.client_namespace(), &self.scenario.client),
            Side::Server => (self.server_namespace(), &self.scenario.server),
        };
        let files = files::laid(&self.folder(), side, &host.files);
        Namespace::named(name).with_files(files)
    }

    /// Returns the prefix of the names of the run's control groups.
    pub(crate) fn group_prefix(&self) -> String {
        format!("lagtrace-{}-", self.id)
    }

    /// Ends the run's remaining processes and removes everything that the run created. Continues after
    /// an error and returns the first one.
    pub(crate) fn clean_up(&self) -> Result<(), Error> {
        for Member { process, .. } in &self.processes {
            process.signal(Signal::KILL);
        }
        for Member { process, .. } in &self.processes {
            process.wait_for_end(Duration::from_secs(2));
        }
        let namespaces = [self.client_namespace(), self.server_namespace()];
        let deleted = namespaces.map(|name| Namespace::named(name).delete());
        let folder = allow_missing(fs::remove_dir_all(self.folder()))
            .map_err(Error::file("remove", self.folder()));
        let groups = group::remove_all(&self.group_prefix());
        deleted
            .into_iter()
            .collect::<Result<(), _>>()
            .and(folder)
            .and(groups)?;
        // The record is removed last, so that the next run can remove anything that is left now.
        allow_missing(fs::remove_file(self.record())).map_err(Error::file("remove", self.record()))
    }

    /// Makes the run's keeper take it down, or takes it down directly if the keeper has ended.
    fn take_down(&self) -> Result<(), Error> {
        self.keeper.signal(Signal::TERM);
        if !self.keeper.wait_for_end(TAKE_DOWN_LIMIT) {
            self.keeper.signal(Signal::KILL);
            self.keeper.wait_for_end(Duration::from_secs(2));
        }
        self.clean_up()
    }
}

/// Returns the running labs, oldest first. Cleans up after crashed ones.
///
/// # Errors
/// The folder of records cannot be read, or the remains of a crashed run cannot be removed.
pub fn runs() -> Result<Vec<Run>, Error> {
    sweep()?;
    Ok(records()?
        .into_iter()
        .filter(|run| run.keeper.is_alive())
        .collect())
}

/// Takes down the run with this id, or every run of the scenario with this name.
///
/// # Errors
/// [`Error::NoSuchRun`] if there is no such run; otherwise the error of the part that could not be
/// removed.
pub fn take_down(name: &str) -> Result<Vec<Run>, Error> {
    let named: Vec<Run> = runs()?
        .into_iter()
        .filter(|run| run.id == name || run.scenario.name == name)
        .collect();
    if named.is_empty() {
        return Err(Error::NoSuchRun {
            name: name.to_owned(),
        });
    }
    named.iter().try_for_each(Run::take_down)?;
    Ok(named)
}

/// Cleans up after runs whose keeper has ended.
pub(crate) fn sweep() -> Result<(), Error> {
    if !Path::new(BASE).exists() {
        return Ok(());
    }
    let _lock = lock()?;
    ended()?.iter().try_for_each(Run::clean_up)?;
    remove_unrecorded()
}

/// Returns the records of the runs whose keeper has ended. They are read after its end, because a
/// record that was read before may lack the processes that the keeper added in between.
fn ended() -> Result<Vec<Run>, Error> {
    let mut ended = records()?;
    ended.retain(|run| !run.keeper.is_alive());
    let mut last = records()?;
    last.retain(|run| ended.iter().any(|one| one.id == run.id));
    Ok(last)
}

/// Removes folders that were created for a run whose record was never written.
fn remove_unrecorded() -> Result<(), Error> {
    let entries = fs::read_dir(BASE).map_err(Error::file("read", BASE))?;
    let folders = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir());
    folders
        .filter(|folder| !folder.with_extension("json").exists())
        .try_for_each(|folder| {
            allow_missing(fs::remove_dir_all(&folder)).map_err(Error::file("remove", folder))
        })
}

/// Takes the lock that is held while runs are started or cleaned up; it is released on drop.
fn lock() -> Result<File, Error> {
    let path = Path::new(BASE).join("lock");
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(Error::file("create", &path))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| Error::file("lock", &path)(error.into()))?;
    Ok(file)
}

/// Returns every record that can be parsed. A record that cannot be parsed was written by another
/// version of the program, and that version must clean it up.
fn records() -> Result<Vec<Run>, Error> {
    let entries = match fs::read_dir(BASE) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file("read", BASE)(error)),
    };
    let files = entries.flatten().map(|entry| entry.path());
    let files = files.filter(|file| file.extension().is_some_and(|ending| ending == "json"));
    let texts = files.filter_map(|file| fs::read(file).ok());
    let mut runs: Vec<Run> = texts
        .filter_map(|text| serde_json::from_slice(&text).ok())
        .collect();
    runs.sort_by(|one, two| (one.started_s, &one.id).cmp(&(two.started_s, &two.id)));
    Ok(runs)
}

/// Returns six random letters and digits.
fn new_id() -> Result<String, Error> {
    const SIGNS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let source = "/dev/urandom";
    let mut random = [0; 6];
    let read = |mut file: File| io::Read::read_exact(&mut file, &mut random);
    File::open(source)
        .and_then(read)
        .map_err(Error::file("read", source))?;
    Ok(random
        .iter()
        .map(|byte| char::from(SIGNS[usize::from(byte % 32)]))
        .collect())
}

fn allow_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

//! The two processes of a run: the worker, which is confined before it reads anything from the
//! network or from files, and its keeper, which keeps the privileges.
//!
//! The scope of the keeper follows from the command line alone ([`Needs`]), before anything is read.

use clap::{Args, ValueEnum};
use lagtrace_core::report::Remark;
use lagtrace_sources::keeper::{self, Kept, Scope};
use lagtrace_sources::open_files::make_room;
use lagtrace_sources::sandbox::{self, Lacking, Rules, Step};
use lagtrace_sources::url::Url;

use crate::failure::{Failure, Result};
use crate::named::NamedPaths;

/// The port of DNS.
const DNS: u16 = 53;
/// Number of files that each of the two processes may need in any command, beside those of its
/// connections and of the kernel's programs. With fewer, the worker would be confined incompletely.
const MOST_FILES: usize = 16;
/// Identifier of the remark about restrictions that a kernel lacks.
const REMARK: &str = "sandbox-incomplete";

/// Options for the confinement.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Privileges")]
pub(crate) struct Confinement {
    /// Confine the part that reads packets, answers and files: to a process without privileges that
    /// can open nothing but what you have named
    #[arg(
        long = "sandbox",
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN"
    )]
    when: When,
}

/// The degree of confinement that the user requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// As far as the kernel can; the report says what is lacking
    #[default]
    Auto,
    /// Completely, or the command fails
    Strict,
    /// Not at all: everything runs in one process with all its privileges
    Off,
}

/// The operations and rights that a command needs although it is confined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// The operations of the keeper.
    pub(crate) scope: Scope,
    /// The rights of the worker.
    pub(crate) rules: Rules,
}

impl Needs {
    /// The needs of a command that only reads and writes files.
    pub(crate) fn files() -> Self {
        Self::default()
    }

    /// The needs of a command that uses the network.
    pub(crate) fn network() -> Self {
        let mut needs = Self::default();
        needs.rules.network = true;
        needs
    }

    /// Lets the worker connect to these ports, and to that of DNS for long answers; `None`: to any.
    pub(crate) fn connect_to(&mut self, ports: Option<Vec<u16>>) {
        self.rules.ports = ports.map(|ports| [ports, vec![DNS]].concat());
    }
}

/// Returns the ports of URLs; `None` if a URL is not valid. Paths alone belong to the first URL.
pub(crate) fn ports<'u>(urls: impl IntoIterator<Item = &'u str>) -> Option<Vec<u16>> {
    let urls = urls.into_iter().filter(|url| !url.starts_with('/'));
    let port = |url: &str| url.parse::<Url>().ok().map(|url| url.port());
    urls.map(port).collect()
}

impl Needs {
    /// The needs of a command that sends probes.
    pub(crate) fn probes() -> Self {
        let mut needs = Self::network();
        needs.scope.raw = true;
        needs
    }
}

/// The state of the confinement of this process.
#[derive(Debug, Default)]
pub(crate) struct Confined {
    keeper: Option<Kept>,
    lacking: Vec<Lacking>,
}

impl Confinement {
    /// Separates the keeper and confines this process, according to the needs of its command; a
    /// command without needs is not confined.
    ///
    /// # Errors
    /// Returns an error if the confinement is required and incomplete, or if no process can be
    /// started.
    pub(crate) fn begin(self, needs: Option<Needs>, named: &NamedPaths) -> Result<Confined> {
        let needs = match self.when {
            When::Off => None,
            When::Auto | When::Strict => needs,
        };
        let Some(mut needs) = needs else {
            return Ok(Confined::default());
        };
        needs.scope.inputs = named.readable();
        needs.scope.outputs = named.writable();
        make_room(MOST_FILES).map_err(|reason| Failure::new(reason).hint(reason.hint()))?;
        let confined = confine(needs).map_err(|error| {
            let failure = format!("the part that reads packets cannot be confined: {error}");
            Failure::new(failure).hint("--sandbox off runs everything in one process")
        })?;
        if self.when == When::Strict && !confined.lacking.is_empty() {
            let failure = format!("not confined by {}", list(&confined.lacking));
            let hint = "--sandbox auto goes on with the other restrictions";
            return Err(Failure::new(failure).hint(hint));
        }
        Ok(confined)
    }
}

fn confine(mut needs: Needs) -> std::io::Result<Confined> {
    (needs.rules.packets, needs.rules.raw) = (needs.scope.packets, needs.scope.raw);
    let needs_raw = needs.rules.packets || needs.rules.raw;
    let keeper = keeper::start(needs.scope)?;
    let mut lacking = Vec::new();
    lacking.extend(sandbox::forbid_new_privileges().err());
    if needs_raw && let Err(reason) = keeper::delegate_raw_sockets() {
        needs.rules.keeps_net_raw = true;
        lacking.push(Lacking {
            step: Step::RawSockets,
            reason,
        });
    }
    lacking.extend(sandbox::confine(&needs.rules));
    keeper.watch(|| crate::console::say("the process with lagtrace's privileges has ended"))?;
    Ok(Confined {
        keeper: Some(keeper),
        lacking,
    })
}

impl Confined {
    /// Returns a remark for the report on restrictions that this kernel lacks.
    pub(crate) fn remark(&self) -> Option<Remark> {
        (!self.lacking.is_empty()).then(|| Remark {
            id: REMARK.to_owned(),
            text: format!(
                "Confined incompletely: the part of lagtrace that reads packets and answers is not \
                 confined by {}.",
                list(&self.lacking)
            ),
        })
    }

    /// Ends the keeper.
    pub(crate) fn end(self) {
        if let Some(keeper) = self.keeper {
            keeper.end();
        }
    }
}

fn list(lacking: &[Lacking]) -> String {
    let names: Vec<String> = lacking.iter().map(Lacking::to_string).collect();
    names.join(", ")
}

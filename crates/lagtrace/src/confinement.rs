//! The two processes of a run: the worker, which is confined before it reads anything from the
//! network or from files, and its keeper, which keeps the privileges.
//!
//! The scope of the keeper follows from the command line alone ([`Needs`]), before anything is read.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
use lagtrace_core::report::Remark;
use lagtrace_sources::keeper::{self, Kept, Scope};
use lagtrace_sources::sandbox::{self, Lacking, Rules, Step};
use lagtrace_sources::url::Url;

use crate::failure::{Failure, Result};

/// The port of DNS.
const DNS: u16 = 53;
/// The options that name files to be read. An old page is read before it is replaced.
const INPUTS: &[&str] = &[
    "after", "asn", "before", "body", "cacert", "files", "html", "urls", "verify",
];
/// The options that name files to be written.
const OUTPUTS: &[&str] = &["annotate", "hdr", "html", "observations", "output", "write"];
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
    pub(crate) fn begin(self, needs: Option<Needs>, arguments: &ArgMatches) -> Result<Confined> {
        let needs = match self.when {
            When::Off => None,
            When::Auto | When::Strict => needs,
        };
        let Some(mut needs) = needs else {
            return Ok(Confined::default());
        };
        needs.scope.inputs = named(arguments, INPUTS);
        needs.scope.outputs = named(arguments, OUTPUTS);
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

/// Returns the files that the command line names by these options. No value of another option is
/// one, and no default.
fn named(arguments: &ArgMatches, options: &[&str]) -> Vec<PathBuf> {
    let mut named: Vec<PathBuf> = Vec::new();
    let mut level = Some(arguments);
    while let Some(matches) = level {
        for id in options {
            // Not every command has every option.
            let Ok(Some(values)) = matches.try_get_many::<PathBuf>(id) else {
                continue;
            };
            let is_typed = matches.value_source(id) == Some(ValueSource::CommandLine);
            // `-` is standard input or output.
            let values = values.filter(|path| is_typed && path.as_os_str() != "-");
            named.extend(values.cloned());
        }
        level = matches.subcommand().map(|(_, inner)| inner);
    }
    named
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::builder::ValueParser;
    use clap::{CommandFactory as _, value_parser};

    use super::*;
    use crate::arguments::Arguments;

    /// Paths that are not opened as files, or by commands without a keeper.
    const OTHERS: &[&str] = &["cgroup", "directory", "unix_socket"];

    fn matches(words: &str) -> ArgMatches {
        let words = words.split_whitespace();
        Arguments::command().get_matches_from(words)
    }

    /// The options of all commands are also among those of each command.
    fn texts(named: &[PathBuf]) -> BTreeSet<&str> {
        named.iter().filter_map(|path| path.to_str()).collect()
    }

    #[test]
    fn only_options_for_files_name_files() {
        let analyze = matches("lagtrace -o out analyze one.pcap two.pcap --annotate copy --html p");
        assert_eq!(
            texts(&named(&analyze, INPUTS)),
            BTreeSet::from(["p", "one.pcap", "two.pcap"])
        );
        assert_eq!(
            texts(&named(&analyze, OUTPUTS)),
            BTreeSet::from(["p", "out", "copy"])
        );
        let load =
            matches("lagtrace load http://h/evil -H a:b --body body --unix-socket s --hdr h");
        assert_eq!(texts(&named(&load, INPUTS)), BTreeSet::from(["body"]));
        assert_eq!(texts(&named(&load, OUTPUTS)), BTreeSet::from(["h"]));
        let watch = matches("lagtrace watch -p 80 --cgroup /sys --netns /run/netns/x");
        assert!(named(&watch, INPUTS).is_empty() && named(&watch, OUTPUTS).is_empty());
        let capture = matches("lagtrace capture -i lo -w - host x");
        assert!(named(&capture, INPUTS).is_empty() && named(&capture, OUTPUTS).is_empty());
    }

    #[test]
    fn every_option_for_a_path_is_an_input_or_an_output() {
        let is_path = |parser: &ValueParser| {
            let path: ValueParser = value_parser!(PathBuf);
            parser.type_id() == path.type_id()
        };
        let all = Arguments::command();
        let commands = std::iter::once(&all).chain(all.get_subcommands());
        for argument in commands.flat_map(clap::Command::get_arguments) {
            let id = argument.get_id().as_str();
            let lists = [INPUTS, OUTPUTS, OTHERS].map(|list| list.contains(&id));
            let is_listed = lists.contains(&true);
            assert!(is_listed || !is_path(argument.get_value_parser()), "--{id}");
        }
    }
}

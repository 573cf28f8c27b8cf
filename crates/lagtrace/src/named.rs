//! The files that the command line names. No file is read or written before it is known that none
//! of them would be overwritten while it is needed.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;
use lagtrace_sources::files::{self, Clash, Stream};

use crate::failure::{Failure, Result};

/// The options that name files to be read.
const INPUTS: &[&str] = &[
    "after", "asn", "before", "body", "cacert", "cert", "files", "grpc", "key", "urls", "verify",
];
/// The options that name files to be written.
const OUTPUTS: &[&str] = &["annotate", "hdr", "html", "observations", "output", "write"];
/// The outputs that are read before they are replaced: an old page.
const REPLACED: &[&str] = &["html"];

/// The files that a command line names by options and arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedPaths {
    inputs: Vec<PathBuf>,
    outputs: Vec<NamedOutput>,
}

/// A file to be written.
#[derive(Clone, Debug)]
struct NamedOutput {
    /// The id of the option.
    option: &'static str,
    path: PathBuf,
}

impl NamedPaths {
    /// Returns the files that these arguments name. No value of another option is one, and no
    /// default.
    pub(crate) fn of(arguments: &ArgMatches) -> Self {
        let inputs = INPUTS.iter().flat_map(|id| paths(arguments, id));
        let outputs = OUTPUTS.iter().flat_map(|&option| {
            let paths = paths(arguments, option).into_iter();
            paths.map(move |path| NamedOutput { option, path })
        });
        Self {
            inputs: inputs.collect(),
            outputs: outputs.collect(),
        }
    }

    /// Adds the inputs that values name, such as `--data @FILE`.
    pub(crate) fn with_inputs(mut self, inputs: &[PathBuf]) -> Self {
        self.inputs.extend_from_slice(inputs);
        self
    }

    /// Returns the files that the command may read.
    pub(crate) fn readable(&self) -> Vec<PathBuf> {
        let replaced = self.outputs.iter();
        let replaced = replaced.filter(|output| REPLACED.contains(&output.option));
        let replaced = replaced.map(|output| output.path.clone());
        self.inputs.iter().cloned().chain(replaced).collect()
    }

    /// Returns the files that the command may write.
    pub(crate) fn writable(&self) -> Vec<PathBuf> {
        let outputs = self.outputs.iter();
        outputs.map(|output| output.path.clone()).collect()
    }

    /// Refuses outputs that are an input or another output.
    pub(crate) fn check(&self) -> Result<()> {
        let inputs: Vec<&Path> = self.inputs.iter().map(PathBuf::as_path).collect();
        let outputs: Vec<&Path> = self.outputs.iter().map(|it| it.path.as_path()).collect();
        match files::clash(&inputs, &outputs) {
            Some(clash) => Err(self.refusal(clash)),
            None => Ok(()),
        }
    }

    fn refusal(&self, clash: Clash) -> Failure {
        let output = |at: usize| self.outputs.get(at).map_or("output", |it| it.option);
        let input = |at: usize| self.inputs.get(at).map(|it| it.display().to_string());
        let (error, option) = match clash {
            Clash::Input {
                output: at,
                input: of,
            } => {
                let name = input(of).unwrap_or_default();
                let error = format!(
                    "--{} would overwrite {name}, which this command reads",
                    output(at)
                );
                (error, output(at))
            }
            Clash::Output(one, other) => {
                let (one, other) = (output(one), output(other));
                (format!("--{one} and --{other} are the same file"), other)
            }
            Clash::Stream(at, Stream::Input) => {
                let option = output(at);
                let error = format!("--{option} would overwrite the file of standard input");
                (error, option)
            }
            Clash::Stream(at, Stream::Output) => {
                let option = output(at);
                let error = format!("--{option} and standard output are the same file");
                (error, option)
            }
            Clash::Redirected(of) => {
                let name = input(of).unwrap_or_default();
                let error = format!("standard output goes to {name}, which this command reads");
                return Failure::new(error).hint("redirect it to another file");
            }
        };
        Failure::new(error).hint(format!("name another file for --{option}"))
    }
}

/// Returns the paths that an option names, on all levels of commands.
fn paths(arguments: &ArgMatches, id: &str) -> Vec<PathBuf> {
    let mut named: Vec<PathBuf> = Vec::new();
    let mut level = Some(arguments);
    while let Some(matches) = level {
        // Not every command has every option.
        if let Ok(Some(values)) = matches.try_get_many::<PathBuf>(id)
            && matches.value_source(id) == Some(ValueSource::CommandLine)
        {
            // `-` is standard input or output.
            named.extend(values.filter(|path| path.as_os_str() != "-").cloned());
        }
        level = matches.subcommand().map(|(_, inner)| inner);
    }
    named.dedup();
    named
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::symlink;

    use clap::builder::ValueParser;
    use clap::{Arg, Command, CommandFactory as _, value_parser};

    use super::*;
    use crate::arguments::Arguments;
    use crate::lab;

    /// Paths that are not opened as files, or by commands without a keeper. The lab's are folders.
    const OTHERS: &[&str] = &[
        "again",
        "cgroup",
        "directory",
        "folder",
        "keep",
        "unix_socket",
    ];

    fn matches(words: &str) -> ArgMatches {
        let words = words.split_whitespace();
        Arguments::command().get_matches_from(words)
    }

    fn texts(named: &[PathBuf]) -> BTreeSet<&str> {
        named.iter().filter_map(|path| path.to_str()).collect()
    }

    /// The options of all commands are also among those of each command.
    #[test]
    fn only_options_for_files_name_files() {
        let named = |words| {
            let named = NamedPaths::of(&matches(words));
            (named.readable(), named.writable())
        };
        let check = |words, read: &[&str], written: &[&str]| {
            let (inputs, outputs) = named(words);
            assert_eq!(texts(&inputs), read.iter().copied().collect(), "{words}");
            assert_eq!(
                texts(&outputs),
                written.iter().copied().collect(),
                "{words}"
            );
        };
        check(
            "lagtrace -o out analyze one.pcap two.pcap --annotate copy --html p",
            &["p", "one.pcap", "two.pcap"],
            &["p", "out", "copy"],
        );
        check(
            "lagtrace load http://h/evil -H a:b --body body --unix-socket s --hdr h",
            &["body"],
            &["h"],
        );
        check(
            "lagtrace watch -p 80 --cgroup /sys --netns /run/netns/x",
            &[],
            &[],
        );
        check("lagtrace capture -i lo -w - host x", &[], &[]);
    }

    fn is_path(argument: &Arg) -> bool {
        let path: ValueParser = value_parser!(PathBuf);
        argument.get_value_parser().type_id() == path.type_id()
    }

    /// Returns a command and all commands below it.
    fn all(command: Command) -> Vec<Command> {
        let below: Vec<Command> = command.get_subcommands().cloned().collect();
        let below = below.into_iter().flat_map(all);
        std::iter::once(command).chain(below).collect()
    }

    /// An option whose value is an output cannot be forgotten: its value is a path, and each path is
    /// in one of the lists.
    #[test]
    fn every_option_for_a_path_is_an_input_or_an_output() {
        let programs = [Arguments::command(), lab::tests::command_line()];
        for command in programs.into_iter().flat_map(all) {
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                let lists = [INPUTS, OUTPUTS, OTHERS].map(|list| list.contains(&id));
                let listed = lists.into_iter().filter(|is_in| *is_in).count();
                let names = argument.get_value_names().unwrap_or_default();
                let is_file = names.iter().any(|name| name.as_str().starts_with("FILE"));
                let is_named = is_path(argument) || is_file;
                let is_right = listed == 1 || listed == 0 && !is_named;
                assert!(is_right, "{}: --{id}", command.get_name());
            }
        }
    }

    /// Returns the words that give an argument a value.
    fn given(argument: &Arg, value: &Path) -> Vec<String> {
        let value = value.display().to_string();
        match (argument.get_long(), argument.get_short()) {
            (Some(long), _) => vec![format!("--{long}={value}")],
            (None, Some(short)) => vec![format!("-{short}"), value],
            (None, None) => vec![value],
        }
    }

    /// Tries each output of each command with each input and each other output of it, in each way
    /// that leads to the same file.
    #[test]
    fn no_output_of_any_command_is_an_input_or_another_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let (kept, link, hard) = (path("kept"), path("link"), path("hard"));
        fs::write(&kept, "evidence").expect("written");
        symlink(&kept, &link).expect("a link");
        fs::hard_link(&kept, &hard).expect("a hard link");
        let root = Arguments::command();
        let globals: Vec<Arg> = root.get_arguments().cloned().collect();
        let mut tried = 0;
        for command in root.get_subcommands() {
            let arguments: Vec<&Arg> = command.get_arguments().chain(&globals).collect();
            let of = |list: &'static [&str]| {
                let is_in = |it: &&&Arg| list.contains(&it.get_id().as_str());
                arguments.iter().filter(is_in).copied().collect::<Vec<_>>()
            };
            let (outputs, inputs) = (of(OUTPUTS), of(INPUTS));
            for output in &outputs {
                let others = inputs.iter().chain(&outputs);
                for other in others.filter(|other| other.get_id() != output.get_id()) {
                    for name in [&kept, &link, &hard] {
                        let mut words = vec!["lagtrace".to_owned(), command.get_name().to_owned()];
                        words.extend(given(output, name));
                        words.extend(given(other, &kept));
                        let mut lenient = Arguments::command().ignore_errors(true);
                        lenient.build();
                        let read = lenient.try_get_matches_from(&words).expect("lenient");
                        assert!(NamedPaths::of(&read).check().is_err(), "{words:?}");
                        tried += 1;
                    }
                }
            }
        }
        assert!(tried > 100, "{tried}");
        assert_eq!(fs::read(&kept).expect("there"), b"evidence");
    }

    #[test]
    fn files_apart_and_devices_are_allowed() {
        let folder = tempfile::tempdir().expect("a folder");
        let input = folder.path().join("in");
        fs::write(&input, "evidence").expect("written");
        let (input, new) = (input.display(), folder.path().join("new"));
        for words in [
            format!("lagtrace analyze {input} -o {}", new.display()),
            format!("lagtrace analyze {input} -o /dev/null --html /dev/null"),
            format!("lagtrace analyze - -o {}", new.display()),
        ] {
            let named = NamedPaths::of(&matches(&words));
            assert!(named.check().is_ok(), "{words}");
        }
        let words = format!("lagtrace analyze {input} -o {0} --html {0}", new.display());
        let failure = NamedPaths::of(&matches(&words))
            .check()
            .expect_err("one new file");
        assert_eq!(failure.to_string(), "--html and --output are the same file");
    }
}

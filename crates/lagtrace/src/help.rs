//! The help: commands in groups, and what all commands have, once.

use std::ffi::OsString;

use clap::{Arg, Command};

use crate::arguments::forms;
use crate::output::{self, STYLES};

/// The commands by what they are for, in the order of the help.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Find the cause",
        &["diagnose", "watch", "analyze", "capture"],
    ),
    (
        "Look closer",
        &["load", "probe", "route", "sockets", "explain"],
    ),
    ("Before and after", &["compare", "view"]),
];
/// The others, which are only named.
const OTHERS: &[&str] = &["self-test", "completions", "man"];
/// The subjects of `help` that are not commands: groups of options that all commands have.
const SUBJECTS: &[(&str, &str)] = &[("output", "Output"), ("privileges", "Privileges")];

/// The layout of the help of a command.
const OF_A_COMMAND: &str = "\
{before-help}{about-with-newline}
{usage-heading} {usage}

{all-args}

Of all commands: `lagtrace help output` (-o, --html, -q, -v …), `lagtrace help privileges`
{after-help}";

/// Arranges the help, and gives each command the formats that it prints.
pub(crate) fn arranged(root: Command) -> Command {
    let names: Vec<String> = root
        .get_subcommands()
        .map(|it| it.get_name().to_owned())
        .collect();
    let template = of_all(&root);
    let root = root
        .mut_args(|argument| {
            let is_of_all = argument.is_global_set();
            argument.hide(is_of_all)
        })
        .override_usage("lagtrace <COMMAND>\n       lagtrace <URL>\n       lagtrace <FILE>...")
        .help_template(template);
    names.into_iter().fold(root, |root, name| {
        let format = output::format(forms(&name));
        root.mut_subcommand(name, |command| {
            command.arg(format).help_template(OF_A_COMMAND)
        })
    })
}

/// Returns the layout of the help of the program.
fn of_all(root: &Command) -> String {
    let (head, name) = (STYLES.get_header(), STYLES.get_literal());
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, commands) in GROUPS {
        text.push_str(&format!("\n{head}{group}:{head:#}\n"));
        for command in commands.iter().filter_map(|it| root.find_subcommand(it)) {
            let about = command.get_about().map(ToString::to_string);
            text.push_str(&format!(
                "  {name}{:9}{name:#} {}\n",
                command.get_name(),
                about.unwrap_or_default()
            ));
        }
    }
    text.push_str(&format!(
        "\nAlso: {}; `lagtrace COMMAND --help`, `lagtrace help output`, `lagtrace help privileges`\n\
         {{after-help}}",
        OTHERS.join(", ")
    ));
    text
}

/// Returns the command whose help is on a group of options that all commands have, if these words
/// ask for it.
pub(crate) fn subject(words: &[OsString], root: &Command) -> Option<Command> {
    let asked: Vec<&str> = words.iter().skip(1).filter_map(|it| it.to_str()).collect();
    let ["help", subject] = asked.as_slice() else {
        return None;
    };
    let (_, heading) = SUBJECTS.iter().find(|(name, _)| name == subject)?;
    let arguments = root
        .get_arguments()
        .filter(|it| it.get_help_heading() == Some(heading));
    let page = Command::new("help")
        .styles(STYLES)
        .disable_help_flag(true)
        .help_template("{all-args}");
    Some(page.args(arguments.cloned().map(|it: Arg| it.hide(false))))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn every_command_is_in_one_group() {
        let root = Arguments::command();
        let grouped = GROUPS.iter().flat_map(|(_, commands)| *commands);
        let mut listed: Vec<&str> = grouped.chain(OTHERS).copied().collect();
        let mut all: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
        listed.sort_unstable();
        all.sort_unstable();
        assert_eq!(listed, all);
    }

    #[test]
    fn every_option_of_all_commands_is_in_a_subject() {
        let root = arranged(Arguments::command());
        let pages = SUBJECTS.iter().map(|(name, _)| {
            let words = ["lagtrace", "help", name].map(OsString::from);
            subject(&words, &root)
                .expect("a subject")
                .render_help()
                .to_string()
        });
        let pages: String = pages.collect();
        for argument in root.get_arguments().filter(|it| it.is_global_set()) {
            let long = argument.get_long().expect("a word");
            assert!(pages.contains(&format!("--{long}")), "{long}");
        }
    }

    #[test]
    fn a_command_takes_only_formats_that_it_prints() {
        let parse =
            |words: &str| arranged(Arguments::command()).try_get_matches_from(words.split(' '));
        assert!(parse("lagtrace explain --format har").is_err());
        assert!(parse("lagtrace analyze f --format har").is_ok());
        let matches = parse("lagtrace route h --format csv").expect("a format of route");
        let form = matches.get_one::<output::Form>("format");
        assert_eq!(form, Some(&output::Form::Csv));
    }
}

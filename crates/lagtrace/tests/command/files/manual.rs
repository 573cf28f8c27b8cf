//! Manual pages and completions, which the programs write for their packages.

use std::fs;
use std::process::Command;

use crate::command::program::{Run, lagtrace, lagtrace_lab, run};

type Program = fn(&[&str]) -> Run;

/// Both programs, with a command of each.
const PROGRAMS: [(&str, Program, &str); 2] = [
    ("lagtrace", |words| lagtrace(words), "diagnose"),
    ("lagtrace-lab", |words| lagtrace_lab(words), "record"),
];

#[test]
fn each_program_writes_a_page_for_each_of_its_commands() {
    for (name, program, command) in PROGRAMS {
        let folder = tempfile::tempdir().unwrap();
        let written = program(&["man", folder.path().to_str().unwrap()]);
        assert_eq!(written.code, Some(0), "{written:?}");
        for page in [format!("{name}.1"), format!("{name}-{command}.1")] {
            let text = fs::read_to_string(folder.path().join(&page)).unwrap();
            for section in [".SH SYNOPSIS", ".SH \"EXAMPLES\"", ".SH \"SEE ALSO\""] {
                assert!(text.contains(section), "{page}: {text}");
            }
        }
        assert!(!folder.path().join(format!("{name}-helper.1")).exists());
    }
}

/// The script completes the program that wrote it, and the shell accepts it.
#[test]
fn bash_completes_the_commands_of_each_program() {
    for (name, program, command) in PROGRAMS {
        let script = program(&["completions", "bash"]).stdout;
        let typed = &command[..3];
        let ask = format!(
            "{script}\nCOMP_WORDS=({name} {typed}) COMP_CWORD=1\n\
             \"$(complete -p {name} | sed 's/.*-F \\([^ ]*\\).*/\\1/')\" {name} {typed} {name}\n\
             echo \"${{COMPREPLY[@]}}\""
        );
        let answer = run(Command::new("bash").args(["-c", &ask]));
        assert_eq!(answer.stdout.trim(), command, "{answer:?}");
    }
}

#[test]
fn shells_complete_the_causes_that_can_be_explained() {
    for shell in ["bash", "zsh", "fish"] {
        let script = lagtrace(["completions", shell]).expect(0).stdout;
        assert!(script.contains("nagle-delayed-ack"), "{shell}");
    }
}

/// The options of all commands are on the main page, though its help shows them apart.
#[test]
fn the_main_page_has_the_options_of_all_commands() {
    let page = lagtrace(["man"]).expect(0).stdout;
    for option in ["output", "html", "sandbox", "brief"] {
        assert!(page.contains(&format!("\\-\\-{option}")), "{option}");
    }
}

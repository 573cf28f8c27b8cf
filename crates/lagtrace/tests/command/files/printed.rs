//! What is printed on standard output, and for whom.

use std::process::{Command, Stdio};

use super::corpus::recording;
use crate::command::program::{lagtrace, program};

/// A recording with a cause.
const FAULTY: &str = "nagle-delayed-ack-0ms";

#[test]
fn a_reader_that_ends_early_does_not_change_the_exit_code() {
    let path = recording(FAULTY, "client");
    for form in [&["--format", "json"][..], &["-v"], &[]] {
        let mut command = Command::new(program());
        command.arg("analyze").arg(&path).args(form);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(1), "{form:?}");
    }
}

#[test]
fn the_locale_decides_which_characters_are_printed() {
    let path = recording(FAULTY, "client");
    let printed = |arguments: &[&str], locale: &str| {
        let mut command = Command::new(program());
        command.arg("analyze").arg(&path).args(arguments);
        command.env("LC_ALL", locale);
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for arguments in [&[][..], &["-v"], &["--brief"], &["--connections"]] {
        assert!(!printed(arguments, "C.UTF-8").is_ascii(), "{arguments:?}");
        let plain = printed(arguments, "C");
        assert!(plain.is_ascii(), "{arguments:?}:\n{plain}");
        let asked = [arguments, &["--ascii"]].concat();
        assert_eq!(printed(&asked, "C.UTF-8"), plain);
    }
    let document = printed(&["--format", "json"], "C");
    assert_eq!(document, printed(&["--format", "json"], "C.UTF-8"));
}

#[test]
fn a_page_of_a_cause_is_printed_in_plain_characters_too() {
    for cause in ["nagle-delayed-ack", "packet-loss"] {
        let run = lagtrace(["explain", cause, "--ascii"]).expect(0);
        assert!(run.stdout.is_ascii(), "{run:#?}");
    }
}

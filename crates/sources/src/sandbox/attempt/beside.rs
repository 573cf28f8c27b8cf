//! Attempts that concern another program of this host: on its files, as if it served the target of
//! `diagnose`, and by it on the run.

use std::io;
use std::path::Path;

use lagtrace_core::observed::flow::Endpoint;

use super::{Attempt, Tried};
use crate::config::files::Root;
use crate::config::process::children;
use crate::sandbox::bystander::Bystander;
use crate::socket::foreign::find_server;
use crate::socket::process::name;

/// The name of the keeper's main thread.
const KEEPER: &str = "lagtrace-keeper";

/// An operation that is tried.
type Try = fn(&Bystander) -> Tried;

/// Returns the attempts and their results. Without the other program, there are none, and the reason
/// is told.
pub(super) fn attempts(bystander: Result<&Bystander, &io::Error>) -> Vec<Attempt> {
    let attempts: [(&str, Try); 4] = [
        ("get a server's file of a private folder", |bystander| {
            get(bystander, &bystander.private_file())
        }),
        ("get another program's configuration", |bystander| {
            get(bystander, &bystander.configuration())
        }),
        ("take this process's files (pidfd_getfd)", |bystander| {
            take(bystander, Some(std::process::id()))
        }),
        ("take the keeper's files (pidfd_getfd)", |bystander| {
            let children = children(std::process::id()).into_iter();
            take(
                bystander,
                children.into_iter().find(|&pid| name(pid) == KEEPER),
            )
        }),
    ];
    let attempts = attempts.into_iter().map(|(name, attempt)| Attempt {
        name,
        tried: match bystander {
            Ok(bystander) => attempt(bystander),
            Err(error) => Tried::Not(format!("no other program to try with: {error}")),
        },
    });
    attempts.collect()
}

/// Gets a file of the other program, which the keeper takes for a server of the target.
fn get(bystander: &Bystander, path: &Path) -> Tried {
    let found = find_server(Endpoint::from(bystander.address()), None);
    let processes = found.server.as_ref().map_or(&[][..], |it| it.processes());
    if !processes.iter().any(|it| it.pid == bystander.pid()) {
        return Tried::Not("the keeper does not find its server".to_owned());
    }
    let root = match Root::of(bystander.pid()) {
        Ok(root) => root,
        Err(error) => return Tried::Not(error.to_string()),
    };
    match root.open(path, false) {
        Ok(_) => Tried::Possible,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Tried::Refused(error),
        Err(error) => Tried::Not(error.to_string()),
    }
}

/// Has the other program take a file of a process of this run.
fn take(bystander: &Bystander, from: Option<u32>) -> Tried {
    if !bystander.is_privileged() {
        return Tried::Not("lagtrace has no rights here that the user has not".to_owned());
    }
    let Some(pid) = from else {
        return Tried::Not("there is none".to_owned());
    };
    match bystander.take_from(pid) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
            Tried::Not(error.to_string())
        }
        tried => tried.into(),
    }
}

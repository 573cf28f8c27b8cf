//! Requests that may change something are repeated only if the user says so.

use lagtrace_sources::request::{Method, Request};
use lagtrace_sources::url::Url;

use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::words;

/// The number of requests with a method that may change something, unless the user says otherwise.
pub(crate) const USUAL_COUNT: u64 = 200;

/// A decision on repeated requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Consent {
    /// True if the user agreed (`--yes`).
    pub(super) is_given: bool,
}

impl super::Options {
    /// Returns the user's decision on repeated requests.
    pub(crate) fn consent(&self) -> Consent {
        Consent { is_given: self.yes }
    }
}

impl Consent {
    /// Returns an error if the user did not agree to repeat the request, although it may change
    /// something.
    pub(crate) fn check_once(self, request: &Request, url: &Url) -> Result<()> {
        if request.method.is_safe() || self.is_given {
            return Ok(());
        }
        let what = format!("{} {url}", request.method);
        Err(refusal(&request.method, &what))
    }

    /// Prints what will be sent, and how often, if the request may change something.
    ///
    /// # Errors
    /// Returns an error if the user did not agree to repeat such a request.
    pub(crate) fn check(
        self,
        request: &Request,
        url: &Url,
        how_often: &str,
        console: &Console,
    ) -> Result<()> {
        if request.method.is_safe() {
            return Ok(());
        }
        let method = &request.method;
        let content = match request.body.as_deref() {
            None | Some([]) => String::new(),
            Some(body) => format!(" with {}", words::plural(body.len() as u64, "byte")),
        };
        let what = format!("{method} {url}{content}, {how_often}");
        if self.is_given {
            console.outcome("will send", &what);
            return Ok(());
        }
        Err(refusal(method, &what))
    }
}

fn refusal(method: &Method, what: &str) -> Failure {
    let told = format!("would send {what}; {method} may change something each time");
    let hint = "add --yes (-y) if that is all right; {seq} and {uuid} make each request a new one";
    Failure::new(told).hint(hint)
}

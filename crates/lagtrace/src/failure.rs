//! Failures as they are printed: first what failed, then what to do about it.

use std::fmt;
use std::io::{self, ErrorKind};

use lagtrace_sources::open_files;

/// A failure that ends the command without a report.
#[derive(Debug)]
pub(crate) struct Failure {
    error: anyhow::Error,
    hint: Option<String>,
}

/// The result of an operation whose failure ends the command without a report.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Returns a failure without a hint.
    pub(crate) fn new(message: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        anyhow::Error::msg(message).into()
    }

    /// Returns a failure of a larger operation, with this failure as its cause.
    pub(crate) fn during(self, operation: String) -> Self {
        Self {
            error: self.error.context(operation),
            ..self
        }
    }

    /// Returns the failure with a hint on what the user can do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Returns the hint on what the user can do about the failure.
    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref().or_else(|| self.general_hint())
    }

    /// Returns the hint on an error that any operation may end with.
    fn general_hint(&self) -> Option<&'static str> {
        if self.is_caused_by(&[ErrorKind::StorageFull, ErrorKind::QuotaExceeded]) {
            return Some("make room there, or name a file elsewhere");
        }
        let mut causes = self.error.chain().filter_map(|it| it.downcast_ref());
        causes.find_map(open_files::hint)
    }

    /// Returns true if the reader of the output exited, which does not count as a failure.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.is_caused_by(&[ErrorKind::BrokenPipe])
    }

    /// Returns true if an error of the operating system of one of these kinds is among the causes.
    fn is_caused_by(&self, kinds: &[ErrorKind]) -> bool {
        self.error.chain().any(|cause| {
            let error = cause.downcast_ref::<io::Error>();
            error.is_some_and(|error| kinds.contains(&error.kind()))
        })
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            hint: None,
        }
    }
}

impl fmt::Display for Failure {
    /// Writes the operation and its causes, outermost first. A cause is left out if the error that
    /// wraps it already contains its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.error.to_string();
        f.write_str(&said)?;
        for cause in self.error.chain().skip(1) {
            let text = cause.to_string();
            if !said.contains(&text) {
                write!(f, ": {text}")?;
            }
            said.push_str(&text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let inner = io::Error::from(io::ErrorKind::NotFound);
        let words = inner.to_string();
        let failure = Failure::from(anyhow::Error::new(inner).context(format!("open x: {words}")));
        assert_eq!(failure.to_string(), format!("open x: {words}"));
    }

    #[test]
    fn causes_follow_the_operation() {
        let result: io::Result<()> = Err(io::ErrorKind::BrokenPipe.into());
        let failure = Failure::from(result.context("write the report").expect_err("it is one"));
        assert_eq!(failure.to_string(), "write the report: broken pipe");
        assert!(failure.is_closed_pipe());
    }
}

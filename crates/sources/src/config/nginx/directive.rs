//! What is to be known of a directive: where nginx allows it, how it is
//! inherited and what holds when it is not given.

/// A release of nginx, `(major, minor, patch)`.
pub type Version = (u32, u32, u32);

/// How a directive reaches inner blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inheritance {
    /// The innermost block that has it decides.
    Single,
    /// Several lines make up one value; the innermost block that has any
    /// replaces all of the outer ones.
    List,
    /// It holds in its own block only.
    Own,
    /// The same as single, but of the server that holds while the head of a
    /// request is read, when its host is not known yet.
    Head,
}

/// What a group of directives belongs to; without it they say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// The location has this `*_pass`.
    Passing(&'static str),
    /// The socket speaks TLS.
    Tls,
}

/// The blocks that a directive may stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contexts(u8);

impl Contexts {
    pub(crate) const MAIN: Self = Self(1);
    pub(crate) const EVENTS: Self = Self(2);
    pub(crate) const HTTP: Self = Self(4);
    pub(crate) const SERVER: Self = Self(8);
    pub(crate) const LOCATION: Self = Self(16);
    /// `if` within a location.
    pub(crate) const IF: Self = Self(32);
    pub(crate) const UPSTREAM: Self = Self(64);

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What is known of one directive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) contexts: Contexts,
    pub(crate) inheritance: Inheritance,
    default: Default,
}

/// What holds where a directive is not set; empty where nginx has no value.
#[derive(Clone, Copy, Debug)]
enum Default {
    /// In every release.
    Ever(&'static str),
    /// From a release on, oldest first.
    Since(&'static [(Version, &'static str)]),
}

/// The value reported for a directive that is neither set nor has a default.
pub(crate) const NOT_SET: &str = "not set";

impl Known {
    /// The default of a release; that of the newest when it is not known.
    pub(crate) fn default(&self, version: Option<Version>) -> &'static str {
        let version = version.unwrap_or((u32::MAX, 0, 0));
        let found = match self.default {
            Default::Ever(value) => value,
            Default::Since(releases) => releases
                .iter()
                .rev()
                .find(|(since, _)| *since <= version)
                .map_or("", |(_, value)| value),
        };
        if found.is_empty() { NOT_SET } else { found }
    }
}

/// One value, with a default in every release; empty for none.
pub(crate) const fn one(name: &'static str, contexts: Contexts, default: &'static str) -> Known {
    Known {
        name,
        contexts,
        inheritance: Inheritance::Single,
        default: Default::Ever(default),
    }
}

/// One value, with defaults by the release they came with, oldest first.
pub(crate) const fn changed(
    name: &'static str,
    contexts: Contexts,
    defaults: &'static [(Version, &'static str)],
) -> Known {
    Known {
        default: Default::Since(defaults),
        ..one(name, contexts, "")
    }
}

/// Several lines.
pub(crate) const fn list(name: &'static str, contexts: Contexts, default: &'static str) -> Known {
    Known {
        inheritance: Inheritance::List,
        ..one(name, contexts, default)
    }
}

/// One value that holds in its own block only.
pub(crate) const fn own(name: &'static str, contexts: Contexts) -> Known {
    Known {
        inheritance: Inheritance::Own,
        ..one(name, contexts, "")
    }
}

/// One value that holds while the head of a request is read.
pub(crate) const fn head(name: &'static str, contexts: Contexts, default: &'static str) -> Known {
    Known {
        inheritance: Inheritance::Head,
        ..one(name, contexts, default)
    }
}

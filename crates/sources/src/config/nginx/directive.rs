//! The known properties of directives: the blocks that nginx allows them in,
//! how they are inherited, and their defaults.

/// A release of nginx, `(major, minor, patch)`.
pub type Version = (u32, u32, u32);

/// The way in which inner blocks inherit a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inheritance {
    /// The innermost block that has the directive decides.
    Single,
    /// Several lines make up one value; the lines of the innermost block with such lines replace
    /// the lines of all outer blocks.
    List,
    /// The directive applies only in the block that contains it.
    Own,
}

/// The condition under which a group of directives has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// The location has this `*_pass`.
    Passing(&'static str),
    /// The socket uses TLS.
    Tls,
}

/// The blocks that a directive may appear in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contexts(u8);

impl Contexts {
    pub(crate) const MAIN: Self = Self(1);
    pub(crate) const EVENTS: Self = Self(2);
    pub(crate) const HTTP: Self = Self(4);
    pub(crate) const SERVER: Self = Self(8);
    pub(crate) const LOCATION: Self = Self(16);
    /// `if` inside a location.
    pub(crate) const IF: Self = Self(32);

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The known properties of one directive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) contexts: Contexts,
    pub(crate) inheritance: Inheritance,
    default: Default,
}

/// The default of a directive; empty if nginx has none.
#[derive(Clone, Copy, Debug)]
enum Default {
    /// One default for all releases.
    Ever(&'static str),
    /// Defaults with the release that introduced each of them, oldest first.
    Since(&'static [(Version, &'static str)]),
}

/// The value reported for a directive that is neither set nor has a default.
pub(crate) const NOT_SET: &str = "not set";

impl Known {
    /// Returns the default in a release; if the release is unknown, the default in the newest one.
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

/// Describes a directive with one value and the same default in every release. If `default` is
/// empty, there is no default.
pub(crate) const fn one(name: &'static str, contexts: Contexts, default: &'static str) -> Known {
    Known {
        name,
        contexts,
        inheritance: Inheritance::Single,
        default: Default::Ever(default),
    }
}

/// Describes a directive with one value whose default changed between releases. Each default is
/// given with the release that introduced it, oldest first.
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

/// Describes a directive whose lines form one value.
pub(crate) const fn list(name: &'static str, contexts: Contexts, default: &'static str) -> Known {
    Known {
        inheritance: Inheritance::List,
        ..one(name, contexts, default)
    }
}

/// Describes a directive with one value that applies only in the block that contains it.
pub(crate) const fn own(name: &'static str, contexts: Contexts) -> Known {
    Known {
        inheritance: Inheritance::Own,
        ..one(name, contexts, "")
    }
}

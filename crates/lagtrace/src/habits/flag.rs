//! A flag of another tool, and what it means here.

/// A flag of another tool.
pub(super) struct Flag {
    /// The names: a letter, a word, or several of them.
    pub(super) names: &'static str,
    pub(super) has_value: bool,
    pub(super) means: Means,
}

/// The meaning of another tool's flag here.
pub(super) enum Means {
    /// What lagtrace does anyway, or what makes no difference to it.
    Nothing,
    /// The option with this id.
    Option(&'static str),
    /// What lagtrace does otherwise, or not at all: what to type.
    Answer(&'static str),
}

/// Takes a flag that makes no difference.
pub(super) const fn taken(names: &'static str) -> Flag {
    let has_value = false;
    Flag {
        names,
        has_value,
        means: Means::Nothing,
    }
}

/// Takes a flag as another name of an option.
pub(super) const fn same(names: &'static str, option: &'static str) -> Flag {
    let has_value = true;
    Flag {
        names,
        has_value,
        means: Means::Option(option),
    }
}

/// Answers a flag without a value.
pub(super) const fn told(names: &'static str, instead: &'static str) -> Flag {
    let has_value = false;
    Flag {
        names,
        has_value,
        means: Means::Answer(instead),
    }
}

/// Answers a flag with a value.
pub(super) const fn told_value(names: &'static str, instead: &'static str) -> Flag {
    let has_value = true;
    Flag {
        names,
        has_value,
        means: Means::Answer(instead),
    }
}

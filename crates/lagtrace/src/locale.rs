//! The character set of the user's locale.

use std::ffi::OsString;

/// The variables that name the locale of characters, the strongest first (POSIX.1-2017, Base
/// Definitions §8.2).
const NAMES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// Returns true if the locale's character set is UTF-8. `variable` returns the value of a variable.
/// Where no variable is set, the character set is not known: terminals then show UTF-8, as do the
/// logs of most services.
pub(crate) fn is_utf8(variable: impl Fn(&'static str) -> Option<OsString>) -> bool {
    let mut values = NAMES.into_iter().filter_map(variable);
    let Some(locale) = values.find(|value| !value.is_empty()) else {
        return true;
    };
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8") || locale.contains("utf-8@")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the character set is UTF-8 with these values of [`NAMES`].
    fn with(values: [&str; 3]) -> bool {
        is_utf8(|name| {
            let at = NAMES.iter().position(|one| *one == name)?;
            Some(values[at].into())
        })
    }

    #[test]
    fn the_strongest_variable_decides() {
        assert!(with(["", "", "en_US.UTF-8"]) && with(["", "", "C.utf8"]));
        assert!(with(["de_DE.UTF-8@euro", "", "C"]));
        assert!(!with(["", "", "C"]) && !with(["POSIX", "", "en_US.UTF-8"]));
        assert!(!with(["", "en_US.ISO-8859-1", "en_US.UTF-8"]));
        assert!(with(["", "", ""]), "not known");
    }
}

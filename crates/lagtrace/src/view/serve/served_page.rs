//! The page of a server, which may be replaced while it is served.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The interval at which a browser asks for the latest version's number (`ASKED_EVERY_MS` in
/// `web/src/live/source.ts`).
pub(crate) const ASKED_EVERY: Duration = Duration::from_secs(3);

/// A page with its versions, of which the latest is served.
#[derive(Debug)]
pub(crate) struct ServedPage(Mutex<State>);

#[derive(Debug)]
struct State {
    latest: Version,
    /// The time at which a browser last asked for the latest version's number.
    asked: Option<Instant>,
}

/// A version of a page.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) number: u64,
    pub(crate) text: Arc<str>,
    /// The time of the latest observation that the page shows.
    pub(crate) as_of: Instant,
    /// True if no other version will follow.
    pub(crate) is_last: bool,
}

impl Version {
    /// Returns the only version of a page that does not change.
    pub(crate) fn only(text: String) -> Self {
        Self {
            number: 0,
            text: text.into(),
            as_of: Instant::now(),
            is_last: true,
        }
    }
}

impl ServedPage {
    pub(crate) fn new(latest: Version) -> Self {
        Self(Mutex::new(State {
            latest,
            asked: None,
        }))
    }

    /// Replaces the page, unless a later version is served already.
    pub(crate) fn replace(&self, version: Version) {
        let mut state = self.state();
        if version.number > state.latest.number {
            state.latest = version;
        }
    }

    /// Returns the text of the latest version.
    pub(super) fn text(&self) -> Arc<str> {
        Arc::clone(&self.state().latest.text)
    }

    /// Returns what a browser needs to know of the latest version, as JSON: its number, how old its
    /// figures are, and whether it is the last one.
    pub(super) fn news(&self) -> Arc<str> {
        let mut state = self.state();
        state.asked = Some(Instant::now());
        let Version {
            number,
            as_of,
            is_last,
            ..
        } = state.latest;
        let age = as_of.elapsed().as_millis();
        format!(r#"{{"version":{number},"age_ms":{age},"is_last":{is_last}}}"#).into()
    }

    /// Returns true if a browser follows the page: it has asked within the last two intervals.
    pub(crate) fn is_followed(&self) -> bool {
        let asked = self.state().asked;
        asked.is_some_and(|asked| asked.elapsed() < 2 * ASKED_EVERY)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64, is_last: bool) -> Version {
        Version {
            number,
            is_last,
            ..Version::only(format!("page {number}"))
        }
    }

    #[test]
    fn a_later_version_replaces_an_earlier_one_and_never_the_other_way_round() {
        let page = ServedPage::new(version(1, false));
        let held = page.text();
        assert!(!page.is_followed());
        assert!(page.news().starts_with(r#"{"version":1,"age_ms":"#));
        assert!(page.is_followed());
        page.replace(version(3, true));
        // A conclusion that took long comes after the last one.
        page.replace(version(2, false));
        assert_eq!((&*page.text(), &*held), ("page 3", "page 1"));
        let news: serde_json::Value = serde_json::from_str(&page.news()).expect("JSON");
        assert_eq!(
            (&news["version"], &news["is_last"]),
            (&3.into(), &true.into())
        );
        assert!(news["age_ms"].as_u64().is_some());
    }
}

//! The versions of the page of a running watch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use lagtrace_core::report::{Picture, Report};

use super::WatchedSubject;
use crate::page;
use crate::render::html::{Document, Place, Redaction};
use crate::view::serve::{ServedPage, Version};

/// Makes the versions of the page that is served.
pub(super) struct Editor {
    about: WatchedSubject,
    /// The labels, if the page is redacted: the same in all versions.
    redaction: Mutex<Option<Redaction>>,
    page: Arc<ServedPage>,
    /// Number of versions that were begun.
    begun: AtomicU64,
}

/// A version that was begun: its number, and the time of its latest observation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edition {
    number: u64,
    as_of: Instant,
}

impl Editor {
    /// Returns an editor, and the page with a first version that shows the report of a watch that
    /// has seen nothing.
    pub(super) fn new(
        about: WatchedSubject,
        redaction: Option<Redaction>,
        mut nothing: Report,
    ) -> Self {
        about.name(&mut nothing);
        let mut redaction = redaction;
        let text = made(redaction.as_mut(), 0, &nothing, None);
        let first = Version {
            is_last: false,
            ..Version::only(text)
        };
        Self {
            about,
            redaction: Mutex::new(redaction),
            page: Arc::new(ServedPage::new(first)),
            begun: AtomicU64::new(0),
        }
    }

    /// Returns the page.
    pub(super) fn page(&self) -> &Arc<ServedPage> {
        &self.page
    }

    /// Begins a version with what has been observed until now.
    pub(super) fn begin(&self) -> Edition {
        Edition {
            number: self.begun.fetch_add(1, Ordering::Relaxed) + 1,
            as_of: Instant::now(),
        }
    }

    /// Names the report after this watch, and replaces the page by one that shows it.
    pub(super) fn publish(&self, edition: Edition, report: &mut Report, picture: Option<Picture>) {
        self.about.name(report);
        self.replace(edition, report, picture, false);
    }

    /// Replaces the page by its last version.
    pub(super) fn publish_last(&self, report: &Report, picture: Option<Picture>) {
        self.replace(self.begin(), report, picture, true);
    }

    fn replace(&self, edition: Edition, report: &Report, picture: Option<Picture>, is_last: bool) {
        let Edition { number, as_of } = edition;
        let mut redaction = self
            .redaction
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let text = made(redaction.as_mut(), number, report, picture);
        self.page.replace(Version {
            number,
            text: text.into(),
            as_of,
            is_last,
        });
    }
}

fn made(
    redaction: Option<&mut Redaction>,
    number: u64,
    report: &Report,
    picture: Option<Picture>,
) -> String {
    let document = Document::of_report(report, picture);
    page::made_with(redaction, document.into(), Place::Live(number))
}

//! Browsing of single exchanges on the live page: a list, one exchange with its waits, a condition,
//! and saving.
//!
//! A list is a copy that does not change while it is read; `r` makes a new one.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lagtrace_core::report::ExchangeRecord;
use lagtrace_sources::files::Output;

use super::keys::Key;
use super::recent::Recent;
use crate::analyze::condition::Condition;
use crate::clock;
use crate::json;
use crate::render::Browsed;

/// Maximum length of a condition that is typed, in characters.
const MAX_TYPED: usize = 500;

/// The state of the page, and the exchanges on it.
#[derive(Debug)]
pub(super) struct Browser {
    recent: Recent,
    view: View,
    /// The exchanges in the list, before the condition is applied.
    all: Vec<Arc<ExchangeRecord>>,
    /// The exchanges that meet the condition.
    list: Vec<Arc<ExchangeRecord>>,
    /// Index of the selected exchange in the list.
    selected: usize,
    condition: Option<(String, Condition)>,
    /// The condition that is being typed.
    typed: Option<String>,
    /// The outcome of the last action.
    message: String,
    /// The folder into which exchanges are saved.
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// The page of figures, without single exchanges.
    Figures,
    List,
    One,
}

/// The effect of a key on the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Stays,
    /// The user ends the watch.
    Ends,
}

impl Browser {
    /// Returns a browser that saves into `folder`.
    pub(super) fn new(recent: Recent, folder: &Path) -> Self {
        Self {
            recent,
            view: View::Figures,
            all: Vec::new(),
            list: Vec::new(),
            selected: 0,
            condition: None,
            typed: None,
            message: String::new(),
            folder: folder.to_owned(),
        }
    }

    /// Returns the exchanges to show; `None` if the page of figures is shown.
    pub(super) fn browsed(&self) -> Option<Browsed<'_>> {
        let condition = self.condition.as_ref().map(|(text, _)| text.as_str());
        (self.view != View::Figures).then_some(Browsed {
            list: &self.list,
            selected: self.selected,
            is_opened: self.view == View::One,
            of: self.all.len(),
            condition,
            typed: self.typed.as_deref(),
            message: &self.message,
        })
    }

    /// Handles a key; `page` is the number of rows to move by Page Up and Page Down.
    pub(super) fn press(&mut self, key: Key, page: usize) -> Effect {
        self.message.clear();
        if self.typed.is_some() {
            self.edit(key);
            return Effect::Stays;
        }
        match (self.view, key) {
            (View::Figures, Key::Char('q')) => return Effect::Ends,
            (View::Figures, Key::Enter | Key::Down | Key::Char('j' | '/')) => {
                self.refresh();
                self.view = View::List;
                if key == Key::Char('/') {
                    self.begin_typing();
                }
            }
            (View::Figures, _) => {}
            (View::List, Key::Enter) if !self.list.is_empty() => self.view = View::One,
            (View::List, Key::Escape | Key::Backspace | Key::Char('q')) => {
                self.view = View::Figures;
            }
            (View::One, Key::Escape | Key::Backspace | Key::Enter | Key::Char('q')) => {
                self.view = View::List;
            }
            (_, Key::Char('s')) => self.message = self.save(),
            (View::List, Key::Char('/')) => self.begin_typing(),
            (View::List, Key::Char('r')) => self.refresh(),
            (_, key) => self.go(key, page),
        }
        Effect::Stays
    }

    /// Moves the selection.
    fn go(&mut self, key: Key, page: usize) {
        let last = self.list.len().saturating_sub(1);
        self.selected = match key {
            Key::Up | Key::Char('k') => self.selected.saturating_sub(1),
            Key::Down | Key::Char('j') => self.selected + 1,
            Key::PageUp => self.selected.saturating_sub(page),
            Key::PageDown => self.selected + page,
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            _ => self.selected,
        }
        .min(last);
    }

    fn begin_typing(&mut self) {
        let before = self.condition.as_ref().map(|(text, _)| text.clone());
        self.typed = Some(before.unwrap_or_default());
    }

    fn edit(&mut self, key: Key) {
        let Some(typed) = self.typed.as_mut() else {
            return;
        };
        match key {
            Key::Char(character) if typed.chars().count() < MAX_TYPED => typed.push(character),
            Key::Backspace => drop(typed.pop()),
            Key::Escape => self.typed = None,
            Key::Enter => {
                let text = typed.trim().to_owned();
                self.set_condition(text);
            }
            _ => {}
        }
    }

    /// Applies a condition, or removes it if the text is empty. The text stays for editing if it is
    /// not a condition.
    fn set_condition(&mut self, text: String) {
        if text.is_empty() {
            self.condition = None;
        } else {
            match text.parse() {
                Ok(condition) => self.condition = Some((text, condition)),
                Err(error) => {
                    let text = error.to_string();
                    self.message = text.lines().next().unwrap_or_default().to_owned();
                    return;
                }
            }
        }
        self.typed = None;
        self.select();
    }

    fn refresh(&mut self) {
        self.all = self.recent.by_latency();
        self.select();
    }

    fn select(&mut self) {
        let condition = self.condition.as_ref().map(|(_, condition)| condition);
        let meets = |record: &&Arc<ExchangeRecord>| condition.is_none_or(|it| it.holds(record));
        self.list = self.all.iter().filter(meets).cloned().collect();
        self.selected = 0;
    }

    /// Saves the opened exchange, or the whole list, as lines of JSON; returns the outcome.
    fn save(&self) -> String {
        let records = match self.view {
            View::One => self.list.get(self.selected..=self.selected),
            _ => Some(self.list.as_slice()),
        };
        let records = records.unwrap_or_default();
        let name = format!("lagtrace-watch-{}.ndjson", clock::now().as_nanos());
        let path = self.folder.join(name);
        match write(&path, records) {
            Ok(()) => format!("Saved {} to {}.", counted(records.len()), path.display()),
            Err(error) => format!("Not saved to {}: {error}", path.display()),
        }
    }
}

fn counted(count: usize) -> String {
    crate::words::plural(count as u64, "exchange")
}

/// Writes a file for its owner alone.
fn write(path: &Path, records: &[Arc<ExchangeRecord>]) -> io::Result<()> {
    let mut to = io::BufWriter::new(Output::create_new(path)?);
    for record in records {
        json::write(&mut to, &**record)?;
        to.write_all(b"\n")?;
    }
    let file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.commit()
}

#[cfg(test)]
mod tests {
    use lagtrace_core::report::Exemplar;

    use super::*;

    fn record(latency_ns: u64, request: &str) -> Arc<ExchangeRecord> {
        Arc::new(ExchangeRecord {
            r#type: "exchange".to_owned(),
            capture: "kernel".to_owned(),
            stream: None,
            ordinal: 0,
            status: None,
            cost_ns: latency_ns,
            setup_ns: None,
            response_bytes: 0,
            exchange: Exemplar {
                client: "10.0.0.1:4000".to_owned(),
                server: "10.0.0.2:80".to_owned(),
                request: request.to_owned(),
                outcome: "200".to_owned(),
                start_ns: 0,
                latency_ns,
                first_packet: None,
                last_packet: None,
                waits: Vec::new(),
                at_host: Vec::new(),
            },
            recoveries: Vec::new(),
        })
    }

    fn browser(folder: &Path) -> Browser {
        let mut browser = Browser::new(Recent::default(), folder);
        browser.press(Key::Enter, 10);
        browser.all = vec![
            record(30_000_000, "GET /slow"),
            record(2_000_000, "GET /b"),
            record(1_000_000, "GET /a"),
        ];
        browser.select();
        browser
    }

    fn type_in(browser: &mut Browser, text: &str) {
        browser.press(Key::Char('/'), 10);
        for character in text.chars() {
            browser.press(Key::Char(character), 10);
        }
        browser.press(Key::Enter, 10);
    }

    #[test]
    fn a_selection_stays_in_the_list() {
        let mut browser = browser(Path::new("/"));
        for (key, selected) in [
            (Key::Up, 0),
            (Key::Down, 1),
            (Key::PageDown, 2),
            (Key::Down, 2),
            (Key::Home, 0),
            (Key::End, 2),
        ] {
            browser.press(key, 10);
            assert_eq!(browser.selected, selected, "{key:?}");
        }
        browser.press(Key::Enter, 10);
        assert!(browser.browsed().expect("a list").is_opened);
        browser.press(Key::Escape, 10);
        browser.press(Key::Escape, 10);
        assert!(browser.browsed().is_none());
        assert_eq!(browser.press(Key::Char('q'), 10), Effect::Ends);
    }

    #[test]
    fn a_condition_selects_and_a_wrong_one_is_explained_and_kept_for_editing() {
        let mut browser = browser(Path::new("/"));
        type_in(&mut browser, "latency > 5ms");
        assert_eq!(browser.list.len(), 1);
        type_in(&mut browser, " nonsense");
        let shown = browser.browsed().expect("a list");
        assert_eq!(shown.typed, Some("latency > 5ms nonsense"));
        assert!(!shown.message.is_empty());
        browser.press(Key::Escape, 10);
        assert_eq!(browser.list.len(), 1, "the old condition holds");
        browser.press(Key::Char('/'), 10);
        for _ in 0.."latency > 5ms".len() {
            browser.press(Key::Backspace, 10);
        }
        browser.press(Key::Enter, 10);
        assert_eq!(browser.list.len(), 3);
    }

    #[test]
    fn the_list_or_the_opened_exchange_is_saved_for_the_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let mut browser = browser(folder.path());
        browser.press(Key::Char('s'), 10);
        assert!(
            browser.message.contains("3 exchanges"),
            "{}",
            browser.message
        );
        browser.press(Key::Enter, 10);
        browser.press(Key::Char('s'), 10);
        assert!(
            browser.message.contains("1 exchange "),
            "{}",
            browser.message
        );
        let mut lines = Vec::new();
        for entry in std::fs::read_dir(folder.path()).expect("readable") {
            let path = entry.expect("readable").path();
            let mode = std::fs::metadata(&path)
                .expect("there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
            let text = std::fs::read_to_string(path).expect("text");
            lines.push(text.lines().count());
        }
        lines.sort_unstable();
        assert_eq!(lines, [1, 3]);
        let mut lost = Browser::new(Recent::default(), &folder.path().join("absent"));
        lost.press(Key::Enter, 10);
        lost.press(Key::Char('s'), 10);
        assert!(lost.message.starts_with("Not saved"), "{}", lost.message);
    }
}

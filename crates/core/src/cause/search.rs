//! The causes that fit words: those of a cause, a directive, a socket option, a kernel setting or a
//! wait, as people write them.

use std::sync::LazyLock;

use super::settings;
use crate::registry::Cause;

/// The weight of words that are the id of a cause, or in it, in its title, a directive or a wait.
const THE_ID: usize = 100_000;
const IN_ID: usize = 10_000;
const IN_TITLE: usize = 3_000;
const AS_DIRECTIVE: usize = 2_000;
const AS_WAIT: usize = 1_000;
/// The weight of words in the first paragraph of a page: the summary.
const IN_SUMMARY: usize = 300;
/// The weight of each occurrence on a page, and the number of occurrences that count.
const ON_PAGE: usize = 10;
const MOST: usize = 20;

/// Returns the causes that fit the words, the best first. Letter case, `-` and `_` do not matter.
pub fn search(words: &str) -> Vec<&'static Cause> {
    let wanted = singular(words);
    if wanted.is_empty() {
        return Vec::new();
    }
    let scored = |weight: fn(&Text, &str) -> usize| {
        let all = TEXTS.iter().map(|text| (weight(text, &wanted), text.cause));
        let mut found: Vec<_> = all.filter(|(weight, _)| *weight > 0).collect();
        found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        found.into_iter().map(|(_, cause)| cause).collect()
    };
    let found: Vec<&'static Cause> = scored(Text::weight);
    if found.is_empty() {
        scored(Text::shared_words)
    } else {
        found
    }
}

/// The texts of all causes.
static TEXTS: LazyLock<Vec<Text>> = LazyLock::new(|| super::all().map(Text::of).collect());

/// The texts of a cause in which a search looks, as plain words.
struct Text {
    cause: &'static Cause,
    id: String,
    title: String,
    summary: String,
    page: String,
    /// The directives and the waits, in the singular.
    directives: Vec<String>,
    waits: Vec<String>,
}

impl Text {
    fn of(cause: &'static Cause) -> Self {
        let summary = cause.page.split("\n## ").next().unwrap_or_default();
        let directives = settings::by_directive().filter(|(_, ids)| ids.contains(&cause.id));
        let waits = cause.waits.iter();
        let words_of_wait = |kind: &crate::exchange::wait::WaitKind| {
            [singular(&format!("{kind:?}")), singular(kind.in_words())]
        };
        Self {
            cause,
            id: plain(cause.id.as_str()),
            title: plain(cause.title),
            summary: plain(summary),
            page: plain(cause.page),
            directives: directives.map(|(name, _)| singular(name)).collect(),
            waits: waits.flat_map(words_of_wait).collect(),
        }
    }

    /// Returns how well the cause fits words that must stand together.
    fn weight(&self, wanted: &str) -> usize {
        let weights = [
            (singular(&self.id) == wanted, THE_ID),
            (count(&self.id, wanted) > 0, IN_ID),
            (count(&self.title, wanted) > 0, IN_TITLE),
            (
                self.directives.iter().any(|name| name == wanted),
                AS_DIRECTIVE,
            ),
            (self.waits.iter().any(|wait| wait == wanted), AS_WAIT),
            (count(&self.summary, wanted) > 0, IN_SUMMARY),
        ];
        let fitting = weights.into_iter().filter(|(fits, _)| *fits);
        let weight: usize = fitting.map(|(_, weight)| weight).sum();
        weight + ON_PAGE * count(&self.page, wanted).min(MOST)
    }

    /// Returns how many of the words are in the id or the title, at any place, at least in part.
    fn shared_words(&self, wanted: &str) -> usize {
        let has = |word: &&str| {
            let start = word.get(..word.len().min(5)).unwrap_or(word);
            let mut own = self.id.split(' ').chain(self.title.split(' '));
            start.len() > 2 && own.any(|own| own.starts_with(start))
        };
        wanted.split(' ').filter(has).count()
    }
}

/// Returns plain text with its last word in the singular, which is found in the plural too.
fn singular(text: &str) -> String {
    let mut plain = plain(text);
    let last = plain.rsplit(' ').next().unwrap_or_default();
    if last.len() > 3 && last.ends_with('s') && !last.ends_with("ss") {
        plain.pop();
    }
    plain
}

/// Returns text as its words in lower case, with one space between two of them.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut was_lower = false;
    for letter in text.chars() {
        if letter.is_alphanumeric() {
            // `ServerThink` has two words, `RTO` has one.
            let begins = letter.is_uppercase() && was_lower;
            if begins {
                plain.push(' ');
            }
            plain.extend(letter.to_lowercase());
        } else if !plain.ends_with(' ') && !plain.is_empty() {
            plain.push(' ');
        }
        was_lower = letter.is_lowercase();
    }
    plain.trim_end().to_owned()
}

/// Returns how often the words stand together in a text.
fn count(text: &str, wanted: &str) -> usize {
    let is_whole = |at: usize| {
        let ends = |c: Option<char>| c.is_none_or(|c| c == ' ');
        let (before, from) = text.split_at(at);
        let after = from.get(wanted.len()..).unwrap_or_default();
        // A plural is the same word.
        let after = after.strip_prefix('s').unwrap_or(after);
        ends(before.chars().next_back()) && ends(after.chars().next())
    };
    let found = text.match_indices(wanted);
    found.filter(|(at, _)| is_whole(*at)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Id;

    fn first(words: &str) -> Option<Id> {
        search(words).first().map(|cause| cause.id)
    }

    #[test]
    fn what_people_call_a_cause_finds_it() {
        for (words, id) in [
            ("tcp_nodelay", Id::NagleDelayedAck),
            ("TCP_NODELAY", Id::NagleDelayedAck),
            ("Nagle", Id::NagleDelayedAck),
            ("delayed ack", Id::NagleDelayedAck),
            ("delayed ACKs", Id::NagleDelayedAck),
            ("rto", Id::RetransmissionTimeout),
            ("somaxconn", Id::AcceptQueueOverflow),
            ("listen backlog", Id::AcceptQueueOverflow),
            ("TCP_CORK", Id::CorkHold),
            ("keepalive_requests", Id::ConnectionNotReused),
            ("proxy_buffering", Id::ProxyBuffering),
            ("ServerThink", Id::ServerThink),
            ("stop the world", Id::StopTheWorld),
            ("packet_loss", Id::PacketLoss),
            ("bufferbloat", Id::PathQueueing),
            ("100-continue", Id::ExpectContinue),
        ] {
            assert_eq!(first(words), Some(id), "{words}: {:?}", ids(words));
        }
        assert_eq!(first("gremlins"), None);
        assert_eq!(first(" - "), None);
    }

    fn ids(words: &str) -> Vec<Id> {
        search(words).iter().map(|cause| cause.id).collect()
    }

    #[test]
    fn every_id_every_title_and_every_directive_finds_its_cause() {
        for cause in crate::cause::all() {
            assert_eq!(first(cause.id.as_str()), Some(cause.id));
            assert!(ids(cause.title).contains(&cause.id), "{}", cause.title);
        }
        for (directive, causes) in settings::by_directive() {
            let found = ids(directive);
            assert!(causes.iter().all(|id| found.contains(id)), "{directive}");
        }
    }
}

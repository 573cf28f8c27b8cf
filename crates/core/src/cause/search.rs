//! The causes that fit words: those of a cause, a directive, a socket option, a kernel setting or a
//! wait, as people write them.

use super::settings;
use crate::registry::{Cause, Id};

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
    let scored = |weight: fn(&Cause, &str) -> usize| {
        let all = super::all().map(|cause| (weight(cause, &wanted), cause));
        let mut found: Vec<_> = all.filter(|(weight, _)| *weight > 0).collect();
        found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        found.into_iter().map(|(_, cause)| cause).collect()
    };
    let found: Vec<&'static Cause> = scored(weight);
    if found.is_empty() {
        scored(shared_words)
    } else {
        found
    }
}

/// Returns how well a cause fits words that must stand together.
fn weight(cause: &Cause, wanted: &str) -> usize {
    let counts = |text: &str| count(&plain(text), wanted);
    let if_in = |text: &str, weight| if counts(text) > 0 { weight } else { 0 };
    let summary = cause.page.split("\n## ").next().unwrap_or_default();
    let is_wait = |kind: &crate::exchange::wait::WaitKind| {
        singular(&format!("{kind:?}")) == wanted || singular(kind.in_words()) == wanted
    };
    let is_id = singular(cause.id.as_str()) == wanted;
    if_in(cause.id.as_str(), IN_ID)
        + if is_id { THE_ID } else { 0 }
        + if_in(cause.title, IN_TITLE)
        + if is_directive_of(cause.id, wanted) {
            AS_DIRECTIVE
        } else {
            0
        }
        + if cause.waits.iter().any(is_wait) {
            AS_WAIT
        } else {
            0
        }
        + if_in(summary, IN_SUMMARY)
        + ON_PAGE * counts(cause.page).min(MOST)
}

fn is_directive_of(id: Id, wanted: &str) -> bool {
    settings::by_directive()
        .any(|(directive, causes)| singular(directive) == wanted && causes.contains(&id))
}

/// Returns how many of the words are in the id or the title, at any place, at least in part.
fn shared_words(cause: &Cause, wanted: &str) -> usize {
    let text = plain(&format!("{} {}", cause.id, cause.title));
    let has = |word: &&str| {
        let start = word.get(..word.len().min(5)).unwrap_or(word);
        start.len() > 2 && text.split(' ').any(|own| own.starts_with(start))
    };
    wanted.split(' ').filter(has).count()
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

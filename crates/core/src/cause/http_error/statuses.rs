//! Numbers of responses by status.

use std::collections::BTreeMap;

use crate::exchange::Outcome;
use crate::protocol::http::status::{StatusMeaning, is_challenge, is_failure, is_redirect};
use crate::report::count;
use crate::service::Counts;

/// Maximum number of statuses in a list.
const MOST_TOLD: usize = 4;

/// The number of responses with each status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statuses {
    counts: BTreeMap<u16, u64>,
    /// The statuses that the user expects: all others count as errors. If there are none, error
    /// statuses do.
    expected: Vec<u16>,
}

impl Statuses {
    /// Returns the statuses of the responses among `outcomes`.
    pub(crate) fn of(outcomes: &Counts<Outcome>) -> Self {
        let mut statuses = BTreeMap::<u16, u64>::new();
        for (outcome, count) in outcomes.iter() {
            if let Outcome::Complete(Some(status)) = outcome {
                *statuses.entry(status).or_default() += count;
            }
        }
        statuses.into()
    }

    /// Returns these statuses if the user expects some of them.
    pub(crate) fn expecting(self, expected: &[u16]) -> Self {
        Self {
            expected: expected.to_vec(),
            ..self
        }
    }

    /// Returns these statuses without the challenges that other responses followed: a challenge only
    /// asks the client to authenticate. It is no error if there are at least as many other
    /// responses.
    pub(crate) fn unmet(&self) -> Self {
        let mut unmet = self.clone();
        if self.count(is_challenge) * 2 <= self.all() {
            unmet.counts.retain(|&status, _| !is_challenge(status));
        }
        unmet
    }

    /// Returns the number of responses.
    pub(crate) fn all(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the number of responses whose status `is_meant` selects.
    pub(crate) fn count(&self, is_meant: impl Fn(u16) -> bool) -> u64 {
        let meant = self.counts.iter().filter(|(status, _)| is_meant(**status));
        meant.map(|(_, count)| count).sum()
    }

    /// Returns the number of error responses.
    pub(crate) fn errors(&self) -> u64 {
        self.count(|status| self.is_error(status))
    }

    /// Returns the number of error responses with a meaning that `is_meant` selects.
    pub(super) fn errors_that(&self, is_meant: impl Fn(StatusMeaning) -> bool) -> u64 {
        self.count(|status| {
            self.is_error(status) && StatusMeaning::of(status).is_some_and(&is_meant)
        })
    }

    fn is_error(&self, status: u16) -> bool {
        is_failure(status, &self.expected)
    }

    /// Returns the number of responses by which the client was refused (4xx), if a person would say
    /// that the requests failed: most responses are refusals, or the client sent too many requests.
    pub(crate) fn refused(&self) -> u64 {
        let unmet = self.unmet();
        let refused = unmet.count(|status| (400..500).contains(&status));
        if refused * 2 >= self.all() {
            return refused;
        }
        unmet.count(|status| StatusMeaning::of(status) == Some(StatusMeaning::TooMany))
    }

    /// Returns true if all responses only lead to another place.
    pub(crate) fn are_redirects(&self) -> bool {
        self.all() > 0 && self.count(is_redirect) == self.all()
    }

    /// Returns the meaning of most errors; `None` if no meaning has the majority of them.
    pub(crate) fn meaning(&self) -> Option<StatusMeaning> {
        let mut counts = BTreeMap::<StatusMeaning, u64>::new();
        for (&status, count) in &self.counts {
            if let Some(meaning) = StatusMeaning::of(status).filter(|_| self.is_error(status)) {
                *counts.entry(meaning).or_default() += count;
            }
        }
        let most = counts.into_iter().max_by_key(|&(_, count)| count);
        let most = most.filter(|&(_, count)| count * 2 > self.errors());
        most.map(|(meaning, _)| meaning)
    }

    /// Returns the errors with this meaning and those without it.
    pub(super) fn parted(&self, meaning: StatusMeaning) -> [Self; 2] {
        [true, false].map(|is_with| {
            let mut part = self.clone();
            part.counts.retain(|&status, _| {
                let has = StatusMeaning::of(status) == Some(meaning);
                self.is_error(status) && has == is_with
            });
            part
        })
    }

    /// Returns the most frequent status of errors.
    pub(super) fn worst(&self) -> Option<u16> {
        self.most_frequent().next().map(|(status, _)| status)
    }

    /// Returns a list of the most frequent errors: `503 ×120, 502 ×4`.
    pub(super) fn list_of_errors(&self) -> String {
        list(self.most_frequent().take(MOST_TOLD))
    }

    /// Returns a list of all statuses.
    pub(super) fn list(&self) -> String {
        list(self.counts.iter().map(|(&status, &count)| (status, count)))
    }

    /// Iterates over the errors, the most frequent first.
    fn most_frequent(&self) -> impl Iterator<Item = (u16, u64)> {
        let errors = self
            .counts
            .iter()
            .filter(|(status, _)| self.is_error(**status));
        let mut errors: Vec<(u16, u64)> = errors.map(|(&status, &n)| (status, n)).collect();
        errors.sort_by_key(|&(status, n)| core::cmp::Reverse((n, status)));
        errors.into_iter()
    }
}

impl From<BTreeMap<u16, u64>> for Statuses {
    fn from(counts: BTreeMap<u16, u64>) -> Self {
        Self {
            counts,
            expected: Vec::new(),
        }
    }
}

fn list(statuses: impl Iterator<Item = (u16, u64)>) -> String {
    let list: Vec<String> = statuses
        .map(|(s, n)| format!("{s} ×{}", count(n)))
        .collect();
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(counts: &[(u16, u64)]) -> Statuses {
        Statuses::from(BTreeMap::from_iter(counts.iter().copied()))
    }

    #[test]
    fn a_refusal_is_a_failure_if_most_are_or_if_there_were_too_many_requests() {
        let cases = [
            (&[(404, 9), (200, 1)][..], 9),
            (&[(404, 1), (200, 9)], 0),
            (&[(429, 1), (200, 9)], 1),
            // Each challenge was met.
            (&[(401, 5), (200, 5)], 0),
            (&[(401, 5), (200, 4)], 5),
            (&[(500, 9)], 0),
            (&[(304, 9), (301, 1)], 0),
        ];
        for (counts, refused) in cases {
            assert_eq!(statuses(counts).refused(), refused, "{counts:?}");
        }
    }

    #[test]
    fn errors_are_parted_by_their_meaning_and_good_answers_are_in_no_part() {
        let all = statuses(&[(200, 50), (429, 30), (500, 20), (502, 1)]);
        let [meant, others] = all.parted(StatusMeaning::TooMany);
        assert_eq!(
            (meant.all(), meant.list_of_errors()),
            (30, "429 ×30".to_owned())
        );
        assert_eq!(others.all(), 21);
        assert_eq!(others.list_of_errors(), "500 ×20, 502 ×1");
        assert_eq!(others.meaning(), Some(StatusMeaning::Failed));
    }

    #[test]
    fn errors_of_several_kinds_have_no_common_meaning() {
        let meaning = |counts| statuses(counts).meaning();
        assert_eq!(
            meaning(&[(502, 3), (504, 2)]),
            Some(StatusMeaning::BadGateway)
        );
        assert_eq!(meaning(&[(502, 2), (504, 2)]), None);
        assert_eq!(meaning(&[(200, 50), (405, 1)]), Some(StatusMeaning::Method));
        assert_eq!(meaning(&[(200, 50), (304, 1)]), None);
    }

    #[test]
    fn what_the_user_expects_is_no_error_and_all_else_is() {
        let counts = || statuses(&[(200, 5), (404, 3), (503, 2)]);
        assert_eq!(counts().errors(), 5);
        let expected = counts().expecting(&[404, 200]);
        assert_eq!((expected.errors(), expected.worst()), (2, Some(503)));
        assert_eq!(expected.meaning(), Some(StatusMeaning::Unavailable));
        let created = counts().expecting(&[201]);
        assert_eq!((created.errors(), created.meaning()), (10, None));
        assert_eq!(created.errors_that(StatusMeaning::is_servers_fault), 2);
    }

    #[test]
    fn an_answer_that_the_client_has_already_is_no_redirect() {
        assert!(statuses(&[(301, 5), (308, 1)]).are_redirects());
        assert!(!statuses(&[(301, 5), (200, 1)]).are_redirects());
        assert!(!statuses(&[(304, 5)]).are_redirects());
        assert!(!statuses(&[]).are_redirects());
    }
}

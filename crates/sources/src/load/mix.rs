//! The choice of a URL for each request.

/// A request that may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// Scheduled start.
    pub(super) due: lagtrace_core::observed::time::Timestamp,
    /// Index of the URL in the plan, from 0.
    pub(super) part: u16,
}

/// A weighted choice among parts, as even as possible and the same in every run. For each choice,
/// every part's credit grows by its weight. The part with the most credit is chosen, and its credit
/// is reduced by the sum of all weights. nginx selects upstream servers in this way (smooth
/// weighted round-robin).
#[derive(Clone, Debug)]
pub(super) struct Mix {
    parts: Vec<(i64, i64)>,
    total: i64,
}

impl Mix {
    /// Creates a mix of parts with these weights. Without weights, the mix has a single part.
    pub(super) fn of(weights: impl IntoIterator<Item = u32>) -> Self {
        let parts: Vec<_> = weights.into_iter().map(|w| (i64::from(w), 0)).collect();
        let total = parts.iter().map(|(weight, _)| weight).sum();
        Self { parts, total }
    }

    /// Chooses the part of the next request.
    pub(super) fn choose(&mut self) -> u16 {
        if self.parts.len() < 2 {
            return 0;
        }
        let (mut chosen, mut most) = (0, i64::MIN);
        for (number, (weight, credit)) in (0..).zip(&mut self.parts) {
            *credit += *weight;
            if *credit > most {
                (chosen, most) = (number, *credit);
            }
        }
        if let Some((_, credit)) = self.parts.get_mut(usize::from(chosen)) {
            *credit -= self.total;
        }
        chosen
    }

    /// Splits `count` requests among the parts in proportion to their weights.
    pub(super) fn split(&self, count: u64) -> Vec<(u16, u64)> {
        let total = self.total.max(1) as u128;
        let (mut shares, mut before, mut given) = (Vec::new(), 0_u128, 0);
        for (number, (weight, _)) in (0..).zip(&self.parts) {
            before += *weight as u128;
            let until = (u128::from(count) * before / total) as u64;
            shares.push((number, until - given));
            given = until;
        }
        if shares.is_empty() {
            shares.push((0, count));
        }
        shares.retain(|(_, share)| *share > 0);
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_chosen_by_its_weight_and_none_in_clumps() {
        let mut mix = Mix::of([5, 1, 1]);
        let chosen: Vec<u16> = (0..14).map(|_| mix.choose()).collect();
        assert_eq!(chosen, [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(Mix::of([]).choose(), 0);
        assert_eq!(Mix::of([7]).choose(), 0);
    }

    #[test]
    fn shares_add_up() {
        let mix = Mix::of([3, 1]);
        assert_eq!(mix.split(8), [(0, 6), (1, 2)]);
        assert_eq!(mix.split(1), [(1, 1)]);
        assert_eq!(Mix::of([]).split(9), [(0, 9)]);
        for count in 0..50 {
            let shares = Mix::of([3, 2, 9]).split(count);
            assert_eq!(shares.iter().map(|(_, n)| n).sum::<u64>(), count);
        }
    }
}

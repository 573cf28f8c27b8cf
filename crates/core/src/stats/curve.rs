//! Percentile curves: a distribution at quantiles that come ever closer to 1.

use super::histogram::Distribution;

/// Number of points for each halving of the rest above a quantile.
const PER_HALVING: u32 = 8;
/// Quantiles that reports name. They are in each curve, so that its values agree with theirs.
const NAMED: [f64; 5] = [0.75, 0.9, 0.99, 0.999, 0.9999];

/// A quantile, 0 to 1, and its value in nanoseconds.
pub(crate) type CurvePoint = (f64, u64);

/// Returns the curve of a distribution, from its minimum to its maximum; empty if it is empty.
pub(crate) fn curve(values: &Distribution) -> Vec<CurvePoint> {
    let quantiles = quantiles(values.count());
    let values = values.quantiles(&quantiles);
    quantiles.into_iter().zip(values).collect()
}

/// Returns the curve of `after` with all values below `floor` raised to it, and all above the curve
/// of `before` lowered to that.
pub(crate) fn curve_between(
    floor: u64,
    after: &Distribution,
    before: &Distribution,
) -> Vec<CurvePoint> {
    let then = after.quantiles(&quantiles(before.count()));
    let was = curve(before).into_iter().zip(then);
    was.map(|((quantile, was), then)| (quantile, then.max(floor).min(was)))
        .collect()
}

/// Returns the quantiles at which the rest above becomes smaller by equal factors, until less than
/// one of `count` observations is left.
fn quantiles(count: u64) -> Vec<f64> {
    let halvings = count.max(1).ilog2() + 1;
    let step = |step| 1.0 - 0.5_f64.powf(f64::from(step) / f64::from(PER_HALVING));
    let steps = (0..=halvings * PER_HALVING).map(step);
    let mut list: Vec<f64> = steps.chain(NAMED).chain([1.0]).collect();
    list.sort_by(f64::total_cmp);
    list.dedup();
    list
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn of(millis: impl Iterator<Item = u64>) -> Distribution {
        let mut distribution = Distribution::default();
        millis.for_each(|ms| distribution.record(Duration::from_millis(ms)));
        distribution
    }

    #[test]
    fn a_curve_agrees_with_the_quantiles_that_reports_name() {
        let distribution = of(1..=1000);
        let curve = curve(&distribution);
        assert!(curve.is_sorted(), "{curve:?}");
        for quantile in [0.0, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
            let value = distribution.quantile(quantile).expect("not empty");
            let found = curve.iter().find(|(at, _)| *at == quantile);
            assert_eq!(found, Some(&(quantile, value.as_nanos() as u64)));
        }
        assert!(curve.len() < 100);
        assert!(super::curve(&Distribution::default()).is_empty());
    }

    #[test]
    fn a_curve_stays_between_its_limits() {
        let (after, before) = (of(1..=1000), of((1..=1000).map(|ms| ms + 10)));
        let between = curve_between(500_000_000, &after, &before);
        assert!(between.len() > 50);
        for (quantile, value) in between {
            let at = |of: &Distribution| of.quantiles(&[quantile])[0];
            let expected = at(&after).max(500_000_000).min(at(&before));
            assert_eq!(value, expected, "{quantile}");
        }
    }
}

//! The requests of a service as each observation point saw them.
//!
//! If captures of both ends are read together, each request is there twice. What a server does for it
//! shows only at the server's point.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Rhythm;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::service::timeline::Moment;

/// Minimum ratio of the requests that a point saw to those at the busiest point.
const NEARLY_ALL: f64 = 0.8;

/// The requests that one observation point saw.
#[derive(Debug)]
pub(crate) struct PointView<'a> {
    pub(crate) moments: Cow<'a, [Moment]>,
    /// Number of requests that each of them represents, those at other points included.
    pub(crate) weight: f64,
}

/// The times at which the diagnosed requests began and ended, by connection and number.
#[derive(Debug)]
pub(crate) struct Extents {
    /// The observation point that saw them.
    point: Option<PointId>,
    times: BTreeMap<(Endpoint, u32), (Timestamp, Timestamp)>,
}

impl Extents {
    /// Returns `moment`, which another point may have seen, from the begin to the end of the diagnosed
    /// request: a claim is about its latency, and changes that. A later connection may have the same
    /// client.
    pub(crate) fn of(&self, moment: Moment) -> Moment {
        let is_same = |(begin, end): &(Timestamp, Timestamp)| {
            *begin <= moment.answered && moment.asked <= *end
        };
        let times = self.times.get(&(moment.client, moment.ordinal));
        let times = times.filter(|times| Some(moment.point) != self.point && is_same(times));
        let (begin, end) = times.copied().unwrap_or((moment.begin, moment.end));
        Moment {
            begin,
            end,
            ..moment
        }
    }
}

impl Rhythm {
    pub(crate) fn extents(&self) -> Extents {
        let of = |moment: &Moment| ((moment.client, moment.ordinal), (moment.begin, moment.end));
        Extents {
            point: self.moments.first().map(|moment| moment.point),
            times: self.moments.iter().map(of).collect(),
        }
    }

    /// Returns the rhythm of a service whose requests are not diagnosed.
    pub(crate) fn of_moments(moments: Vec<Moment>) -> Self {
        Self {
            moments,
            weight: 1.0,
            ..Self::default()
        }
    }

    /// Adds exchanges that other observation points saw.
    pub(crate) fn add_elsewhere(&mut self, moments: &[Moment]) {
        self.elsewhere.extend_from_slice(moments);
    }

    /// Returns the requests as seen by the busiest observation point, and by others that saw nearly as
    /// many.
    pub(crate) fn views(&self) -> impl Iterator<Item = PointView<'_>> {
        let mut others: BTreeMap<PointId, Vec<Moment>> = BTreeMap::new();
        for &moment in &self.elsewhere {
            others.entry(moment.point).or_default().push(moment);
        }
        let busiest = self.moments.len() as f64;
        let others = others.into_values().map(Cow::Owned);
        let all = core::iter::once(Cow::Borrowed(self.moments.as_slice())).chain(others);
        all.filter(move |moments| moments.len() as f64 >= busiest * NEARLY_ALL)
            .map(move |moments| PointView {
                weight: self.weight * busiest / (moments.len() as f64).max(1.0),
                moments,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_that_saw_nearly_all_requests_is_a_view_of_all() {
        let at = |ms: i64| Timestamp::from_nanos(ms * 1_000_000);
        let moments = |point: u16, count: u16| -> Vec<Moment> {
            let moment = |port| Moment {
                point: PointId(point),
                ..Moment::between(port, at(0), at(10))
            };
            (0..count).map(moment).collect()
        };
        let rhythm = Rhythm {
            moments: moments(0, 100),
            elsewhere: [moments(1, 80), moments(2, 79)].concat(),
            weight: 2.0,
            ..Rhythm::default()
        };
        let views: Vec<_> = rhythm.views().collect();
        let seen: Vec<_> = views.iter().map(|v| (v.moments.len(), v.weight)).collect();
        assert_eq!(seen, [(100, 2.0), (80, 2.5)]);
    }
    #[test]
    fn a_request_is_as_long_as_the_diagnosed_one() {
        let at = |ms: i64| Timestamp::from_nanos(ms * 1_000_000);
        let near = Moment::between(1, at(0), at(50));
        let rhythm = Rhythm::of_moments(vec![near]);
        let far = Moment {
            point: PointId(1),
            ..Moment::between(1, at(10), at(40))
        };
        let seen = rhythm.extents().of(far);
        assert_eq!((seen.begin, seen.end), (at(0), at(50)));
        assert_eq!(
            (seen.asked, seen.answered),
            (at(10), at(40)),
            "the server's times"
        );
        let later = Moment {
            asked: at(60),
            answered: at(70),
            ..far
        };
        assert_eq!(rhythm.extents().of(later), later, "another connection");
        let own = Moment {
            end: at(45),
            ..near
        };
        assert_eq!(rhythm.extents().of(own), own, "seen at the same point");
        let other = Moment { ordinal: 1, ..far };
        assert_eq!(rhythm.extents().of(other), other, "not among them");
    }
}

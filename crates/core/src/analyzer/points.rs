//! The number and size of the packets from each observation point.

use std::collections::BTreeMap;

use crate::connection::Vantage;
use crate::decode::LinkType;
use crate::observed::event::{CaptureSummary, PointId};
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;
use crate::report::{Capture, CapturePoint, UnreadLink};
use crate::stats::Merge;

/// Number of connections that each observation point saw, by the point's position.
pub(super) type Vantages = BTreeMap<PointId, VantageCounts>;

/// Number of connections, by the position of the observation point that saw them.
#[derive(Clone, Copy, Debug, Default, Merge, PartialEq, Eq)]
pub(super) struct VantageCounts {
    client: u64,
    server: u64,
    between: u64,
    unknown: u64,
}

impl VantageCounts {
    /// Counts a connection.
    pub(super) fn count(&mut self, vantage: Vantage) {
        let count = match vantage {
            Vantage::Client => &mut self.client,
            Vantage::Server => &mut self.server,
            Vantage::Between => &mut self.between,
            Vantage::Unknown => &mut self.unknown,
        };
        *count += 1;
    }

    fn total(&self) -> u64 {
        self.client + self.server + self.between + self.unknown
    }

    /// Returns the position that most connections indicate.
    fn most(&self) -> &'static str {
        let Self {
            client,
            server,
            between,
            ..
        } = *self;
        match client.max(server).max(between) {
            0 => "unknown",
            most if client == most => "client",
            most if server == most => "server",
            _ => "middle",
        }
    }
}

/// The observation points of all sources.
#[derive(Clone, Debug, Default)]
pub(super) struct ObservationPoints {
    all: BTreeMap<PointId, Point>,
    /// The point of the last segment. It is cached, because most segments come from the same point
    /// as the previous one.
    current: Option<(PointId, Point)>,
}

/// The number and size of the packets from one observation point.
#[derive(Clone, Copy, Debug)]
struct Point {
    segments: u64,
    bytes: u64,
    first: Timestamp,
    last: Timestamp,
    vantages: VantageCounts,
}

impl ObservationPoints {
    #[inline]
    pub(super) fn count(&mut self, segment: &Segment) {
        match &mut self.current {
            Some((id, point)) if *id == segment.point => point.count(segment),
            _ => self.change(segment),
        }
    }

    #[cold]
    fn change(&mut self, segment: &Segment) {
        self.all.extend(self.current.take());
        let point = self.all.remove(&segment.point);
        let mut point = point.unwrap_or_else(|| Point::new(segment.at));
        point.count(segment);
        self.current = Some((segment.point, point));
    }

    /// Adds the points' positions at the end of the input.
    pub(super) fn finish(&mut self, vantages: Vantages) {
        self.all.extend(self.current.take());
        for (id, counts) in vantages {
            if let Some(point) = self.all.get_mut(&id) {
                point.vantages.merge(counts);
            }
        }
    }

    /// Returns the total number of segments.
    pub(super) fn segments(&self) -> u64 {
        self.all.values().map(|point| point.segments).sum()
    }

    /// Returns the sum over the points of one source, whose first point is `first`. A source has
    /// the points from its first one up to the first one of the next source.
    fn of_source(&self, first: PointId, sources: &[(PointId, CaptureSummary)]) -> Option<Point> {
        let starts = sources.iter().map(|&(start, _)| start);
        let next = starts.filter(|&start| start > first).min();
        let of_source = self
            .all
            .iter()
            .filter(|&(&id, _)| id >= first && next.is_none_or(|next| id < next));
        of_source.map(|(_, point)| *point).reduce(Point::with)
    }

    /// Describes the packets from `sources`, each given with its first point. `None` if there was
    /// neither a source nor a segment.
    pub(super) fn describe(&self, sources: &[(PointId, CaptureSummary)]) -> Option<Capture> {
        if self.all.is_empty() && sources.is_empty() {
            return None;
        }
        let points = || self.all.values();
        let described: Vec<CapturePoint> = if sources.is_empty() {
            points().map(|point| point.describe(None)).collect()
        } else {
            sources
                .iter()
                .map(|(first, summary)| match self.of_source(*first, sources) {
                    Some(point) => point.describe(Some(summary)),
                    None => Point::unseen(summary),
                })
                .collect()
        };
        let summaries = || sources.iter().map(|(_, summary)| summary);
        let beside = || summaries().filter_map(|summary| summary.beside_tcp);
        let first = points().map(|point| point.first).min();
        let last = points().map(|point| point.last).max();
        let first = first.or_else(|| beside().map(|(first, _)| first).min());
        let last = last.or_else(|| beside().map(|(_, last)| last).max());
        let dropped = summaries().filter_map(|summary| summary.dropped);
        Some(Capture {
            packets: described.iter().map(|point| point.packets).sum(),
            bytes: if sources.is_empty() {
                points().map(|point| point.bytes).sum()
            } else {
                summaries().map(|summary| summary.bytes).sum()
            },
            start_ns: first.map(Timestamp::as_nanos),
            end_ns: last.map(Timestamp::as_nanos),
            dropped: dropped.reduce(|a, b| a + b),
            truncated: summaries().map(|summary| summary.cut_records).sum(),
            written: None,
            points: described,
        })
    }
}

impl Point {
    fn new(at: Timestamp) -> Self {
        Self {
            segments: 0,
            bytes: 0,
            first: at,
            last: at,
            vantages: VantageCounts::default(),
        }
    }

    #[inline]
    fn count(&mut self, segment: &Segment) {
        self.segments += 1;
        self.bytes += u64::from(segment.payload_len);
        self.first = self.first.min(segment.at);
        self.last = self.last.max(segment.at);
    }

    /// Adds the packets of another point.
    fn with(self, other: Self) -> Self {
        let mut vantages = self.vantages;
        vantages.merge(other.vantages);
        Self {
            segments: self.segments + other.segments,
            bytes: self.bytes + other.bytes,
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            vantages,
        }
    }

    fn describe(&self, summary: Option<&CaptureSummary>) -> CapturePoint {
        CapturePoint {
            name: summary.map(|s| s.name.clone()).unwrap_or_default(),
            packets: summary.map_or(self.segments, |s| s.packets),
            undecoded: summary.map_or(0, |s| s.undecoded),
            unread_links: summary.map(unread_links).unwrap_or_default(),
            connections: self.vantages.total(),
            vantage: self.vantages.most().to_owned(),
            damage: summary.and_then(|s| s.damage.clone()),
        }
    }

    fn unseen(summary: &CaptureSummary) -> CapturePoint {
        CapturePoint {
            name: summary.name.clone(),
            packets: summary.packets,
            undecoded: summary.undecoded,
            unread_links: unread_links(summary),
            connections: 0,
            vantage: "unknown".to_owned(),
            damage: summary.damage.clone(),
        }
    }
}

fn unread_links(summary: &CaptureSummary) -> Vec<UnreadLink> {
    let links = summary.unread_links.iter();
    links
        .map(|(&link_type, &packets)| UnreadLink {
            link_type,
            name: LinkType(link_type).to_string(),
            packets,
        })
        .collect()
}

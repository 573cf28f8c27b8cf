//! Where the packets of a ladder stand: the ones that matter, on a time axis on which silence is
//! compressed.

use lagtrace_core::report::{Ladder, LadderPacket};

use crate::render::html::example::{Marked, signed};

/// Maximum number of packets.
const MOST: usize = 12;
/// Distance of packets that follow each other at once.
const STEP: f64 = 25.0;
/// Maximum additional distance for the time between two packets.
const STRETCH: f64 = 60.0;
/// Part of the whole time at which the distance is greatest, and from which a silence is named.
const WIDE: f64 = 0.2;
const LONG: f64 = 0.05;
const TOP: f64 = 36.0;

/// A place where packets were left out.
#[derive(Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) y: f64,
    pub(super) packets: u64,
}

/// The places of packets, silences and cuts, in pixels from the top.
pub(super) struct Layout<'a> {
    pub(super) packets: Vec<(&'a LadderPacket, f64)>,
    pub(super) silences: Vec<(f64, u64)>,
    pub(super) cuts: Vec<Cut>,
    pub(super) height: f64,
}

impl<'a> Layout<'a> {
    pub(super) fn of(ladder: &'a Ladder, marked: Option<Marked>) -> Self {
        let mut layout = Self {
            packets: Vec::new(),
            silences: Vec::new(),
            cuts: Vec::new(),
            height: 0.0,
        };
        let mut y = TOP;
        let mut left_out = 0;
        for (packet, is_shown) in ladder.packets.iter().zip(chosen(ladder, marked)) {
            left_out += packet.left_out;
            if !is_shown {
                left_out += 1;
                continue;
            }
            if let Some((before, _)) = layout.packets.last() {
                let passed = packet.at_ns.saturating_sub(before.at_ns);
                let passed = u64::try_from(passed).unwrap_or_default();
                let next = y + STEP + layout.stretch(passed, left_out, y, ladder.latency_ns);
                y = next;
            }
            left_out = 0;
            layout.packets.push((packet, y));
        }
        layout.height = y + STEP;
        layout
    }

    /// Notes a silence or a cut after the place `y`, and returns the distance for it.
    fn stretch(&mut self, passed_ns: u64, left_out: u64, y: f64, whole_ns: u64) -> f64 {
        let part = passed_ns as f64 / whole_ns.max(1) as f64;
        let stretch = STRETCH * (part / WIDE).min(1.0);
        if left_out > 0 {
            let distance = stretch + STEP;
            let y = y + (STEP + distance) / 2.0;
            let packets = left_out;
            self.cuts.push(Cut { y, packets });
            return distance;
        }
        if part >= LONG {
            self.silences.push((y + (STEP + stretch) / 2.0, passed_ns));
        }
        stretch
    }

    /// Returns the top and the bottom of a wait.
    pub(super) fn extent(&self, marked: Marked) -> (f64, f64) {
        let (top, bottom) = (self.at(marked.from_ns), self.at(marked.to_ns));
        (top, bottom.max(top + 2.0))
    }

    /// Returns the place of a time, between the packets before and after it.
    fn at(&self, ns: i64) -> f64 {
        let next = self
            .packets
            .iter()
            .position(|(packet, _)| packet.at_ns >= ns);
        let place = |at: Option<usize>| self.packets.get(at?).copied();
        let before = place(next.map_or(self.packets.len().checked_sub(1), |at| at.checked_sub(1)));
        match (before, place(next)) {
            (Some((before, top)), Some((after, bottom))) => {
                let passed = |from: i64, to: i64| to.saturating_sub(from) as f64;
                let part = passed(before.at_ns, ns) / passed(before.at_ns, after.at_ns).max(1.0);
                top + part * (bottom - top)
            }
            (Some((_, y)), None) | (None, Some((_, y))) => y,
            (None, None) => TOP,
        }
    }

    /// Returns the middle of the widest space between packets of a wait, and its height.
    pub(super) fn widest(&self, marked: Marked) -> (f64, f64) {
        let (top, bottom) = self.extent(marked);
        let inside = self.packets.iter().map(|&(_, y)| y);
        let inside = inside.filter(|&y| y > top && y < bottom);
        let edges: Vec<f64> = [top].into_iter().chain(inside).chain([bottom]).collect();
        let spaces = edges.iter().zip(edges.iter().skip(1));
        let widest = spaces.max_by(|(a, b), (c, d)| (*b - *a).total_cmp(&(*d - *c)));
        widest.map_or((top, 0.0), |(from, to)| {
            (f64::midpoint(*from, *to), to - from)
        })
    }
}

/// Returns for each packet whether it is shown: those nearest to the ends of the marked wait, to the
/// beginning of the request and to its end.
fn chosen(ladder: &Ladder, marked: Option<Marked>) -> Vec<bool> {
    let packets = &ladder.packets;
    let from = marked.map_or(0, |marked| marked.from_ns);
    let to = marked.map_or(signed(ladder.latency_ns), |marked| marked.to_ns);
    let before = |ns| packets.iter().rposition(|packet| packet.at_ns <= ns);
    let after = |ns| packets.iter().position(|packet| packet.at_ns >= ns);
    let anchors = [
        before(from),
        after(to),
        after(from.min(0)),
        after(signed(ladder.latency_ns)),
    ];
    let anchors: Vec<usize> = anchors.into_iter().flatten().collect();
    let near = |radius: usize| -> Vec<bool> {
        let is_near = |at: usize| anchors.iter().any(|anchor| anchor.abs_diff(at) <= radius);
        (0..packets.len()).map(is_near).collect()
    };
    let fits = |shown: &Vec<bool>| shown.iter().filter(|is_shown| **is_shown).count() <= MOST;
    let mut shown = near(0);
    for radius in 1..=MOST {
        let wider = near(radius);
        if !fits(&wider) {
            break;
        }
        shown = wider;
    }
    // A single packet takes no more room than the words that it was left out.
    let is_alone = |at: usize| {
        let of = |at: usize| shown.get(at).copied().unwrap_or_default();
        at > 0 && !of(at) && of(at - 1) && of(at + 1)
    };
    let alone: Vec<bool> = (0..shown.len()).map(is_alone).collect();
    let shown = shown.iter().zip(alone);
    shown
        .map(|(is_shown, is_alone)| *is_shown || is_alone)
        .collect()
}

#[cfg(test)]
mod tests {
    use lagtrace_core::exchange::wait::Owner;

    use super::*;

    fn ladder(times_ms: impl IntoIterator<Item = i64>, latency_ms: u64) -> Ladder {
        let packet = |(number, ms): (u64, i64)| LadderPacket {
            number,
            at_ns: ms * 1_000_000,
            from_client: number % 2 == 0,
            flags: ".".to_owned(),
            seq: 0,
            ack: None,
            bytes: 0,
            window: None,
            is_retransmission: false,
            left_out: 0,
        };
        Ladder {
            cause: None,
            client: String::new(),
            server: String::new(),
            start_ns: 0,
            latency_ns: latency_ms * 1_000_000,
            packets: (0..).zip(times_ms).map(packet).collect(),
            left_out: 0,
            gaps: Vec::new(),
            display_filter: String::new(),
        }
    }

    fn marked(from_ms: i64, to_ms: i64) -> Marked {
        Marked {
            from_ns: from_ms * 1_000_000,
            to_ns: to_ms * 1_000_000,
            kind: None,
            owner: Owner::Server,
            is_found: true,
        }
    }

    #[test]
    fn the_ends_of_a_long_ladder_and_of_its_wait_are_shown() {
        let times = (0..100).chain(140..200);
        let ladder = ladder(times, 199);
        let layout = Layout::of(&ladder, Some(marked(99, 140)));
        let shown: Vec<_> = layout
            .packets
            .iter()
            .map(|(it, _)| it.at_ns / 1_000_000)
            .collect();
        assert!(shown.len() <= MOST, "{shown:?}");
        for time in [0, 99, 140, 199] {
            assert!(shown.contains(&time), "{time} in {shown:?}");
        }
        let left_out: u64 = layout.cuts.iter().map(|cut| cut.packets).sum();
        assert_eq!(left_out as usize + shown.len(), ladder.packets.len());
    }

    #[test]
    fn a_wait_is_between_the_packets_that_begin_and_end_it() {
        let ladder = ladder([0, 1, 41, 42], 42);
        let layout = Layout::of(&ladder, Some(marked(1, 41)));
        let places: Vec<f64> = layout.packets.iter().map(|(_, y)| *y).collect();
        assert_eq!(layout.extent(marked(1, 41)), (places[1], places[2]));
        assert!(
            places[2] - places[1] > 2.0 * (places[1] - places[0]),
            "{places:?}"
        );
        assert_eq!(layout.silences.len(), 1);
        let middle = f64::midpoint(places[1], places[2]);
        assert_eq!(
            layout.widest(marked(1, 41)),
            (middle, places[2] - places[1])
        );
    }
}

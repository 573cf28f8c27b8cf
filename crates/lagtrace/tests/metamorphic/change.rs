//! The changes that must change nothing.

use std::fs;
use std::path::PathBuf;

use crate::capture::{Capture, Form};
use crate::corpus::{Loaded, Said, analyse, analyse_files};
use crate::draw::Draw;
use crate::{clock, identity, part, place, size};

/// A change of a capture.
pub(crate) struct Change {
    pub(crate) name: &'static str,
    /// What is said of the capture as it is and as it becomes; `None` where it cannot be
    /// changed so, or where the truth depends on what is changed.
    pub(crate) make: fn(&Loaded<'_>, &mut Draw) -> Option<(Said, Said)>,
    /// True if the capture then holds fewer requests: the cost of each counts.
    pub(crate) leaves_out: bool,
}

/// All of them, in the order in which they are told.
pub(crate) const CHANGES: [Change; 18] = [
    change("another format", |it, draw| {
        let forms = [
            Form::Pcap { is_big_endian: true },
            Form::Pcapng { resolution: 9, offset: 0 },
            Form::Pcapng { resolution: 0x80 | 30, offset: 0 },
        ];
        whole(it, &it.capture, draw.one_of(&forms))
    }),
    change("in microseconds", |it, _| whole(it, &it.capture, Form::CoarsePcap)),
    change("at another time", |it, draw| {
        let (capture, form) = clock::elsewhen(&it.capture, draw);
        whole(it, &capture, form)
    }),
    change("other addresses and client ports", |it, draw| {
        plain(it, &place::moved(&it.capture, it.label.port, draw))
    }),
    change("all ports other", |it, draw| {
        plain(it, &place::all_moved(&it.capture, it.label.port, draw))
    }),
    change("the other version of IP", |it, _| {
        plain(it, &place::over_other_version(&it.capture)?)
    }),
    change("segments cut", |it, _| plain(it, &size::cut(&it.capture)?)),
    change("segments joined", |it, _| plain(it, &size::joined(&it.capture)?)),
    change("snaplen that leaves heads of messages", |it, draw| {
        cut_to(it, draw.from(384, 640) as usize)
    }),
    change("snaplen that leaves headers", |it, draw| cut_to(it, draw.from(80, 96) as usize)),
    Change {
        name: "without its begin",
        make: |it, draw| plain(it, &part::without_begin(&it.capture, draw)),
        leaves_out: true,
    },
    change("a healthy capture beside it", |it, draw| {
        plain(it, &part::beside(&it.capture, &it.healthy(draw)?, draw)?)
    }),
    change("in pieces, in any order", in_pieces),
    change("both ends' files the other way round", |it, _| {
        let files = [it.subject.path.clone(), it.subject.other_end()?];
        let [one, other] = files.clone();
        Some((Said::of(&analyse_files(&files)), Said::of(&analyse_files(&[other, one]))))
    }),
    change("stamps off by up to 20 µs", |it, draw| {
        let services = place::services(&it.capture, it.label.port);
        plain(it, &clock::jittered(&it.capture, |port| services.contains(&port), draw))
    }),
    change("timestamps of a slower clock", |it, draw| {
        let rate = if draw.from(0, 2) == 0 { 0.1 } else { 0.93 + 0.07 * draw.part() };
        plain(it, &clock::slower(&it.capture, rate))
    }),
    change("identifications of the host", |it, draw| {
        plain(it, &identity::of_host(&it.capture, draw))
    }),
    change("identifications of zero, or drawn", |it, draw| {
        let is_none = draw.from(0, 1) == 0;
        let capture = if is_none { identity::none(&it.capture) } else { identity::drawn(&it.capture, draw) };
        plain(it, &capture)
    }),
];

const fn change(
    name: &'static str,
    make: fn(&Loaded<'_>, &mut Draw) -> Option<(Said, Said)>,
) -> Change {
    Change { name, make, leaves_out: false }
}

fn plain(it: &Loaded<'_>, changed: &Capture) -> Option<(Said, Said)> {
    whole(it, changed, Form::PLAIN)
}

fn whole(it: &Loaded<'_>, changed: &Capture, form: Form) -> Option<(Said, Said)> {
    said(it, changed.file(form, usize::MAX))
}

/// Each packet cut to so many bytes of it and of Ethernet's head.
fn cut_to(it: &Loaded<'_>, snap: usize) -> Option<(Said, Said)> {
    let head = it.capture.frames.first()?.head.len();
    said(it, it.capture.file(Form::PLAIN, snap - 14 + head))
}

fn said(it: &Loaded<'_>, file: Vec<u8>) -> Option<(Said, Said)> {
    Some((it.said, Said::of(&analyse(file))))
}

fn in_pieces(it: &Loaded<'_>, draw: &mut Draw) -> Option<(Said, Said)> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = Vec::new();
    for (number, piece) in part::pieces(&it.capture, draw).iter().enumerate() {
        let path: PathBuf = folder.path().join(format!("rotated_{number:05}.pcap"));
        fs::write(&path, piece.file(Form::PLAIN, usize::MAX)).expect("a piece is written");
        files.push(path);
    }
    if draw.from(0, 1) == 0 {
        files.reverse();
    }
    Some((it.said, Said::of(&analyse_files(&files))))
}

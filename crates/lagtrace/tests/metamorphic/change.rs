//! The changes of captures that must not change their diagnosis.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::capture::{Capture, Form};
use crate::corpus::{Loaded, Said, analyse, analyse_files};
use crate::draw::Draw;
use crate::{clock, delay, exceptions, identity, part, place, size};

/// A change of a capture.
pub(crate) struct Change {
    pub(crate) name: &'static str,
    /// Makes the changed capture; `None` if this is impossible, or if the truth depends on what is
    /// changed.
    pub(crate) make: fn(&Loaded<'_>, &mut Draw) -> Option<Changed>,
    /// True if the changed capture has fewer requests; then the cost per affected request is
    /// compared, not the total cost.
    pub(crate) leaves_out: bool,
    /// True if the change adds time. The diagnosis may then locate this time, but must not accuse
    /// anybody who was not accused before.
    pub(crate) adds_time: bool,
}

/// A changed capture.
pub(crate) enum Changed {
    /// A single file.
    File(Vec<u8>),
    /// Several files, in the order in which they are analysed, and the folder that contains them.
    Pieces(
        Vec<PathBuf>,
        #[allow(dead_code, reason = "it goes when nobody holds it")] TempDir,
    ),
    /// The captures of both ends; they are analysed in this order and in the reverse order.
    BothEnds([PathBuf; 2]),
}

impl Changed {
    /// Returns the diagnoses before and after the change.
    pub(crate) fn said(&self, it: &Loaded<'_>) -> (Said, Said) {
        let of_files = |files: &[PathBuf]| Said::of(&analyse_files(files));
        match self {
            Self::File(bytes) => (it.said.clone(), Said::of(&analyse(bytes.clone()))),
            Self::Pieces(files, _) => (it.said.clone(), of_files(files)),
            Self::BothEnds(files) => {
                let [one, other] = files.clone();
                (of_files(files), of_files(&[other, one]))
            }
        }
    }
}

/// All changes, in the order in which they are reported.
pub(crate) const CHANGES: [Change; 21] = [
    change("another format", |it, draw| {
        let forms = [
            Form::Pcap {
                is_big_endian: true,
            },
            Form::Pcapng {
                resolution: 9,
                offset: 0,
            },
            Form::Pcapng {
                resolution: 0x80 | 30,
                offset: 0,
            },
        ];
        whole(&it.capture, draw.one_of(&forms))
    }),
    change("in microseconds", |it, _| {
        whole(&it.capture, Form::CoarsePcap)
    }),
    change("at another time", |it, draw| {
        let (capture, form) = clock::elsewhen(&it.capture, draw);
        whole(&capture, form)
    }),
    change("other addresses and client ports", |it, draw| {
        (!exceptions::is_of_ports(it))
            .then(|| plain(&place::moved(&it.capture, it.label.port, draw)))?
    }),
    change("all ports other", |it, draw| {
        (!exceptions::is_of_ports(it))
            .then(|| plain(&place::all_moved(&it.capture, it.label.port, draw)))?
    }),
    change("the other version of IP", |it, _| {
        plain(&place::over_other_version(&it.capture)?)
    }),
    change("segments cut", |it, _| {
        (!exceptions::takes_no_full_segments(it)).then(|| plain(&size::cut(&it.capture)?))?
    }),
    change("segments joined", |it, _| {
        plain(&size::joined(&it.capture)?)
    }),
    change("snaplen that leaves heads of messages", |it, draw| {
        exceptions::shows_without_messages(it).then(|| cut_to(it, draw.from(384, 640)))?
    }),
    change("snaplen that leaves headers", |it, draw| {
        let is_v6 = it.capture.packets().any(|packet| packet.source.is_ipv6());
        let more = if is_v6 { 20 } else { 0 };
        exceptions::shows_without_heads(it).then(|| cut_to(it, draw.from(80, 96) + more))?
    }),
    Change {
        name: "without its begin",
        make: |it, draw| plain(&part::without_begin(&it.capture, draw)?),
        leaves_out: true,
        adds_time: false,
    },
    change("a healthy capture beside it", |it, draw| {
        plain(&part::beside(&it.capture, &it.healthy(draw)?, draw)?)
    }),
    change("in pieces, in any order", in_pieces),
    change("both ends' files the other way round", |it, _| {
        Some(Changed::BothEnds([
            it.subject.path.clone(),
            it.subject.other_end()?,
        ]))
    }),
    change("stamps off by up to 20 µs", |it, draw| {
        let services = place::services(&it.capture, it.label.port);
        plain(&clock::jittered(
            &it.capture,
            |port| services.contains(&port),
            draw,
        ))
    }),
    change("directions off by up to 20 µs", |it, draw| {
        let services = place::services(&it.capture, it.label.port);
        plain(&clock::disordered(
            &it.capture,
            |port| services.contains(&port),
            draw,
        ))
    }),
    change("timestamps of a slower clock", |it, draw| {
        let rate = if draw.from(0, 2) == 0 {
            0.1
        } else {
            0.93 + 0.07 * draw.part()
        };
        plain(&clock::slower(&it.capture, rate))
    }),
    change("identifications of the host", |it, draw| {
        plain(&identity::of_host(&it.capture, draw))
    }),
    change("identifications of zero, or drawn", |it, draw| {
        let is_none = draw.from(0, 1) == 0;
        let capture = if is_none {
            identity::none(&it.capture)
        } else {
            identity::drawn(&it.capture, draw)
        };
        plain(&capture)
    }),
    delay(
        "a moment in which an end or the path stands still",
        |it, draw| {
            let services = place::services(&it.capture, it.label.port);
            let is_at_server = it.subject.name.ends_with("/server");
            let is_service = |port| services.contains(&port);
            let capture = delay::stalled(&it.capture, is_service, is_at_server, draw)?;
            it.subject.is_healthy().then(|| plain(&capture))?
        },
    ),
    delay("pauses before requests", |it, draw| {
        let services = place::services(&it.capture, it.label.port);
        let capture = delay::paused(&it.capture, |port| services.contains(&port), draw);
        it.subject.is_healthy().then(|| plain(&capture))?
    }),
];

const fn change(name: &'static str, make: fn(&Loaded<'_>, &mut Draw) -> Option<Changed>) -> Change {
    Change {
        name,
        make,
        leaves_out: false,
        adds_time: false,
    }
}

/// Returns a change of healthy captures that adds time.
const fn delay(name: &'static str, make: fn(&Loaded<'_>, &mut Draw) -> Option<Changed>) -> Change {
    Change {
        name,
        make,
        leaves_out: false,
        adds_time: true,
    }
}

fn plain(changed: &Capture) -> Option<Changed> {
    whole(changed, Form::PLAIN)
}

fn whole(changed: &Capture, form: Form) -> Option<Changed> {
    Some(Changed::File(changed.file(form, usize::MAX)))
}

/// Returns the capture with each packet cut to `snap` bytes, including 14 bytes for an Ethernet
/// header.
fn cut_to(it: &Loaded<'_>, snap: i64) -> Option<Changed> {
    let head = it.capture.frames.first()?.head.len();
    Some(Changed::File(
        it.capture.file(Form::PLAIN, snap as usize - 14 + head),
    ))
}

fn in_pieces(it: &Loaded<'_>, draw: &mut Draw) -> Option<Changed> {
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
    Some(Changed::Pieces(files, folder))
}

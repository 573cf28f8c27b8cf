//! HTTP/2 (RFC 9113): streams of one connection, and what either end says of them.

use crate::subject::{ACK, Analysis, Ends, Fed, Subject};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Flags: the field section ends, and the stream too.
const WHOLE: u8 = 4;
const WHOLE_AND_LAST: u8 = 5;
/// Field sections: GET, http and `/`; the status 200.
const GET: &[u8] = &[0x82, 0x86, 0x84];
const OK: &[u8] = &[0x88];
/// Maximum number of streams that are opened before the keys come: some more than are followed.
const TOGETHER: u32 = 1_100;

/// A connection, with the next sequence number of both ends.
struct Talk {
    ends: Ends,
    asked: u32,
    told: u32,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, len @ ..] = (payload.len() as u32).to_be_bytes();
    let mut frame = Vec::from(len);
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn request(key: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE_AND_LAST, number(key), GET)
}

fn number(key: u32) -> u32 {
    key * 2 + 1
}

impl Talk {
    fn begin(analysis: &mut Analysis) -> Self {
        let ends = Ends::usual();
        analysis.open(&ends);
        let mut talk = Self {
            ends,
            asked: 1,
            told: 1,
        };
        talk.ask(
            analysis,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        );
        talk.tell(analysis, b"\0\0\0\x04\0\0\0\0\0");
        talk
    }

    fn ask(&mut self, analysis: &mut Analysis, bytes: &[u8]) {
        analysis.tcp(&self.ends.up(self.asked, self.told), bytes);
        self.asked += bytes.len() as u32;
    }

    fn tell(&mut self, analysis: &mut Analysis, bytes: &[u8]) {
        analysis.tcp(&self.ends.down(self.told, self.asked), bytes);
        self.told += bytes.len() as u32;
    }

    fn hear(&self, analysis: &mut Analysis) {
        analysis.tcp(&self.ends.up(self.asked, self.told).flags(ACK), b"");
    }
}

fn fed(
    open: u32,
    mut feed: impl FnMut(&mut Talk, &mut Analysis, u32) + 'static,
) -> Box<dyn Subject> {
    let mut analysis = Analysis::new();
    let mut talk = Talk::begin(&mut analysis);
    for key in 0..open.min(TOGETHER) {
        talk.ask(&mut analysis, &request(key));
    }
    Fed::by(analysis, move |analysis, key| {
        feed(&mut talk, analysis, key)
    })
}

/// Requests.
pub(super) fn opened(_: u32) -> Box<dyn Subject> {
    fed(0, |talk, analysis, key| talk.ask(analysis, &request(key)))
}

/// Responses to open requests.
pub(super) fn answered(count: u32) -> Box<dyn Subject> {
    fed(count, |talk, analysis, key| {
        talk.tell(analysis, &frame(HEADERS, WHOLE_AND_LAST, number(key), OK));
        talk.hear(analysis);
    })
}

/// Data of open requests.
pub(super) fn data(count: u32) -> Box<dyn Subject> {
    fed(count, move |talk, analysis, key| {
        talk.tell(analysis, &frame(DATA, 0, number(key % count), b"x"));
    })
}

/// Many empty frames in each segment.
pub(super) fn empty_data(count: u32) -> Box<dyn Subject> {
    fed(count, move |talk, analysis, key| {
        let frames = frame(DATA, 0, number(key % count), b"").repeat(100);
        talk.tell(analysis, &frames);
    })
}

/// Streams that are opened, answered together, and end one after the other.
pub(super) fn together(_: u32) -> Box<dyn Subject> {
    const BATCH: u32 = 500;
    let mut said = 0;
    fed(0, move |talk, analysis, key| {
        talk.ask(analysis, &request(said));
        said += 1;
        if said % BATCH == 0 {
            let head = |stream| frame(HEADERS, WHOLE, number(stream), OK);
            let heads: Vec<u8> = (said - BATCH..said).flat_map(head).collect();
            talk.tell(analysis, &heads);
            for _ in 0..BATCH {
                talk.tell(analysis, &frame(DATA, 0, number(said - 1), b"x"));
                talk.hear(analysis);
            }
            let end = |stream| frame(DATA, 1, number(stream), b"");
            let ends: Vec<u8> = (said - BATCH..said).flat_map(end).collect();
            talk.tell(analysis, &ends);
            talk.hear(analysis);
            analysis.nanos += i64::from(key) * 1_000;
        }
    })
}

/// Window updates of open requests.
pub(super) fn updates(count: u32) -> Box<dyn Subject> {
    fed(count, move |talk, analysis, key| {
        let update = frame(WINDOW_UPDATE, 0, number(key % count), &[0, 0, 0, 1]);
        talk.ask(analysis, &update);
        talk.tell(analysis, &frame(DATA, 0, number(key % count), b"x"));
    })
}

/// Initial windows, with open requests.
pub(super) fn settings(count: u32) -> Box<dyn Subject> {
    fed(count, |talk, analysis, key| {
        let mut setting = vec![0, 4];
        setting.extend(key.to_be_bytes());
        talk.ask(analysis, &frame(SETTINGS, 0, 0, &setting));
    })
}

/// Many settings in each segment, with open requests.
pub(super) fn repeated_settings(count: u32) -> Box<dyn Subject> {
    fed(count, |talk, analysis, key| {
        let mut setting = vec![0, 4];
        setting.extend(key.to_be_bytes());
        talk.ask(analysis, &frame(SETTINGS, 0, 0, &setting).repeat(90));
    })
}

/// Resets of open requests.
pub(super) fn resets(count: u32) -> Box<dyn Subject> {
    fed(count, |talk, analysis, key| {
        talk.tell(analysis, &frame(RESET, 0, number(key), &[0, 0, 0, 8]));
    })
}

/// Goodbyes, with open requests.
pub(super) fn goodbyes(count: u32) -> Box<dyn Subject> {
    fed(count, move |talk, analysis, key| {
        let mut last = Vec::from(number(key + count).to_be_bytes());
        last.extend([0, 0, 0, 0]);
        talk.tell(analysis, &frame(GO_AWAY, 0, 0, &last).repeat(50));
    })
}

/// Requests of which each is reset at once.
pub(super) fn opened_and_reset(_: u32) -> Box<dyn Subject> {
    fed(TOGETHER - 200, |talk, analysis, key| {
        let stream = key + TOGETHER;
        let mut bytes = request(stream);
        bytes.extend(frame(RESET, 0, number(stream), &[0, 0, 0, 8]));
        talk.ask(analysis, &bytes);
    })
}

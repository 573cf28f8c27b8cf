//! Random damage to capture files.

use crate::draw::Draw;

/// Length of a pcap's file header, in bytes.
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
const LITTLE_ENDIAN_PCAP: [[u8; 4]; 2] = [[0xd4, 0xc3, 0xb2, 0xa1], [0x4d, 0x3c, 0xb2, 0xa1]];

/// Numbers for which lengths and counts are likely to be handled wrongly.
const EDGES: [u32; 12] = [
    0,
    1,
    3,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
];

/// Returns the file with one to eight changes. `other` is a file from which bytes are taken.
pub(crate) fn damaged(file: &[u8], other: &[u8], draw: &mut Draw) -> Vec<u8> {
    let mut records = Records::of(file);
    let mut bytes = Vec::new();
    for _ in 0..=draw.below(8) {
        // If only packets are damaged, and their lengths stay right, more of the file is read than
        // after damage to any byte.
        match &mut records {
            Some(records) if draw.below(4) > 0 => records.damage(other, draw),
            _ => {
                bytes = records.take().map_or(bytes, Records::into_file);
                if bytes.is_empty() {
                    bytes = file.to_vec();
                }
                damage(&mut bytes, other, draw);
            }
        }
    }
    records.map_or(bytes, Records::into_file)
}

/// A pcap, split into its records.
struct Records {
    header: Vec<u8>,
    /// For each record, the header's fields (seconds, fraction of a second, length on the wire) and
    /// the captured bytes.
    list: Vec<([u32; 3], Vec<u8>)>,
}

impl Records {
    /// Reads a little-endian pcap; `None` for any other file.
    fn of(file: &[u8]) -> Option<Self> {
        let (header, mut rest) = file.split_at_checked(FILE_HEADER)?;
        if !LITTLE_ENDIAN_PCAP
            .iter()
            .any(|magic| header.starts_with(magic))
        {
            return None;
        }
        let mut list = Vec::new();
        while let Some((head, after)) = rest.split_at_checked(RECORD_HEADER) {
            let mut words = head
                .chunks_exact(4)
                .map(|word| u32::from_le_bytes(word.try_into().expect("a word has four bytes")));
            let [seconds, parts, captured, wire] =
                core::array::from_fn(|_| words.next().unwrap_or(0));
            // The last record is cut at the end of the bytes.
            let captured = after.len().min(captured as usize);
            let (packet, after) = after.split_at(captured);
            list.push(([seconds, parts, wire], packet.to_vec()));
            rest = after;
        }
        (!list.is_empty()).then(|| Self {
            header: header.to_vec(),
            list,
        })
    }

    fn into_file(self) -> Vec<u8> {
        let mut file = self.header;
        for ([seconds, parts, wire], packet) in self.list {
            for word in [seconds, parts, packet.len() as u32, wire] {
                file.extend(word.to_le_bytes());
            }
            file.extend(packet);
        }
        file
    }

    fn damage(&mut self, other: &[u8], draw: &mut Draw) {
        let at = draw.below(self.list.len());
        let to = draw.below(self.list.len());
        match draw.below(8) {
            0 if self.list.len() > 1 => drop(self.list.remove(at)),
            1 => self.list.insert(to, self.list[at].clone()),
            2 => self.list.swap(at, to),
            3 => {
                let len = draw.below(self.list[at].1.len());
                self.list[at].1.truncate(len);
            }
            4 => self.list[at].0[draw.below(3)] = edge(draw),
            _ => damage(&mut self.list[at].1, other, draw),
        }
    }
}

fn edge(draw: &mut Draw) -> u32 {
    EDGES[draw.below(EDGES.len())]
}

/// Changes some of the bytes.
fn damage(bytes: &mut Vec<u8>, other: &[u8], draw: &mut Draw) {
    let at = draw.below(bytes.len());
    let end = (at + 1 + draw.below(16)).min(bytes.len());
    match draw.below(8) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        3 => {
            let from = draw.below(other.len());
            let to = (from + draw.below(64)).min(other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
        4 => overwrite(bytes, at, &edge(draw).to_be_bytes()),
        5 => overwrite(bytes, at, &(edge(draw) as u16).to_be_bytes()),
        6 => overwrite(bytes, at, &edge(draw).to_le_bytes()),
        _ => {
            let bit = 1 << draw.below(8);
            bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= bit);
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, by: &[u8]) {
    let places = bytes.iter_mut().skip(at);
    places.zip(by).for_each(|(place, byte)| *place = *byte);
}

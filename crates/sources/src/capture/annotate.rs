//! Copies a capture and adds comments to its packets.
//!
//! The output is pcapng, which can hold packet comments. The blocks of pcapng input are copied byte
//! for byte, except that the blocks of commented packets grow by the comment options. For pcap
//! input, a section header and an interface description are written from the pcap file header.
//! Source: the IETF draft `draft-ietf-opsawg-pcapng`.

mod block;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Write};

use self::block::Copier;
pub use self::block::MAX_COMMENTS;
use super::CaptureError;
use super::file::decompressed;
use crate::files::Output;

/// Comments by packet number, counted from 1.
pub type Comments = BTreeMap<u64, Vec<String>>;

/// The result of annotating a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotated {
    /// Packets copied.
    pub packets: u64,
    /// Comments written.
    pub comments: u64,
    /// Comments that could not be written because their packet does not exist or is in a block
    /// without options.
    pub left_out: u64,
    /// The reason why copying ended early; `None` if everything was copied.
    pub damage: Option<String>,
}

/// Copies the capture `input`, called `name` in messages, to `output` with
/// `comments`, and commits it. Compressed input is decompressed on the way.
///
/// # Errors
/// Returns an error if the input cannot be read or is not a capture, or the output cannot be
/// written.
pub fn annotate(
    name: &str,
    input: impl Read + Send + 'static,
    mut output: Output,
    comments: &Comments,
) -> Result<Annotated, CaptureError> {
    let unreadable = |source| CaptureError::Read {
        name: name.to_owned(),
        source,
    };
    let input = decompressed(Box::new(input)).map_err(unreadable)?;
    let target = output.path().display().to_string();
    let mut copier = Copier::new(input, BufWriter::new(&mut output), comments);
    let copied = copier.run();
    let mut result = copier.result();
    match copied {
        Ok(()) => {}
        Err(Stop::Write(source)) => return Err(unwritable(target, result.packets, source)),
        Err(Stop::Read(source)) if result.packets == 0 => return Err(unreadable(source)),
        Err(Stop::Read(source)) => {
            result.damage = Some(format!("could not be read further: {source}"));
        }
        Err(Stop::Damaged(what)) => result.damage = Some(what),
    }
    let written = copier.flush();
    drop(copier);
    if let Err(source) = written.and_then(|()| output.commit()) {
        return Err(unwritable(target, result.packets, source));
    }
    let wanted: u64 = comments.values().map(|list| list.len() as u64).sum();
    result.left_out = wanted.saturating_sub(result.comments);
    Ok(result)
}

fn unwritable(name: String, packets: u64, source: io::Error) -> CaptureError {
    CaptureError::Write {
        name,
        packets,
        source,
    }
}

/// The reason why copying ended early.
#[derive(Debug)]
enum Stop {
    Read(io::Error),
    Write(io::Error),
    Damaged(String),
}

/// Writes all bytes.
fn put(to: &mut dyn Write, bytes: &[u8]) -> Result<(), Stop> {
    to.write_all(bytes).map_err(Stop::Write)
}

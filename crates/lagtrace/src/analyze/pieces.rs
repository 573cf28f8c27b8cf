//! Remarks on files that begin where another one ended.

use lagtrace_core::observed::event::Note;

/// Maximum number of files listed in a remark.
const NAMED: usize = 4;

/// The assumptions made about files whose times do not overlap.
#[derive(Debug, Default)]
pub(super) struct Assumed {
    joined: Vec<String>,
    apart: Vec<String>,
}

impl Assumed {
    /// Records the assumption about a file that begins where another one ended; `is_piece` is true
    /// if it was read as a piece of the same capture.
    pub(super) fn tell(&mut self, name: &str, is_piece: bool) {
        let list = if is_piece {
            &mut self.joined
        } else {
            &mut self.apart
        };
        list.push(name.to_owned());
    }

    /// Returns the notes for the report.
    pub(super) fn notes(&self) -> Vec<Note> {
        let joined = (
            &self.joined,
            "pieces-of-one-capture",
            "read as the continuation of the previous file, because connections continue there or \
             its name says so. Packet numbers continue",
        );
        let apart = (
            &self.apart,
            "separate-captures",
            "read as a separate capture: it begins after another one ended, and no connection \
             continues from there. Parts of one capture contain consecutive packets",
        );
        let told = [joined, apart]
            .into_iter()
            .filter(|(list, ..)| !list.is_empty());
        told.map(|(list, id, text)| Note {
            id: id.to_owned(),
            text: format!("{}: {text}.", names(list)),
        })
        .collect()
    }
}

fn names(list: &[String]) -> String {
    let shown = list.iter().take(NAMED).cloned().collect::<Vec<_>>();
    match list.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

//! Remarks on data that the kernel dropped at a socket because no process read it.

use crate::facts::SeenSocket;

/// The wording for one kind of loss.
pub(super) struct Loss<'a> {
    /// The name of the lost items, singular and plural.
    pub(super) names: [&'a str; 2],
    /// The buffer or queue for the items: "its receive buffer of 8 KiB".
    pub(super) room: &'a str,
    /// The reason for the loss if that buffer or queue was full.
    pub(super) slow: &'a str,
    /// Other possible reasons for the loss.
    pub(super) otherwise: &'a str,
}

/// Returns the remark on drops. The kernel counts the drops at a socket for any reason
/// (`sk_drops`), so the process is accused only if a sample found the buffer full.
pub(super) fn lost(seen: &SeenSocket, loss: &Loss<'_>) -> Option<String> {
    let all = seen.socket.buffers?.drops;
    let (looks, room) = (seen.full, loss.room);
    let dropped = |count: u32| match count {
        1 => format!("1 {} was dropped", loss.names[0]),
        _ => format!("{count} {} were dropped", loss.names[1]),
    };
    let full = format!("full in {} of {} samples", looks.count, looks.of);
    Some(match seen.dropped() {
        _ if all == 0 => return None,
        Some(0) => format!(
            "{} since it was opened, none of them during the {} samples.",
            dropped(all),
            looks.of
        ),
        Some(now) if looks.count > 0 => format!(
            "{} during the samples; {room} was {full}: {}.",
            dropped(now),
            loss.slow
        ),
        Some(now) => format!(
            "{} during the samples, although {room} had free space in each of {} samples: {}.",
            dropped(now),
            looks.of,
            loss.otherwise
        ),
        None if looks.count > 0 => format!(
            "{} since it was opened, and {room} is full: {}.",
            dropped(all),
            loss.slow
        ),
        None => format!(
            "{} since it was opened; -f shows whether this continues.",
            dropped(all)
        ),
    })
}

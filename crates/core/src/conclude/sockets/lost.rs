//! Data that a socket discarded because nobody took it.

use crate::facts::SeenSocket;

/// The wording for one kind of loss.
pub(super) struct Loss<'a> {
    /// The name of the lost items, in the singular and the plural.
    pub(super) names: [&'a str; 2],
    /// The space that has to take them: "its receive buffer of 8 KiB".
    pub(super) room: &'a str,
    /// The party to blame where that was full.
    pub(super) slow: &'a str,
    /// Other possible reasons.
    pub(super) otherwise: &'a str,
}

/// Returns the remark on losses. The kernel counts at the socket whatever the reason is
/// (`sk_drops`): only where a sample found no room the process is accused.
pub(super) fn lost(seen: &SeenSocket, loss: &Loss<'_>) -> Option<String> {
    let all = seen.socket.buffers?.drops;
    let (looks, room) = (seen.full, loss.room);
    let dropped = |count: u32| match count {
        1 => format!("1 {} was dropped", loss.names[0]),
        _ => format!("{count} {} were dropped", loss.names[1]),
    };
    let full = format!("full in {} of {} looks", looks.count, looks.of);
    Some(match seen.dropped() {
        _ if all == 0 => return None,
        Some(0) => format!(
            "{} since it was opened, none of them in {} looks.",
            dropped(all),
            looks.of
        ),
        Some(now) if looks.count > 0 => format!(
            "{} while it was looked at; {room} was {full}: {}.",
            dropped(now),
            loss.slow
        ),
        Some(now) => format!(
            "{} while it was looked at, though {room} had room at each of {} looks: {}.",
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
            "{} since it was opened; whether that goes on, -f tells.",
            dropped(all)
        ),
    })
}
